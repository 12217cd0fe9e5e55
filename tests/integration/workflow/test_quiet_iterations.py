"""Iterations are quiet while nothing is new and nothing is due: no model is called and nothing is searched."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from pydantic import SecretStr
from sqlalchemy import func, select, update

from sandbox.corpus.registry import add_corpus
from sandbox.http import corpus_loader
from sandbox.settings import SandboxSettings
from services.api.resources.agents import commands
from shared.agents import memories
from shared.database.engine import Database
from shared.database.tables import (
    Agent,
    Call,
    GraphNode,
    InboxItem,
    InvestigationRequest,
    Iteration,
    NewsItem,
    PageProbe,
    Step,
)
from shared.enums import (
    ANALYSIS_TYPE,
    IterationStatus,
    MemoryKind,
    NewsKind,
    NewsState,
    ProbeKind,
    RetentionKind,
    StepKind,
    WorkReason,
)
from shared.events.codec import decode
from shared.events.models import IterationCompleted
from shared.graph import system_types
from shared.graph.retraction import retractions
from shared.graph.scope import GraphScope
from shared.runtime.bus import Bus
from shared.runtime.settings import Settings
from shared.workflow import iterations
from tests.conftest import cloned, connected, renew_stream, settings_of_service
from tests.support import table_rows
from tests.support.api.access import agent_access
from tests.support.engines import Nats, Postgres
from tests.support.factories import make_agent
from tests.support.retention.pruning import prune_after, publish_ends
from tests.support.running_services import ended_iteration, running_services
from tests.support.sandbox.server import running_sandbox
from tests.support.scheduling import ago, change
from tests.support.stored_dead_letters import stream_payloads

MAX_WORKING = 5
"""Iterations until an agent with a frozen corpus is quiet."""
CHILE = """# Chile: lithium

SQM mines lithium in Chile.

Lithium production 2024: 44,000 tonnes
"""
ARGENTINA = """# Argentina: lithium

Livent mines lithium in Argentina.

Lithium production 2024: 18,000 tonnes
"""
BOLIVIA = """# Bolivia: lithium

YLB mines lithium in Bolivia.

Lithium production 2024: 600 tonnes
"""
CHILE_URL, BOLIVIA_URL = "https://corpus.local/chile.md", "https://corpus.local/bolivia.md"


@dataclass
class Watcher:
    """An agent that watches a corpus of two documents."""

    url: str
    database: Database
    agent: Agent
    corpus: Path
    number: int = 0

    async def tick(self) -> Iteration:
        """Runs the next iteration, as the clock does."""
        self.number += 1
        if self.number > 1:
            await change(self.database, self.agent, next_run_at=func.clock_timestamp())
        return await ended_iteration(self.database, self.agent, self.number)

    async def until_quiet(self) -> int:
        """The number of iterations until one is quiet."""
        for count in range(1, MAX_WORKING + 2):
            if (await self.tick()).status == IterationStatus.QUIET:
                return count - 1
        raise AssertionError(f"{MAX_WORKING + 1} iterations were not quiet")

    async def observed(self) -> dict[str, Any]:
        """The result of the newest observe step."""
        async with self.database.transaction() as session:
            result = await session.scalar(
                select(Step.result)
                .join(Iteration, Iteration.id == Step.iteration_id)
                .where(
                    Iteration.agent_id == self.agent.id,
                    Iteration.number == self.number,
                    Step.kind == StepKind.OBSERVE,
                )
            )
            assert result is not None
            return result

    async def objectives(self) -> list[str]:
        """The objectives of the newest iteration's queries."""
        async with self.database.transaction() as session:
            inputs = await session.scalars(
                select(Step.input)
                .join(Iteration, Iteration.id == Step.iteration_id)
                .where(
                    Iteration.agent_id == self.agent.id,
                    Iteration.number == self.number,
                    Step.kind == StepKind.QUERY,
                )
            )
            return [each["objective"] for each in inputs]

    async def calls(self) -> int:
        async with self.database.transaction() as session:
            return await session.scalar(select(func.count()).select_from(Call)) or 0

    async def node(self, name: str) -> dict[str, Any]:
        async with self.database.transaction() as session:
            properties = await session.scalar(
                select(GraphNode.properties).where(GraphNode.name == name)
            )
            assert properties is not None, f"there is no {name}"
            return properties


@pytest.fixture
async def new_watcher(settings: Settings, tmp_path: Path) -> AsyncIterator[Watcher]:
    """Before the first iteration."""
    async with watching(settings, tmp_path) as each:
        yield each


@pytest.fixture(scope="module")
async def quiet(
    postgres: Postgres,
    nats_server: Nats,
    stream_admin: Bus,
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[Watcher]:
    """A stopped installation whose last iteration was quiet."""
    with cloned(postgres) as url:
        await renew_stream(stream_admin)
        settings = settings_of_service(url, nats_server.url)
        async with watching(settings, tmp_path_factory.mktemp("quiet")) as each:
            assert await each.until_quiet() <= MAX_WORKING
        yield each


@pytest.fixture
async def watcher(
    quiet: Watcher, postgres: Postgres, nats_url: str, tmp_path: Path
) -> AsyncIterator[Watcher]:
    """A copy of it."""
    with cloned(postgres, quiet.url) as url:
        settings = settings_of_service(url, nats_url)
        async with watching(settings, tmp_path, since=quiet) as each:
            yield each


@asynccontextmanager
async def watching(
    settings: Settings,
    folder: Path,
    *,
    is_named: bool = False,
    since: Watcher | None = None,
    **changes: Any,
) -> AsyncIterator[Watcher]:
    """Runs the services with an agent, or with that of `since`, whose database was copied.

    `is_named`: the corpus is one that the agent names, and not that of the installation.
    """
    corpus, own, registry = folder / "corpus", folder / "own", folder / "corpora.json"
    for each in (corpus, own):
        each.mkdir()
    (own / "chile.md").write_text(CHILE.replace("44,000", "1"))
    (corpus / "chile.md").write_text(CHILE)
    (corpus / "argentina.md").write_text(ARGENTINA)
    named = add_corpus(registry, corpus, "anyone") if is_named else None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(corpus_loader, "CHECK_SECONDS", 0.0)
        async with (
            running_sandbox(
                SandboxSettings(port=0, corpus=str(own if is_named else corpus), registry=registry)
            ) as url,
            connected(settings.database_url) as database,
        ):
            values = {
                "openai_api_key": SecretStr("sandbox"),
                "openai_base_url": f"{url}/v1",
                "tavily_api_key": SecretStr("sandbox"),
                "tavily_base_url": url,
                "model": "sandbox-reader",
                **changes,
            }
            if since is None:
                agent, number = await make_watcher(database, named), 0
            else:
                agent, number = since.agent, since.number
            async with running_services(settings.model_copy(update=values)):
                yield Watcher(settings.database_url, database, agent, corpus, number)


async def make_watcher(database: Database, corpus: str | None) -> Agent:
    agent = await make_agent(
        database, mission="Watch lithium production in Chile and Argentina", active=False
    )
    async with database.transaction() as session:
        await system_types.ensure_system_types(session, agent.id)
        stored = await session.get_one(Agent, agent.id)
        stored = await table_rows.change(session, stored, active=True)
        watcher: Agent = await table_rows.change(session, stored, corpus=corpus)
        return watcher


async def test_a_frozen_corpus_makes_all_iterations_quiet(new_watcher: Watcher, bus: Bus) -> None:
    watcher = new_watcher
    assert await watcher.until_quiet() <= MAX_WORKING
    calls = await watcher.calls()
    for _ in range(5):
        quiet = await watcher.tick()
        assert (quiet.status, quiet.errors) == (IterationStatus.QUIET, [])
    assert await watcher.calls() == calls
    observed = await watcher.observed()
    assert (observed["quiet"], observed["reasons"]) == (True, [])
    assert observed["pages_checked"] == 3, "two pages and their feed"
    payloads = await stream_payloads(bus, "iteration.completed")
    ends = [decode(payload) for payload in payloads]
    assert [isinstance(end, IterationCompleted) and end.quiet for end in ends[-6:]] == [True] * 6
    assert not any(end.quiet for end in ends[:-6] if isinstance(end, IterationCompleted))


async def test_what_the_scheduler_deletes_wakes_no_agent(watcher: Watcher) -> None:
    """Its deletions are in the journal of the graph, as what an owner changes, and change no fact."""
    await publish_ends(watcher.database)
    scheduler = Database(watcher.url, name="scheduler@test")
    try:
        pruned = await prune_after(scheduler, 31, RetentionKind.TRANSCRIPTS)
    finally:
        await scheduler.close()
    assert pruned[RetentionKind.TRANSCRIPTS] > 0
    assert (await watcher.tick()).status == IterationStatus.QUIET


async def test_a_changed_document_is_noticed_and_read_again(watcher: Watcher) -> None:
    (watcher.corpus / "chile.md").write_text(CHILE.replace("44,000", "49,000"))
    assert (await watcher.tick()).status == IterationStatus.COMPLETED
    observed = await watcher.observed()
    assert observed["reasons"] == [WorkReason.NEWS]
    assert (observed["pages_changed"], observed["documents_new"]) == (1, 0)
    (objective,) = await watcher.objectives()
    assert CHILE_URL in objective
    assert "Chile" in objective.partition("The graph takes from them")[2]
    assert "49,000" in str(await watcher.node("Chile"))
    assert await watcher.until_quiet() <= MAX_WORKING


async def test_a_new_document_is_noticed_and_read(watcher: Watcher) -> None:
    (watcher.corpus / "bolivia.md").write_text(BOLIVIA)
    assert (await watcher.tick()).status == IterationStatus.COMPLETED
    assert (await watcher.observed())["documents_new"] == 1
    assert any(BOLIVIA_URL in objective for objective in await watcher.objectives())
    assert "600" in str(await watcher.node("Bolivia"))
    assert await watcher.until_quiet() <= MAX_WORKING


async def test_a_document_that_arrives_after_the_first_iteration_is_news(
    new_watcher: Watcher,
) -> None:
    """No page that the agent has read has declared the feed when its baseline is taken."""
    assert (await new_watcher.tick()).status == IterationStatus.COMPLETED
    (new_watcher.corpus / "bolivia.md").write_text(BOLIVIA)
    assert (await new_watcher.tick()).status == IterationStatus.COMPLETED
    observed = await new_watcher.observed()
    assert (observed["documents_new"], observed["news_offered"]) == (1, 1)
    assert any(BOLIVIA_URL in objective for objective in await new_watcher.objectives())
    await new_watcher.tick()
    async with new_watcher.database.transaction() as session:
        (item,) = await session.scalars(select(NewsItem))
        assert (item.kind, item.url, item.state) == (
            NewsKind.DOCUMENT,
            BOLIVIA_URL,
            NewsState.READ,
        )


async def test_an_agent_searches_and_watches_the_corpus_that_it_names(
    settings: Settings, tmp_path: Path
) -> None:
    async with watching(settings, tmp_path, is_named=True) as watcher:
        await watcher.until_quiet()
        assert "44,000" in str(await watcher.node("Chile"))
        (watcher.corpus / "bolivia.md").write_text(BOLIVIA)
        assert (await watcher.tick()).status == IterationStatus.COMPLETED
        assert (await watcher.observed())["documents_new"] == 1
        assert "600" in str(await watcher.node("Bolivia"))


async def test_the_owner_wakes_the_agent(watcher: Watcher) -> None:
    async with watcher.database.transaction() as session:
        await memories.remember(session, watcher.agent.id, MemoryKind.WISH, "Look at Bolivia too")
    assert (await watcher.tick()).status == IterationStatus.COMPLETED
    assert WorkReason.OWNER_ACTED in (await watcher.observed())["reasons"]


async def test_feedback_on_advice_is_a_reason_to_work(watcher: Watcher) -> None:
    async with watcher.database.transaction() as session:
        await session.insert(
            InboxItem,
            id=uuid4(),
            owner_id=watcher.agent.owner_id,
            agent_id=watcher.agent.id,
            title="HOLD: Wait",
            summary="",
            useful=False,
            answered_at=func.clock_timestamp(),
        )
    assert (await watcher.tick()).status != IterationStatus.QUIET
    assert WorkReason.OWNER_ACTED in (await watcher.observed())["reasons"]


async def test_a_retraction_wakes_the_agent(watcher: Watcher) -> None:
    scope = GraphScope(watcher.agent.owner_id, watcher.agent.id)
    async with watcher.database.transaction() as session:
        await retractions.retract_source(session, scope, CHILE_URL, reason="It is wrong")
    assert (await watcher.tick()).status == IterationStatus.COMPLETED
    assert WorkReason.OWNER_ACTED in (await watcher.observed())["reasons"]


async def test_a_run_on_request_always_works(watcher: Watcher) -> None:
    await change(watcher.database, watcher.agent, run_requested_at=func.clock_timestamp())
    watcher.number += 1
    iteration = await ended_iteration(watcher.database, watcher.agent, watcher.number)
    assert (iteration.why, iteration.status) == ("run_now", IterationStatus.COMPLETED)
    assert WorkReason.RUN_REQUESTED in (await watcher.observed())["reasons"]


async def test_a_requested_run_is_no_change_of_the_agent(watcher: Watcher) -> None:
    async with watcher.database.transaction() as session:
        await commands.run_agent(agent_access(session, watcher.agent.owner_id, watcher.agent.id))
    watcher.number += 1
    await ended_iteration(watcher.database, watcher.agent, watcher.number)
    reasons = (await watcher.observed())["reasons"]
    assert WorkReason.RUN_REQUESTED in reasons
    assert WorkReason.OWNER_ACTED not in reasons


async def test_a_horizon_wakes_the_agent_on_the_day_after_it(watcher: Watcher) -> None:
    await _age(watcher.database, timedelta(days=1))
    async with watcher.database.transaction() as session:
        now = await iterations.database_time(session)
        horizon = (now.astimezone(UTC) - timedelta(days=1)).date()
        await session.insert(
            GraphNode,
            id=uuid4(),
            agent_id=watcher.agent.id,
            type=ANALYSIS_TYPE,
            name="Prices rise",
            properties={
                "type": "forecast",
                "summary": "They rise.",
                "content": "They rise.",
                "horizon": horizon.isoformat(),
            },
        )
    assert (await watcher.tick()).status == IterationStatus.COMPLETED
    observed = await watcher.observed()
    assert WorkReason.DUE in observed["reasons"]
    assert f"Prices rise has passed its horizon {horizon}" in observed["due"]


async def test_an_open_request_wakes_the_agent(watcher: Watcher) -> None:
    async with watcher.database.transaction() as session:
        iteration = await session.scalar(
            select(Iteration.id).order_by(Iteration.number.desc()).limit(1)
        )
        await session.insert(
            InvestigationRequest,
            id=uuid4(),
            agent_id=watcher.agent.id,
            iteration_id=iteration,
            iteration_number=watcher.number,
            objective="The price of lithium",
            reasoning="It is missing",
            search_hints=[],
        )
    assert (await watcher.tick()).status == IterationStatus.COMPLETED
    assert WorkReason.DATA_REQUESTED in (await watcher.observed())["reasons"]


async def test_the_web_is_searched_at_least_as_often_as_the_setting_says(
    settings: Settings, database: Database, tmp_path: Path
) -> None:
    async with watching(settings, tmp_path, search_every_seconds=3600.0) as watcher:
        await watcher.until_quiet()
        await _age(database, timedelta(minutes=70))
        assert (await watcher.tick()).status == IterationStatus.COMPLETED
        assert WorkReason.SEARCH_DUE in (await watcher.observed())["reasons"]
        assert await watcher.objectives()
        assert await watcher.until_quiet() <= MAX_WORKING


async def test_without_checks_every_iteration_asks_the_model(
    settings: Settings, database: Database, tmp_path: Path
) -> None:
    async with watching(settings, tmp_path, probe_pages=0) as watcher:
        for _ in range(MAX_WORKING + 1):
            assert (await watcher.tick()).status == IterationStatus.COMPLETED
        assert "reasons" not in await watcher.observed()
        async with database.transaction() as session:
            assert await session.scalar(select(func.count()).select_from(PageProbe)) == 0


async def test_the_interval_grows_while_iterations_are_quiet_and_not_longer(
    watcher: Watcher,
) -> None:
    await change(watcher.database, watcher.agent, interval_seconds=1000, max_interval_seconds=2000)
    lengths = []
    for _ in range(4):
        await watcher.tick()
        lengths.append(await _next_run_in(watcher))
    assert lengths == [1500, 2000, 2000, 2000]
    (watcher.corpus / "chile.md").write_text(CHILE.replace("44,000", "49,000"))
    await watcher.tick()
    assert await _next_run_in(watcher) == 1000, "an iteration that works ends the growth"


async def test_pages_that_cannot_be_reached_are_checked_less_and_less_often(
    watcher: Watcher,
) -> None:
    (watcher.corpus / "chile.md").unlink()
    assert (await watcher.tick()).status == IterationStatus.QUIET
    observed = await watcher.observed()
    assert observed["pages_failed"] == 1
    error = "not reached: the server answered 404"
    assert observed["failures"] == [{"url": CHILE_URL, "error": error}]
    await watcher.tick()
    assert (await watcher.observed())["pages_checked"] == 2, "not again at once"
    async with watcher.database.transaction() as session:
        await session.execute(update(PageProbe).values(checked_at=ago(301)))
    await watcher.tick()
    async with watcher.database.transaction() as session:
        probe = await session.get_one(PageProbe, (watcher.agent.id, CHILE_URL))
        kinds = await session.scalars(select(PageProbe.kind).order_by(PageProbe.kind))
        assert (probe.failures, probe.error) == (2, "not reached: the server answered 404")
        assert list(kinds) == [ProbeKind.FEED, ProbeKind.PAGE, ProbeKind.PAGE]


async def _age(database: Database, by: timedelta) -> None:
    async with database.transaction() as session:
        await session.execute(update(Iteration).values(started_at=Iteration.started_at - by))
        await session.execute(update(Agent).values(updated_at=Agent.updated_at - by))


async def _next_run_in(watcher: Watcher) -> float:
    """Seconds from the start of the newest iteration to the next run, as the scheduler has set it, rounded."""
    async with watcher.database.transaction() as session:
        agent = await session.get_one(Agent, watcher.agent.id)
        started_at = await session.scalar(
            select(Iteration.started_at).where(Iteration.number == watcher.number)
        )
        assert started_at is not None
        return round((agent.next_run_at - started_at).total_seconds(), -1)
