"""What a user sees while a provider is unavailable: one statement, not one for each step."""

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import httpx
import pytest
from sqlalchemy import func, select, update

from cli.render.agents import show_agent
from cli.render.console import THEME, SafeConsole
from cli.render.iterations import outage_sentence
from services.api.resources.operate.outages import read_outages
from shared.database.engine import Database
from shared.database.tables import Agent, ProviderLimit, Step
from shared.enums import Phase, StepKind, StepStatus
from shared.provider_limits.state import ProviderState
from shared.provider_limits.store import Kind, StateStore, provider_key
from shared.runtime.settings import Settings
from shared.schemas.base import (
    AgentDetails,
    CallTotals,
    GraphCounts,
    ProviderOutage,
    ProvidersResponse,
)
from tests.support.factories import make_agent, make_iteration
from tests.support.table_rows import change

ROOT = "http://127.0.0.1"
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
