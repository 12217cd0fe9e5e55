"""Steps that are asked for on the bus, the actor that works on them, and what becomes of them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from nats.js.api import ConsumerInfo

from shared import derived_events
from shared.database.engine import Database
from shared.database.tables import Step
from shared.enums import StepKind, StepStatus
from shared.events.topology import STREAM
from shared.runtime.bus import Bus
from shared.runtime.consumer import MessageConsumer
from shared.runtime.settings import Settings
from shared.runtime.step_runner import StepHandler, step_consumer
from tests.support.actors import told
from tests.support.making import make_agent, make_iteration


@asynccontextmanager
async def running(actor: MessageConsumer) -> AsyncIterator[None]:
    task = asyncio.create_task(actor.run())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def observer(settings: Settings, work: StepHandler) -> MessageConsumer:
    database = Database(settings.database_url, name="observer")
    return step_consumer("observer", settings, database, {StepKind.OBSERVE: work}, slots=2)


async def started(database: Database, bus: Bus) -> Step:
    """An observe step that was asked for on the bus."""
    made = await make_iteration(database, await make_agent(database))
    await bus.publish(derived_events.iteration_step_event(made.iteration, made.observe))
    return made.observe


async def step_now(database: Database, step: Step) -> Step:
    async with database.transaction() as session:
        return await session.get_one(Step, step.id)


async def status_is(database: Database, step: Step, *wanted: StepStatus) -> bool:
    return (await step_now(database, step)).status in wanted


async def subjects_told(bus: Bus) -> list[str]:
    return [event.subject for event in await told(bus)]


async def settled(bus: Bus) -> bool:
    found: ConsumerInfo = await bus.jetstream.consumer_info(STREAM, "observer")
    return not found.num_ack_pending and not found.num_pending
