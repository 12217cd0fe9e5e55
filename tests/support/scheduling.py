"""Rows that were written some time ago, and what the scheduler makes of them."""

from datetime import timedelta
from typing import Any

from sqlalchemy import func, update

from services.scheduler.reconciler import Reconciler
from shared.database.engine import Database
from shared.database.tables import Agent, Iteration, Step
from shared.events.envelope import Event
from shared.events.topology import STREAM
from shared.runtime.bus import Bus
from tests.support.making import make_agent, make_iteration

GRACE_SECONDS = 15.0


async def said_again(database: Database) -> list[tuple[Event, int]]:
    """What a look leads to, each with its number, once all of it is said and counted."""
    reconciler = Reconciler(database, resend_after_seconds=GRACE_SECONDS)
    said = []
    for lost in await reconciler.find_missed():
        said += [(event, lost.number) for event in await reconciler.events(lost)]
        await reconciler.count(lost)
    return said


async def change(database: Database, row: Agent | Step | Iteration, **values: Any) -> None:
    async with database.transaction() as session:
        table = type(row)
        await session.execute(update(table).where(table.id == row.id).values(**values))


def ago(seconds: float) -> Any:
    return func.clock_timestamp() - timedelta(seconds=seconds)


async def lost(database: Database, step: Step, **values: Any) -> None:
    """`step` was asked for so long ago that the bus must have lost it."""
    await change(database, step, requested_at=ago(GRACE_SECONDS + 1), **values)


async def resent(bus: Bus) -> list[str]:
    """The ids on the bus, as far as they are those of republish_count."""
    last = (await bus.jetstream.stream_info(STREAM)).state.last_seq
    messages = [await bus.jetstream.get_msg(STREAM, number) for number in range(1, last + 1)]
    ids = [(message.headers or {})["Nats-Msg-Id"] for message in messages]
    return [each for each in ids if ":r" in each]


async def another_lost_one(database: Database) -> None:
    made = await make_iteration(database, await make_agent(database, name="another"))
    await lost(database, made.observe)


async def overdue(database: Database, name: str) -> Iteration:
    iteration = (await make_iteration(database, await make_agent(database, name=name))).iteration
    async with database.transaction() as session:
        day_ago = ago(24 * 3600)
        began = {"started_at": day_ago, "stage_changed_at": day_ago, "deadline_at": day_ago}
        await session.execute(update(Iteration).values(began))
        await session.execute(update(Step).values(first_requested_at=day_ago))
    return iteration
