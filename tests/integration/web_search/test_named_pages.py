"""Only pages from search results and search hints are read, also by a resumed run."""

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
from tests.support.sandbox.server import running_app
from tests.support.sandbox_control import Sandbox
from tests.support.surveys import EMPTY_SURVEY, NOW

PAGE = HostilePage(
    "found", "en", "none", "Found", "Lithium, and a link: https://linked.example", ()
)
HINTED = "https://hinted.example/report"
QUERY = Query(objective="Lithium", reasoning="Unknown.", search_hints=[f"see {HINTED}."])


@dataclass(frozen=True)
class Acquisition:
    victim: Victim
    web: Web
    sandbox_control: Sandbox
    model: Model
    search: SearchClient

    async def query_context(self) -> QueryContext:
        lease, _ = await self.victim.step(StepKind.QUERY, QUERY.model_dump(mode="json"))
        return QueryContext(lease, self.victim.agent, self.victim.scope, QUERY, EMPTY_SURVEY, NOW)


@pytest.fixture
async def acquisition(
    sandbox_settings: Settings, database: Database, sandbox: str
) -> AsyncIterator[Acquisition]:
    web = Web()
    web.serves(PAGE)
    async with running_app(web.app()) as url:
        settings = sandbox_settings.model_copy(update={"tavily_base_url": url})
        model, search = create_model(settings, database), create_search_client(settings, database)
        yield Acquisition(await make_victim(database), web, Sandbox(sandbox), model, search)
        await model.provider.close()
        await search.close()


def _scripted(*calls: dict[str, Any], content: str = "") -> dict[str, Any]:
    return {"phase": Phase.KNOWLEDGE_ACQUISITION, "tool_calls": list(calls), "content": content}


def _extract_call(*urls: str) -> dict[str, Any]:
    return {"name": "tavilyExtract", "arguments": {"urls": list(urls)}}


SEARCH_CALL = {"name": "tavilySearch", "arguments": {"query": "lithium"}}


async def test_only_hinted_pages_and_results_of_an_earlier_round_are_read(
    acquisition: Acquisition,
) -> None:
    acquisition.sandbox_control.script(
        _scripted(SEARCH_CALL, _extract_call(PAGE.url)),
        _scripted(_extract_call("https://linked.example")),
        _scripted(_extract_call(PAGE.url), _extract_call(HINTED)),
        _scripted(content="Lithium."),
    )
    await acquire(acquisition.model, acquisition.search, await acquisition.query_context())
    assert sorted(acquisition.web.read) == sorted([PAGE.url, HINTED])


async def test_a_resumed_run_allows_the_same_pages(acquisition: Acquisition) -> None:
    """Its recorded search allows the same pages as before; no call is repeated or paid for twice."""
    context = await acquisition.query_context()
    acquisition.sandbox_control.script(
        _scripted(SEARCH_CALL),
        _scripted(_extract_call(PAGE.url)),
        _scripted(_extract_call("https://evil.example")),
    )
    acquisition.sandbox_control.script({"phase": Phase.KNOWLEDGE_ACQUISITION, "status": 401})
    with pytest.raises(Exception, match="scripted error"):
        await acquire(acquisition.model, acquisition.search, context)
    assert acquisition.web.read == [PAGE.url]
    acquisition.sandbox_control.script(_scripted(content="Lithium."))
    await acquire(acquisition.model, acquisition.search, context)
    assert acquisition.web.read == [PAGE.url]
    assert acquisition.web.searched == ["lithium"]
    assert acquisition.sandbox_control.repeated("llm") == 0
