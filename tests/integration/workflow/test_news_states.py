"""The stored state of news: what is offered, what a query has read, and what stays decided."""

from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

import pytest
from sqlalchemy import func, select

from sandbox.http.pages import FEED_URL
from services.observer.news import store_query
from services.observer.news_items import Item, StoredItem
from services.observer.quiescence import situation_query
from shared.database.engine import Database
from shared.database.tables import Agent, NewsItem, Step
from shared.enums import NewsKind, NewsState, StepKind, StepStatus
from shared.graph.scope import GraphScope
from shared.runtime.providers import SANDBOX_FEED
from shared.workflow.iterations import StartedIteration
from tests.support.factories import make_agent, make_iteration

URL = "https://example.org/news"
ITEM = Item(UUID(int=1), NewsKind.DOCUMENT, URL, "News", datetime(2026, 11, 28, 9, tzinfo=UTC))


@pytest.fixture
async def started(database: Database) -> StartedIteration:
    return await make_iteration(database, await make_agent(database))


async def _scope(database: Database, started: StartedIteration) -> GraphScope:
    async with database.transaction() as session:
        agent_id = started.iteration.agent_id
        owner_id = await session.scalar(select(Agent.owner_id).where(Agent.id == agent_id))
        assert owner_id is not None
    return GraphScope(owner_id, agent_id, started.iteration.id, started.observe.id)


async def _waiting(database: Database, scope: GraphScope) -> list[StoredItem]:
    return list((await database.run(situation_query(scope))).news)


@pytest.mark.parametrize(
    ("status", "result", "was_read"),
    [
        (StepStatus.COMPLETED, {"nodes": 0, "edges": 0, "read": [URL]}, True),
        (StepStatus.COMPLETED, {"nodes": 3, "edges": 0, "read": ["https://example.org/x"]}, False),
        (StepStatus.COMPLETED, {"nodes": 3, "edges": 0}, False),
        (StepStatus.FAILED, None, False),
    ],
)
async def test_an_item_was_read_if_a_query_of_its_plan_has_read_its_page(
    database: Database,
    started: StartedIteration,
    status: StepStatus,
    result: dict[str, object] | None,
    *,
    was_read: bool,
) -> None:
    scope = await _scope(database, started)
    planned = replace(
        ITEM, state=NewsState.PLANNED, plans=1, offers=1, planned_in=started.iteration.id
    )
    async with database.transaction() as session:
        await session.insert(
            Step,
            id=UUID(int=2),
            iteration_id=started.iteration.id,
            agent_id=scope.agent_id,
            kind=StepKind.QUERY,
            index=0,
            input={"objective": f"Read {URL}."},
            status=status,
            result=result,
            ended_at=func.clock_timestamp(),
        )
    await database.run(store_query(scope, [], [planned]))
    assert await _waiting(database, scope) == [StoredItem(planned, was_read)]


@pytest.mark.parametrize("state", [NewsState.READ, NewsState.SKIPPED, NewsState.EXPIRED])
async def test_a_decision_is_final(
    database: Database, started: StartedIteration, state: NewsState
) -> None:
    scope = await _scope(database, started)
    for item in (ITEM, replace(ITEM, state=state, reason="Because."), replace(ITEM, offers=5)):
        await database.run(store_query(scope, [], [item]))
    assert await _waiting(database, scope) == []
    async with database.transaction() as session:
        stored = await session.get_one(NewsItem, ITEM.id)
        assert (stored.state, stored.reason, stored.offers) == (state, "Because.", 0)
        assert stored.decided_at is not None


async def test_items_of_other_agents_are_not_offered(
    database: Database, started: StartedIteration
) -> None:
    await database.run(store_query(await _scope(database, started), [], [ITEM]))
    other = await make_iteration(database, await make_agent(database, name="Other"))
    assert await _waiting(database, await _scope(database, other)) == []


def test_the_sandbox_serves_the_feed_that_is_watched() -> None:
    assert SANDBOX_FEED == FEED_URL
