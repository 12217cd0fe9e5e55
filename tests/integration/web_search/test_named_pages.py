"""Pages that nobody named are not read, also by a run that goes on where another was killed."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest

from services.researcher.acquisition import acquire
from services.researcher.query_context import QueryContext
from shared.database.engine import Database
from shared.enums import Phase, StepKind
from shared.events.models import Query
from shared.llm.phase_run import Model
from shared.runtime.providers import create_model, create_search_client
from shared.runtime.settings import Settings
from shared.web_search.client import SearchClient
from tests.support.injection.corpus import HostilePage
from tests.support.injection.victim import Victim, make_victim
from tests.support.injection.web import Web
from tests.support.levers import Sandbox
from tests.support.sandbox.serving import running_app

PAGE = HostilePage(
    "found", "en", "none", "Found", "Lithium, and a link: https://linked.example", ()
)
HINTED = "https://hinted.example/report"
QUERY = Query(objective="Lithium", reasoning="Unknown.", search_hints=[f"see {HINTED}."])


@dataclass(frozen=True)
class Desk:
    victim: Victim
    web: Web
    levers: Sandbox
    model: Model
    search: SearchClient

    async def situation(self) -> QueryContext:
        lease, _ = await self.victim.step(StepKind.QUERY, QUERY.model_dump(mode="json"))
        return QueryContext(lease, self.victim.agent, self.victim.scope, QUERY, "An empty graph.")


@pytest.fixture
async def desk(sandbox_settings: Settings, database: Database, sandbox: str) -> AsyncIterator[Desk]:
    web = Web()
    web.serves(PAGE)
    async with running_app(web.app()) as url:
        settings = sandbox_settings.model_copy(update={"tavily_base_url": url})
        model, search = create_model(settings, database), create_search_client(settings)
        yield Desk(await make_victim(database), web, Sandbox(sandbox), model, search)
        await model.provider.close()
        await search.close()


def _says(*calls: dict[str, Any], content: str = "") -> dict[str, Any]:
    return {"phase": Phase.KNOWLEDGE_ACQUISITION, "tool_calls": list(calls), "content": content}


def _reads(*urls: str) -> dict[str, Any]:
    return {"name": "tavilyExtract", "arguments": {"urls": list(urls)}}


SEARCHES = {"name": "tavilySearch", "arguments": {"query": "lithium"}}


async def test_only_what_an_earlier_round_found_is_read(desk: Desk) -> None:
    desk.levers.script(
        _says(SEARCHES, _reads(PAGE.url)),
        _says(_reads("https://linked.example")),
        _says(_reads(PAGE.url), _reads(HINTED)),
        _says(content="Lithium."),
    )
    await acquire(desk.model, desk.search, await desk.situation())
    assert sorted(desk.web.read) == sorted([PAGE.url, HINTED])


async def test_a_run_that_is_resumed_decides_the_same(desk: Desk) -> None:
    """Its search is in the ledger, and makes readable what it made readable then; nothing is asked or paid for twice."""
    situation = await desk.situation()
    desk.levers.script(
        _says(SEARCHES), _says(_reads(PAGE.url)), _says(_reads("https://evil.example"))
    )
    desk.levers.script({"phase": Phase.KNOWLEDGE_ACQUISITION, "status": 401})
    with pytest.raises(Exception, match="scripted error"):
        await acquire(desk.model, desk.search, situation)
    assert desk.web.read == [PAGE.url]
    desk.levers.script(_says(content="Lithium."))
    await acquire(desk.model, desk.search, situation)
    assert desk.web.read == [PAGE.url]
    assert desk.web.searched == ["lithium"]
    assert desk.levers.repeated("llm") == 0
