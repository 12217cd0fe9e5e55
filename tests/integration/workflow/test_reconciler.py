"""The reconciler row by row: one that cannot be told, one that the bus did not store, and the same bytes each time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
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
from tests.support.joins import planned, told
from tests.support.scheduling import (
    GRACE_SECONDS,
    ago,
    another_lost_one,
    change,
    lost,
    resent,
    said_again,
)
from tests.support.waiting import until


@asynccontextmanager
async def reconciling(
    database: Database, bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[None]:
    """A scheduler's second rhythm, fast."""
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


async def of_kind(database: Database, iteration: Iteration, kind: StepKind) -> list[Step]:
    async with database.transaction() as session:
        return await steps.list_steps(session, iteration.id, kind)


async def republish_counts(database: Database, iteration: Iteration) -> list[int]:
    return [step.republish_count for step in await of_kind(database, iteration, StepKind.QUERY)]


async def test_a_row_that_cannot_be_told_is_complained_of_once_and_the_others_go_on(
    database: Database, bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    iteration = await planned(database, queries=3)
    unreadable, second, third = await of_kind(database, iteration, StepKind.QUERY)
    await lost(database, unreadable, input={"objective": {"no": "text"}})
    await lost(database, second)
    with capture_logs() as lines:
        async with reconciling(database, bus, monkeypatch):
            await until(lambda: resent(bus), what="the second to be asked for")
            await lost(database, third)
            await until(lambda: is_counted(database, third), what="the third to be asked for")
    complaints = [line for line in lines if line["log_level"] == "error"]
    assert [(line["event"], line["row_id"]) for line in complaints] == [
        ("cannot republish an event", str(unreadable.id))
    ]
    assert len(await resent(bus)) == 2


async def is_counted(database: Database, step: Step) -> bool:
    async with database.transaction() as session:
        return (await session.get_one(Step, step.id)).republish_count == 1


@pytest.mark.parametrize("what", ["a step's end", "an iteration's end"])
async def test_an_end_that_cannot_be_told_holds_up_no_other(
    database: Database, bus: Bus, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    iteration = await planned(database)
    [observe] = await of_kind(database, iteration, StepKind.OBSERVE)
    if what == "a step's end":
        await change(database, observe, requested_at=ago(60), ended_at=ago(60), kind="query")
    else:
        [plan] = await told(database, iteration, StepKind.OBSERVE)
        await Aggregate(database)(plan)
        await change(database, observe, result=["not what a result is"])
        await change(database, iteration, ended_at=ago(60))
    with capture_logs() as lines:
        async with reconciling(database, bus, monkeypatch):
            await until(lambda: complained(lines), what="a complaint")
            await another_lost_one(database)
            await until(lambda: resent(bus), what="the other to be asked for")
    assert await complained(lines) == ["cannot republish an event"]


async def complained(lines: list[EventDict]) -> list[str]:
    return [line["event"] for line in lines if line["log_level"] == "error"]


async def test_only_what_the_bus_has_stored_is_counted(
    database: Database, bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    iteration = await planned(database, queries=3)
    queries = await of_kind(database, iteration, StepKind.QUERY)
    for age, step in zip((9, 8, 7), queries, strict=True):
        await change(database, step, requested_at=ago(GRACE_SECONDS + age))
    published: list[str] = []
    publish = Bus.publish

    async def failing_at_the_second(self: Bus, event: Event, *, resend: int = 0) -> None:
        published.append(str(event.event_id))
        if len(published) == 2:
            failed_at.extend(await republish_counts(database, iteration))
            raise TransientError("NATS did not store it", counts=False)
        await publish(self, event, resend=resend)

    failed_at: list[int] = []
    monkeypatch.setattr(Bus, "publish", failing_at_the_second)
    async with reconciling(database, bus, monkeypatch):
        await until(lambda: all_resent(bus, 3), what="all three to be asked for")
    assert failed_at == [1, 0, 0]
    assert len(published) == 4, "the first is not said twice"
    assert {number.partition(":")[2] for number in await resent(bus)} == {"r1"}
    assert await republish_counts(database, iteration) == [1, 1, 1]


async def all_resent(bus: Bus, number: int) -> bool:
    return len(await resent(bus)) == number


async def test_what_was_said_and_not_counted_is_said_under_the_same_id(
    database: Database, bus: Bus
) -> None:
    """As by schedulers that look at the same time, or one that is killed in between."""
    iteration = await planned(database, queries=1)
    [query] = await of_kind(database, iteration, StepKind.QUERY)
    await lost(database, query)
    reconciler = Reconciler(database, GRACE_SECONDS)
    seen = [(await reconciler.find_missed())[0] for _ in range(2)]
    for each in seen:
        for event in await reconciler.events(each):
            await bus.publish(event, resend=each.number)
    for each in seen:
        await reconciler.count(each)
    assert len(await resent(bus)) == 1
    assert await republish_counts(database, iteration) == [1]


@pytest.mark.parametrize("kind", [StepKind.OBSERVE, StepKind.QUERY, StepKind.INSIGHT])
async def test_a_request_is_the_same_bytes_whenever_it_is_said(
    database: Database, kind: StepKind
) -> None:
    queries = 2 if kind == StepKind.QUERY else 0
    iteration = await planned(database, queries=queries, insights=2)
    async with database.transaction() as session:
        [observe] = await steps.list_steps(session, iteration.id, StepKind.OBSERVE)
        first = await derived_events.events_after_step(session, observe)
    joined = await Aggregate(database)(first[0])
    first = joined if kind == StepKind.INSIGHT else first[1:]
    if kind == StepKind.OBSERVE:
        first = [derived_events.iteration_step_event(iteration, observe)]
        await change(database, observe, status=StepStatus.PENDING)
    for step in await of_kind(database, iteration, kind):
        await lost(database, step)
    again = [event for event, _ in await said_again(database)]
    assert {encode(event) for event in again} == {encode(event) for event in first}
    assert again
