"""Metrics of the API and of the installation, for operators."""

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
from tests.support.api.away import UNREACHABLE_DATABASE_URL
from tests.support.api.clients import assert_problem, create_anonymous_client, create_client
from tests.support.api.full_agent import AGENT, create_full_agent
from tests.support.api.signed_in import create_token

METRICS = "http://127.0.0.1/metrics"
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


async def fetch_samples(api: httpx.AsyncClient) -> Samples:
    response = await api.get(METRICS)
    assert response.status_code == 200, response.text
    assert response.headers["content-type"].startswith("text/plain")
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(response.text)
        for sample in family.samples
    }


def sample_value(samples: Samples, name: str, **labels: str) -> float | None:
    return samples.get((name, frozenset(labels.items())))


async def test_requests_are_counted_by_route_and_not_by_path(
    api: httpx.AsyncClient, database: Database
) -> None:
    await api.get("/agents")
    await create_full_agent(database)
    for path in (f"/agents/{AGENT}", "/agents/nobody", "/nothing/of/the/kind"):
        await api.get(path)
    await api.request("BREW", "/agents")
    samples = await fetch_samples(api)
    requests = "vigil_http_requests_total"
    for route, status, count in (
        ("/agents", "200", 1),
        ("/agents/{agent}", "200", 1),
        ("/agents/{agent}", "404", 1),
        ("none", "404", 1),
    ):
        assert sample_value(samples, requests, method="GET", route=route, status=status) == count, (
            route
        )
    seconds = sample_value(
        samples, "vigil_http_request_seconds_count", method="GET", route="/agents/{agent}"
    )
    assert seconds == 2
    text = (await api.get(METRICS)).text
    assert "nobody" not in text
    assert "BREW" not in text


async def test_the_metrics_include_the_state_of_the_installation(
    api: httpx.AsyncClient, database: Database
) -> None:
    await api.get("/agents")
    await create_full_agent(database)
    samples = await fetch_samples(api)
    assert sample_value(samples, "vigil_running_iterations") == 1
    assert sample_value(samples, "vigil_dead_letters") == 2
    assert sample_value(samples, "vigil_open_steps", kind="observe") == 1
    assert sample_value(samples, "vigil_open_steps", kind="query") == 0
    assert sample_value(samples, "vigil_database_up") == 1
    assert sample_value(samples, "vigil_database_connections", use="busy") == 0


async def test_two_applications_in_one_process_count_separately(
    api: httpx.AsyncClient, database_url: str
) -> None:
    await api.get("/agents")
    async with create_client(Settings(database_url=database_url)) as other:
        labels = {"method": "GET", "route": "/agents", "status": "200"}
        assert (
            sample_value(await fetch_samples(other), "vigil_http_requests_total", **labels) is None
        )


async def test_without_the_state_of_the_installation_the_api_still_reports_its_own_metrics(
    api: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Postgres becomes unavailable after the caller was authenticated."""

    async def fail(_: object) -> InstallationState:
        raise TransientError("PostgreSQL: it went away")

    await api.get("/agents")
    monkeypatch.setattr(operations, "read_installation_state", fail)
    samples = await fetch_samples(api)
    assert sample_value(samples, "vigil_database_up") == 0
    labels = {"method": "GET", "route": "/agents", "status": "200"}
    assert sample_value(samples, "vigil_http_requests_total", **labels) == 1


async def test_without_postgres_the_metrics_are_unavailable() -> None:
    async with create_client(Settings(database_url=UNREACHABLE_DATABASE_URL)) as api:
        assert_problem(await api.get(METRICS), 503, "PostgreSQL")


@pytest.mark.parametrize("address", ["127.0.0.1", "10.0.0.7"])
async def test_only_operators_can_read_the_metrics(database_url: str, address: str) -> None:
    settings = Settings(database_url=database_url)
    async with create_anonymous_client(build(settings), address=address) as client:
        assert_problem(await client.get(METRICS), 401, "credential")
        for scopes, status in (([AccessScope.READ, AccessScope.WRITE], 403), (AccessScope, 200)):
            token = await create_token(settings, scopes=scopes)
            headers = {"authorization": f"Bearer {token}"}
            assert (await client.get(METRICS, headers=headers)).status_code == status
