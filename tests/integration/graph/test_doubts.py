"""Which conclusions a retraction puts in doubt, and opening and resolving many doubts at once."""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from functools import partial
from typing import Final
from uuid import UUID

import pytest
from sqlalchemy import func, select, text
from sqlalchemy.ext.asyncio import AsyncSession

from shared.database import ids
from shared.database.engine import Database
from shared.database.tables import Doubt
from shared.enums import ANALYSIS_TYPE
from shared.graph.projection import NODES, load_claims
from shared.graph.retraction import doubts
from tests.support.graph.agent_graph import AgentGraph
from tests.support.graph.retraction_graph import RetractionGraph
from tests.support.lock_probe import has_lock_waiter
from tests.support.waiting import wait_until

OLD, NEW, OTHER = (f"https://{name}.example/page" for name in ("old", "new", "other"))
ACCRA: Final = {"capital": "Accra"}
KUMASI: Final = {"capital": "Kumasi"}
LATER: Final = 20_000
"""A day after every retraction of these tests."""
MANY: Final = 16_500
"""With four arguments each, these exceed the parameter limit of one statement."""
_INSERT_CONCLUSIONS: Final = text(
    "with made as (insert into graph_nodes (id, agent_id, type, name, properties)"
    " select gen_random_uuid(), :agent, :type, 'No. ' || number, '{}' from generate_series(1, :many) number"
    " returning id) insert into citations (conclusion_id, cited_id) select id, :cited from made"
)


@pytest.fixture
def retraction_graph(agent_graph: AgentGraph) -> RetractionGraph:
    return RetractionGraph(agent_graph)


async def test_a_later_retraction_doubts_only_conclusions_that_used_its_source(
    retraction_graph: RetractionGraph,
) -> None:
    ghana = await retraction_graph.node("Ghana", {OLD: ACCRA})
    await retraction_graph.retract(OLD)
    await retraction_graph.says(NEW, KUMASI, node_id=ghana, day=LATER)
    await retraction_graph.says(OTHER, {"population": 3}, node_id=ghana)
    analysis = await retraction_graph.analysis("Since", f"[node:{ghana}]")
    before = await retraction_graph.state()
    retraction_id = await retraction_graph.retract(OTHER)
    other = await retraction_graph.source_id(OTHER)
    assert (await retraction_graph.state()).doubted == {(analysis, ghana, other)}
    await retraction_graph.restore(retraction_id)
    assert await retraction_graph.state() == before


async def test_a_resolved_doubt_reopens_when_the_supporting_source_is_retracted(
    retraction_graph: RetractionGraph,
) -> None:
    """This includes conclusions made between the retraction and its propagation."""
    ghana = await retraction_graph.node("Ghana", {OLD: ACCRA})
    retraction_id = await retraction_graph.ask_retract(OLD)
    analysis = await retraction_graph.analysis("On it", f"[node:{ghana}]")
    await retraction_graph.work_off()
    old = await retraction_graph.source_id(OLD)
    assert (await retraction_graph.state()).doubted == {(analysis, ghana, old)}
    await retraction_graph.says(NEW, ACCRA, node_id=ghana)
    await retraction_graph.resolve_doubts()
    assert await retraction_graph.doubted() == set()
    await retraction_graph.retract(NEW)
    assert (analysis, ghana, old) in (await retraction_graph.state()).doubted
    await retraction_graph.restore(retraction_id)
    assert await retraction_graph.doubted() == set()


async def test_very_many_doubts_are_opened_and_resolved_at_once(
    retraction_graph: RetractionGraph,
) -> None:
    ghana = await retraction_graph.node("Ghana", {OLD: ACCRA})
    params = {
        "agent": retraction_graph.agent_graph.scope.agent_id,
        "type": ANALYSIS_TYPE,
        "cited": ghana,
    }
    async with retraction_graph.agent_graph.database.transaction() as session:
        await session.execute(_INSERT_CONCLUSIONS, {**params, "many": MANY})
    await retraction_graph.retract(OLD)
    assert await _count_open_doubts(retraction_graph.agent_graph.database) == MANY
    await retraction_graph.says(NEW, ACCRA, node_id=ghana)
    await retraction_graph.resolve_doubts()
    assert await _count_open_doubts(retraction_graph.agent_graph.database) == 0
    titles = [notice.title for notice in await retraction_graph.notices()]
    assert [title.partition(":")[0] for title in titles] == ["In doubt", "No longer in doubt"]
    assert all(f" {MANY} " in title for title in titles)


async def _count_open_doubts(database: Database) -> int:
    async with database.transaction() as session:
        statement = select(func.count()).select_from(Doubt).where(Doubt.resolved_at.is_(None))
        return (await session.scalars(statement)).one()


async def _close(element_id: UUID, source_id: UUID, session: AsyncSession) -> None:
    await doubts.close_doubts(session, [source_id])


async def _resolve(element_id: UUID, source_id: UUID, session: AsyncSession) -> None:
    await doubts.resolve_doubts(session, await load_claims(session, NODES, [element_id]))


@pytest.mark.parametrize("change", [_close, _resolve])
async def test_doubts_are_locked_in_id_order(
    retraction_graph: RetractionGraph, change: Callable[[UUID, UUID, AsyncSession], Awaitable[None]]
) -> None:
    database = retraction_graph.agent_graph.database
    ghana = await retraction_graph.node("Ghana", {OLD: ACCRA})
    analyses = [
        await retraction_graph.analysis(name, f"[node:{ghana}]") for name in ("One", "Other")
    ]
    source_id = await retraction_graph.source_id(OLD)
    low, high = await _insert_doubts_in_reverse(database, analyses, ghana, source_id)
    async with database.transaction() as session:
        await session.execute(select(Doubt.id).where(Doubt.id == low).with_for_update())
        task = asyncio.create_task(_run_in_transaction(database, partial(change, ghana, source_id)))
        await wait_until(
            partial(has_lock_waiter, database), what="the task to wait for the first doubt"
        )
        await session.execute(select(Doubt.id).where(Doubt.id == high).with_for_update(nowait=True))
    await task


async def _run_in_transaction(
    database: Database, change: Callable[[AsyncSession], Awaitable[None]]
) -> None:
    async with database.transaction() as session:
        await change(session)


async def _insert_doubts_in_reverse(
    database: Database, conclusions: Collection[UUID], element_id: UUID, source_id: UUID
) -> tuple[UUID, UUID]:
    """Insert two doubts, the higher id first, and return their ids, the lower first."""
    by_id = {
        ids.doubt_id(conclusion_id, element_id, source_id): conclusion_id
        for conclusion_id in conclusions
    }
    low, high = sorted(by_id)
    for doubt_id in (high, low):
        row = {"conclusion_id": by_id[doubt_id], "element_id": element_id, "source_id": source_id}
        async with database.transaction() as session:
            session.add(Doubt(id=doubt_id, **row))
    return low, high
