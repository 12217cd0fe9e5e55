"""The actor shell around a step: claimed once, retried, failed, handed over, told again."""

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
from shared.workflow.leases import Lease
from tests.support.making import make_agent, make_iteration
from tests.support.steps import (
    observer,
    running,
    settled,
    started,
    status_is,
    step_now,
    subjects_told,
)
from tests.support.waiting import until

Run = Callable[[StepHandler], Awaitable[None]]


async def test_a_step_is_worked_ended_and_told(
    settings: Settings, database: Database, bus: Bus
) -> None:
    async def work(lease: Lease, step: Step) -> StepResult:
        return StepResult({"queries": 0, "insights": 0})

    step = await started(database, bus)
    async with running(observer(settings, work)):
        await until(lambda: settled(bus), what="the message to be acked")
    done = await step_now(database, step)
    assert (done.status, done.lease_owner) == (StepStatus.COMPLETED, None)
    assert await subjects_told(bus) == ["iteration.started", "plan.produced"]


async def test_a_doubled_request_works_once_and_tells_the_same(
    settings: Settings, database: Database, bus: Bus
) -> None:
    worked = 0

    async def work(lease: Lease, step: Step) -> StepResult:
        nonlocal worked
        worked += 1
        return StepResult({"queries": 0, "insights": 0})

    made = await make_iteration(database, await make_agent(database))
    request = derived_events.iteration_step_event(made.iteration, made.observe)
    for resend in range(3):
        await bus.publish(request, resend=resend)
    async with running(observer(settings, work)):
        await until(lambda: settled(bus), what="all three messages to be acked")
    assert worked == 1
    assert (await subjects_told(bus)).count("plan.produced") == 1


@pytest.mark.parametrize(
    ("asked_ago", "is_seen"), [(timedelta(), False), (timedelta(minutes=1), True)]
)
async def test_a_claim_is_counted_at_once_where_somebody_may_have_died_of_the_step(
    settings: Settings,
    database: Database,
    bus: Bus,
    asked_ago: timedelta,
    is_seen: bool,
) -> None:
    seen: list[int] = []

    async def work(lease: Lease, step: Step) -> StepResult:
        seen.append((await step_now(database, step)).epoch)
        return StepResult({"queries": 0, "insights": 0})

    made = await make_iteration(database, await make_agent(database))
    async with database.transaction() as session:
        asked_at = Step.first_requested_at - asked_ago
        of_it = update(Step).where(Step.id == made.observe.id)
        await session.execute(of_it.values(first_requested_at=asked_at))
    await bus.publish(derived_events.iteration_step_event(made.iteration, made.observe))
    async with running(observer(settings, work)):
        await until(lambda: settled(bus), what="the message to be acked")
    assert seen == [int(is_seen)]
    assert (await step_now(database, made.observe)).epoch == 1


async def test_a_permanent_error_fails_the_step_and_keeps_a_dead_letter(
    settings: Settings, database: Database, bus: Bus
) -> None:
    async def work(lease: Lease, step: Step) -> StepResult:
        raise PermanentError("llm_key", "the key is wrong")

    step = await started(database, bus)
    async with running(observer(settings, work)):
        await until(lambda: settled(bus), what="the message to be acked")
    failed = await step_now(database, step)
    assert (failed.status, failed.error) == (StepStatus.FAILED, "the key is wrong")
    async with database.transaction() as session:
        letter = (await session.scalars(select(DeadLetter))).one()
    assert (letter.code, letter.step_id, letter.actor) == ("llm_key", step.id, "observer")
    assert await subjects_told(bus) == ["iteration.started", "plan.failed"]


async def test_a_transient_error_is_tried_again_until_attempts_are_used_up(
    settings: Settings, database: Database, bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work_module, "MIN_BACKOFF_SECONDS", 0.01)
    tries = 0

    async def work(lease: Lease, step: Step) -> StepResult:
        nonlocal tries
        tries += 1
        raise TransientError("the server is away")

    step = await started(database, bus)
    async with running(observer(settings.model_copy(update={"max_attempts": 3}), work)):
        await until(lambda: status_is(database, step, StepStatus.FAILED), what="the step to fail")
    failed = await step_now(database, step)
    assert tries == 3
    assert failed.error == (
        "the server is away (gave up after 3 attempts; VIGIL_MAX_ATTEMPTS sets the limit)"
    )


async def test_what_is_merely_away_uses_up_no_attempt(
    settings: Settings, database: Database, bus: Bus
) -> None:
    tries = 0

    async def work(lease: Lease, step: Step) -> StepResult:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise RetrySoonError("Postgres is away")
        return StepResult({"queries": 0, "insights": 0})

    step = await started(database, bus)
    async with running(observer(settings.model_copy(update={"max_attempts": 1}), work)):
        await until(
            lambda: status_is(database, step, StepStatus.COMPLETED), what="the step to complete"
        )
        await until(lambda: settled(bus), what="the message to be acked")
    assert (await step_now(database, step)).attempts == 0


async def test_a_stopping_actor_hands_its_step_over_at_once(
    settings: Settings, database: Database, bus: Bus
) -> None:
    begun = asyncio.Event()

    async def endless(lease: Lease, step: Step) -> StepResult:
        begun.set()
        await asyncio.Event().wait()
        raise AssertionError

    async def work(lease: Lease, step: Step) -> StepResult:
        return StepResult({"queries": 0, "insights": 0})

    step = await started(database, bus)
    async with running(observer(settings.model_copy(update={"drain_seconds": 0.0}), endless)):
        await asyncio.wait_for(begun.wait(), 10)
    assert await status_is(database, step, StepStatus.PENDING)
    async with running(observer(settings, work)):
        # Far less than ack_wait, after which any message would come again by itself.
        await until(
            lambda: status_is(database, step, StepStatus.COMPLETED), what="the step", seconds=15
        )


async def test_a_stopping_actor_ends_what_it_can_within_its_grace(
    settings: Settings, database: Database, bus: Bus
) -> None:
    begun, answered = asyncio.Event(), asyncio.Event()

    async def slow(lease: Lease, step: Step) -> StepResult:
        begun.set()
        await answered.wait()
        return StepResult({"queries": 0, "insights": 0})

    step = await started(database, bus)
    actor = observer(settings.model_copy(update={"drain_seconds": 10.0}), slow)
    running_task = asyncio.create_task(actor.run())
    await asyncio.wait_for(begun.wait(), 10)
    running_task.cancel()
    await until(lambda: is_stopping(actor), what="the actor to stop")
    answered.set()
    with suppress(asyncio.CancelledError):
        await running_task
    done = await step_now(database, step)
    assert (done.status, done.epoch) == (StepStatus.COMPLETED, 1)
    assert await subjects_told(bus) == ["iteration.started", "plan.produced"]
    assert await settled(bus)


async def is_stopping(actor: MessageConsumer) -> bool:
    return await actor.fault() == "still starting, or stopping"


async def test_a_step_of_another_kind_is_not_worked_on(
    settings: Settings, database: Database, bus: Bus
) -> None:
    made = await make_iteration(database, await make_agent(database))
    async with database.transaction() as session:
        await session.execute(update(Step).values(kind=StepKind.QUERY))
    await bus.publish(derived_events.iteration_step_event(made.iteration, made.observe))
    async with running(observer(settings, never)):
        await until(lambda: settled(bus), what="the message to be acked")
    untouched = await step_now(database, made.observe)
    assert (untouched.status, untouched.epoch) == (StepStatus.PENDING, 0)
    async with database.transaction() as session:
        letter = (await session.scalars(select(DeadLetter))).one()
    assert (letter.actor, letter.code) == ("observer", "wrong_actor")
    assert letter.error.startswith("iteration.started requests a step of kind 'query'")


async def never(lease: Lease, step: Step) -> StepResult:
    raise AssertionError("worked on")
