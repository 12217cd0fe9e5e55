"""The load of each service, for operators."""

import httpx

from services.api.app import build
from services.api.diagnostics import SERVICES
from shared import derived_events
from shared.database.engine import Database
from shared.enums import AccessScope
from shared.runtime.bus import Bus
from shared.runtime.settings import Settings
from tests.support import claims
from tests.support.api.clients import create_anonymous_client
from tests.support.api.serving import serve_api
from tests.support.api.signed_in import create_token
from tests.support.factories import make_agent, make_iteration
from tests.support.waiting import wait_until


async def test_queues_and_leases_are_shown_for_each_service(
    settings: Settings, database: Database, bus: Bus
) -> None:
    rows = await make_iteration(database, await make_agent(database))
    await bus.publish(derived_events.iteration_step_event(rows.iteration, rows.observe))
    async with database.transaction() as session:
        await claims.claim(session, rows.observe.id, "machine:1")
    headers = {"authorization": f"Bearer {await create_token(settings)}"}

    async def loads() -> dict[str, dict[str, object]] | None:
        body = (await api.get("/api/v1/services")).json()
        if body["bus_fault"] is not None:
            return None
        return {service["service"]: service for service in body["services"]}

    with serve_api(settings) as url:
        async with httpx.AsyncClient(base_url=url, headers=headers) as api:
            services = await wait_until(loads, what="the API to reach the bus")
    assert services is not None
    assert set(services) == set(SERVICES)
    observer = services["observer"]
    assert (observer["lag"], observer["in_flight"], observer["delivered"]) == (1, 0, 0)
    assert (observer["leases"], observer["lapsed_leases"], observer["workers"]) == (1, 0, 1)
    assert services["api"]["lag"] is None


async def test_without_the_bus_leases_are_shown_and_the_fault(api: httpx.AsyncClient) -> None:
    body = (await api.get("/services")).json()
    assert body["bus_fault"]
    assert [service["service"] for service in body["services"]] == list(SERVICES)
    assert all(service["lag"] is None for service in body["services"])


async def test_only_operators_see_the_services(database_url: str) -> None:
    settings = Settings(database_url=database_url)
    async with create_anonymous_client(build(settings)) as client:
        for scopes, status in (([AccessScope.READ, AccessScope.WRITE], 403), (AccessScope, 200)):
            token = await create_token(settings, scopes=scopes)
            headers = {"authorization": f"Bearer {token}"}
            assert (await client.get("/services", headers=headers)).status_code == status
