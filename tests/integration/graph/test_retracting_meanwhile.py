"""Retractions that are interrupted, that meet, and that are worked off while Researchers write to the same nodes."""

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
from tests.support.graph.library import Library
from tests.support.graph.world import make_world
from tests.support.waiting import until

FALSE, TRUE = "https://false.example", "https://true.example"
NODES: Final = 40
WRITERS: Final = 4
ROUNDS: Final = 12


@pytest.fixture
async def library(database: Database) -> Library:
    return Library(await make_world(database))


@pytest.fixture
async def another(database_url: str) -> AsyncIterator[Database]:
    """As of another replica."""
    opened = Database(database_url, name="another")
    yield opened
    await opened.close()


async def _nodes(library: Library, count: int = NODES) -> list[UUID]:
    """The false page speaks of all, the true one of every second."""
    found = []
    for number in range(count):
        said = {TRUE: {"capital": "Accra"}} if number % 2 else {}
        found.append(await library.node(f"Node {number}", {**said, FALSE: {"capital": "Atlantis"}}))
    return found


async def _is_done(library: Library) -> bool:
    async with library.world.database.transaction() as session:
        due = await session.scalar(
            select(func.count()).select_from(Retraction).where(Retraction.due_at.is_not(None))
        )
        return not due


async def _left(library: Library, made: UUID) -> int:
    scope = library.world.scope
    async with library.world.database.transaction() as session:
        found = await provenance.find_retraction(session, scope.owner_id, scope.agent_id, made)
        assert found is not None
        return found.left


async def _deadlocks(library: Library) -> int:
    async with library.world.database.transaction() as session:
        # Each backend reports what it has counted when it is idle; this one asks for it.
        await session.execute(text("select pg_stat_force_next_flush()"))
        mine = text("select deadlocks from pg_stat_database where datname = current_database()")
        return int((await session.execute(mine)).scalar_one())


async def test_killed_again_and_again_it_ends_the_same(library: Library, seed: int) -> None:
    chance = Random(seed)
    nodes = await _nodes(library)
    await library.analysis("On them", *(f"[node:{node}]" for node in nodes))
    before = await library.state()
    made = await library.ask_retract(FALSE)
    kills = await _work_off_in_spite_of_kills(library, chance)
    assert kills
    after = await library.state()
    assert after.unsupported == frozenset(nodes[::2])
    assert {thing for _, thing, _ in after.doubted} == set(nodes)
    assert len(await library.notices()) == 1
    await library.ask_restore(made)
    await _work_off_in_spite_of_kills(library, chance)
    assert await library.state() == before


async def _work_off_in_spite_of_kills(library: Library, chance: Random) -> int:
    kills = 0
    while not await _is_done(library):
        work = asyncio.create_task(library.work_off(at_once=1))
        await asyncio.wait({work}, timeout=chance.uniform(0.001, 0.3))
        kills += not work.done()
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
    return kills


async def test_restored_halfway_all_is_as_it_was(library: Library) -> None:
    nodes = await _nodes(library)
    await library.analysis("On them", f"[node:{nodes[0]}]", f"[node:{nodes[1]}]")
    before = await library.state()
    made = await library.ask_retract(FALSE)
    assert await _left(library, made) == NODES
    work = asyncio.create_task(library.work_off(at_once=1))
    await until(lambda: _has_begun(library), what="the first nodes to be flagged")
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)
    assert 0 < await _left(library, made) < NODES
    await library.restore(made)
    assert await library.state() == before
    assert await library.notices() == []


async def _has_begun(library: Library) -> bool:
    return bool((await library.state()).unsupported)


async def test_two_workers_and_two_retractions_at_once(library: Library, another: Database) -> None:
    nodes = await _nodes(library)
    before = await library.state()
    made = [await library.ask_retract(url) for url in (FALSE, TRUE)]
    await asyncio.gather(library.work_off(at_once=3), propagate_retractions(another, at_once=3))
    await library.work_off()
    assert (await library.state()).unsupported == frozenset(nodes)
    await asyncio.gather(*map(library.ask_restore, made))
    await asyncio.gather(library.work_off(at_once=3), propagate_retractions(another, at_once=3))
    await library.work_off()
    assert await library.state() == before
    assert await _deadlocks(library) == 0


async def test_the_same_retracted_twice_at_once_is_one(library: Library) -> None:
    await _nodes(library, 1)
    made = await asyncio.gather(*(library.ask_retract(FALSE) for _ in range(8)))
    assert len(set(made)) == 1


async def test_researchers_write_meanwhile(library: Library, another: Database, seed: int) -> None:
    nodes = await _nodes(library)
    writers = [_write(library, nodes, number, Random(seed + number)) for number in range(WRITERS)]

    async def retract_and_restore() -> UUID:
        for _ in range(ROUNDS):
            made = await library.ask_retract(FALSE)
            await asyncio.gather(
                library.work_off(at_once=7), propagate_retractions(another, at_once=7)
            )
            await library.restore(made)
        return await library.retract(FALSE)

    made = (await asyncio.gather(retract_and_restore(), *writers))[0]
    await library.work_off()
    for node in nodes:
        found = await library.found(node)
        told = found.properties.get("capital")
        assert told != "Atlantis"
        assert (found.unsupported_since is not None) == (told is None)
    await library.restore(made)
    assert (await library.state()).unsupported == frozenset()
    assert await _deadlocks(library) == 0


async def _write(library: Library, nodes: list[UUID], number: int, chance: Random) -> UUID:
    """What both pages say, of nodes in any order, as Researchers do who have read them before."""
    for round_ in range(ROUNDS):
        node = chance.choice(nodes)
        for url, capital in ((FALSE, "Atlantis"), (f"https://{number}.example", "Accra")):
            await library.says(url, {"capital": capital}, node_id=node, day=10 + round_)
    return nodes[0]


async def test_a_writer_that_began_before_is_waited_for(library: Library) -> None:
    """It has looked at the source when it stood, and ends only after the retraction was asked for."""
    (node,) = await _nodes(library, 1)
    late = await library.node("Late", {})
    async with library.world.database.transaction() as session:
        await library.write(session, FALSE, {"capital": "Atlantis"}, node_id=late)
        await library.ask_retract(FALSE)
        work = asyncio.create_task(library.work_off())
        await until(lambda: _waits(library), what="the worker to wait for the writer")
    await work
    assert (await library.state()).unsupported == {node, late}


async def _waits(library: Library) -> bool:
    async with library.world.database.transaction() as session:
        waiting = text("select count(*) from pg_locks where not granted")
        begun = select(func.count()).where(RetractedSource.through.is_not(None))
        assert not await session.scalar(begun)
        return bool((await session.execute(waiting)).scalar_one())
