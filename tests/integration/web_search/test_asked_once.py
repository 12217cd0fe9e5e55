"""A search with the same words, and a page, are paid for once within the time for which answers hold."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from uuid import UUID

import pytest
from sqlalchemy import func, select, update

from services.researcher.acquisition import acquire
from services.researcher.query_context import QueryContext
from shared.agents import agents
from shared.database.engine import Database
from shared.database.tables import Agent, Call, PageProbe
from shared.enums import CallKind, Phase, ProbeKind, StepKind
from shared.events.models import Query
from shared.llm.phase_run import Model
from shared.runtime.providers import create_model, create_search_client
from shared.runtime.settings import Settings
from shared.tools import Json
from shared.web_search.client import SearchClient
from shared.web_search.memory import SearchMemory
from tests.support.injection.corpus import HostilePage
from tests.support.injection.victim import Victim, make_victim
from tests.support.injection.web import Web
from tests.support.sandbox.server import running_app
from tests.support.sandbox_control import Sandbox
from tests.support.scheduling import ago
from tests.support.surveys import EMPTY_SURVEY, NOW

PAGE = HostilePage("found", "en", "none", "Found", "Lithium is mined in Ewoyaa, Ghana.", ())
OTHER = "https://good.example/1"
QUERY = Query(objective="Lithium", reasoning="Unknown.", search_hints=[f"read {PAGE.url} {OTHER}"])
HOUR = timedelta(hours=1)


@dataclass
class Researcher:
    database: Database
    victim: Victim
    web: Web
    sandbox: Sandbox
    model: Model
    search: SearchClient
    is_shared: bool = False
    within: timedelta = HOUR
    agent_id: UUID | None = None
    queries: int = 0

    async def run(self, *calls: Json) -> None:
        """A query whose model makes these calls, then writes its document."""
        self.sandbox.script(
            {"phase": Phase.KNOWLEDGE_ACQUISITION, "tool_calls": list(calls)},
            {"phase": Phase.KNOWLEDGE_ACQUISITION, "content": f"Lithium: [1.1] {PAGE.url}"},
        )
        lease, _ = await self.victim.step(
            StepKind.QUERY, QUERY.model_dump(mode="json"), index=self.queries
        )
        self.queries += 1
        async with self.database.connection() as connection:
            agent = await agents.agent_query(self.victim.agent.id).answer(connection)
        context = QueryContext(lease, agent, self.victim.scope, QUERY, EMPTY_SURVEY, NOW)
        memory = SearchMemory(
            self.database, self.agent_id or self.victim.agent.id, self.within, self.is_shared
        )
        acquired = await acquire(self.model, self.search, context, memory)
        assert PAGE.url in [page.url for page in acquired.pages]

    async def costs(self) -> list[Decimal]:
        async with self.database.transaction() as session:
            costs = await session.scalars(
                select(Call.cost_usd)
                .where(Call.kind == CallKind.SEARCH)
                .order_by(Call.started_at, Call.id)
            )
            return [cost for cost in costs if cost is not None]


@pytest.fixture
async def researcher(
    sandbox_settings: Settings, database: Database, sandbox: str
) -> AsyncIterator[Researcher]:
    web = Web(other_urls=(OTHER,))
    web.serves(PAGE)
    async with running_app(web.app()) as url:
        settings = sandbox_settings.model_copy(update={"tavily_base_url": url})
        model, search = create_model(settings, database), create_search_client(settings, database)
        victim = await make_victim(database)
        yield Researcher(database, victim, web, Sandbox(sandbox), model, search)
        await model.provider.close()
        await search.close()


def searching(query: str, **arguments: object) -> Json:
    return {"name": "tavilySearch", "arguments": {"query": query, **arguments}}


def reading(*urls: str) -> Json:
    return {"name": "tavilyExtract", "arguments": {"urls": list(urls)}}


async def test_a_search_with_the_same_words_is_paid_for_once(researcher: Researcher) -> None:
    await researcher.run(searching("lithium in Ghana"))
    await researcher.run(searching("Ghana  Lithium in"))
    first, second = await researcher.costs()
    assert first > 0
    assert second == 0
    assert len(researcher.web.excluded) == 1, "the service was asked once"


@pytest.mark.parametrize(
    "other", [searching("lithium in Togo"), searching("lithium in Ghana", maxResults=9)]
)
async def test_another_search_is_paid_for(researcher: Researcher, other: Json) -> None:
    await researcher.run(searching("lithium in Ghana"))
    await researcher.run(other)
    assert all(cost > 0 for cost in await researcher.costs())


async def test_a_page_is_read_once(researcher: Researcher) -> None:
    await researcher.run(reading(PAGE.url, OTHER))
    await researcher.run(reading(PAGE.url))
    first, second = await researcher.costs()
    assert first > 0
    assert second == 0
    assert researcher.web.read == [PAGE.url, OTHER]


async def test_a_page_that_has_changed_is_read_again(researcher: Researcher) -> None:
    await researcher.run(reading(PAGE.url))
    async with researcher.database.transaction() as session:
        session.add(
            PageProbe(
                agent_id=researcher.victim.agent.id,
                url=PAGE.url,
                kind=ProbeKind.PAGE,
                checked_at=func.clock_timestamp(),
                changed_at=func.clock_timestamp(),
            )
        )
    await researcher.run(reading(PAGE.url))
    assert all(cost > 0 for cost in await researcher.costs())


async def test_an_answer_does_not_hold_for_longer(researcher: Researcher) -> None:
    await researcher.run(searching("lithium in Ghana"))
    async with researcher.database.transaction() as session:
        await session.execute(update(Call).values(started_at=ago(HOUR.total_seconds() + 1)))
    await researcher.run(searching("lithium in Ghana"))
    assert all(cost > 0 for cost in await researcher.costs())


async def test_a_recalled_answer_holds_no_longer_than_the_first(researcher: Researcher) -> None:
    await researcher.run(searching("lithium in Ghana"))
    await researcher.run(searching("lithium in Ghana"))
    async with researcher.database.transaction() as session:
        await session.execute(
            update(Call).where(Call.cost_usd > 0).values(started_at=ago(HOUR.total_seconds() + 1))
        )
    await researcher.run(searching("lithium in Ghana"))
    assert sorted(cost > 0 for cost in await researcher.costs()) == [False, True, True]


@pytest.mark.parametrize("is_shared", [False, True])
async def test_answers_to_other_agents_hold_where_that_is_set(
    researcher: Researcher, is_shared: bool
) -> None:
    await researcher.run(searching("lithium in Ghana"))
    researcher.is_shared = is_shared
    async with researcher.database.transaction() as session:
        other = await agents.create_agent(
            session, researcher.victim.agent.owner_id, name="B", mission="x", interval_seconds=60
        )
        researcher.agent_id = other.id
    await researcher.run(searching("lithium in Ghana"))
    assert [cost > 0 for cost in await researcher.costs()] == [True, not is_shared]


async def test_answers_from_another_corpus_are_not_shared(researcher: Researcher) -> None:
    await researcher.run(searching("lithium in Ghana"))
    researcher.is_shared = True
    async with researcher.database.transaction() as session:
        other = await agents.create_agent(
            session, researcher.victim.agent.owner_id, name="B", mission="x", interval_seconds=60
        )
        other.corpus = "reports-1234abcd"
        researcher.agent_id = other.id
    await researcher.run(searching("lithium in Ghana"))
    assert [cost > 0 for cost in await researcher.costs()] == [True, True]


async def test_a_site_that_was_barred_meanwhile_is_left_out(researcher: Researcher) -> None:
    await researcher.run(searching("lithium in Ghana"))
    async with researcher.database.transaction() as session:
        await session.execute(update(Agent).values(barred_domains=["good.example"]))
    await researcher.run(searching("lithium in Ghana"))
    async with researcher.database.transaction() as session:
        answers = list(
            await session.scalars(
                select(Call.answer).where(Call.kind == CallKind.SEARCH).order_by(Call.started_at)
            )
        )
    urls = [{each["url"] for each in (answer or {})["results"]} for answer in answers]
    assert [OTHER in each for each in urls] == [True, False]
