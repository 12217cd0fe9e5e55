"""The reconciler row by row: an unreadable row, a failed publish, and the same bytes each time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
from sqlalchemy import select
from structlog.testing import capture_logs
from structlog.typing import EventDict

from services.aggregator.handler import Aggregate
from services.scheduler import scheduler as clock_module
from services.scheduler.dead_letter_retries import Retrier
from services.scheduler.reconciler import Reconciler
from services.scheduler.scheduler import Clock, Ticker
from shared import derived_events
from shared.database.engine import Database
from shared.database.tables import Iteration, Step
from shared.enums import StepKind, StepStatus
from shared.errors import TransientError
from shared.events.codec import encode
from shared.events.envelope import Event
from shared.runtime.bus import Bus
from shared.workflow import steps
from shared.workflow.iterations import StepRow
from tests.support import table_rows
from tests.support.joins import end_events, plan_iteration
from tests.support.scheduling import (
    GRACE_SECONDS,
    add_missed_step,
    ago,
    change,
    mark_missed,
    republished_events,
    republished_ids,
)
from tests.support.waiting import wait_until


@asynccontextmanager
async def reconciling(
    database: Database, bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[None]:
    """Runs a scheduler's reconciler loop with a short interval."""
    monkeypatch.setattr(clock_module, "RECONCILE_SECONDS", 0.02)
    clock = Clock(
        Ticker(database, 600), Reconciler(database, GRACE_SECONDS), Retrier(database, bus), bus, 1.0
    )
    task = asyncio.create_task(clock.run_reconciler())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def list_steps_of_kind(
    database: Database, iteration: Iteration, kind: StepKind
) -> list[StepRow]:
    async with database.transaction() as session:
        return await steps.list_steps(session, iteration.id, kind)


async def republish_counts(database: Database, iteration: Iteration) -> list[int]:
    counts = select(Step.republish_count).where(
        Step.iteration_id == iteration.id, Step.kind == StepKind.QUERY
    )
    async with database.transaction() as session:
        return list(await session.scalars(counts.order_by(Step.index)))


async def test_an_unreadable_row_is_logged_once_and_does_not_block_others(
    database: Database, bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    iteration = await plan_iteration(database, queries=3)
    unreadable, second, third = await list_steps_of_kind(database, iteration, StepKind.QUERY)
    await mark_missed(database, unreadable, input={"objective": {"no": "text"}})
    await mark_missed(database, second)
    with capture_logs() as lines:
        async with reconciling(database, bus, monkeypatch):
            await wait_until(lambda: republished_ids(bus), what="the second to be republished")
            await mark_missed(database, third)
            await wait_until(
                lambda: is_counted(database, third), what="the third to be republished"
            )
    errors = [line for line in lines if line["log_level"] == "error"]
    assert [(line["event"], line["row_id"]) for line in errors] == [
        ("cannot republish an event", str(unreadable.id))
    ]
    assert len(await republished_ids(bus)) == 2


async def is_counted(database: Database, step: StepRow) -> bool:
    async with database.transaction() as session:
        return (await session.get_one(Step, step.id)).republish_count == 1


@pytest.mark.parametrize("row_kind", ["a step's end", "an iteration's end"])
async def test_an_unreadable_end_does_not_block_others(
    database: Database, bus: Bus, monkeypatch: pytest.MonkeyPatch, row_kind: str
) -> None:
    iteration = await plan_iteration(database)
    [observe] = await list_steps_of_kind(database, iteration, StepKind.OBSERVE)
    if row_kind == "a step's end":
        await change(database, observe, requested_at=ago(60), ended_at=ago(60), kind="query")
    else:
        [plan] = await end_events(database, iteration, StepKind.OBSERVE)
        await Aggregate(database)(plan)
        await change(database, observe, result=["not what a result is"])
        await change(database, table_rows.as_iteration(iteration), ended_at=ago(60))
    with capture_logs() as lines:
        async with reconciling(database, bus, monkeypatch):
            await wait_until(lambda: logged_errors(lines), what="an error to be logged")
            await add_missed_step(database)
            await wait_until(lambda: republished_ids(bus), what="the other to be republished")
    assert await logged_errors(lines) == ["cannot republish an event"]


async def logged_errors(lines: list[EventDict]) -> list[str]:
    return [line["event"] for line in lines if line["log_level"] == "error"]


async def test_only_events_stored_by_the_bus_are_counted(
    database: Database, bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    iteration = await plan_iteration(database, queries=3)
    queries = await list_steps_of_kind(database, iteration, StepKind.QUERY)
    for age, step in zip((9, 8, 7), queries, strict=True):
        await change(database, step, requested_at=ago(GRACE_SECONDS + age))
    published_ids: list[str] = []
    publish = Bus.publish

    async def fail_second_publish(self: Bus, event: Event, *, resend: int = 0) -> None:
        published_ids.append(str(event.event_id))
        if len(published_ids) == 2:
            counts_at_failure.extend(await republish_counts(database, iteration))
            raise TransientError("NATS did not store it", counts=False)
        await publish(self, event, resend=resend)

    counts_at_failure: list[int] = []
    monkeypatch.setattr(Bus, "publish", fail_second_publish)
    async with reconciling(database, bus, monkeypatch):
        await wait_until(lambda: all_republished(bus, 3), what="all three to be republished")
        await wait_until(lambda: all_counted(database, iteration), what="all three to be counted")
    assert counts_at_failure == [1, 0, 0]
    assert len(published_ids) == 4, "the first is not published twice"
    assert {number.partition(":")[2] for number in await republished_ids(bus)} == {"r1"}
    assert await republish_counts(database, iteration) == [1, 1, 1]


async def all_counted(database: Database, iteration: Iteration) -> bool:
    return all(await republish_counts(database, iteration))


async def all_republished(bus: Bus, number: int) -> bool:
    return len(await republished_ids(bus)) == number


async def test_an_uncounted_event_is_republished_under_the_same_id(
    database: Database, bus: Bus
) -> None:
    """As with two concurrent schedulers, or one that is killed before it counts."""
    iteration = await plan_iteration(database, queries=1)
    [query] = await list_steps_of_kind(database, iteration, StepKind.QUERY)
    await mark_missed(database, query)
    reconciler = Reconciler(database, GRACE_SECONDS)
    rows = [(await reconciler.find_missed())[0] for _ in range(2)]
    for row in rows:
        for event in await reconciler.events(row):
            await bus.publish(event, resend=row.number)
    for row in rows:
        await reconciler.count(row)
    assert len(await republished_ids(bus)) == 1
    assert await republish_counts(database, iteration) == [1]


@pytest.mark.parametrize("kind", [StepKind.OBSERVE, StepKind.QUERY, StepKind.INSIGHT])
async def test_a_republished_request_has_the_same_bytes(database: Database, kind: StepKind) -> None:
    queries = 2 if kind == StepKind.QUERY else 0
    iteration = await plan_iteration(database, queries=queries, insights=2)
    async with database.transaction() as session:
        [observe] = await steps.list_steps(session, iteration.id, StepKind.OBSERVE)
        first = await derived_events.events_after_step(session, observe)
    joined = await Aggregate(database)(first[0])
    first = joined if kind == StepKind.INSIGHT else first[1:]
    if kind == StepKind.OBSERVE:
        first = [derived_events.iteration_step_event(table_rows.as_iteration(iteration), observe)]
        await change(database, observe, status=StepStatus.PENDING)
    for step in await list_steps_of_kind(database, iteration, kind):
        await mark_missed(database, step)
    again = [event for event, _ in await republished_events(database)]
    assert {encode(event) for event in again} == {encode(event) for event in first}
    assert again
