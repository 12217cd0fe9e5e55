"""Domains that an agent's owner bars or prefers, in what a researcher finds and reads."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Final

import pytest
from sqlalchemy import update

from shared.database.tables import Agent
from shared.domains import DomainPreferences
from shared.enums import Phase
from shared.graph.tools import graph_construction
from shared.graph.validation import Validators
from shared.tools import Json, ToolRefusalError
from shared.web_search.client import SearchClient
from shared.web_search.tools import TavilyExtract, TavilySearch, knowledge_acquisition
from tests.support.injection.web import Web
from tests.support.model_server import make_resumable_call
from tests.support.researching import (
    PAGE,
    Researcher,
    query_that_reads,
    reading,
    searching,
)
from tests.support.sandbox.server import running_app

BARRED, BELOW, PREFERRED = (
    "https://barred.example/1",
    "https://www.Barred.example./2",
    "https://good.example/1",
)
QUERY = query_that_reads(BARRED)
DOMAINS: Final = DomainPreferences(("good.example",), ("barred.example",))


@pytest.fixture
def web() -> Web:
    web = Web(other_urls=(BARRED, BELOW, PREFERRED))
    web.serves(PAGE)
    return web


async def prefer(researcher: Researcher, domains: DomainPreferences) -> None:
    async with researcher.database.transaction() as session:
        await session.execute(
            update(Agent).values(
                preferred_domains=list(domains.preferred), barred_domains=list(domains.barred)
            )
        )


async def test_barred_pages_are_neither_found_nor_read_nor_stored(researcher: Researcher) -> None:
    await prefer(researcher, DOMAINS)
    acquired = await researcher.run([searching()], [reading(BARRED), reading(PAGE.url, BARRED)])
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
    await prefer(researcher, DOMAINS)
    question = {"name": "tavilyResearch", "arguments": {"input": "Who mines lithium, and where?"}}
    await researcher.run([question], document="Lithium.")
    assert researcher.web.read == [PREFERRED, PAGE.url]


async def test_without_preferences_all_is_as_the_service_answers(researcher: Researcher) -> None:
    acquired = await researcher.run([searching()], [reading(BARRED)], document="Lithium.")
    assert [page.url for page in acquired.pages] == [BARRED, BELOW, PREFERRED, PAGE.url]
    assert researcher.web.read == [BARRED]
    assert researcher.web.excluded == [None]


async def test_a_page_that_was_found_before_its_domain_was_barred_cannot_be_cited(
    researcher: Researcher,
) -> None:
    acquired = await researcher.run([searching()], document="Lithium.")
    await prefer(researcher, DOMAINS)
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
        async with researcher.database.transaction() as session:
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
        arguments = TavilySearch(query="lithium")
        answer = await search.call(arguments, make_resumable_call())  # type: ignore[union-attr]
        assert answer["results"] == []
        assert "No page was found" in answer["note"]
        pages = TavilyExtract(urls=[PREFERRED])
        with pytest.raises(ToolRefusalError, match=r"bars good\.example") as refusal:
            await extract.call(pages, make_resumable_call())  # type: ignore[union-attr]
    assert refusal.value.is_unbilled
    assert web.read == []


async def test_a_document_that_reached_the_token_limit_is_not_used_as_a_whole_one(
    researcher: Researcher,
) -> None:
    limits = {**researcher.model.max_output_tokens, Phase.KNOWLEDGE_ACQUISITION: 60}
    limited = replace(researcher, model=replace(researcher.model, max_output_tokens=limits))
    document = f"Lithium is mined in Ewoyaa [1.1] {PAGE.url} " + "and more " * 200
    acquired = await limited.run([searching()], document=document)
    assert len(acquired.document) < 1000
    [note] = acquired.notes
    assert "token limit" in note
