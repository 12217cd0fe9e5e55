"""A worker is lost while its call is in progress: the next one retrieves the response where the provider can return it."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, update

from shared import derived_events
from shared.billing import resumable_call
from shared.billing.resumable_call import CallLostError
from shared.database.engine import Database
from shared.database.tables import Agent, Call, Step
from shared.enums import CallKind, Phase, StepStatus
from shared.errors import PermanentError
from shared.failpoints import DIRECTORY, Failpoint
from shared.llm.phase_run import PhaseRun
from shared.llm.tool_loop import ToolLoop
from shared.runtime.bus import Bus
from shared.runtime.providers import create_model, create_search_client
from shared.runtime.settings import Settings
from shared.web_search.tools import knowledge_acquisition
from shared.workflow.iterations import StartedIteration, StepRow
from tests.support import claims
from tests.support.factories import make_agent, make_iteration
from tests.support.failpoints import arm
from tests.support.marks import slow
from tests.support.running_services import running_services
from tests.support.sandbox_control import Sandbox
from tests.support.waiting import wait_until
from tests.support.warm_processes import start_python

NEVER_SECONDS = 3600.0
QUESTION = "Who makes batteries in Europe?"
RESEARCH = {
    "tool_calls": [{"name": "tavilyResearch", "arguments": {"input": QUESTION}}],
    "phase": "knowledge_acquisition",
}


@dataclass
class Team:
    """Successive workers of one step; `poll_after` sets when they first poll for a response."""

    settings: Settings
    database: Database
    agent: Agent
    step: StepRow
    patch: pytest.MonkeyPatch

    async def run_worker(self) -> str:
        """The final text, where another worker runs the step."""
        async with self.database.transaction() as session:
            claim = await claims.claimed(session, self.step.id, "another", seconds=0)
        model, search = (
            create_model(self.settings, self.database),
            create_search_client(self.settings, self.database),
        )
        phase = Phase.KNOWLEDGE_ACQUISITION
        run = PhaseRun(model, claim.lease, self.agent, phase, "Go on.")
        try:
            return await ToolLoop(run, knowledge_acquisition(search)).run()
        finally:
            await model.provider.close()
            await search.close()

    async def lost_worker(self, kind: CallKind) -> str:
        """Cancels a worker once its call of that kind has a reference; returns the reference."""
        self.poll_after(NEVER_SECONDS)
        work = asyncio.create_task(self.run_worker())
        reference = await wait_until(lambda: self._open_reference(kind), what="a reference")
        work.cancel()
        with suppress(asyncio.CancelledError):
            await work
        self.poll_after(0.02)
        return str(reference)

    def poll_after(self, seconds: float) -> None:
        self.patch.setattr(resumable_call, "FIRST_POLL_SECONDS", seconds)

    async def lose_open_calls(self) -> None:
        """As if the provider had lost the open calls."""
        async with self.database.transaction() as session:
            open_calls = update(Call).where(Call.answered_at.is_(None))
            await session.execute(open_calls.values(provider_ref="unknown"))

    async def calls(self, kind: CallKind) -> list[Call]:
        async with self.database.transaction() as session:
            statement = select(Call).where(Call.kind == kind).order_by(Call.started_at)
            return list(await session.scalars(statement))

    async def _open_reference(self, kind: CallKind) -> str | None:
        calls = await self.calls(kind)
        return next((call.provider_ref for call in calls if call.answered_at is None), None)


@pytest.fixture
async def team(
    sandbox_settings: Settings, database: Database, monkeypatch: pytest.MonkeyPatch
) -> Team:
    settings = sandbox_settings.model_copy(update={"model_api": "background"})
    agent = await make_agent(database)
    started = await make_iteration(database, agent)
    return Team(settings, database, agent, started.observe, monkeypatch)


async def test_a_response_in_progress_is_awaited_by_the_next_worker(
    team: Team, sandbox_control: Sandbox
) -> None:
    sandbox_control.faults({"kind": "latency", "latency_seconds": 0.5})
    sandbox_control.script({"content": "done"})
    reference = await team.lost_worker(CallKind.LLM)
    assert await team.run_worker() == "done"
    [call] = await team.calls(CallKind.LLM)
    assert (call.provider_ref, call.answered_at is not None) == (reference, True)
    assert (sandbox_control.billed()["llm"], sandbox_control.repeated()) == (1, 0)


async def test_research_in_progress_is_awaited_by_the_next_worker(
    team: Team, sandbox_control: Sandbox
) -> None:
    sandbox_control.script(RESEARCH, {"content": "done"})
    team.settings = team.settings.model_copy(update={"model_api": "chat"})
    reference = await team.lost_worker(CallKind.SEARCH)
    assert await team.run_worker() == "done"
    [call] = await team.calls(CallKind.SEARCH)
    assert call.provider_ref == reference
    assert QUESTION in (call.answer or {})["content"]
    assert (sandbox_control.billed()["research"], sandbox_control.repeated()) == (1, 0)


@pytest.mark.parametrize("kind", [CallKind.LLM, CallKind.SEARCH])
async def test_a_call_the_provider_has_lost_is_sent_again(
    team: Team, sandbox_control: Sandbox, kind: CallKind
) -> None:
    if kind == CallKind.SEARCH:
        sandbox_control.script(RESEARCH)
        team.settings = team.settings.model_copy(update={"model_api": "chat"})
    sandbox_control.script({"content": "done", "times": 2})
    reference = await team.lost_worker(kind)
    await team.lose_open_calls()
    assert await team.run_worker() == "done"
    [call] = await team.calls(kind)
    assert call.provider_ref not in (
        None,
        "unknown",
        None if kind == CallKind.SEARCH else reference,
    )
    billed = sandbox_control.billed()
    assert (billed["llm"], billed["research"]) == (2, 2 if kind == CallKind.SEARCH else 0)
    assert sandbox_control.repeated() == 1


async def test_a_failed_response_is_requested_again_by_the_next_worker(
    team: Team, sandbox_control: Sandbox
) -> None:
    sandbox_control.script({"status": 500, "error": "broken"}, {"content": "done"})
    reference = await team.lost_worker(CallKind.LLM)
    assert await team.run_worker() == "done"
    [call] = await team.calls(CallKind.LLM)
    assert call.provider_ref != reference
    assert (sandbox_control.billed()["llm"], sandbox_control.repeated()) == (1, 0)


async def test_a_failed_response_is_a_transient_or_a_permanent_error(
    team: Team, sandbox_control: Sandbox
) -> None:
    team.poll_after(0.02)
    sandbox_control.script({"status": 500, "error": "broken"}, {"status": 400, "error": "not this"})
    with pytest.raises(CallLostError, match="failed: broken") as error:
        await team.run_worker()
    assert error.value.counts
    with pytest.raises(PermanentError, match="refused: not this"):
        await team.run_worker()


async def test_a_lost_call_gets_a_new_idempotency_key(team: Team, sandbox_control: Sandbox) -> None:
    sandbox_control.heed_keys()
    sandbox_control.script({"status": 500, "error": "broken"}, {"content": "done"})
    await team.lost_worker(CallKind.LLM)
    assert await team.run_worker() == "done"
    assert sandbox_control.replayed() == 0


async def test_a_request_whose_reply_is_lost_is_repeated_under_the_same_key(
    team: Team, sandbox_control: Sandbox
) -> None:
    team.poll_after(0.02)
    sandbox_control.heed_keys()
    sandbox_control.faults({"kind": "cut"})
    sandbox_control.script({"content": "done"})
    assert await team.run_worker() == "done"
    assert (sandbox_control.billed()["llm"], sandbox_control.replayed()) == (1, 1)


@dataclass(frozen=True)
class Death:
    """Where an observer's process is killed, and how many calls are billed; the step itself needs one."""

    model_api: str
    point: Failpoint
    honors_keys: bool
    billed: int


PLAN = {
    "queries": [],
    "insights": [{"observation": "a", "relevantNodeIds": [], "synthesisDirection": "b"}],
}


@pytest.mark.parametrize(
    "death",
    [
        *slow(Death("chat", Failpoint.CALL_ANSWERED, honors_keys=False, billed=2)),
        Death("chat", Failpoint.CALL_ANSWERED, honors_keys=True, billed=1),
        *slow(Death("background", Failpoint.CALL_ACCEPTED, honors_keys=False, billed=2)),
        Death("background", Failpoint.CALL_ACCEPTED, honors_keys=True, billed=1),
        *slow(Death("background", Failpoint.CALL_REFERRED, honors_keys=False, billed=1)),
        Death("background", Failpoint.CALL_ANSWERED, honors_keys=False, billed=1),
    ],
    ids=lambda death: f"{death.model_api}-{death.point}-{'heeded' if death.honors_keys else ''}",
)
async def test_a_killed_worker_is_billed_as_documented(
    death: Death,
    sandbox_settings: Settings,
    database: Database,
    bus: Bus,
    sandbox_control: Sandbox,
    tmp_path: Path,
) -> None:
    changes = {"model_api": death.model_api, "lease_seconds": 1.0, "resend_after_seconds": 1.0}
    settings = sandbox_settings.model_copy(update=changes)
    if death.honors_keys:
        sandbox_control.heed_keys()
    sandbox_control.script({"content": PLAN, "times": 2})
    started = await make_iteration(database, await make_agent(database))
    await bus.publish(derived_events.iteration_step_event(started.iteration, started.observe))
    arm(tmp_path, death.point)
    assert await observer_process(settings, tmp_path) == -signal.SIGKILL
    # The scheduler republishes the step as often as needed: a message may go to the killed process.
    async with running_services(settings, ["scheduler", "observer"]):
        await wait_until(is_completed(database, started), what="the step to be completed")
    async with database.transaction() as session:
        [call] = await session.scalars(select(Call))
    assert call.answered_at is not None
    assert (call.provider_ref is not None) is (death.model_api == "background")
    assert (sandbox_control.billed()["llm"], sandbox_control.repeated()) == (
        death.billed,
        death.billed - 1,
    )
    assert sandbox_control.replayed() == death.honors_keys


def is_completed(database: Database, started: StartedIteration) -> Callable[[], Awaitable[bool]]:
    async def check() -> bool:
        async with database.transaction() as session:
            step = await session.get_one(Step, started.observe.id)
            return step.status == StepStatus.COMPLETED

    return check


async def observer_process(settings: Settings, crash_directory: Path) -> int | None:
    """Runs an observer until it ends; returns its exit code."""
    process = await start_python(
        "-m", "services.observer", env=environment(settings, crash_directory)
    )
    try:
        return await asyncio.wait_for(process.wait(), 30)
    finally:
        if process.returncode is None:
            process.kill()


def environment(settings: Settings, crash_directory: Path) -> dict[str, Any]:
    return {
        **os.environ,
        DIRECTORY: str(crash_directory),
        "VIGIL_DATABASE_URL": settings.database_url,
        "VIGIL_NATS_URL": settings.nats_url,
        "VIGIL_LEASE_SECONDS": str(settings.lease_seconds),
        "VIGIL_MODEL_API": settings.model_api,
        "VIGIL_MODEL": settings.model,
        "OPENAI_BASE_URL": str(settings.openai_base_url),
    }
