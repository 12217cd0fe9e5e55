"""The api follows the stream, and reads it back, under its own NATS user."""

from uuid import uuid4

from shared.runtime.connections import create_bus, create_database
from tests.support.guarded import Guarded
from tests.support.making import make_agent
from tests.support.streams import listening, publish, serving


async def test_the_api_follows_and_reads_back_under_its_own_user(closed: Guarded) -> None:
    database = create_database(closed.settings("api"), "api")
    agent = await make_agent(database, name=f"Watch {uuid4()}")
    await database.close()
    bus = create_bus(closed.settings("researcher"), "researcher")
    await bus.connect()
    await publish(bus, agent.id, 1, 2, 3)
    async with (
        serving(closed.settings("api", event_window=1)) as api,
        listening(api, f"/agents/{agent.id}/events?after=0") as ear,
    ):
        await ear.hears(1, 2, 3)
        await publish(bus, agent.id, 4)
        await ear.hears(1, 2, 3, 4)
    await bus.close()
