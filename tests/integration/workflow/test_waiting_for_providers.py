"""A provider that is away or limits requests: steps wait and go on by themselves, however long it takes."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from sqlalchemy import func, select, update

from cli.local.ports import free_port
from services.scheduler import scheduler as clock_module
from shared import derived_events
from shared.billing.resumable_call import ResumableCall
from shared.database.engine import Database
from shared.database.tables import BudgetDay, DeadLetter, Step
from shared.enums import IterationStatus, StepKind, StepStatus
from shared.errors import RetrySoonError, TransientError, unbilled
from shared.events.topology import STREAM
from shared.llm.messages import ChatAnswer, ChatRequest
from shared.llm.provider import ChatProvider
from shared.runtime import consumer as delivery_module
from shared.runtime import step_runner as work_module
from shared.runtime.bus import Bus
from shared.runtime.settings import Settings
from shared.runtime.step_runner import StepResult
from shared.workflow import leases, steps
from shared.workflow.leases import Claimed, Lease
from shared.workflow.steps import Pauses
from tests.support.actors import ended_iteration, running
from tests.support.levers import Sandbox
from tests.support.making import make_agent, make_iteration
from tests.support.marks import slow
from tests.support.mission import Mission
from tests.support.processes import observer_process
from tests.support.sandbox.serving import running_app
from tests.support.slow_server import SlowServer
from tests.support.steps import observer, settled, started, status_is, step_now
from tests.support.steps import running as running_actor
from tests.support.waiting import until

REFUSED = "the model server at http://127.0.0.1:1/v1 cannot be reached: connection refused"
HOURS = timedelta(hours=3)


def away(retry_in_seconds: float | None = None) -> TransientError:
    """What the clients of model and search raise for a provider that is away."""
    return TransientError(REFUSED, retry_in_seconds=retry_in_seconds, counts=False)


async def done(lease: Lease, step: Step) -> StepResult:
    return StepResult({"queries": 0, "insights": 0})


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hours of waiting take a moment."""
    monkeypatch.setattr(work_module, "PAUSES", Pauses(0.005, 0.02))
    monkeypatch.setattr(delivery_module, "MIN_DELAY_SECONDS", 0.005)
    monkeypatch.setattr(delivery_module, "MAX_DELAY_WHILE_UNAVAILABLE_SECONDS", 0.01)


@pytest.mark.usefixtures("hurried")
async def test_an_outage_of_many_tries_uses_up_no_attempt(
    settings: Settings, database: Database, bus: Bus
) -> None:
    tries = 0

    async def work(lease: Lease, step: Step) -> StepResult:
        nonlocal tries
        tries += 1
        if tries <= 2 * work_module.MAX_CLAIMS:
            raise away()
        return StepResult({"queries": 0, "insights": 0})

    step = await started(database, bus)
    async with running_actor(observer(settings.model_copy(update={"max_attempts": 1}), work)):
        await until(lambda: settled(bus), what="the message to be acked", seconds=60)
    ended = await step_now(database, step)
    assert (ended.status, ended.attempts, ended.waits) == (StepStatus.COMPLETED, 0, tries - 1)
    assert (ended.waiting_since, ended.error) == (None, None)
    async with database.transaction() as session:
        assert await session.scalar(select(func.count()).select_from(DeadLetter)) == 0


async def claimed(database: Database) -> Lease:
    made = await make_iteration(database, await make_agent(database))
    return await claimed_again(database, made.observe)


async def claimed_again(database: Database, step: Step) -> Lease:
    async with database.transaction() as session:
        await session.execute(update(Step).where(Step.id == step.id).values(retry_at=None))
        claim = await leases.claim(session, step.id, "worker")
    assert isinstance(claim, Claimed)
    return claim.lease


async def waits(database: Database, lease: Lease, **given: Any) -> float:
    async with database.transaction() as session:
        return await steps.wait(session, lease, REFUSED, pauses=Pauses(jitter=0.0), **given)


async def test_pauses_double_with_the_outage_whoever_asks(database: Database) -> None:
    lease = await claimed(database)
    pauses = [await waits(database, lease)]
    for seconds in (2, 6, 14, 30, 3600, 36_000):
        step = await _began_earlier(database, lease, seconds)
        # As another worker, after a restart: all that it knows is in the row.
        lease = await claimed_again(database, step)
        assert lease.is_after_wait
        pauses.append(await waits(database, lease))
    assert [round(pause) for pause in pauses] == [2, 4, 8, 16, 32, 300, 300]


async def _began_earlier(database: Database, lease: Lease, seconds: float) -> Step:
    """The step, as if it had waited for so long."""
    since = func.clock_timestamp() - timedelta(seconds=seconds)
    async with database.transaction() as session:
        of_step = update(Step).where(Step.id == lease.step_id)
        await session.execute(of_step.values(waiting_since=since))
        return await session.get_one(Step, lease.step_id, populate_existing=True)


async def test_jitter_only_shortens_pauses(database: Database) -> None:
    lease = await claimed(database)
    async with database.transaction() as session:
        pause = await steps.wait(session, lease, REFUSED, pauses=Pauses(100.0, 100.0, jitter=0.5))
    assert 50 <= pause <= 100


@pytest.mark.parametrize(("asked", "kept"), [(3600.0, 3600.0), (1e300, 3600.0), (-5.0, 2.0)])
async def test_what_the_provider_asks_for_is_waited_for_within_bounds(
    settings: Settings, database: Database, bus: Bus, asked: float, kept: float
) -> None:
    async def work(lease: Lease, step: Step) -> StepResult:
        raise away(asked)

    step = await started(database, bus)
    async with running_actor(observer(settings, work)):
        await until(lambda: is_waiting(database, step), what="the step to wait")
    waiting = await step_now(database, step)
    assert waiting.retry_at is not None
    assert waiting.waiting_since is not None
    pause = (waiting.retry_at - waiting.waiting_since).total_seconds()
    assert kept * 0.8 - 0.01 <= pause <= kept + 0.01
    assert (waiting.error, waiting.attempts, waiting.lease_owner) == (REFUSED, 0, None)


async def is_waiting(database: Database, step: Step) -> bool:
    now = await step_now(database, step)
    return now.status == StepStatus.PENDING and now.waiting_since is not None


async def test_who_waits_blocks_no_slot(settings: Settings, database: Database, bus: Bus) -> None:
    waiting = await started(database, bus)

    async def work(lease: Lease, step: Step) -> StepResult:
        if step.id == waiting.id:
            raise away(3600)
        return StepResult({"queries": 0, "insights": 0})

    one_slot = settings.model_copy(update={"slots": 1})
    async with running_actor(observer(one_slot, work)):
        await until(lambda: is_waiting(database, waiting), what="the first to wait")
        made = await make_iteration(database, await make_agent(database, name="another"))
        await bus.publish(derived_events.iteration_step_event(made.iteration, made.observe))
        await until(
            lambda: status_is(database, made.observe, StepStatus.COMPLETED), what="the other"
        )
    assert await is_waiting(database, waiting)


async def test_a_worker_that_is_killed_while_it_looks_does_not_shorten_the_wait(
    settings: Settings, database: Database, bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lease lapses, another takes the step over and finds the provider still away."""
    step = await started(database, bus)
    lease = await claimed_again(database, step)
    await waits(database, lease)
    killed = await claimed_again(database, await _began_earlier(database, lease, 7200))
    async with database.transaction() as session:
        await session.execute(update(Step).values(lease_until=func.clock_timestamp()))
    since = (await step_now(database, step)).waiting_since

    async def work(lease: Lease, step: Step) -> StepResult:
        assert lease.epoch > killed.epoch
        raise away()

    async with running_actor(observer(settings, work)):
        await until(lambda: is_waiting(database, step), what="the other to wait on")
    waiting = await step_now(database, step)
    assert waiting.waiting_since == since
    assert waiting.retry_at is not None
    left = (waiting.retry_at - datetime.now(UTC)).total_seconds()
    assert 230 < left <= 300


@pytest.mark.usefixtures("hurried")
async def test_a_step_whose_message_was_lost_while_it_waited_is_asked_for_again(
    settings: Settings, database: Database, bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a kill of the worker and of NATS: the row alone says that the step waits."""
    monkeypatch.setattr(clock_module, "RECONCILE_SECONDS", 0.05)
    step = await started(database, bus)
    await waits(database, await claimed_again(database, step))
    await bus.jetstream.purge_stream(STREAM)
    async with database.transaction() as session:
        await session.execute(
            update(Step).values(
                requested_at=func.clock_timestamp() - HOURS,
                retry_at=func.clock_timestamp() - timedelta(minutes=1),
            )
        )
    short = settings.model_copy(update={"resend_after_seconds": 0.1})
    async with running_actor(observer(short, done)), running(short, ["scheduler"]):
        await until(lambda: status_is(database, step, StepStatus.COMPLETED), what="the step")
    ended = await step_now(database, step)
    assert (ended.waiting_since, ended.republish_count) == (None, 1)


@pytest.mark.usefixtures("hurried")
async def test_an_error_that_counts_ends_the_wait_and_is_counted(
    settings: Settings, database: Database, bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work_module, "MIN_BACKOFF_SECONDS", 0.01)
    errors: list[TransientError] = [away(), TransientError("an answer that broke off")]

    async def work(lease: Lease, step: Step) -> StepResult:
        if errors:
            raise errors.pop(0)
        seen.append(await step_now(database, step))
        return StepResult({"queries": 0, "insights": 0})

    seen: list[Step] = []
    await started(database, bus)
    async with running_actor(observer(settings, work)):
        await until(lambda: settled(bus), what="the message to be acked")
    [before] = seen
    assert (before.attempts, before.waits, before.waiting_since) == (1, 1, None)


async def test_what_is_in_the_way_within_vigil_is_tried_again_at_once(
    settings: Settings, database: Database, bus: Bus
) -> None:
    tries = 0

    async def work(lease: Lease, step: Step) -> StepResult:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise RetrySoonError("a page was retracted while it was quoted")
        return StepResult({"queries": 0, "insights": 0})

    step = await started(database, bus)
    async with running_actor(observer(settings.model_copy(update={"max_attempts": 1}), work)):
        await until(lambda: settled(bus), what="the message to be acked")
    ended = await step_now(database, step)
    assert (ended.status, ended.attempts, ended.waits) == (StepStatus.COMPLETED, 0, 0)


@contextmanager
def model_away(monkeypatch: pytest.MonkeyPatch, phase: str) -> Iterator[list[str]]:
    """The model server refuses every call of `phase`; gives what was refused, by the call's key."""
    complete = ChatProvider.complete
    refused: list[str] = []

    async def refuse(
        self: ChatProvider, request: ChatRequest, in_flight: ResumableCall, on_delta: Any = None
    ) -> ChatAnswer:
        if phase in str(request.messages[0]["content"]):
            async with in_flight.attempt():
                refused.append(in_flight.key)
                raise unbilled(away())
        return await complete(self, request, in_flight, on_delta)

    monkeypatch.setattr(ChatProvider, "complete", refuse)
    try:
        yield refused
    finally:
        monkeypatch.setattr(ChatProvider, "complete", complete)


@pytest.mark.usefixtures("hurried")
@pytest.mark.parametrize("phase", ["You write", *slow("You plan", "You search", "You analyze")])
async def test_an_iteration_outlives_an_outage_and_pays_nothing_twice(
    sandbox_settings: Settings,
    database: Database,
    levers: Sandbox,
    monkeypatch: pytest.MonkeyPatch,
    phase: str,
) -> None:
    mission = await Mission.begin(database, levers, "outlives")
    strict = sandbox_settings.model_copy(update={"max_attempts": 1})
    async with running(strict):
        with model_away(monkeypatch, phase) as refused:
            await until(
                lambda: has_seen(refused, work_module.MAX_CLAIMS + 10),
                what="more tries than a step may be claimed",
                seconds=60,
            )
        ended = await ended_iteration(database, mission.agent, 1)
    assert ended.status == IterationStatus.COMPLETED
    assert not [error for error in ended.errors if REFUSED in error]
    assert levers.repeated() == 0
    async with database.transaction() as session:
        found = list(await session.scalars(select(Step)))
        kept = list(await session.scalars(select(BudgetDay)))
    assert max(step.waits for step in found) > 10
    assert {step.waiting_since for step in found} == {None}
    assert {(day.reserved_usd, day.reserved_calls) for day in kept} == {(Decimal(0), 0)}
    assert {day.spent_usd for day in kept} == {levers.billed_usd()}


async def has_seen(refused: list[str], number: int) -> bool:
    return len(refused) >= number


@pytest.mark.usefixtures("hurried")
async def test_the_wait_is_over_with_the_first_answer(
    sandbox_settings: Settings,
    database: Database,
    levers: Sandbox,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not only when the step ends, which may take many more calls."""
    await Mission.begin(database, levers, "over")
    slow = {"kind": "latency", "latency_seconds": 60, "always": True}
    levers.faults({"phase": "graph_construction", **slow})
    async with running(sandbox_settings.model_copy(update={"drain_seconds": 0.0})):
        with model_away(monkeypatch, "You search"):
            await until(lambda: queries(database, StepStatus.PENDING), what="a query to wait")
        await until(lambda: queries(database, StepStatus.RUNNING), what="the wait to be over")


async def queries(database: Database, status: StepStatus) -> list[Step]:
    """Those that wait, or that have waited and go on."""
    waits_now = status == StepStatus.PENDING
    wanted = (
        Step.kind == StepKind.QUERY,
        Step.status == status,
        Step.waits > 0,
        Step.waiting_since.is_not(None) if waits_now else Step.waiting_since.is_(None),
        Step.error.is_not(None) if waits_now else Step.error.is_(None),
    )
    async with database.transaction() as session:
        return list(await session.scalars(select(Step).where(*wanted)))


async def test_a_step_outlives_the_kill_of_its_worker_and_of_the_model_server(
    settings: Settings, database: Database, bus: Bus
) -> None:
    """With real processes: the server is away, the worker is killed while the step waits, and both come back."""
    step = await started(database, bus)
    server = SlowServer()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    environment = {
        **os.environ,
        "VIGIL_DATABASE_URL": settings.database_url,
        "VIGIL_NATS_URL": settings.nats_url,
        "VIGIL_MAX_ATTEMPTS": "1",
        "OPENAI_API_KEY": "k",
        "OPENAI_BASE_URL": f"http://127.0.0.1:{port}/v1",
    }
    killed = await observer_process(environment, free_port())
    await until(lambda: is_waiting(database, step), what="the step to wait")
    killed.kill()
    await killed.wait()
    waiting = await step_now(database, step)
    assert waiting.error is not None
    assert f"http://127.0.0.1:{port}/v1" in waiting.error
    async with running_app(server.app, port):
        second = await observer_process(environment, free_port())
        try:
            await until(
                lambda: status_is(database, step, StepStatus.COMPLETED), what="the step", seconds=60
            )
        finally:
            second.kill()
            await second.wait()
    ended = await step_now(database, step)
    assert (ended.attempts, ended.waiting_since) == (0, None)
    assert ended.waits >= waiting.waits
    assert set(server.asked.values()) == {1}
