"""Retractions that are interrupted, that run concurrently, and that run while Researchers write to the same nodes."""

import asyncio
from collections.abc import AsyncIterator
from random import Random
from typing import Final
from uuid import UUID

import pytest
from sqlalchemy import func, select, text

from services.api.queries import provenance
from shared.database.engine import Database
from shared.database.tables import RetractedSource, Retraction
from shared.graph.retraction.propagation import propagate_retractions
from tests.support.graph.retraction_graph import Library
from tests.support.graph.world import make_world
from tests.support.waiting import wait_until

FALSE, TRUE = "https://false.example", "https://true.example"
NODES: Final = 40
WRITERS: Final = 4
ROUNDS: Final = 12


@pytest.fixture
async def library(database: Database) -> Library:
    return Library(await make_world(database))


@pytest.fixture
async def other_replica(database_url: str) -> AsyncIterator[Database]:
    """The database as used by another replica."""
    replica = Database(database_url, name="another")
    yield replica
    await replica.close()


async def _add_nodes(library: Library, count: int = NODES) -> list[UUID]:
    """Add nodes: the false page supports all, the true page every second one."""
    node_ids = []
    for number in range(count):
        claims_by_url = {TRUE: {"capital": "Accra"}} if number % 2 else {}
        node_ids.append(
            await library.node(f"Node {number}", {**claims_by_url, FALSE: {"capital": "Atlantis"}})
        )
    return node_ids


async def _is_done(library: Library) -> bool:
    async with library.world.database.transaction() as session:
        due = await session.scalar(
            select(func.count()).select_from(Retraction).where(Retraction.due_at.is_not(None))
        )
        return not due


async def _count_remaining(library: Library, retraction_id: UUID) -> int:
    scope = library.world.scope
    async with library.world.database.transaction() as session:
        retraction = await provenance.find_retraction(
            session, scope.owner_id, scope.agent_id, retraction_id
        )
        assert retraction is not None
        return retraction.left


async def _count_deadlocks(library: Library) -> int:
    async with library.world.database.transaction() as session:
        # Backends report their statistics when idle; this call forces it.
        await session.execute(text("select pg_stat_force_next_flush()"))
        statement = text(
            "select deadlocks from pg_stat_database where datname = current_database()"
        )
        return int((await session.execute(statement)).scalar_one())


async def test_propagation_survives_repeated_kills(library: Library, seed: int) -> None:
    chance = Random(seed)
    nodes = await _add_nodes(library)
    await library.analysis("On them", *(f"[node:{node}]" for node in nodes))
    before = await library.state()
    retraction_id = await library.ask_retract(FALSE)
    kills = await _propagate_despite_kills(library, chance)
    assert kills
    after = await library.state()
    assert after.unsupported == frozenset(nodes[::2])
    assert {element for _, element, _ in after.doubted} == set(nodes)
    assert len(await library.notices()) == 1
    await library.ask_restore(retraction_id)
    await _propagate_despite_kills(library, chance)
    assert await library.state() == before


async def _propagate_despite_kills(library: Library, chance: Random) -> int:
    kills = 0
    while not await _is_done(library):
        work = asyncio.create_task(library.work_off(at_once=1))
        await asyncio.wait({work}, timeout=chance.uniform(0.001, 0.3))
        kills += not work.done()
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
    return kills


async def test_restoring_during_propagation_restores_the_previous_state(library: Library) -> None:
    nodes = await _add_nodes(library)
    await library.analysis("On them", f"[node:{nodes[0]}]", f"[node:{nodes[1]}]")
    before = await library.state()
    retraction_id = await library.ask_retract(FALSE)
    assert await _count_remaining(library, retraction_id) == NODES
    work = asyncio.create_task(library.work_off(at_once=1))
    await wait_until(lambda: _has_begun(library), what="the first nodes to be flagged")
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)
    assert 0 < await _count_remaining(library, retraction_id) < NODES
    await library.restore(retraction_id)
    assert await library.state() == before
    assert await library.notices() == []


async def _has_begun(library: Library) -> bool:
    return bool((await library.state()).unsupported)


async def test_two_workers_and_two_retractions_at_once(
    library: Library, other_replica: Database
) -> None:
    nodes = await _add_nodes(library)
    before = await library.state()
    retraction_ids = [await library.ask_retract(url) for url in (FALSE, TRUE)]
    await asyncio.gather(
        library.work_off(at_once=3), propagate_retractions(other_replica, at_once=3)
    )
    await library.work_off()
    assert (await library.state()).unsupported == frozenset(nodes)
    await asyncio.gather(*map(library.ask_restore, retraction_ids))
    await asyncio.gather(
        library.work_off(at_once=3), propagate_retractions(other_replica, at_once=3)
    )
    await library.work_off()
    assert await library.state() == before
    assert await _count_deadlocks(library) == 0


async def test_concurrent_retractions_of_one_page_are_one(library: Library) -> None:
    await _add_nodes(library, 1)
    retraction_ids = await asyncio.gather(*(library.ask_retract(FALSE) for _ in range(8)))
    assert len(set(retraction_ids)) == 1


async def test_a_retraction_applies_despite_concurrent_writes(
    library: Library, other_replica: Database, seed: int
) -> None:
    nodes = await _add_nodes(library)
    writers = [_write(library, nodes, number, Random(seed + number)) for number in range(WRITERS)]

    async def retract_and_restore() -> UUID:
        for _ in range(ROUNDS):
            retraction_id = await library.ask_retract(FALSE)
            await asyncio.gather(
                library.work_off(at_once=7), propagate_retractions(other_replica, at_once=7)
            )
            await library.restore(retraction_id)
        return await library.retract(FALSE)

    retraction_id = (await asyncio.gather(retract_and_restore(), *writers))[0]
    await library.work_off()
    for node_id in nodes:
        node = await library.get_node(node_id)
        capital = node.properties.get("capital")
        assert capital != "Atlantis"
        assert (node.unsupported_since is not None) == (capital is None)
    await library.restore(retraction_id)
    assert (await library.state()).unsupported == frozenset()
    assert await _count_deadlocks(library) == 0


async def _write(library: Library, nodes: list[UUID], number: int, chance: Random) -> UUID:
    """Write the claims of two pages to random nodes, as Researchers do that read the pages earlier."""
    for round_ in range(ROUNDS):
        node = chance.choice(nodes)
        for url, capital in ((FALSE, "Atlantis"), (f"https://{number}.example", "Accra")):
            await library.says(url, {"capital": capital}, node_id=node, day=10 + round_)
    return nodes[0]


async def test_propagation_waits_for_writers_that_started_earlier(library: Library) -> None:
    """The writer checked the source before its retraction, and commits after it."""
    (node,) = await _add_nodes(library, 1)
    late = await library.node("Late", {})
    async with library.world.database.transaction() as session:
        await library.write(session, FALSE, {"capital": "Atlantis"}, node_id=late)
        await library.ask_retract(FALSE)
        work = asyncio.create_task(library.work_off())
        await wait_until(lambda: _is_waiting(library), what="the worker to wait for the writer")
    await work
    assert (await library.state()).unsupported == {node, late}


async def _is_waiting(library: Library) -> bool:
    async with library.world.database.transaction() as session:
        statement = text("select count(*) from pg_locks where not granted")
        begun = select(func.count()).where(RetractedSource.through.is_not(None))
        assert not await session.scalar(begun)
        return bool((await session.execute(statement)).scalar_one())
