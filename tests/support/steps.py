"""Steps requested on the bus, the service that runs them, and their results."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from nats.js.api import ConsumerInfo

from services.observer.router import create_router
from shared import derived_events
from shared.database.engine import Database
from shared.database.tables import Step
from shared.enums import StepKind, StepStatus
from shared.events.topology import STREAM
from shared.runtime.bus import Bus
from shared.runtime.consumer import MessageConsumer
from shared.runtime.settings import Settings
from shared.runtime.step_runner import StepHandler, step_consumer
from shared.workflow.iterations import StepRow
from tests.support.factories import make_agent, make_iteration
from tests.support.running_services import list_events


@asynccontextmanager
async def running_service(service: MessageConsumer) -> AsyncIterator[None]:
    task = asyncio.create_task(service.run())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def observer(settings: Settings, work: StepHandler) -> MessageConsumer:
    database = Database(settings.database_url, name="observer")
    return step_consumer(
        "observer", settings, database, {StepKind.OBSERVE: work}, create_router, concurrency=2
    )


async def request_observe_step(database: Database, bus: Bus) -> StepRow:
    """An observe step that was requested on the bus."""
    start = await make_iteration(database, await make_agent(database))
    await bus.publish(derived_events.iteration_step_event(start.iteration, start.observe))
    return start.observe


async def reload_step(database: Database, step: Step | StepRow) -> Step:
    async with database.transaction() as session:
        return await session.get_one(Step, step.id)


async def status_is(database: Database, step: Step | StepRow, *statuses: StepStatus) -> bool:
    return (await reload_step(database, step)).status in statuses


async def published_subjects(bus: Bus) -> list[str]:
    return [event.subject for event in await list_events(bus)]


async def observer_is_idle(bus: Bus) -> bool:
    info: ConsumerInfo = await bus.jetstream.consumer_info(STREAM, "observer")
    # Between its two counters a message that is just being delivered may be missing from both.
    was_delivered = info.delivered is not None and info.delivered.consumer_seq > 0
    return was_delivered and not info.num_ack_pending and not info.num_pending
