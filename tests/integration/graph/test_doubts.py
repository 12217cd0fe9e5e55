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
from shared.database.tables import Doubt, Source
from shared.enums import ANALYSIS_TYPE
from shared.graph.projection import NODES, load_claims
from shared.graph.retraction import doubts
from tests.support.graph.retraction_graph import Library
from tests.support.graph.world import World
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
def library(world: World) -> Library:
    return Library(world)


async def _source_id(library: Library, url: str) -> UUID:
    async with library.world.database.transaction() as session:
        return (await session.scalars(select(Source.id).where(Source.url == url))).one()


async def test_a_later_retraction_doubts_only_conclusions_that_used_its_source(
    library: Library,
) -> None:
    ghana = await library.node("Ghana", {OLD: ACCRA})
    await library.retract(OLD)
    await library.says(NEW, KUMASI, node_id=ghana, day=LATER)
    await library.says(OTHER, {"population": 3}, node_id=ghana)
    analysis = await library.analysis("Since", f"[node:{ghana}]")
    before = await library.state()
    retraction_id = await library.retract(OTHER)
    other = await _source_id(library, OTHER)
    assert (await library.state()).doubted == {(analysis, ghana, other)}
    await library.restore(retraction_id)
    assert await library.state() == before


async def test_a_resolved_doubt_reopens_when_the_supporting_source_is_retracted(
    library: Library,
) -> None:
    """This includes conclusions made between the retraction and its propagation."""
    ghana = await library.node("Ghana", {OLD: ACCRA})
    retraction_id = await library.ask_retract(OLD)
    analysis = await library.analysis("On it", f"[node:{ghana}]")
    await library.work_off()
    old = await _source_id(library, OLD)
    assert (await library.state()).doubted == {(analysis, ghana, old)}
    await library.says(NEW, ACCRA, node_id=ghana)
    await library.resolve_doubts()
    assert await library.doubted() == set()
    await library.retract(NEW)
    assert (analysis, ghana, old) in (await library.state()).doubted
    await library.restore(retraction_id)
    assert await library.doubted() == set()


async def test_very_many_doubts_are_opened_and_resolved_at_once(library: Library) -> None:
    ghana = await library.node("Ghana", {OLD: ACCRA})
    params = {"agent": library.world.scope.agent_id, "type": ANALYSIS_TYPE, "cited": ghana}
    async with library.world.database.transaction() as session:
        await session.execute(_INSERT_CONCLUSIONS, {**params, "many": MANY})
    await library.retract(OLD)
    assert await _count_open_doubts(library.world.database) == MANY
    await library.says(NEW, ACCRA, node_id=ghana)
    await library.resolve_doubts()
    assert await _count_open_doubts(library.world.database) == 0
    assert [notice.title.split()[0] for notice in await library.notices()] == [str(MANY)] * 2


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
    library: Library, change: Callable[[UUID, UUID, AsyncSession], Awaitable[None]]
) -> None:
    database = library.world.database
    ghana = await library.node("Ghana", {OLD: ACCRA})
    analyses = [await library.analysis(name, f"[node:{ghana}]") for name in ("One", "Other")]
    source_id = await _source_id(library, OLD)
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
