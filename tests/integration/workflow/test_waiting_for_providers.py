"""A provider that is unavailable or limits requests: steps wait and continue by themselves, however long it takes."""

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
from shared.errors import RetrySoonError, TransientError
from shared.events.topology import STREAM
from shared.llm.messages import ChatAnswer, ChatRequest
from shared.llm.model_server import RefusedAloneError
from shared.llm.provider import ChatProvider
from shared.runtime import step_runner as work_module
from shared.runtime.bus import Bus
from shared.runtime.middlewares import retry
from shared.runtime.settings import Settings
from shared.runtime.step_runner import StepResult
from shared.workflow import steps
from shared.workflow.iterations import StepRow
from shared.workflow.leases import Lease
from shared.workflow.steps import Pauses
from tests.support import claims
from tests.support.factories import make_agent, make_iteration
from tests.support.marks import slow
from tests.support.mission import Mission
from tests.support.processes import observer_process
from tests.support.running_services import ended_iteration, running_services
from tests.support.sandbox.server import running_app
from tests.support.sandbox_control import Sandbox
from tests.support.slow_server import SlowServer
from tests.support.steps import (
    observer,
    observer_is_idle,
    reload_step,
    request_observe_step,
    running_service,
    status_is,
)
from tests.support.waiting import wait_until

REFUSED = "the model server at http://127.0.0.1:1/v1 cannot be reached: connection refused"
HOURS = timedelta(hours=3)


def unavailable_error(
    retry_in_seconds: float | None = None, *, is_unbilled: bool = False
) -> TransientError:
    """The error that the model and search clients raise for an unavailable provider."""
    return TransientError(
        REFUSED, retry_in_seconds=retry_in_seconds, counts=False, is_unbilled=is_unbilled
    )


async def complete_step(lease: Lease, step: StepRow) -> StepResult:
    return StepResult({"queries": 0, "insights": 0})


@pytest.fixture
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shortens the pauses of hours to milliseconds."""
    monkeypatch.setattr(work_module, "PAUSES", Pauses(0.005, 0.02))
    monkeypatch.setattr(retry, "MIN_DELAY_SECONDS", 0.005)
    monkeypatch.setattr(retry, "MAX_DELAY_WHILE_UNAVAILABLE_SECONDS", 0.01)


@pytest.mark.usefixtures("short_pauses")
async def test_a_long_outage_uses_up_no_attempt(
    settings: Settings, database: Database, bus: Bus
) -> None:
    tries = 0

    async def work(lease: Lease, step: StepRow) -> StepResult:
        nonlocal tries
        tries += 1
        if tries <= 2 * work_module.MAX_CLAIMS:
            raise unavailable_error()
        return StepResult({"queries": 0, "insights": 0})

    step = await request_observe_step(database, bus)
    async with running_service(observer(settings.model_copy(update={"max_attempts": 1}), work)):
        await wait_until(lambda: observer_is_idle(bus), what="the message to be acked", seconds=60)
    ended = await reload_step(database, step)
    assert (ended.status, ended.attempts, ended.waits) == (StepStatus.COMPLETED, 0, tries - 1)
    assert (ended.waiting_since, ended.error) == (None, None)
    async with database.transaction() as session:
        assert await session.scalar(select(func.count()).select_from(DeadLetter)) == 0


async def claim_new_step(database: Database) -> Lease:
    started_iteration = await make_iteration(database, await make_agent(database))
    return await claim_step(database, started_iteration.observe)


async def claim_step(database: Database, step: Step | StepRow) -> Lease:
    async with database.transaction() as session:
        await session.execute(update(Step).where(Step.id == step.id).values(retry_at=None))
        claim = await claims.claimed(session, step.id, "worker")
    return claim.lease


async def wait_for_provider(database: Database, lease: Lease, **options: Any) -> float:
    async with database.transaction() as session:
        return await steps.wait(session, lease, REFUSED, pauses=Pauses(jitter=0.0), **options)


async def test_pauses_double_with_the_outage_across_workers(database: Database) -> None:
    lease = await claim_new_step(database)
    pauses = [await wait_for_provider(database, lease)]
    for seconds in (2, 6, 14, 30, 3600, 36_000):
        step = await _start_waiting_earlier(database, lease, seconds)
        # As another worker after a restart, which knows only the row.
        lease = await claim_step(database, step)
        assert lease.is_after_wait
        pauses.append(await wait_for_provider(database, lease))
    assert [round(pause) for pause in pauses] == [2, 4, 8, 16, 20, 20, 20]


async def _start_waiting_earlier(database: Database, lease: Lease, seconds: float) -> Step:
    """Makes the step look as if it had waited for so long; returns it."""
    since = func.clock_timestamp() - timedelta(seconds=seconds)
    async with database.transaction() as session:
        statement = update(Step).where(Step.id == lease.step_id)
        await session.execute(statement.values(waiting_since=since))
        return await session.get_one(Step, lease.step_id)


async def test_jitter_only_shortens_pauses(database: Database) -> None:
    lease = await claim_new_step(database)
    async with database.transaction() as session:
        pause = await steps.wait(session, lease, REFUSED, pauses=Pauses(100.0, 100.0, jitter=0.5))
    assert 50 <= pause <= 100


@pytest.mark.parametrize(
    ("retry_after", "expected"), [(3600.0, 3600.0), (1e300, 3600.0), (-5.0, 2.0)]
)
async def test_the_delay_that_the_provider_asks_for_is_kept_within_limits(
    settings: Settings, database: Database, bus: Bus, retry_after: float, expected: float
) -> None:
    async def work(lease: Lease, step: StepRow) -> StepResult:
        raise unavailable_error(retry_after)

    step = await request_observe_step(database, bus)
    async with running_service(observer(settings, work)):
        await wait_until(lambda: is_waiting(database, step), what="the step to wait")
    waiting = await reload_step(database, step)
    assert waiting.retry_at is not None
    assert waiting.waiting_since is not None
    pause = (waiting.retry_at - waiting.waiting_since).total_seconds()
    assert expected * 0.8 - 0.01 <= pause <= expected + 0.01
    assert (waiting.error, waiting.attempts, waiting.lease_owner) == (REFUSED, 0, None)


async def is_waiting(database: Database, step: StepRow) -> bool:
    current = await reload_step(database, step)
    return current.status == StepStatus.PENDING and current.waiting_since is not None


async def test_a_waiting_step_blocks_no_slot(
    settings: Settings, database: Database, bus: Bus
) -> None:
    waiting = await request_observe_step(database, bus)

    async def work(lease: Lease, step: StepRow) -> StepResult:
        if step.id == waiting.id:
            raise unavailable_error(3600)
        return StepResult({"queries": 0, "insights": 0})

    one_at_a_time = settings.model_copy(update={"concurrency": 1})
    async with running_service(observer(one_at_a_time, work)):
        await wait_until(lambda: is_waiting(database, waiting), what="the first to wait")
        other = await make_iteration(database, await make_agent(database, name="another"))
        await bus.publish(derived_events.iteration_step_event(other.iteration, other.observe))
        await wait_until(
            lambda: status_is(database, other.observe, StepStatus.COMPLETED), what="the other"
        )
    assert await is_waiting(database, waiting)


async def test_a_worker_killed_while_it_checks_the_provider_does_not_shorten_the_wait(
    settings: Settings, database: Database, bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lease lapses, and another worker takes the step over and finds the provider still unavailable."""
    step = await request_observe_step(database, bus)
    lease = await claim_step(database, step)
    await wait_for_provider(database, lease)
    killed_lease = await claim_step(database, await _start_waiting_earlier(database, lease, 7200))
    async with database.transaction() as session:
        await session.execute(update(Step).values(lease_until=func.clock_timestamp()))
    since = (await reload_step(database, step)).waiting_since

    async def work(lease: Lease, step: StepRow) -> StepResult:
        assert lease.epoch > killed_lease.epoch
        raise unavailable_error()

    async with running_service(observer(settings, work)):
        await wait_until(lambda: is_waiting(database, step), what="the other to wait on")
    waiting = await reload_step(database, step)
    assert waiting.waiting_since == since
    assert waiting.retry_at is not None
    left_seconds = (waiting.retry_at - datetime.now(UTC)).total_seconds()
    assert 15 < left_seconds <= 20


@pytest.mark.usefixtures("short_pauses")
async def test_a_waiting_step_whose_message_was_lost_is_requested_again(
    settings: Settings, database: Database, bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a kill of the worker and of NATS: only the row says that the step waits."""
    monkeypatch.setattr(clock_module, "RECONCILE_SECONDS", 0.05)
    step = await request_observe_step(database, bus)
    await wait_for_provider(database, await claim_step(database, step))
    await bus.jetstream.purge_stream(STREAM)
    async with database.transaction() as session:
        await session.execute(
            update(Step).values(
                requested_at=func.clock_timestamp() - HOURS,
                retry_at=func.clock_timestamp() - timedelta(minutes=1),
            )
        )
    short = settings.model_copy(update={"resend_after_seconds": 0.1})
    async with (
        running_service(observer(short, complete_step)),
        running_services(short, ["scheduler"]),
    ):
        await wait_until(lambda: status_is(database, step, StepStatus.COMPLETED), what="the step")
    ended = await reload_step(database, step)
    assert (ended.waiting_since, ended.republish_count) == (None, 1)


@pytest.mark.usefixtures("short_pauses")
@pytest.mark.parametrize(
    ("error", "keeps_waiting"),
    [
        (TransientError("an answer that broke off"), False),
        (RefusedAloneError("the server refuses this request alone"), True),
    ],
)
async def test_an_error_that_counts_as_an_attempt_ends_the_wait_unless_it_is_of_one_request(
    settings: Settings,
    database: Database,
    bus: Bus,
    monkeypatch: pytest.MonkeyPatch,
    error: TransientError,
    *,
    keeps_waiting: bool,
) -> None:
    monkeypatch.setattr(work_module, "MIN_BACKOFF_SECONDS", 0.01)
    errors: list[TransientError] = [unavailable_error(), error]

    async def work(lease: Lease, step: StepRow) -> StepResult:
        if errors:
            raise errors.pop(0)
        rows.append(await reload_step(database, step))
        return StepResult({"queries": 0, "insights": 0})

    rows: list[Step] = []
    await request_observe_step(database, bus)
    async with running_service(observer(settings, work)):
        await wait_until(lambda: observer_is_idle(bus), what="the message to be acked")
    [row] = rows
    assert (row.attempts, row.waits, row.waiting_since is not None) == (1, 1, keeps_waiting)


async def test_an_internal_obstacle_is_retried_at_once(
    settings: Settings, database: Database, bus: Bus
) -> None:
    tries = 0

    async def work(lease: Lease, step: StepRow) -> StepResult:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise RetrySoonError("a page was retracted while it was being quoted")
        return StepResult({"queries": 0, "insights": 0})

    step = await request_observe_step(database, bus)
    async with running_service(observer(settings.model_copy(update={"max_attempts": 1}), work)):
        await wait_until(lambda: observer_is_idle(bus), what="the message to be acked")
    ended = await reload_step(database, step)
    assert (ended.status, ended.attempts, ended.waits) == (StepStatus.COMPLETED, 0, 0)


@contextmanager
def model_unavailable(monkeypatch: pytest.MonkeyPatch, phase: str) -> Iterator[list[str]]:
    """Makes the model server refuse every call of `phase`; yields the keys of the refused calls."""
    complete = ChatProvider.complete
    refused_keys: list[str] = []

    async def refuse(
        self: ChatProvider, request: ChatRequest, in_flight: ResumableCall, on_delta: Any = None
    ) -> ChatAnswer:
        if phase in str(request.messages[0]["content"]):
            async with in_flight.attempt():
                refused_keys.append(in_flight.key)
                raise unavailable_error(is_unbilled=True)
        return await complete(self, request, in_flight, on_delta)

    monkeypatch.setattr(ChatProvider, "complete", refuse)
    try:
        yield refused_keys
    finally:
        monkeypatch.setattr(ChatProvider, "complete", complete)


@pytest.mark.usefixtures("short_pauses")
@pytest.mark.parametrize("phase", ["You write", *slow("You plan", "You search", "You analyze")])
async def test_an_iteration_survives_an_outage_and_pays_nothing_twice(
    sandbox_settings: Settings,
    database: Database,
    sandbox_control: Sandbox,
    monkeypatch: pytest.MonkeyPatch,
    phase: str,
) -> None:
    mission = await Mission.begin(database, sandbox_control, "outlives")
    strict = sandbox_settings.model_copy(update={"max_attempts": 1})
    async with running_services(strict):
        with model_unavailable(monkeypatch, phase) as refused_keys:
            await wait_until(
                lambda: has_length(refused_keys, work_module.MAX_CLAIMS + 10),
                what="more tries than a step may be claimed",
                seconds=60,
            )
        iteration = await ended_iteration(database, mission.agent, 1)
    assert iteration.status == IterationStatus.COMPLETED
    assert not [error for error in iteration.errors if REFUSED in error]
    assert sandbox_control.repeated() == 0
    async with database.transaction() as session:
        all_steps = list(await session.scalars(select(Step)))
        budget_days = list(await session.scalars(select(BudgetDay)))
    assert max(step.waits for step in all_steps) > 10
    assert {step.waiting_since for step in all_steps} == {None}
    assert {(day.reserved_usd, day.reserved_calls) for day in budget_days} == {(Decimal(0), 0)}
    assert {day.spent_usd for day in budget_days} == {sandbox_control.billed_usd()}


async def has_length(refused_keys: list[str], number: int) -> bool:
    return len(refused_keys) >= number


@pytest.mark.usefixtures("short_pauses")
async def test_the_wait_ends_with_the_first_response(
    sandbox_settings: Settings,
    database: Database,
    sandbox_control: Sandbox,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The wait does not last until the step ends, which may take many more calls."""
    await Mission.begin(database, sandbox_control, "over")
    slow = {"kind": "latency", "latency_seconds": 60, "always": True}
    sandbox_control.faults({"phase": "graph_construction", **slow})
    async with running_services(sandbox_settings.model_copy(update={"drain_seconds": 0.0})):
        with model_unavailable(monkeypatch, "You search"):
            await wait_until(lambda: queries(database, StepStatus.PENDING), what="a query to wait")
        await wait_until(lambda: queries(database, StepStatus.RUNNING), what="the wait to be over")


async def queries(database: Database, status: StepStatus) -> list[Step]:
    """The query steps that wait, or that have waited and continue."""
    is_waiting_now = status == StepStatus.PENDING
    conditions = (
        Step.kind == StepKind.QUERY,
        Step.status == status,
        Step.waits > 0,
        Step.waiting_since.is_not(None) if is_waiting_now else Step.waiting_since.is_(None),
        Step.error.is_not(None) if is_waiting_now else Step.error.is_(None),
    )
    async with database.transaction() as session:
        return list(await session.scalars(select(Step).where(*conditions)))


async def test_a_step_survives_a_kill_of_its_worker_and_an_outage_of_the_model_server(
    settings: Settings, database: Database, bus: Bus
) -> None:
    """With real processes: the server is down, the worker is killed while the step waits, and both return."""
    step = await request_observe_step(database, bus)
    server = SlowServer()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    environment = {
        **os.environ,
        "VIGIL_DATABASE_URL": settings.database_url,
        "VIGIL_NATS_URL": settings.nats_url,
        "VIGIL_MAX_ATTEMPTS": "1",
        "OPENAI_API_KEY": "k",
        "OPENAI_BASE_URL": f"http://127.0.0.1:{port}/v1",
    }
    first = await observer_process(environment, free_port())
    await wait_until(lambda: is_waiting(database, step), what="the step to wait", seconds=60)
    first.kill()
    await first.wait()
    waiting = await reload_step(database, step)
    assert waiting.error is not None
    assert f"http://127.0.0.1:{port}/v1" in waiting.error
    async with running_app(server.app, port):
        second = await observer_process(environment, free_port())
        try:
            await wait_until(
                lambda: status_is(database, step, StepStatus.COMPLETED), what="the step", seconds=60
            )
        finally:
            second.kill()
            await second.wait()
    ended = await reload_step(database, step)
    assert (ended.attempts, ended.waiting_since) == (0, None)
    assert ended.waits >= waiting.waits
    assert set(server.asked.values()) == {1}
