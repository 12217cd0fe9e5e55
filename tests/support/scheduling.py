"""Rows with times in the past, and what the reconciler republishes for them."""

from datetime import timedelta
from typing import Any

from sqlalchemy import func, update

from services.scheduler.reconciler import Reconciler
from shared.database.engine import Database
from shared.database.tables import Agent, Iteration, Step
from shared.events.envelope import Event
from shared.events.topology import STREAM
from shared.runtime.bus import Bus
from shared.workflow.iterations import IterationRow, StepRow
from tests.support import table_rows
from tests.support.factories import make_agent, make_iteration

GRACE_SECONDS = 15.0


async def republished_events(database: Database) -> list[tuple[Event, int]]:
    """The events of one reconciliation, each with its republish number; counts them."""
    reconciler = Reconciler(database, resend_after_seconds=GRACE_SECONDS)
    events = []
    for missed in await reconciler.find_missed():
        events += [(event, missed.number) for event in await reconciler.events(missed)]
        await reconciler.count(missed)
    return events


async def change(database: Database, row: Agent | StepRow | IterationRow, **values: Any) -> None:
    async with database.transaction() as session:
        await table_rows.change(session, row, **values)


def ago(seconds: float) -> Any:
    return func.clock_timestamp() - timedelta(seconds=seconds)


async def mark_missed(database: Database, step: StepRow, **values: Any) -> None:
    """Date the step's request so far back that its message counts as missed."""
    await change(database, step, requested_at=ago(GRACE_SECONDS + 1), **values)


async def republished_ids(bus: Bus) -> list[str]:
    """Ids of the republished messages on the bus."""
    last = (await bus.jetstream.stream_info(STREAM)).state.last_seq
    messages = [await bus.jetstream.get_msg(STREAM, number) for number in range(1, last + 1)]
    ids = [(message.headers or {})["Nats-Msg-Id"] for message in messages]
    return [message_id for message_id in ids if ":r" in message_id]


async def add_missed_step(database: Database) -> None:
    start = await make_iteration(database, await make_agent(database, name="another"))
    await mark_missed(database, start.observe)


async def overdue(database: Database, name: str) -> IterationRow:
    iteration = (await make_iteration(database, await make_agent(database, name=name))).iteration
    async with database.transaction() as session:
        day_ago = ago(24 * 3600)
        times = {"started_at": day_ago, "stage_changed_at": day_ago, "deadline_at": day_ago}
        await session.execute(update(Iteration).values(times))
        await session.execute(update(Step).values(first_requested_at=day_ago))
    return iteration
