"""The API follows and replays the stream under its own NATS user."""

from uuid import uuid4

from shared.runtime.connections import create_bus, create_database
from tests.support.factories import make_agent
from tests.support.secured_installation import SecuredInstallation
from tests.support.streams import listening, publish, serving


async def test_the_api_follows_and_replays_the_stream_under_its_own_user(
    installation: SecuredInstallation,
) -> None:
    database = create_database(installation.settings("api"), "api")
    agent = await make_agent(database, name=f"Watch {uuid4()}")
    await database.close()
    bus = create_bus(installation.settings("researcher"), "researcher")
    await bus.connect()
    await publish(bus, agent.id, 1, 2, 3)
    async with (
        serving(installation.settings("api", event_window=1)) as api,
        listening(api, f"/agents/{agent.id}/events?after=0") as listener,
    ):
        await listener.wait_for_numbers(1, 2, 3)
        await publish(bus, agent.id, 4)
        await listener.wait_for_numbers(1, 2, 3, 4)
    await bus.close()
