"""All services in one process, for tests of the whole loop."""

import asyncio
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
from shared.runtime.bus import Bus
from shared.runtime.consumer import MessageConsumer
from shared.runtime.settings import Settings
from tests.support.waiting import wait_until

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
async def running_services(
    settings: Settings | Mapping[str, Settings], names: Sequence[str] = tuple(BUILDERS)
) -> AsyncIterator[None]:
    """Run the named services, with one or with separate settings.

    A service that fails makes the test fail at the end of the block.
    """
    settings_by_name = (
        dict.fromkeys(names, settings) if isinstance(settings, Settings) else settings
    )
    built = {name: BUILDERS[name](settings_by_name[name]) for name in names}
    async with running_service_group(built):
        yield


@asynccontextmanager
async def running_service_group(services: Mapping[str, MessageConsumer]) -> AsyncIterator[None]:
    """Run services that the test has built."""
    tasks = [asyncio.create_task(service.run(), name=name) for name, service in services.items()]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError):
                await task


async def ended_iteration(
    database: Database, agent: Agent, number: int, *, seconds: float = 60
) -> Iteration:
    """Wait for the agent's iteration of that number to end; return it."""

    async def look() -> Iteration | None:
        async with database.transaction() as session:
            return await session.scalar(
                select(Iteration).where(
                    Iteration.agent_id == agent.id,
                    Iteration.number == number,
                    Iteration.status != IterationStatus.RUNNING,
                )
            )

    iteration = await wait_until(look, what=f"iteration {number} to end", seconds=seconds)
    assert iteration is not None
    return iteration


async def is_idle(bus: Bus, name: str) -> bool:
    """Whether that service has acknowledged all its messages."""
    info = await bus.jetstream.consumer_info(STREAM, name)
    return not info.num_ack_pending and not info.num_pending


async def list_events(bus: Bus) -> list[Event]:
    """Decode all events on the stream, in order."""
    last = (await bus.jetstream.stream_info(STREAM)).state.last_seq
    messages = [await bus.jetstream.get_msg(STREAM, number) for number in range(1, last + 1)]
    return [decode(message.data or b"") for message in messages]
