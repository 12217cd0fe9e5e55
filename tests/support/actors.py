"""All actors in one process, for tests that watch the whole loop."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress

from sqlalchemy import select

from services.adviser import app as adviser
from services.aggregator import app as aggregator
from services.analyzer import app as analyzer
from services.assistant import app as assistant
from services.notifier import app as notifier
from services.observer import app as observer
from services.researcher import app as researcher
from services.scheduler import app as scheduler
from shared.database.engine import Database
from shared.database.tables import Agent, Iteration
from shared.enums import IterationStatus
from shared.events.codec import decode
from shared.events.envelope import Event
from shared.events.topology import STREAM
from shared.runtime.background import raise_if_cancelled
from shared.runtime.bus import Bus
from shared.runtime.consumer import ConsumerLostError, MessageConsumer
from shared.runtime.settings import Settings
from tests.support.waiting import until

BUILDERS: dict[str, Callable[[Settings], MessageConsumer]] = {
    "scheduler": scheduler.build,
    "observer": observer.build,
    "researcher": researcher.build,
    "aggregator": aggregator.build,
    "analyzer": analyzer.build,
    "adviser": adviser.build,
    "assistant": assistant.build,
    "notifier": notifier.build,
}


@asynccontextmanager
async def running(
    settings: Settings | Mapping[str, Settings], names: Sequence[str] = tuple(BUILDERS)
) -> AsyncIterator[None]:
    """The named actors, each with its own settings where there are several.

    One that breaks fails the test when the block ends.
    """
    of_each = dict.fromkeys(names, settings) if isinstance(settings, Settings) else settings
    tasks = [asyncio.create_task(BUILDERS[name](of_each[name]).run(), name=name) for name in names]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError):
                await task


@asynccontextmanager
async def supervised(
    settings: Settings, names: Sequence[str] = tuple(BUILDERS)
) -> AsyncIterator[Counter[str]]:
    """The named actors, each started again where it lost the bus, as a supervisor does; counts by name how often."""
    lost: Counter[str] = Counter()

    async def keep(name: str) -> None:
        while True:
            try:
                # A task of its own for each life, as a process would be: Python 3.11 leaves a task that held a broken
                # TaskGroup counted as being cancelled.
                await asyncio.create_task(BUILDERS[name](settings).run(), name=name)
            except ConsumerLostError:
                lost[name] += 1
                raise_if_cancelled()

    tasks = [asyncio.create_task(keep(name), name=name) for name in names]
    try:
        yield lost
    finally:
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError):
                await task


async def ended_iteration(
    database: Database, agent: Agent, number: int, *, seconds: float = 60
) -> Iteration:
    """The agent's iteration of that number, once it has ended."""

    async def look() -> Iteration | None:
        async with database.transaction() as session:
            return await session.scalar(
                select(Iteration).where(
                    Iteration.agent_id == agent.id,
                    Iteration.number == number,
                    Iteration.status != IterationStatus.RUNNING,
                )
            )

    found = await until(look, what=f"iteration {number} to end", seconds=seconds)
    assert found is not None
    return found


async def idle(bus: Bus, name: str) -> bool:
    """Whether that actor has heard and acked all there is for it."""
    found = await bus.jetstream.consumer_info(STREAM, name)
    return not found.num_ack_pending and not found.num_pending


async def told(bus: Bus) -> list[Event]:
    """Every message on the stream, in its order, as the event that it is."""
    last = (await bus.jetstream.stream_info(STREAM)).state.last_seq
    messages = [await bus.jetstream.get_msg(STREAM, number) for number in range(1, last + 1)]
    return [decode(message.data or b"") for message in messages]
