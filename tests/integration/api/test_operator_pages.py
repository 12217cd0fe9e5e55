"""Pages and API for operators: health, outages, retention, dead letters and metrics."""

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import func, select, text, update

from cli.render.agents import show_agent
from cli.render.console import THEME, SafeConsole
from cli.render.iterations import outage_sentence
from services.api.app import build
from services.api.resources.operate import model as operations
from services.api.resources.operate.diagnostics import SERVICES
from services.api.resources.operate.model import InstallationState, Waiting
from services.api.resources.operate.outages import read_outages
from shared import derived_events
from shared.database.engine import Database
from shared.database.tables import Agent, Call, DeadLetter, Interaction, ProviderLimit, Step
from shared.enums import AccessScope, CallKind, Phase, RetentionKind, StepKind, StepStatus
from shared.errors import TransientError
from shared.provider_limits.state import ProviderState
from shared.provider_limits.store import Kind, StateStore, provider_key
from shared.runtime.bus import Bus
from shared.runtime.settings import Settings
from shared.schemas.base import (
    AgentDetails,
    CallTotals,
    GraphCounts,
    ProviderOutage,
    ProvidersResponse,
)
from shared.schemas.operations import RetentionResponse
from shared.workflow import dead_letters
from shared.workflow.retention import RetentionPolicy
from tests.support import claims
from tests.support.api.clients import assert_problem, create_anonymous_client, create_client
from tests.support.api.full_agent import AGENT, add_phase_run, create_full_agent
from tests.support.api.serving import serve_api
from tests.support.api.signed_in import create_token
from tests.support.factories import make_agent, make_iteration
from tests.support.retention.history import History
from tests.support.retention.pruning import prune_after, pruner
from tests.support.table_rows import change
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


@pytest.mark.parametrize("path", ["/services", "/retention"])
async def test_only_operators_see_services_and_retention(database_url: str, path: str) -> None:
    settings = Settings(database_url=database_url)
    async with create_anonymous_client(build(settings)) as client:
        for scopes, status in (([AccessScope.READ, AccessScope.WRITE], 403), (AccessScope, 200)):
            token = await create_token(settings, scopes=scopes)
            headers = {"authorization": f"Bearer {token}"}
            assert (await client.get(path, headers=headers)).status_code == status


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


TEXTS = (RetentionKind.TRANSCRIPTS, RetentionKind.CONTEXTS)
OPENS = re.compile(r'data-opens="((?:step|run|call|tool)-[^"]+|iteration|start)"')


@pytest.fixture
async def history(database: Database) -> History:
    history = History(database, await make_agent(database))
    for _ in range(2):
        await history.iterate(queries=2)
    return history


async def get(api: httpx.AsyncClient, path: str, status: int = 200) -> str:
    response = await api.get(f"{ROOT}{path}", headers={"accept": "text/html"})
    assert response.status_code == status, (path, response.text)
    return response.text


async def run_ids(history: History) -> Sequence[str]:
    async with history.database.snapshot() as session:
        return [str(each) for each in await session.scalars(select(Interaction.id))]


async def test_every_row_of_an_iteration_without_texts_can_be_opened(
    history: History, api: httpx.AsyncClient
) -> None:
    page = f"/agents/{history.agent.id}/iterations/1"
    before = await get(api, f"{page}?rows=all")
    keys = set(OPENS.findall(before))
    kinds = {key.partition("-")[0] for key in keys}
    assert {"run", "call", "step", "tool"} <= kinds
    assert "The transcript was deleted" not in before
    await prune_after(history.database, 31, *TEXTS)
    for key in sorted(keys):
        shown = await get(api, f"{page}?open={key}")
        assert "The transcript was deleted" in shown
        assert "kept for 30 days" in shown


async def test_the_page_of_a_phase_run_says_that_its_transcript_was_deleted(
    history: History, api: httpx.AsyncClient
) -> None:
    async with history.database.snapshot() as session:
        runs = list(
            await session.scalars(select(Interaction).where(Interaction.iteration_id.is_not(None)))
        )
    await prune_after(history.database, 31, *TEXTS)
    for run in runs:
        numbers = (1, 2)
        pages = [
            await api.get(
                f"{ROOT}/agents/{history.agent.id}/iterations/{number}/runs/{run.id}",
                headers={"accept": "text/html"},
            )
            for number in numbers
        ]
        shown = [page for page in pages if page.status_code == 200]
        assert len(shown) == 1
        assert "The transcript was deleted" in shown[0].text
        assert (await api.get(f"/interactions/{run.id}")).json()["request"] == {}
        assert (await api.get(f"/interactions/{run.id}/events")).json()["items"] == []


async def test_a_deleted_iteration_is_gone_and_says_why(
    history: History, api: httpx.AsyncClient
) -> None:
    [run_id, *_] = await run_ids(history)
    await prune_after(history.database, 31)
    page = f"/agents/{history.agent.id}/iterations/1"
    for path in (page, f"{page}?open=step-{run_id}", f"{page}/runs/{run_id}"):
        shown = await get(api, path, 410)
        assert "Iteration 1 was deleted because of its age" in shown
    problem = await api.get(f"/agents/{history.agent.id}/iterations/1")
    assert problem.status_code == 410
    assert "30 days" in problem.json()["detail"]
    assert "too large" not in problem.json()["detail"]
    async with history.database.transaction() as session:
        await session.execute(text("update retention set max_bytes = 1 where kind = 'iterations'"))
    problem = await api.get(f"/agents/{history.agent.id}/iterations/1")
    assert "or when all of them together are too large" in problem.json()["detail"]
    # One that never was is unknown, as before.
    assert (await api.get(f"/agents/{history.agent.id}/iterations/3")).status_code == 404
    for path in ("", "/iterations", "/settings", "/iterations/2"):
        await get(api, f"/agents/{history.agent.id}{path}")


async def test_operators_see_what_is_deleted_and_when(
    history: History, api: httpx.AsyncClient
) -> None:
    unknown = RetentionResponse.model_validate((await api.get("/retention")).json())
    assert {kind.is_known for kind in unknown.kinds} == {False}
    assert "Retention" in await get(api, "/operate")
    await history.pass_days(40)
    await pruner(history.database).prune_due()
    view = RetentionResponse.model_validate((await api.get("/retention")).json())
    kinds = {kind.kind: kind for kind in view.kinds}
    assert kinds.keys() == set(RetentionKind)
    of_iterations = kinds[RetentionKind.ITERATIONS]
    assert (of_iterations.days, of_iterations.all_rows, of_iterations.last_rows) == (30, 1, 1)
    assert of_iterations.pruned_at is not None
    assert of_iterations.next_at is not None
    assert {table.name for table in of_iterations.tables} == {
        "iterations",
        "news_items",
        "steps",
        "calls",
        "pinned_contexts",
    }
    assert all(table.bytes > 0 for table in of_iterations.tables)
    page = await get(api, "/operate")
    assert re.search(r'data-retention="iterations"[^>]*>.*?30 days', page, re.DOTALL)


async def test_operators_see_limits_of_size(history: History, api: httpx.AsyncClient) -> None:
    policy = RetentionPolicy.of_days({}, {RetentionKind.TRANSCRIPTS: 5 * 1024**3})
    await replace(pruner(history.database), policy=policy).prune_due()
    view = RetentionResponse.model_validate((await api.get("/retention")).json())
    kinds = {kind.kind: kind for kind in view.kinds}
    of_transcripts = kinds[RetentionKind.TRANSCRIPTS]
    assert (of_transcripts.days, of_transcripts.max_bytes) == (None, 5 * 1024**3)
    assert of_transcripts.bytes is not None
    assert of_transcripts.bytes > 0
    assert of_transcripts.next_at is not None
    of_pages = kinds[RetentionKind.PAGES]
    assert (of_pages.max_bytes, of_pages.bytes, of_pages.next_at) == (None, None, None)
    page = await get(api, "/operate")
    row = re.search(r'data-retention="transcripts".*?</tr>', page, re.DOTALL)
    assert row is not None
    assert re.search(r"ever.*at most 5\.0 GiB.*in rows", row.group(), re.DOTALL), row.group()


async def test_deleted_calls_are_shown_on_their_day(
    history: History, api: httpx.AsyncClient
) -> None:
    await history.pass_days(20)
    async with history.database.transaction() as session:
        await session.execute(update(Call).values(cost_usd=1))
    costs = f"/costs?agent={history.agent.id}&days=90"
    figures = re.compile(r'data-total="[\d.]+"|data-day="[^>]*')
    before, csv = await get(api, costs), await get(api, costs.replace("/costs?", "/costs.csv?"))
    assert any('data-value="0' not in each for each in figures.findall(before))
    await prune_after(history.database, 0, RetentionKind.ITERATIONS)
    assert figures.findall(await get(api, costs)) == figures.findall(before)
    assert await get(api, costs.replace("/costs?", "/costs.csv?")) == csv


NAME = "the model server at http://127.0.0.1:1/v1"
ERROR = f"no answer from {NAME}: connection refused"


async def make_outage(
    database: Database, name: str = NAME, kind: Kind = "model", *, is_quota: bool = False
) -> None:
    store = StateStore(database, kind, provider_key(name, "k"), name)
    known = await store.read()
    now = known.now
    state = ProviderState(
        unavailable_since=now - 120,
        failures=5,
        probe_at=now + 8,
        error=ERROR,
        probes=3,
        is_quota=is_quota,
    )
    await store.write(known.version, state)


async def make_waiting_agent(database: Database) -> Agent:
    """Three of its steps wait."""
    agent = await make_agent(database)
    started = await make_iteration(database, agent)
    async with database.transaction() as session:
        for index in range(2):
            await session.insert(
                Step,
                id=uuid4(),
                agent_id=agent.id,
                iteration_id=started.iteration.id,
                kind=StepKind.QUERY,
                index=index,
                input={},
                status=StepStatus.PENDING,
            )
        await session.execute(
            update(Step)
            .where(Step.agent_id == agent.id)
            .values(
                status=StepStatus.PENDING,
                waiting_since=func.clock_timestamp() - timedelta(minutes=2),
                retry_at=func.clock_timestamp() + timedelta(seconds=9),
                error=f"{NAME} is unavailable: {ERROR}",
            )
        )
    return agent


async def test_no_page_and_no_answer_tells_of_providers_that_work(
    settings: Settings, database: Database, api: httpx.AsyncClient
) -> None:
    agent = await make_waiting_agent(database)
    async with database.transaction() as session:
        assert await read_outages(session, None, settings) == []
    page = await api.get(f"{ROOT}/agents/{agent.id}")
    assert "has been unavailable" not in page.text


async def test_an_outage_is_told_once_on_each_page(
    database: Database, api: httpx.AsyncClient
) -> None:
    agent = await make_waiting_agent(database)
    await make_outage(database)
    for path in (f"/agents/{agent.id}", "/agents", "/operate", "/inbox"):
        page = (await api.get(f"{ROOT}{path}")).text
        banner = page.partition('id="outages"')[2].partition('id="page-error"')[0]
        assert banner.count("has been unavailable since") == 1, path
        assert "3 steps wait" in banner
        assert "connection refused" in banner
        rest = page.replace(banner, "")
        if path != "/operate":
            assert "connection refused" not in rest, path
    part = (await api.get(f"{ROOT}/outages")).text
    assert part.count("has been unavailable since") == 1


async def test_a_provider_that_is_not_used_any_more_is_not_shown(
    settings: Settings, database: Database
) -> None:
    """The settings name another server since then, or another key."""
    await make_outage(database)
    async with database.transaction() as session:
        assert len(await read_outages(session, None, settings)) == 1
        await session.execute(
            update(ProviderLimit).values(updated_at=func.clock_timestamp() - timedelta(hours=1))
        )
        assert await read_outages(session, None, settings) == []


async def test_health_has_one_fault_for_a_provider(
    database: Database, api: httpx.AsyncClient
) -> None:
    await make_waiting_agent(database)
    await make_outage(database)
    page = (await api.get(f"{ROOT}/operate")).text
    assert "waiting for a provider" not in page
    assert "Last error: no answer from the model server" in page


async def test_the_api_has_the_facts_of_each_step_and_of_the_provider(
    database: Database, api: httpx.AsyncClient
) -> None:
    agent = await make_waiting_agent(database)
    await make_outage(database)
    answer = (await api.get(f"{ROOT}/api/v1/about/providers")).json()
    (outage,) = ProvidersResponse.model_validate(answer).outages
    assert (outage.name, outage.is_unavailable, outage.waiting_steps) == (NAME, True, 3)
    assert outage.next_attempt_at is not None
    assert 0 < (outage.next_attempt_at - datetime.now(UTC)).total_seconds() <= 8
    details = AgentDetails.model_validate(
        (await api.get(f"{ROOT}/api/v1/agents/{agent.id}")).json()
    )
    assert len(details.trouble) == 3
    assert {trouble.error for trouble in details.trouble} == {f"{NAME} is unavailable: {ERROR}"}
    assert all(trouble.waiting_since and trouble.retry_at for trouble in details.trouble)
    console = SafeConsole(width=200, record=True, theme=THEME)
    counts = GraphCounts(nodes=0, edges=0, analyses=0, advice=0)
    show_agent(console, details, counts, CallTotals(), outages=[outage])
    shown = console.export_text()
    assert shown.count("connection refused") == 1
    assert "3 steps of this agent wait for it" in shown


async def test_a_user_is_told_the_number_of_their_own_steps(
    settings: Settings, database: Database
) -> None:
    agent = await make_waiting_agent(database)
    await make_outage(database)
    async with database.transaction() as session:
        (own,) = await read_outages(session, agent.owner_id, settings)
        others = await read_outages(session, agent.id, settings)
        observed = await session.scalar(
            select(func.count()).select_from(Step).where(Step.kind == StepKind.OBSERVE)
        )
    assert observed == 1
    assert (own.waiting_steps, own.agent_ids) == (3, [agent.id])
    assert others == [], "users without an agent that uses it"


OTHER = "the provider 'other' at http://127.0.0.1:2/v1"
ALL_OTHER = dict.fromkeys(Phase, "other/x")
USERS: list[tuple[str, Kind, dict[Phase, str], bool]] = [
    (NAME, "model", {}, True),
    (NAME, "model", ALL_OTHER, False),
    (NAME, "model", {**ALL_OTHER, Phase.OBSERVER: "other/x, then gpt-x"}, True),
    (NAME, "model", {**ALL_OTHER, Phase.OBSERVER: "unknown/x"}, True),
    (OTHER, "model", {}, False),
    (OTHER, "model", {Phase.CONVERSATION: "other/x"}, True),
    (OTHER, "model", {Phase.OBSERVER: "gpt-x, then other/x"}, True),
    ("the search service", "search", ALL_OTHER, True),
]


@pytest.mark.parametrize(("name", "kind", "models", "is_used"), USERS)
async def test_an_outage_is_shown_under_agents_that_use_the_provider(
    settings: Settings,
    database: Database,
    api: httpx.AsyncClient,
    name: str,
    kind: Kind,
    models: dict[Phase, str],
    *,
    is_used: bool,
) -> None:
    agent = await make_agent(database)
    async with database.transaction() as session:
        stored = await session.get_one(Agent, agent.id)
        stored = await change(
            session, stored, models={phase.value: model for phase, model in models.items()}
        )
    # So the API knows its name, also without the setting, which contains keys.
    await StateStore(database, "model", provider_key(OTHER, "k"), OTHER).write(0, ProviderState())
    await make_outage(database, name, kind)
    async with database.transaction() as session:
        (outage,) = await read_outages(session, None, settings)
        of_owner = await read_outages(session, agent.owner_id, settings)
    assert outage.agent_ids == ([agent.id] if is_used else [])
    assert len(of_owner) == is_used
    for path in (f"/agents/{agent.id}", f"/outages?about={agent.id}"):
        page = (await api.get(f"{ROOT}{path}")).text
        assert ("has been unavailable since" in page) == is_used, path


async def test_a_used_up_quota_is_called_so_everywhere(
    settings: Settings, database: Database, api: httpx.AsyncClient
) -> None:
    agent = await make_agent(database)
    await make_outage(database, "the search service", "search", is_quota=True)
    async with database.transaction() as session:
        (outage,) = await read_outages(session, None, settings)
    words = "The search service answers no request, because its quota is used up"
    assert words in outage_sentence(outage)
    for path in (f"/agents/{agent.id}", "/agents", "/operate"):
        page = " ".join((await api.get(f"{ROOT}{path}")).text.split())
        assert words in page, path
        assert "has been unavailable" not in page, path


def test_the_sentence_of_an_outage() -> None:
    now = datetime.now(UTC)
    outage = ProviderOutage(
        kind="model",
        name=NAME,
        is_unavailable=True,
        since=now,
        next_attempt_at=now + timedelta(minutes=12, seconds=0.3),
        error=ERROR,
        waiting_steps=14,
    )
    assert outage_sentence(outage) == (
        f"The model server at http://127.0.0.1:1/v1 has been unavailable since {now.astimezone():%H:%M};"
        f" next attempt in 12 min; 14 steps wait: {ERROR}"
    )
