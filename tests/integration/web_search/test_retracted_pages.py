"""A page of which all is retracted is barred until it is restored."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

import pytest
from sqlalchemy import select

from services.researcher.acquisition import Acquired, acquire
from services.researcher.query_context import QueryContext
from shared.database.engine import Database
from shared.database.tables import Source
from shared.enums import Phase, StepKind
from shared.events.models import Query
from shared.graph.provenance.sources import store_pages
from shared.graph.retraction.retractions import restore_source, retract_source
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
from tests.support.surveys import EMPTY_SURVEY, NOW

PAGE = HostilePage("found", "en", "none", "Found", "Lithium is mined in Ewoyaa, Ghana.", ())
OTHER = "https://good.example/1"
QUERY = Query(objective="Lithium", reasoning="Unknown.", search_hints=[f"read {PAGE.url} {OTHER}"])
SEARCH_CALL = {"name": "tavilySearch", "arguments": {"query": "lithium"}}
TOLD = "owner has retracted this page (invented)"


@dataclass
class Researcher:
    database: Database
    victim: Victim
    web: Web
    sandbox: Sandbox
    model: Model
    search: SearchClient
    queries: int = 0

    async def run(self, *rounds: list[Json]) -> Acquired:
        """A query whose model makes these calls, round after round."""
        answers: list[Json] = [{"tool_calls": calls} for calls in rounds]
        answers += [{"content": "[1.1]"}] * 2
        script = [{"phase": Phase.KNOWLEDGE_ACQUISITION, **each} for each in answers]
        self.sandbox.script(*script)
        lease, _ = await self.victim.step(
            StepKind.QUERY, QUERY.model_dump(mode="json"), index=self.queries
        )
        self.queries += 1
        context = QueryContext(
            lease, self.victim.agent, self.victim.scope, QUERY, EMPTY_SURVEY, NOW
        )
        memory = SearchMemory(self.database, self.victim.agent.id, timedelta(hours=1))
        acquired = await acquire(self.model, self.search, context, memory)
        self.sandbox.reset()
        return acquired

    async def retract(self, reference: str) -> UUID:
        async with self.database.transaction() as session:
            return await retract_source(session, self.victim.scope, reference, "invented")

    async def restore(self, retraction_id: UUID) -> None:
        async with self.database.transaction() as session:
            assert await restore_source(session, self.victim.scope, retraction_id)

    async def store(self, text: str, url: str = PAGE.url) -> None:
        async with self.database.transaction() as session:
            answer = {"results": [{"url": url, "content": text}]}
            await store_pages(session, self.victim.scope, answer)

    async def sources(self) -> dict[UUID, str]:
        async with self.database.transaction() as session:
            rows = await session.execute(select(Source.id, Source.url))
            return {row.id: row.url for row in rows}


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


def searching(query: str) -> Json:
    return {"name": "tavilySearch", "arguments": {"query": query}}


def reading(*urls: str) -> Json:
    return {"name": "tavilyExtract", "arguments": {"urls": list(urls)}}


@pytest.mark.parametrize("address", [PAGE.url, f"{PAGE.url}/", f"{PAGE.url}#top"])
async def test_a_retracted_address_is_neither_shown_nor_stored_until_it_is_restored(
    researcher: Researcher, address: str
) -> None:
    await researcher.store("Something else.", address)
    retraction_id = await researcher.retract(address)
    stored = await researcher.sources()
    await researcher.store("What was read before, and is stored only now.", address)
    assert await researcher.sources() == stored
    calls = [[searching("lithium")], [searching("gold")], [reading(PAGE.url, OTHER)]]
    acquired = await researcher.run(*calls)
    assert [page.url for page in acquired.pages] == [OTHER]
    assert {*(await researcher.sources()).values()} == {*stored.values(), OTHER}
    assert researcher.web.read == [OTHER]

    await researcher.restore(retraction_id)
    acquired = await researcher.run([searching("lithium")], [reading(PAGE.url)])
    assert [page.url for page in acquired.pages] == [OTHER, PAGE.url]
    assert PAGE.url in (await researcher.sources()).values()
    assert researcher.web.read == [OTHER, PAGE.url]


async def test_retracting_each_version_bars_the_address_and_one_of_them_does_not(
    researcher: Researcher,
) -> None:
    await researcher.store("First.")
    await researcher.store("Second.")
    first, second = await researcher.sources()
    await researcher.retract(str(first))
    acquired = await researcher.run([reading(PAGE.url)])
    assert [page.url for page in acquired.pages] == [PAGE.url]
    (third,) = {*await researcher.sources()} - {first, second}
    await researcher.retract(str(second))
    last = await researcher.retract(str(third))
    acquired = await researcher.run([reading(PAGE.url, OTHER)])
    assert [page.url for page in acquired.pages] == [OTHER]
    await researcher.restore(last)
    acquired = await researcher.run([reading(PAGE.url)])
    assert [page.url for page in acquired.pages] == [PAGE.url]


async def test_answers_from_before_a_retraction_are_recalled_without_the_page(
    researcher: Researcher,
) -> None:
    await researcher.run([searching("lithium")], [reading(PAGE.url)])
    retraction_id = await researcher.retract(PAGE.url)
    acquired = await researcher.run([searching("lithium")], [reading(PAGE.url, OTHER)])
    assert [page.url for page in acquired.pages] == [OTHER]
    assert len(researcher.web.searched) == 1, "the search was recalled"
    await researcher.restore(retraction_id)
    acquired = await researcher.run([searching("lithium")])
    assert PAGE.url in [page.url for page in acquired.pages]


async def test_a_page_that_is_retracted_while_a_run_goes_on_is_not_stored(
    researcher: Researcher,
) -> None:
    await researcher.store("Something else.")
    retract = researcher.retract

    async def retracting(*_: object, **__: object) -> Json:
        await retract(PAGE.url)
        return {"results": [{"url": PAGE.url, "title": "T", "content": PAGE.text}], "failed": []}

    researcher.search.extract = retracting  # type: ignore[method-assign]
    await researcher.run([reading(PAGE.url)])
    assert [*(await researcher.sources()).values()].count(PAGE.url) == 1
