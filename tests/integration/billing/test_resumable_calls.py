"""A worker that is lost while its call is under way: whoever resumes finds the answer, where there is a way to find it."""

import asyncio
import os
import signal
import sys
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
from shared.workflow import leases
from shared.workflow.iterations import StartedIteration
from shared.workflow.leases import Claimed
from tests.support.actors import running
from tests.support.levers import Sandbox
from tests.support.making import make_agent, make_iteration
from tests.support.marks import slow
from tests.support.waiting import until

NEVER_SECONDS = 3600.0
QUESTION = "Who makes batteries in Europe?"
RESEARCH = {
    "tool_calls": [{"name": "tavilyResearch", "arguments": {"input": QUESTION}}],
    "phase": "knowledge_acquisition",
}


@dataclass
class Team:
    """Workers of one step, each of which takes it from the one before; none looks for answers until it is told to."""

    settings: Settings
    database: Database
    agent: Agent
    step: Step
    patch: pytest.MonkeyPatch

    async def words(self) -> str:
        """What another worker makes of the step."""
        async with self.database.transaction() as session:
            claim = await leases.claim(session, self.step.id, "another", seconds=0)
        assert isinstance(claim, Claimed)
        model, search = (
            create_model(self.settings, self.database),
            create_search_client(self.settings),
        )
        phase = Phase.KNOWLEDGE_ACQUISITION
        run = PhaseRun(model, claim.lease, self.agent, phase, "Go on.")
        try:
            return await ToolLoop(run, knowledge_acquisition(search)).run()
        finally:
            await model.provider.close()
            await search.close()

    async def lost_worker(self, kind: CallKind) -> str:
        """A worker that is cancelled when the reference of its call of that kind is committed; gives that reference."""
        self.look_after(NEVER_SECONDS)
        work = asyncio.create_task(self.words())
        reference = await until(lambda: self._open_reference(kind), what="a reference")
        work.cancel()
        with suppress(asyncio.CancelledError):
            await work
        self.look_after(0.02)
        return str(reference)

    def look_after(self, seconds: float) -> None:
        self.patch.setattr(resumable_call, "FIRST_POLL_SECONDS", seconds)

    async def forget(self) -> None:
        """As if the other side had lost what is in flight."""
        async with self.database.transaction() as session:
            open_calls = update(Call).where(Call.answered_at.is_(None))
            await session.execute(open_calls.values(provider_ref="unknown"))

    async def calls(self, kind: CallKind) -> list[Call]:
        async with self.database.transaction() as session:
            wanted = select(Call).where(Call.kind == kind).order_by(Call.started_at)
            return list(await session.scalars(wanted))

    async def _open_reference(self, kind: CallKind) -> str | None:
        calls = await self.calls(kind)
        return next((call.provider_ref for call in calls if call.answered_at is None), None)


@pytest.fixture
async def team(
    sandbox_settings: Settings, database: Database, monkeypatch: pytest.MonkeyPatch
) -> Team:
    settings = sandbox_settings.model_copy(update={"model_api": "background"})
    agent = await make_agent(database)
    made = await make_iteration(database, agent)
    return Team(settings, database, agent, made.observe, monkeypatch)


async def test_an_answer_that_is_being_made_is_waited_for_by_another_worker(
    team: Team, levers: Sandbox
) -> None:
    levers.faults({"kind": "latency", "latency_seconds": 0.5})
    levers.script({"content": "done"})
    reference = await team.lost_worker(CallKind.LLM)
    assert await team.words() == "done"
    [call] = await team.calls(CallKind.LLM)
    assert (call.provider_ref, call.answered_at is not None) == (reference, True)
    assert (levers.billed()["llm"], levers.repeated()) == (1, 0)


async def test_research_that_is_under_way_is_waited_for_by_another_worker(
    team: Team, levers: Sandbox
) -> None:
    levers.script(RESEARCH, {"content": "done"})
    team.settings = team.settings.model_copy(update={"model_api": "chat"})
    reference = await team.lost_worker(CallKind.SEARCH)
    assert await team.words() == "done"
    [call] = await team.calls(CallKind.SEARCH)
    assert call.provider_ref == reference
    assert QUESTION in (call.answer or {})["content"]
    assert (levers.billed()["research"], levers.repeated()) == (1, 0)


@pytest.mark.parametrize("kind", [CallKind.LLM, CallKind.SEARCH])
async def test_what_the_other_side_has_lost_is_sent_again(
    team: Team, levers: Sandbox, kind: CallKind
) -> None:
    if kind == CallKind.SEARCH:
        levers.script(RESEARCH)
        team.settings = team.settings.model_copy(update={"model_api": "chat"})
    levers.script({"content": "done", "times": 2})
    lost = await team.lost_worker(kind)
    await team.forget()
    assert await team.words() == "done"
    [call] = await team.calls(kind)
    assert call.provider_ref not in (None, "unknown", None if kind == CallKind.SEARCH else lost)
    billed = levers.billed()
    assert (billed["llm"], billed["research"]) == (2, 2 if kind == CallKind.SEARCH else 0)
    assert levers.repeated() == 1


async def test_an_answer_that_failed_is_sent_again_by_whoever_resumes(
    team: Team, levers: Sandbox
) -> None:
    levers.script({"status": 500, "error": "broken"}, {"content": "done"})
    failed = await team.lost_worker(CallKind.LLM)
    assert await team.words() == "done"
    [call] = await team.calls(CallKind.LLM)
    assert call.provider_ref != failed
    assert (levers.billed()["llm"], levers.repeated()) == (1, 0)


async def test_an_answer_that_fails_is_trouble_that_may_pass_or_not(
    team: Team, levers: Sandbox
) -> None:
    team.look_after(0.02)
    levers.script({"status": 500, "error": "broken"}, {"status": 400, "error": "not this"})
    with pytest.raises(CallLostError, match="ended as failed: broken") as passing:
        await team.words()
    assert passing.value.counts
    with pytest.raises(PermanentError, match="refused: not this"):
        await team.words()


async def test_a_gateway_that_heeds_keys_is_asked_with_another_for_what_was_lost(
    team: Team, levers: Sandbox
) -> None:
    levers.heed_keys()
    levers.script({"status": 500, "error": "broken"}, {"content": "done"})
    await team.lost_worker(CallKind.LLM)
    assert await team.words() == "done"
    assert levers.replayed() == 0


async def test_an_order_whose_reply_is_lost_on_the_way_is_repeated_under_its_key(
    team: Team, levers: Sandbox
) -> None:
    team.look_after(0.02)
    levers.heed_keys()
    levers.faults({"kind": "cut"})
    levers.script({"content": "done"})
    assert await team.words() == "done"
    assert (levers.billed()["llm"], levers.replayed()) == (1, 1)


@dataclass(frozen=True)
class Death:
    """Where an observer's process is killed, and what that costs: 1 is what the step costs anyway."""

    model_api: str
    point: Failpoint
    keys_heeded: bool
    billed: int


PLAN = {
    "queries": [],
    "insights": [{"observation": "a", "relevantNodeIds": [], "synthesisDirection": "b"}],
}


@pytest.mark.parametrize(
    "death",
    [
        *slow(Death("chat", Failpoint.CALL_ANSWERED, keys_heeded=False, billed=2)),
        Death("chat", Failpoint.CALL_ANSWERED, keys_heeded=True, billed=1),
        *slow(Death("background", Failpoint.CALL_ACCEPTED, keys_heeded=False, billed=2)),
        Death("background", Failpoint.CALL_ACCEPTED, keys_heeded=True, billed=1),
        *slow(Death("background", Failpoint.CALL_REFERRED, keys_heeded=False, billed=1)),
        Death("background", Failpoint.CALL_ANSWERED, keys_heeded=False, billed=1),
    ],
    ids=lambda death: f"{death.model_api}-{death.point}-{'heeded' if death.keys_heeded else ''}",
)
async def test_a_killed_worker_costs_what_is_said_of_it(
    death: Death,
    sandbox_settings: Settings,
    database: Database,
    bus: Bus,
    levers: Sandbox,
    tmp_path: Path,
) -> None:
    given = {"model_api": death.model_api, "lease_seconds": 1.0, "resend_after_seconds": 1.0}
    settings = sandbox_settings.model_copy(update=given)
    if death.keys_heeded:
        levers.heed_keys()
    levers.script({"content": PLAN, "times": 2})
    made = await make_iteration(database, await make_agent(database))
    await bus.publish(derived_events.iteration_step_event(made.iteration, made.observe))
    (tmp_path / death.point).write_text("SIGKILL")
    assert await observer_process(settings, tmp_path) == -signal.SIGKILL
    # The scheduler offers the step to others, as often as it takes: a message may go to who has just died.
    async with running(settings, ["scheduler", "observer"]):
        await until(is_completed(database, made), what="the step to be completed")
    async with database.transaction() as session:
        [call] = await session.scalars(select(Call))
    assert call.answered_at is not None
    assert (call.provider_ref is not None) is (death.model_api == "background")
    assert (levers.billed()["llm"], levers.repeated()) == (death.billed, death.billed - 1)
    assert levers.replayed() == death.keys_heeded


def is_completed(database: Database, made: StartedIteration) -> Callable[[], Awaitable[bool]]:
    async def look() -> bool:
        async with database.transaction() as session:
            step = await session.get_one(Step, made.observe.id)
            return step.status == StepStatus.COMPLETED

    return look


async def observer_process(settings: Settings, crash_directory: Path) -> int | None:
    """Runs an observer until it ends; gives its exit code."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "services.observer", env=environment(settings, crash_directory)
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
