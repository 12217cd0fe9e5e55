"""Figures of the api and of the installation, for whoever looks after it."""

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from services.api.app import build
from services.api.queries import operations
from services.api.queries.operations import InstallationState
from shared.database.engine import Database
from shared.enums import AccessScope
from shared.errors import TransientError
from shared.runtime.settings import Settings
from tests.support.api.asking import assert_problem, client_of, stranger_to
from tests.support.api.away import NOBODY_LISTENS
from tests.support.api.full import AGENT, full_agent
from tests.support.api.signed_in import token_of

METRICS = "http://127.0.0.1/metrics"
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


async def samples(api: httpx.AsyncClient) -> Samples:
    answer = await api.get(METRICS)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/plain")
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def value(found: Samples, name: str, **labels: str) -> float | None:
    return found.get((name, frozenset(labels.items())))


async def test_requests_are_counted_by_route_and_never_by_address(
    api: httpx.AsyncClient, database: Database
) -> None:
    await api.get("/agents")
    await full_agent(database)
    for path in (f"/agents/{AGENT}", "/agents/nobody", "/nothing/of/the/kind"):
        await api.get(path)
    await api.request("BREW", "/agents")
    found = await samples(api)
    requests = "vigil_http_requests_total"
    for route, status, count in (
        ("/agents", "200", 1),
        ("/agents/{agent}", "200", 1),
        ("/agents/{agent}", "404", 1),
        ("none", "404", 1),
    ):
        assert value(found, requests, method="GET", route=route, status=status) == count, route
    seconds = value(
        found, "vigil_http_request_seconds_count", method="GET", route="/agents/{agent}"
    )
    assert seconds == 2
    told = (await api.get(METRICS)).text
    assert "nobody" not in told
    assert "BREW" not in told


async def test_it_tells_what_is_open(api: httpx.AsyncClient, database: Database) -> None:
    await api.get("/agents")
    await full_agent(database)
    found = await samples(api)
    assert value(found, "vigil_running_iterations") == 1
    assert value(found, "vigil_dead_letters") == 2
    assert value(found, "vigil_open_steps", kind="observe") == 1
    assert value(found, "vigil_open_steps", kind="query") == 0
    assert value(found, "vigil_database_up") == 1
    assert value(found, "vigil_database_connections", use="busy") == 0


async def test_two_applications_in_one_process_count_for_themselves(
    api: httpx.AsyncClient, database_url: str
) -> None:
    await api.get("/agents")
    async with client_of(Settings(database_url=database_url)) as other:
        labels = {"method": "GET", "route": "/agents", "status": "200"}
        assert value(await samples(other), "vigil_http_requests_total", **labels) is None


async def test_where_the_state_cannot_be_read_it_tells_of_itself(
    api: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Postgres goes away after it has said who asks."""

    async def away(_: object) -> InstallationState:
        raise TransientError("PostgreSQL: it went away")

    await api.get("/agents")
    monkeypatch.setattr(operations, "read_installation_state", away)
    found = await samples(api)
    assert value(found, "vigil_database_up") == 0
    labels = {"method": "GET", "route": "/agents", "status": "200"}
    assert value(found, "vigil_http_requests_total", **labels) == 1


async def test_without_postgres_nobody_is_known_to_be_an_operator() -> None:
    async with client_of(Settings(database_url=NOBODY_LISTENS)) as api:
        assert_problem(await api.get(METRICS), 503, "PostgreSQL")


@pytest.mark.parametrize("address", ["127.0.0.1", "10.0.0.7"])
async def test_it_is_for_operators_alone(database_url: str, address: str) -> None:
    settings = Settings(database_url=database_url)
    async with stranger_to(build(settings), address=address) as anybody:
        assert_problem(await anybody.get(METRICS), 401, "credential")
        for scopes, status in (([AccessScope.READ, AccessScope.WRITE], 403), (AccessScope, 200)):
            token = await token_of(settings, scopes=scopes)
            shown = {"authorization": f"Bearer {token}"}
            assert (await anybody.get(METRICS, headers=shown)).status_code == status
