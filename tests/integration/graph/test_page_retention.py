"""Pages that nothing cites are deleted when they are old, and no other pages."""

from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

import pytest
from sqlalchemy import delete, select

from services.scheduler import pruning_sql
from services.scheduler.scheduler import Ticker
from shared.database.locks import shared_write_lock
from shared.database.tables import Agent, Evidence, Source, Step
from shared.enums import RetentionKind, StepKind, StepStatus
from shared.graph import elements, entity_resolution
from shared.graph.provenance.evidence import EvidenceInput
from shared.graph.retraction import retractions
from shared.workflow import iterations
from tests.support.graph.agent_graph import COUNTRY, PAGE, AgentGraph
from tests.support.graph.verification import breaks
from tests.support.retention.history import History
from tests.support.retention.pruning import prune_after
from tests.support.table_rows import change

URL: Final = "https://other.example/ghana"
WORDS: Final = "Ghana is a state in Africa. Its people number 3."


async def read_page(agent_graph: AgentGraph, url: str = URL) -> None:
    page = {"url": url, "title": "Ghana, Gana", "content": WORDS}
    await agent_graph.store_search_results({"results": [page]})


async def urls(agent_graph: AgentGraph) -> set[str]:
    async with agent_graph.database.snapshot() as session:
        return set(await session.scalars(select(Source.url)))


async def prune(agent_graph: AgentGraph, days: float = 31) -> int:
    pruned = await prune_after(agent_graph.database, days, RetentionKind.PAGES)
    async with agent_graph.database.snapshot() as session:
        assert await breaks(session, agent_graph.scope) == []
    return pruned[RetentionKind.PAGES]


async def cite(agent_graph: AgentGraph, url: str, name: str = "Ghana") -> UUID:
    async with agent_graph.database.transaction() as session:
        added = await elements.add_node(
            session,
            agent_graph.scope,
            agent_graph.validators,
            type_name="Country",
            name=name,
            properties=COUNTRY,
            evidence=[EvidenceInput(url, WORDS)],
        )
        return added.id


async def test_a_page_is_kept_while_it_is_cited(agent_graph: AgentGraph) -> None:
    await read_page(agent_graph)
    await cite(agent_graph, URL)
    assert await prune(agent_graph) == 1
    assert await urls(agent_graph) == {URL}


async def test_a_page_is_kept_until_it_is_old(agent_graph: AgentGraph) -> None:
    assert await prune(agent_graph, 29) == 0
    assert await urls(agent_graph) == {PAGE["url"]}


async def test_a_deleted_page_can_be_read_and_cited_again(agent_graph: AgentGraph) -> None:
    await read_page(agent_graph)
    assert await prune(agent_graph) == 2
    await read_page(agent_graph)
    await cite(agent_graph, URL)
    assert await prune(agent_graph) == 0


async def test_a_retracted_page_is_kept(agent_graph: AgentGraph) -> None:
    """Otherwise it could be cited again when it is read again."""
    await read_page(agent_graph)
    async with agent_graph.database.transaction() as session:
        await retractions.retract_source(session, agent_graph.scope, URL, "made up")
    assert await prune(agent_graph) == 1
    assert await urls(agent_graph) == {URL}


async def test_a_page_is_kept_that_is_cited_again_when_a_merge_is_undone(
    agent_graph: AgentGraph,
) -> None:
    await read_page(agent_graph)
    kept, merged = await cite(agent_graph, URL), await cite(agent_graph, URL, "Gana")
    async with agent_graph.database.transaction() as session:
        merge = await entity_resolution.merge_nodes(
            session,
            agent_graph.scope,
            kept_id=kept,
            merged_id=merged,
            reason="One thing.",
            made_by=agent_graph.scope.owner_id,
        )
        assert merge is not None
    # As if nothing but the merge knew of the page: the checks of the graph are not made.
    async with agent_graph.database.transaction() as session:
        rows = list((await session.execute(select(Evidence.__table__))).mappings())
        await session.execute(delete(Evidence))
    assert await prune_after(agent_graph.database, 31, RetentionKind.PAGES) == {
        RetentionKind.PAGES: 1
    }
    async with agent_graph.database.transaction() as session:
        await session.insert_all(Evidence, [dict(row) for row in rows])
    async with agent_graph.database.transaction() as session:
        await entity_resolution.undo_merge(session, agent_graph.scope, merge.id)
    async with agent_graph.database.snapshot() as session:
        assert len(set(await session.scalars(select(Evidence.source_id)))) == 1
        assert await breaks(session, agent_graph.scope) == []


async def run_iteration(history: History) -> None:
    await history.iterate(is_open=True)


async def wait_for_an_answer(history: History) -> None:
    step_id = await history.converse(1)
    async with history.database.transaction() as session:
        await session.update(Step, step_id, status=StepStatus.PENDING)


async def fail_a_query(history: History) -> None:
    await history.fail_step((await history.iterate()).id)


async def retry_a_query(history: History) -> None:
    iteration = await history.iterate()
    async with history.database.transaction() as session:
        step = (
            await session.scalars(
                select(Step).where(Step.iteration_id == iteration.id, Step.kind == StepKind.QUERY)
            )
        ).one()
        step = await change(session, step, status=StepStatus.FAILED)
        step = await change(
            session,
            step,
            retry_requested_at=step.ended_at + timedelta(seconds=1) if step.ended_at else None,
        )


@pytest.mark.parametrize("work", [run_iteration, wait_for_an_answer, fail_a_query, retry_a_query])
async def test_no_page_is_deleted_while_a_step_may_cite_it(
    agent_graph: AgentGraph, work: Callable[[History], Coroutine[Any, Any, None]]
) -> None:
    """A page that is read again and has not changed is not stored again."""
    async with agent_graph.database.transaction() as session:
        agent = await session.get_one(Agent, agent_graph.scope.agent_id)
    await work(History(agent_graph.database, agent))
    assert await prune(agent_graph) == 0


async def test_no_page_is_deleted_while_the_graph_is_written(agent_graph: AgentGraph) -> None:
    async with agent_graph.database.transaction() as session:
        await shared_write_lock(session, agent_graph.scope.agent_id)
        assert await prune(agent_graph) == 0
    assert await prune(agent_graph) == 1


async def test_no_iteration_starts_while_pages_are_deleted(agent_graph: AgentGraph) -> None:
    """The scheduler skips an agent that is locked, and starts its iteration at the next tick."""
    database = agent_graph.database
    async with database.transaction() as session:
        row = await session.get_one(Agent, agent_graph.scope.agent_id)
        row = await change(session, row, run_requested_at=await iterations.database_time(session))
    ticker = Ticker(database, 60)
    async with database.transaction() as session:
        await session.execute(pruning_sql.STOP_AGENT, {"agent": agent_graph.scope.agent_id})
        assert await ticker.tick() == []
    assert len(await ticker.tick()) == 1
