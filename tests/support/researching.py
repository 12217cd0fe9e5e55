"""A researcher with a web of its own: a test scripts the calls of its model, and reads what was stored and paid for."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from sqlalchemy import select

from services.researcher.acquisition import Acquired, QueryContext, acquire
from shared.database.engine import Database
from shared.database.tables import Call, Source
from shared.enums import CallKind, Phase, StepKind
from shared.events.models import Query
from shared.llm.provider import Model
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

PAGE: Final = HostilePage("found", "en", "none", "Found", "Lithium is mined in Ewoyaa, Ghana.", ())
"""Found by every search, unless the web of a test serves another."""
OTHER: Final = "https://good.example/1"
HOUR: Final = timedelta(hours=1)


def query_that_reads(*urls: str) -> Query:
    """A query whose hints name the pages, so that they may be read."""
    return Query(objective="Lithium", reasoning="Unknown.", search_hints=[f"read {' '.join(urls)}"])


def searching(query: str = "lithium", **arguments: object) -> Json:
    """The call of a search."""
    return {"name": "tavilySearch", "arguments": {"query": query, **arguments}}


def reading(*urls: str) -> Json:
    """The call that reads the pages."""
    return {"name": "tavilyExtract", "arguments": {"urls": list(urls)}}


def scripted(*calls: Json, content: str = "") -> Json:
    """An answer of the model, for its script."""
    return {"phase": Phase.KNOWLEDGE_ACQUISITION, "tool_calls": list(calls), "content": content}


@dataclass
class Researcher:
    database: Database
    victim: Victim
    web: Web
    control: Sandbox
    model: Model
    search: SearchClient
    query: Query
    queries: int = 0

    async def context(self) -> QueryContext:
        """That of another step of the query, with the agent as it is now."""
        step_input = self.query.model_dump(mode="json")
        lease, _ = await self.victim.step(StepKind.QUERY, step_input, index=self.queries)
        self.queries += 1
        return QueryContext(lease, self.victim.scope, self.query, EMPTY_SURVEY, NOW)

    async def run(
        self,
        *rounds: Sequence[Json],
        document: str = f"Lithium: [1.1] {PAGE.url}",
        memory: SearchMemory | None = None,
    ) -> Acquired:
        """A query whose model makes these calls, round after round, and then writes its document."""
        self.control.reset()
        answers = [scripted(*calls) for calls in rounds]
        # The second is for a document of which the first is no whole one.
        self.control.script(*answers, *[scripted(content=document)] * 2)
        memory = memory or SearchMemory(self.database, self.victim.agent.id, HOUR)
        return await acquire(self.model, self.search, await self.context(), memory)

    async def answers(self) -> list[Json]:
        """What the search service answered, as it is recorded."""
        async with self.database.transaction() as session:
            answers = await session.scalars(
                select(Call.answer)
                .where(Call.kind != CallKind.LLM)
                .order_by(Call.started_at, Call.id)
            )
            return [answer for answer in answers if answer is not None]

    async def stored_urls(self) -> set[str]:
        async with self.database.transaction() as session:
            return set(await session.scalars(select(Source.url)))


@asynccontextmanager
async def researching(
    settings: Settings, database: Database, sandbox: str, web: Web, query: Query
) -> AsyncIterator[Researcher]:
    """`sandbox` is the URL of the model's server, `web` the search service."""
    if web.page is None:
        web.serves(PAGE)
    async with running_app(web.app()) as url:
        own = settings.model_copy(update={"tavily_base_url": url})
        model, search = create_model(own, database), create_search_client(own, database)
        victim = await make_victim(database)
        yield Researcher(database, victim, web, Sandbox(sandbox), model, search, query)
        await model.provider.close()
        await search.close()
