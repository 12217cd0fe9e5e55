"""The data of `vigil top`: queues on the bus, replicas and leases in Postgres."""

import asyncio
from contextlib import AsyncExitStack

from services.api.resources.operate.model import Leases, Workforce, read_workforce
from services.observer import app as observer
from shared import derived_events
from shared.database.engine import Database
from shared.events.stream_admin import Queue, list_queues
from shared.runtime.bus import Bus
from shared.runtime.settings import Settings
from tests.support import claims
from tests.support.factories import make_agent, make_iteration
from tests.support.running_services import running_services
from tests.support.waiting import wait_until


async def current_workforce(database: Database) -> Workforce:
    async with database.transaction() as session:
        return await read_workforce(session)


async def find_queue(bus: Bus, service: str) -> Queue:
    return next(queue for queue in await list_queues(bus.client) if queue.service == service)


async def test_an_unclaimed_message_is_lag_and_a_replica_with_free_slots_waits(
    settings: Settings, database: Database, bus: Bus
) -> None:
    rows = await make_iteration(database, await make_agent(database))
    await bus.publish(derived_events.iteration_step_event(rows.iteration, rows.observe))
    assert await find_queue(bus, "observer") == Queue("observer", 1, 0, 0, 0)
    assert await find_queue(bus, "researcher") == Queue("researcher", 0, 0, 0, 0)

    async def waits() -> bool:
        return (await find_queue(bus, "researcher")).waiting_replicas == 1

    async with running_services(settings, ["researcher"]):
        await wait_until(waits, what="the replica to wait")


async def test_a_missing_consumer_is_shown_as_an_empty_queue(bus: Bus) -> None:
    await bus.jetstream.delete_consumer("VIGIL", "adviser")
    assert await find_queue(bus, "adviser") == Queue("adviser")


async def test_replicas_are_counted_by_process_and_leases_by_worker(
    settings: Settings, database: Database
) -> None:
    rows = await make_iteration(database, await make_agent(database))
    async with database.transaction() as session:
        await claims.claimed(session, rows.observe.id, "machine:1")
    assert await current_workforce(database) == Workforce(
        {}, {"observer": Leases(held=1, lapsed=0, workers=1)}
    )

    async with AsyncExitStack() as stack:
        for process in ("a@1:1", "a@1:1", "a@2:1"):
            replica = Database(settings.database_url, name=process)
            stack.push_async_callback(replica.close)
            await replica.ping()
        assert (await current_workforce(database)).replicas == {"a": 2}

    service = asyncio.create_task(observer.build(settings).run())

    async def is_counted() -> bool:
        return (await current_workforce(database)).replicas.get("observer") == 1

    try:
        await wait_until(is_counted, what="the observer to be counted")
    finally:
        service.cancel()
        await asyncio.wait({service})
