"""Health, load, dead letters and metrics, for operators."""

from datetime import UTC, datetime
from uuid import UUID, uuid4

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import func, select, text, update

from services.api.app import build
from services.api.resources.operate import model as operations
from services.api.resources.operate.diagnostics import SERVICES
from services.api.resources.operate.model import InstallationState, Waiting
from shared import derived_events
from shared.database.engine import Database
from shared.database.tables import Call, DeadLetter, Step
from shared.enums import AccessScope, CallKind, StepStatus
from shared.errors import TransientError
from shared.runtime.bus import Bus
from shared.runtime.settings import Settings
from shared.workflow import dead_letters
from tests.support import claims
from tests.support.api.clients import assert_problem, create_anonymous_client, create_client
from tests.support.api.full_agent import AGENT, add_phase_run, create_full_agent
from tests.support.api.serving import serve_api
from tests.support.api.signed_in import create_token
from tests.support.factories import make_agent, make_iteration
from tests.support.waiting import wait_until

ROOT = "http://127.0.0.1"

FORM = {"sec-fetch-site": "same-origin"}


async def store_dead_letters(database: Database, subject: str, number: int) -> list[UUID]:
    """Stores messages without a step for the researcher."""
    async with database.transaction() as session:
        for place in range(number):
            await dead_letters.store(
                session,
                service="researcher",
                subject=subject,
                payload=f"{subject} {place}".encode(),
                code="unreadable_event",
                error="not an event",
                attempts=1,
            )
        ids = await session.scalars(select(DeadLetter.id).where(DeadLetter.subject == subject))
        return list(ids)


async def test_several_dead_letters_are_retried_and_those_that_cannot_be_are_counted(
    database: Database, api: httpx.AsyncClient
) -> None:
    retryable = await store_dead_letters(database, "query.requested", 2)
    # No service of this version consumes it.
    refused = await store_dead_letters(database, "query.renamed", 1)
    others = await store_dead_letters(database, "plan.renamed", 1)
    form = {"letter": [str(each) for each in (*retryable, *refused, uuid4())]}
    answer = await api.post(f"{ROOT}/operate/dead-letters/retry", data=form, headers=FORM)
    assert answer.status_code == 303
    assert answer.headers["location"] == "/operate?retried=2&refused=1#dead-letters"
    async with database.transaction() as session:
        requested = await session.scalars(
            select(DeadLetter.id).where(DeadLetter.retry_requested_at.is_not(None))
        )
        assert set(requested) == set(retryable)
        assert await session.get(DeadLetter, others[0]) is not None
    page = await api.get(f"{ROOT}{answer.headers['location']}")
    assert "2 retries requested." in page.text
    assert "1 message cannot be retried" in page.text


async def test_several_dead_letters_are_discarded(
    database: Database, api: httpx.AsyncClient
) -> None:
    first, second, third = await store_dead_letters(database, "query.requested", 3)
    form = {"letter": [str(first), str(second)]}
    answer = await api.post(f"{ROOT}/operate/dead-letters/discard", data=form, headers=FORM)
    assert answer.headers["location"] == "/operate?discarded=2#dead-letters"
    nothing = await api.post(f"{ROOT}/operate/dead-letters/discard", data={}, headers=FORM)
    assert nothing.headers["location"] == "/operate?discarded=0#dead-letters"
    async with database.transaction() as session:
        assert list(await session.scalars(select(DeadLetter.id))) == [third]


async def test_waiting_steps_are_told_apart_by_what_they_wait_for(database: Database) -> None:
    for name in ("Waits for a worker", "Waits for the model"):
        await make_iteration(database, await make_agent(database, name=name))
    async with database.transaction() as session:
        first, second = await session.scalars(select(Step.id).where(Step.kind == "observe"))
        ago = text("statement_timestamp() - interval '1 minute'")
        await session.execute(update(Step).where(Step.id == first).values(requested_at=ago))
        values = {"waiting_since": func.now(), "error": "the model server answered 503"}
        await session.execute(update(Step).where(Step.id == second).values(**values))
    async with database.transaction() as session:
        waiting = (await operations.read_waiting(session))["observer"]
        assert waiting.oldest_seconds is not None
        assert 60 <= waiting.oldest_seconds < 120
        assert (waiting.for_provider, waiting.provider_error) == (
            1,
            "the model server answered 503",
        )
        await session.execute(update(Step).values(status=StepStatus.COMPLETED))
    async with database.transaction() as session:
        assert await operations.read_waiting(session) == {}


def test_the_waits_of_two_kinds_of_steps_are_those_of_their_service() -> None:
    configuring, conversing = Waiting(3.0, 1, "away"), Waiting(None, 2, None)
    assert configuring.and_also(conversing) == Waiting(3.0, 3, "away")


async def test_the_last_answer_and_the_last_error_of_each_provider_are_known(
    database: Database,
) -> None:
    agent = await make_agent(database)
    await add_phase_run(database, await make_iteration(database, agent))
    failures = [
        {"at": "2026-03-01T10:00:00+00:00", "error": "overloaded"},
        {"at": "2026-03-01T11:00:00+00:00", "error": "too many requests"},
    ]
    async with database.transaction() as session:
        is_model = Call.kind == CallKind.LLM
        await session.execute(update(Call).where(is_model).values(failures=failures))
    async with database.transaction() as session:
        uses = await operations.read_provider_use(session)
    assert set(uses) == {"model", "search"}
    assert uses["model"].answered_at is not None
    assert uses["model"].failed_at == datetime(2026, 3, 1, 11, tzinfo=UTC)
    assert (uses["model"].error, uses["search"].error) == ("too many requests", None)


async def test_the_health_page_is_rendered_without_the_bus(
    database: Database, api: httpx.AsyncClient
) -> None:
    await api.get("/agents")  # creates the owner
    await create_full_agent(database)
    page = await api.get(f"{ROOT}/operate")
    assert page.status_code == 200, page.text
    assert "need attention." in page.text
    assert "NATS does not answer" in page.text
    assert "The observer is not running" in page.text
    async with database.transaction() as session:
        state = await operations.read_database_state(session)
    assert state.size_bytes > 0
    assert 1 <= state.connections <= state.max_connections


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


async def test_without_postgres_the_metrics_are_unavailable(unreachable_database_url: str) -> None:
    async with create_client(Settings(database_url=unreachable_database_url)) as api:
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
