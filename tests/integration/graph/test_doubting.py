"""Which conclusions a retraction draws into doubt, and what raising and lifting many doubts at once comes to."""

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
from tests.support.graph.library import Library
from tests.support.graph.world import World
from tests.support.locked import is_waited_for
from tests.support.waiting import until

OLD, NEW, OTHER = (f"https://{name}.example/page" for name in ("old", "new", "other"))
ACCRA: Final = {"capital": "Accra"}
KUMASI: Final = {"capital": "Kumasi"}
LATER: Final = 20_000
"""A day on which every retraction of these tests is long made."""
MANY: Final = 16_500
"""Of which four arguments each would be more than one statement can be given."""
_CONCLUDED: Final = text(
    "with made as (insert into graph_nodes (id, agent_id, type, name, properties)"
    " select gen_random_uuid(), :agent, :type, 'No. ' || number, '{}' from generate_series(1, :many) number"
    " returning id) insert into citations (conclusion_id, cited_id) select id, :cited from made"
)


@pytest.fixture
def library(world: World) -> Library:
    return Library(world)


async def _source(library: Library, url: str) -> UUID:
    async with library.world.database.transaction() as session:
        return (await session.scalars(select(Source.id).where(Source.url == url))).one()


async def test_what_never_rested_on_it_is_not_drawn_in_by_a_later_retraction(
    library: Library,
) -> None:
    ghana = await library.node("Ghana", {OLD: ACCRA})
    await library.retract(OLD)
    await library.says(NEW, KUMASI, node_id=ghana, day=LATER)
    await library.says(OTHER, {"population": 3}, node_id=ghana)
    since = await library.analysis("Since", f"[node:{ghana}]")
    before = await library.state()
    made = await library.retract(OTHER)
    other = await _source(library, OTHER)
    assert (await library.state()).doubted == {(since, ghana, other)}
    await library.restore(made)
    assert await library.state() == before


async def test_what_did_is_drawn_in_again_when_what_bore_it_out_is_retracted(
    library: Library,
) -> None:
    """Also what was concluded when the retraction was made already, but nothing had followed from it yet."""
    ghana = await library.node("Ghana", {OLD: ACCRA})
    made = await library.ask_retract(OLD)
    analysis = await library.analysis("On it", f"[node:{ghana}]")
    await library.work_off()
    old = await _source(library, OLD)
    assert (await library.state()).doubted == {(analysis, ghana, old)}
    await library.says(NEW, ACCRA, node_id=ghana)
    await library.lift()
    assert await library.doubted() == set()
    await library.retract(NEW)
    assert (analysis, ghana, old) in (await library.state()).doubted
    await library.restore(made)
    assert await library.doubted() == set()


async def test_very_many_conclusions_are_doubted_and_freed_at_once(library: Library) -> None:
    ghana = await library.node("Ghana", {OLD: ACCRA})
    of = {"agent": library.world.scope.agent_id, "type": ANALYSIS_TYPE, "cited": ghana}
    async with library.world.database.transaction() as session:
        await session.execute(_CONCLUDED, {**of, "many": MANY})
    await library.retract(OLD)
    assert await _open(library.world.database) == MANY
    await library.says(NEW, ACCRA, node_id=ghana)
    await library.lift()
    assert await _open(library.world.database) == 0
    assert [each.title.split()[0] for each in await library.notices()] == [str(MANY)] * 2


async def _open(database: Database) -> int:
    async with database.transaction() as session:
        counted = select(func.count()).select_from(Doubt).where(Doubt.resolved_at.is_(None))
        return (await session.scalars(counted)).one()


async def _clear(thing: UUID, source: UUID, session: AsyncSession) -> None:
    await doubts.close_doubts(session, [source])


async def _lift(thing: UUID, source: UUID, session: AsyncSession) -> None:
    await doubts.resolve_doubts(session, await load_claims(session, NODES, [thing]))


@pytest.mark.parametrize("change", [_clear, _lift])
async def test_whoever_changes_doubts_takes_them_in_one_order(
    library: Library, change: Callable[[UUID, UUID, AsyncSession], Awaitable[None]]
) -> None:
    database = library.world.database
    ghana = await library.node("Ghana", {OLD: ACCRA})
    analyses = [await library.analysis(name, f"[node:{ghana}]") for name in ("One", "Other")]
    source = await _source(library, OLD)
    low, high = await _doubted_backwards(database, analyses, ghana, source)
    async with database.transaction() as session:
        await session.execute(select(Doubt.id).where(Doubt.id == low).with_for_update())
        changing = asyncio.create_task(_done(database, partial(change, ghana, source)))
        await until(partial(is_waited_for, database), what="the first doubt to be wanted")
        await session.execute(select(Doubt.id).where(Doubt.id == high).with_for_update(nowait=True))
    await changing


async def _done(database: Database, change: Callable[[AsyncSession], Awaitable[None]]) -> None:
    async with database.transaction() as session:
        await change(session)


async def _doubted_backwards(
    database: Database, conclusions: Collection[UUID], thing: UUID, source: UUID
) -> tuple[UUID, UUID]:
    """The ids of doubts of two, lower first, of which the higher is met first in the table."""
    by_id = {ids.doubt_id(each, thing, source): each for each in conclusions}
    low, high = sorted(by_id)
    for each in (high, low):
        row = {"conclusion_id": by_id[each], "element_id": thing, "source_id": source}
        async with database.transaction() as session:
            session.add(Doubt(id=each, **row))
    return low, high
