"""The step runner: a step is claimed once, retried, failed, handed over, and its events republished."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta

import pytest
from sqlalchemy import select, update

from shared import derived_events
from shared.database.engine import Database
from shared.database.tables import DeadLetter, Step
from shared.enums import StepKind, StepStatus
from shared.errors import PermanentError, RetrySoonError, TransientError
from shared.runtime import step_runner as work_module
from shared.runtime.bus import Bus
from shared.runtime.consumer import MessageConsumer
from shared.runtime.settings import Settings
from shared.runtime.step_runner import StepHandler, StepResult
from shared.workflow.iterations import StepRow
from shared.workflow.leases import Lease
from tests.support.factories import make_agent, make_iteration
from tests.support.steps import (
    observer,
    observer_is_idle,
    published_subjects,
    reload_step,
    request_observe_step,
    running_service,
    status_is,
)
from tests.support.waiting import wait_until

Run = Callable[[StepHandler], Awaitable[None]]


async def test_a_step_is_run_completed_and_published(
    settings: Settings, database: Database, bus: Bus
) -> None:
    async def work(lease: Lease, step: StepRow) -> StepResult:
        return StepResult({"queries": 0, "insights": 0})

    step = await request_observe_step(database, bus)
    async with running_service(observer(settings, work)):
        await wait_until(lambda: observer_is_idle(bus), what="the message to be acked")
    completed = await reload_step(database, step)
    assert (completed.status, completed.lease_owner) == (StepStatus.COMPLETED, None)
    assert await published_subjects(bus) == ["iteration.started", "plan.produced"]


async def test_a_repeated_request_runs_the_step_once_and_publishes_the_same_event(
    settings: Settings, database: Database, bus: Bus
) -> None:
    runs = 0

    async def work(lease: Lease, step: StepRow) -> StepResult:
        nonlocal runs
        runs += 1
        return StepResult({"queries": 0, "insights": 0})

    started_iteration = await make_iteration(database, await make_agent(database))
    request = derived_events.iteration_step_event(
        started_iteration.iteration, started_iteration.observe
    )
    for resend in range(3):
        await bus.publish(request, resend=resend)
    # A message for a step that is being handled is redelivered when a lease has passed.
    short_lease = settings.model_copy(update={"lease_seconds": 1.0})
    async with running_service(observer(short_lease, work)):
        await wait_until(lambda: observer_is_idle(bus), what="all three messages to be acked")
    assert runs == 1
    assert (await published_subjects(bus)).count("plan.produced") == 1


@pytest.mark.parametrize(
    ("age", "is_counted"), [(timedelta(), False), (timedelta(minutes=1), True)]
)
async def test_a_claim_is_counted_before_the_run_where_an_earlier_worker_may_have_died(
    settings: Settings,
    database: Database,
    bus: Bus,
    age: timedelta,
    is_counted: bool,
) -> None:
    epochs: list[int] = []

    async def work(lease: Lease, step: StepRow) -> StepResult:
        epochs.append((await reload_step(database, step)).epoch)
        return StepResult({"queries": 0, "insights": 0})

    started_iteration = await make_iteration(database, await make_agent(database))
    async with database.transaction() as session:
        first_requested_at = Step.first_requested_at - age
        statement = update(Step).where(Step.id == started_iteration.observe.id)
        await session.execute(statement.values(first_requested_at=first_requested_at))
    await bus.publish(
        derived_events.iteration_step_event(started_iteration.iteration, started_iteration.observe)
    )
    async with running_service(observer(settings, work)):
        await wait_until(lambda: observer_is_idle(bus), what="the message to be acked")
    assert epochs == [int(is_counted)]
    assert (await reload_step(database, started_iteration.observe)).epoch == 1


async def test_a_permanent_error_fails_the_step_and_stores_a_dead_letter(
    settings: Settings, database: Database, bus: Bus
) -> None:
    async def work(lease: Lease, step: StepRow) -> StepResult:
        raise PermanentError("llm_key", "the key is wrong")

    step = await request_observe_step(database, bus)
    async with running_service(observer(settings, work)):
        await wait_until(lambda: observer_is_idle(bus), what="the message to be acked")
    failed = await reload_step(database, step)
    assert (failed.status, failed.error) == (StepStatus.FAILED, "the key is wrong")
    async with database.transaction() as session:
        dead_letter = (await session.scalars(select(DeadLetter))).one()
    assert (dead_letter.code, dead_letter.step_id, dead_letter.service) == (
        "llm_key",
        step.id,
        "observer",
    )
    assert await published_subjects(bus) == ["iteration.started", "plan.failed"]


async def test_a_transient_error_is_retried_until_attempts_are_used_up(
    settings: Settings, database: Database, bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work_module, "MIN_BACKOFF_SECONDS", 0.01)
    tries = 0

    async def work(lease: Lease, step: StepRow) -> StepResult:
        nonlocal tries
        tries += 1
        raise TransientError("the server is away")

    step = await request_observe_step(database, bus)
    async with running_service(observer(settings.model_copy(update={"max_attempts": 3}), work)):
        await wait_until(
            lambda: status_is(database, step, StepStatus.FAILED), what="the step to fail"
        )
    failed = await reload_step(database, step)
    assert tries == 3
    assert failed.error == (
        "the server is away (gave up after 3 attempts; VIGIL_MAX_ATTEMPTS sets the limit)"
    )


async def test_an_unavailable_engine_uses_up_no_attempt(
    settings: Settings, database: Database, bus: Bus
) -> None:
    tries = 0

    async def work(lease: Lease, step: StepRow) -> StepResult:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise RetrySoonError("Postgres is away")
        return StepResult({"queries": 0, "insights": 0})

    step = await request_observe_step(database, bus)
    async with running_service(observer(settings.model_copy(update={"max_attempts": 1}), work)):
        await wait_until(
            lambda: status_is(database, step, StepStatus.COMPLETED), what="the step to complete"
        )
        await wait_until(lambda: observer_is_idle(bus), what="the message to be acked")
    assert (await reload_step(database, step)).attempts == 0


async def test_a_stopping_worker_hands_its_step_over_at_once(
    settings: Settings, database: Database, bus: Bus
) -> None:
    begun = asyncio.Event()

    async def run_forever(lease: Lease, step: StepRow) -> StepResult:
        begun.set()
        await asyncio.Event().wait()
        raise AssertionError

    async def work(lease: Lease, step: StepRow) -> StepResult:
        return StepResult({"queries": 0, "insights": 0})

    step = await request_observe_step(database, bus)
    async with running_service(
        observer(settings.model_copy(update={"drain_seconds": 0.0}), run_forever)
    ):
        await asyncio.wait_for(begun.wait(), 10)
    assert await status_is(database, step, StepStatus.PENDING)
    async with running_service(observer(settings, work)):
        # Far less than ack_wait, after which NATS redelivers any message.
        await wait_until(
            lambda: status_is(database, step, StepStatus.COMPLETED), what="the step", seconds=15
        )


async def test_a_stopping_worker_completes_its_step_within_the_drain_period(
    settings: Settings, database: Database, bus: Bus
) -> None:
    begun, answered = asyncio.Event(), asyncio.Event()

    async def slow(lease: Lease, step: StepRow) -> StepResult:
        begun.set()
        await answered.wait()
        return StepResult({"queries": 0, "insights": 0})

    step = await request_observe_step(database, bus)
    worker = observer(settings.model_copy(update={"drain_seconds": 10.0}), slow)
    running_task = asyncio.create_task(worker.run())
    await asyncio.wait_for(begun.wait(), 10)
    running_task.cancel()
    await wait_until(lambda: is_stopping(worker), what="the service to stop")
    answered.set()
    with suppress(asyncio.CancelledError):
        await running_task
    completed = await reload_step(database, step)
    assert (completed.status, completed.epoch) == (StepStatus.COMPLETED, 1)
    assert await published_subjects(bus) == ["iteration.started", "plan.produced"]
    assert await observer_is_idle(bus)


async def is_stopping(worker: MessageConsumer) -> bool:
    return await worker.fault() == "still starting, or stopping"


async def test_a_step_of_another_kind_is_not_run(
    settings: Settings, database: Database, bus: Bus
) -> None:
    started_iteration = await make_iteration(database, await make_agent(database))
    async with database.transaction() as session:
        await session.execute(update(Step).values(kind=StepKind.QUERY))
    await bus.publish(
        derived_events.iteration_step_event(started_iteration.iteration, started_iteration.observe)
    )
    async with running_service(observer(settings, fail_if_run)):
        await wait_until(lambda: observer_is_idle(bus), what="the message to be acked")
    untouched = await reload_step(database, started_iteration.observe)
    assert (untouched.status, untouched.epoch) == (StepStatus.PENDING, 0)
    async with database.transaction() as session:
        dead_letter = (await session.scalars(select(DeadLetter))).one()
    assert (dead_letter.service, dead_letter.code) == ("observer", "wrong_service")
    assert dead_letter.error.startswith("iteration.started requests a step of kind 'query'")


async def fail_if_run(lease: Lease, step: StepRow) -> StepResult:
    raise AssertionError("the step was run")
