"""A name that was free when it was looked for, and is another's when it is to be written: nothing is left half done."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import func, select, text
from sqlalchemy.ext.asyncio import AsyncSession

from shared.database.tables import Evidence, GraphName, GraphNode
from shared.graph import nodes
from shared.graph.entity_resolution import aliases
from shared.graph.retraction import retractions
from shared.graph.retraction.propagation import propagate_retractions
from shared.graph.upsert import UpsertResult
from tests.support.graph.world import COUNTRY, GROUNDS, PAGE, World
from tests.support.waiting import until


@pytest.fixture
async def companies(world: World) -> World:
    await world.node_type("Company")
    return world


async def _add(world: World, session: AsyncSession, name: str, **asked: Any) -> UpsertResult:
    return await nodes.add_node(
        session,
        world.scope,
        world.validators,
        type_name="Company",
        name=name,
        properties=COUNTRY,
        grounds=GROUNDS,
        **asked,
    )


async def _added(world: World, name: str, **asked: Any) -> UpsertResult:
    async with world.database.transaction() as session:
        return await _add(world, session, name, **asked)


async def _called(world: World, node_id: UUID) -> list[str]:
    async with world.database.transaction() as session:
        return await aliases.list_names(session, world.scope, node_id)


async def _count(world: World, table: type[GraphNode | GraphName | Evidence]) -> int:
    async with world.database.transaction() as session:
        return await session.scalar(select(func.count()).select_from(table)) or 0


async def _waiting(world: World) -> int:
    async with world.database.transaction() as session:
        waiting = text(
            "select count(*) from pg_locks join pg_stat_activity using (pid)"
            " where not granted and datname = current_database()"
        )
        return int((await session.execute(waiting)).scalar_one())


@asynccontextmanager
async def _behind(
    world: World, first: str, *, name: str, **asked: Any
) -> AsyncIterator[tuple[AsyncSession, "asyncio.Task[UpsertResult]"]]:
    """Who takes the name `first` and has not committed it, and who adds `name`, has looked for it, and waits."""
    async with world.database.transaction() as session:
        await aliases.resolve_and_reserve(
            session, world.scope, [aliases.NameRequest("Company", first)]
        )
        adding = asyncio.create_task(_added(world, name, **asked))
        await until(lambda: _waiting(world), what="the second to wait for the first's name")
        yield session, adding


async def test_the_only_name_is_lost_and_the_thing_is_the_others(companies: World) -> None:
    async with _behind(companies, "Nvidia", name="NVIDIA Corp.") as (session, adding):
        await _add(companies, session, "Nvidia")
    added = await adding
    assert not added.created
    assert await _called(companies, added.id) == ["Nvidia"]
    assert await _count(companies, GraphNode) == 1


async def test_whoever_had_it_gives_it_up_and_the_thing_is_new(companies: World) -> None:
    async with _behind(companies, "Nvidia", name="NVIDIA Corp.") as (session, adding):
        await session.rollback()
    added = await adding
    assert added.created
    assert await _called(companies, added.id) == ["NVIDIA Corp."]
    assert await _count(companies, GraphNode) == 1


async def test_one_of_two_names_is_lost_and_the_other_is_kept(companies: World) -> None:
    """It is written without what its name implies, which is another's."""
    ours = "Nvidia (NASDAQ: NVDA)"
    async with _behind(companies, "NVDA", name=ours) as (session, adding):
        await _add(companies, session, "NVDA")
    added = await adding
    assert added.created
    assert await _called(companies, added.id) == [ours]
    assert await _count(companies, GraphNode) == await _count(companies, GraphName) == 2
    assert await _count(companies, Evidence) == 2


async def test_what_is_a_double_by_then_is_asked_about_and_leaves_no_name(
    companies: World,
) -> None:
    ours = "Nvidia (NASDAQ: NVDA)"
    async with _behind(companies, "NVDA", name=ours, duplicate_threshold=0.55) as (session, adding):
        await _add(companies, session, "NVDA")
    with pytest.raises(Exception, match="which may be the same thing"):
        await adding
    assert await _count(companies, GraphName) == await _count(companies, GraphNode) == 1


async def test_a_page_that_is_retracted_while_its_evidence_is_being_written_is_seen(
    companies: World,
) -> None:
    """The statement that writes has begun, and sees the page as it was; whoever follows the retraction up waits for it."""
    async with _behind(companies, "Nvidia", name="NVIDIA Corp.") as (session, adding):
        async with companies.database.transaction() as other:
            await retractions.retract_source(other, companies.scope, PAGE["url"], "made up")
        work = asyncio.create_task(propagate_retractions(companies.database))
        await until(lambda: _two_wait_or_done(companies, work), what="the worker to wait")
        await session.rollback()
    added = await adding
    await work
    async with companies.database.transaction() as session:
        node = await session.get_one(GraphNode, added.id)
        assert node.properties == {}
        assert node.unsupported_since is not None


async def _two_wait_or_done(world: World, work: "asyncio.Task[None]") -> bool:
    return work.done() or await _waiting(world) > 1
