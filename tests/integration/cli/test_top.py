"""What `vigil top` reads: queues on the bus, replicas and leases in Postgres."""

import asyncio
from contextlib import AsyncExitStack

from services.api.queries.operations import Leases, Workforce, read_workforce
from services.observer import app as observer
from shared import derived_events
from shared.database.engine import Database
from shared.events.stream_admin import Queue, list_queues
from shared.runtime.bus import Bus
from shared.runtime.settings import Settings
from shared.workflow import leases
from shared.workflow.leases import Claimed
from tests.support.actors import running
from tests.support.making import make_agent, make_iteration
from tests.support.waiting import until


async def read(database: Database) -> Workforce:
    async with database.transaction() as session:
        return await read_workforce(session)


async def queue_of(bus: Bus, actor: str) -> Queue:
    return next(queue for queue in await list_queues(bus.client) if queue.actor == actor)


async def test_what_nobody_took_is_lag_and_slots_show_as_idle(
    settings: Settings, database: Database, bus: Bus
) -> None:
    made = await make_iteration(database, await make_agent(database))
    await bus.publish(derived_events.iteration_step_event(made.iteration, made.observe))
    assert await queue_of(bus, "observer") == Queue("observer", 1, 0, 0, 0)
    assert await queue_of(bus, "researcher") == Queue("researcher", 0, 0, 0, 0)

    async def idle() -> bool:
        return (await queue_of(bus, "researcher")).idle_slots == 4

    async with running(settings, ["researcher"]):
        await until(idle, what="four idle slots")


async def test_a_consumer_that_is_gone_is_told(bus: Bus) -> None:
    await bus.jetstream.delete_consumer("VIGIL", "adviser")
    assert await queue_of(bus, "adviser") == Queue("adviser")


async def test_replicas_are_counted_by_process_and_leases_by_worker(
    settings: Settings, database: Database
) -> None:
    made = await make_iteration(database, await make_agent(database))
    async with database.transaction() as session:
        claim = await leases.claim(session, made.observe.id, "machine:1")
    assert isinstance(claim, Claimed)
    assert await read(database) == Workforce({}, {"observer": Leases(held=1, lapsed=0, workers=1)})

    async with AsyncExitStack() as stack:
        for process in ("a@1:1", "a@1:1", "a@2:1"):
            connected = Database(settings.database_url, name=process)
            stack.push_async_callback(connected.close)
            await connected.ping()
        assert (await read(database)).replicas == {"a": 2}

    actor = asyncio.create_task(observer.build(settings).run())

    async def counted() -> bool:
        return (await read(database)).replicas.get("observer") == 1

    try:
        await until(counted, what="the observer to be counted")
    finally:
        actor.cancel()
        await asyncio.wait({actor})
