"""Domains that an agent's owner bars or prefers, in what a researcher finds and reads."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

import pytest
from sqlalchemy import select, update

from services.researcher.acquisition import Acquired, acquire
from services.researcher.query_context import QueryContext
from shared.agents import agents
from shared.database.engine import Database
from shared.database.tables import Agent, Call, Source
from shared.domains import DomainPreferences
from shared.enums import Phase, StepKind
from shared.events.models import Query
from shared.graph.tools import graph_construction
from shared.graph.validation import Validators
from shared.llm.phase_run import Model
from shared.runtime.providers import create_model, create_search_client
from shared.runtime.settings import Settings
from shared.tools import Json, ToolRefusalError
from shared.web_search.client import SearchClient
from shared.web_search.tools import TavilyExtract, TavilySearch, knowledge_acquisition
from tests.support.injection.corpus import HostilePage
from tests.support.injection.victim import Victim, make_victim
from tests.support.injection.web import Web
from tests.support.sandbox.server import running_app
from tests.support.sandbox_control import Sandbox
from tests.support.surveys import EMPTY_SURVEY, NOW

PAGE = HostilePage("found", "en", "none", "Found", "Lithium is mined in Ewoyaa, Ghana.", ())
BARRED, BELOW, PREFERRED = (
    "https://barred.example/1",
    "https://www.Barred.example./2",
    "https://good.example/1",
)
QUERY = Query(objective="Lithium", reasoning="Unknown.", search_hints=[f"read {BARRED} too"])
DOMAINS: Final = DomainPreferences(("good.example",), ("barred.example",))
SEARCH_CALL = {"name": "tavilySearch", "arguments": {"query": "lithium"}}


@dataclass(frozen=True)
class Researcher:
    victim: Victim
    web: Web
    sandbox_control: Sandbox
    model: Model
    search: SearchClient

    async def acquire(self) -> Acquired:
        lease, _ = await self.victim.step(StepKind.QUERY, QUERY.model_dump(mode="json"))
        async with self.model.database.connection() as connection:
            agent = await agents.agent_query(self.victim.agent.id).answer(connection)
        context = QueryContext(lease, agent, self.victim.scope, QUERY, EMPTY_SURVEY, NOW)
        return await acquire(self.model, self.search, context)

    async def prefer(self, domains: DomainPreferences) -> None:
        async with self.model.database.transaction() as session:
            await session.execute(
                update(Agent).values(
                    preferred_domains=list(domains.preferred), barred_domains=list(domains.barred)
                )
            )

    async def stored_urls(self) -> set[str]:
        async with self.model.database.transaction() as session:
            return set(await session.scalars(select(Source.url)))

    async def answers(self) -> list[Json]:
        """What the search service answered, as it is recorded."""
        async with self.model.database.transaction() as session:
            calls = select(Call.answer).where(Call.kind != "llm").order_by(Call.sent_at)
            return [answer for answer in await session.scalars(calls) if answer is not None]


@pytest.fixture
async def web() -> Web:
    web = Web(other_urls=(BARRED, BELOW, PREFERRED))
    web.serves(PAGE)
    return web


@pytest.fixture
async def researcher(
    sandbox_settings: Settings, database: Database, sandbox: str, web: Web
) -> AsyncIterator[Researcher]:
    async with running_app(web.app()) as url:
        settings = sandbox_settings.model_copy(update={"tavily_base_url": url})
        model, search = create_model(settings, database), create_search_client(settings, database)
        yield Researcher(await make_victim(database), web, Sandbox(sandbox), model, search)
        await model.provider.close()
        await search.close()


def _scripted(*calls: Json, content: str = "") -> Json:
    return {"phase": Phase.KNOWLEDGE_ACQUISITION, "tool_calls": list(calls), "content": content}


def _extract_call(*urls: str) -> Json:
    return {"name": "tavilyExtract", "arguments": {"urls": list(urls)}}


async def test_barred_pages_are_neither_found_nor_read_nor_stored(researcher: Researcher) -> None:
    await researcher.prefer(DOMAINS)
    researcher.sandbox_control.script(
        _scripted(SEARCH_CALL),
        _scripted(_extract_call(BARRED), _extract_call(PAGE.url, BARRED)),
        _scripted(content=f"Lithium: [1.1] {PAGE.url}"),
    )
    acquired = await researcher.acquire()
    assert researcher.web.excluded == [["barred.example"]]
    assert researcher.web.read == [PAGE.url]
    assert await researcher.stored_urls() == {PREFERRED, PAGE.url}
    assert [page.url for page in acquired.pages] == [PREFERRED, PAGE.url]
    assert "barred.example" not in acquired.sources
    found, *read = await researcher.answers()
    assert [result["url"] for result in found["results"]] == [PREFERRED, PAGE.url]
    [refused] = [answer for answer in read if "error" in answer]
    assert "the agent's owner bars barred.example" in refused["error"]
    assert "Read pages of other sites" in refused["error"]
    [mixed] = [answer for answer in read if "error" not in answer]
    assert [page["url"] for page in mixed["results"]] == [PAGE.url]
    [failure] = mixed["failed"]
    assert failure["url"] == BARRED
    assert "bars barred.example" in failure["error"]


async def test_sources_of_a_research_that_are_barred_are_not_read(researcher: Researcher) -> None:
    await researcher.prefer(DOMAINS)
    question = {"name": "tavilyResearch", "arguments": {"input": "Who mines lithium, and where?"}}
    researcher.sandbox_control.script(
        _scripted(question), _scripted(content="Lithium."), _scripted(content="Lithium.")
    )
    await researcher.acquire()
    assert researcher.web.read == [PREFERRED, PAGE.url]


async def test_without_preferences_all_is_as_the_service_answers(researcher: Researcher) -> None:
    researcher.sandbox_control.script(
        _scripted(SEARCH_CALL), _scripted(_extract_call(BARRED)), _scripted(content="Lithium.")
    )
    acquired = await researcher.acquire()
    assert [page.url for page in acquired.pages] == [BARRED, BELOW, PREFERRED, PAGE.url]
    assert researcher.web.read == [BARRED]
    assert researcher.web.excluded == [None]


async def test_a_page_that_was_found_before_its_domain_was_barred_cannot_be_cited(
    researcher: Researcher,
) -> None:
    researcher.sandbox_control.script(_scripted(SEARCH_CALL), _scripted(content="Lithium."))
    acquired = await researcher.acquire()
    await researcher.prefer(DOMAINS)
    scope = researcher.victim.scope
    [add_node] = [
        tool
        for tool in graph_construction(scope, Validators(), pages=acquired.pages)
        if tool.name == "addGraphNode"
    ]

    async def add(page: int) -> Json:
        arguments: dict[str, Any] = {
            "type": "Country",
            "name": "Ghana",
            "properties": {"summary": "Lithium is mined."},
            "evidence": [{"page": page, "sentences": [1]}],
        }
        async with researcher.model.database.transaction() as session:
            return await add_node.run(session, add_node.arguments.model_validate(arguments))

    for page in (1, 2):
        with pytest.raises(
            ToolRefusalError, match=r"evidence\[0\].*barred\.example.*owner has barred"
        ):
            await add(page)
    assert (await add(3))["nodeId"]


@asynccontextmanager
async def _client(web: Web) -> AsyncIterator[SearchClient]:
    async with running_app(web.app()) as url:
        client = SearchClient(api_key="key", base_url=url, timeout_seconds=5)
        yield client
        await client.close()


async def test_a_search_that_finds_barred_pages_only_says_that_it_found_none(web: Web) -> None:
    domains = DomainPreferences(barred=("barred.example", "found.example", "good.example"))
    async with _client(web) as client:
        search, extract, _ = knowledge_acquisition(client, domains=domains)
        answer = await search.call(TavilySearch(query="lithium"))  # type: ignore[union-attr]
        assert answer["results"] == []
        assert "No page was found" in answer["note"]
        with pytest.raises(ToolRefusalError, match=r"bars good\.example") as refusal:
            await extract.call(TavilyExtract(urls=[PREFERRED]))  # type: ignore[union-attr]
    assert refusal.value.unbilled
    assert web.read == []


async def test_a_document_that_reached_the_token_limit_is_not_used_as_a_whole_one(
    researcher: Researcher,
) -> None:
    limits = {**researcher.model.max_output_tokens, Phase.KNOWLEDGE_ACQUISITION: 60}
    limited = replace(researcher, model=replace(researcher.model, max_output_tokens=limits))
    researcher.sandbox_control.script(
        _scripted(SEARCH_CALL),
        _scripted(content=f"Lithium is mined in Ewoyaa [1.1] {PAGE.url} " + "and more " * 200),
    )
    acquired = await limited.acquire()
    assert len(acquired.document) < 1000
    [note] = acquired.notes
    assert "token limit" in note
