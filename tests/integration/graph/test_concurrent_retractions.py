"""Retractions that are interrupted, that run concurrently, and that run while Researchers write to the same nodes."""

import asyncio
from collections.abc import AsyncIterator
from random import Random
from typing import Final
from uuid import UUID

import pytest
from sqlalchemy import func, select, text

from services.api.resources.sources import model as provenance
from shared.database.engine import Database
from shared.database.tables import RetractedSource, Retraction
from shared.graph.retraction.propagation import propagate_retractions
from tests.support.api.access import agent_access
from tests.support.graph.agent_graph import make_agent_graph
from tests.support.graph.retraction_graph import RetractionGraph
from tests.support.waiting import wait_until

FALSE, TRUE = "https://false.example", "https://true.example"
NODES: Final = 40
WRITERS: Final = 4
ROUNDS: Final = [6, pytest.param(12, marks=pytest.mark.slow)]


@pytest.fixture
async def retraction_graph(database: Database) -> RetractionGraph:
    return RetractionGraph(await make_agent_graph(database))


@pytest.fixture
async def other_replica(database_url: str) -> AsyncIterator[Database]:
    """The database as used by another replica."""
    replica = Database(database_url, name="another")
    yield replica
    await replica.close()


async def _add_nodes(retraction_graph: RetractionGraph, count: int = NODES) -> list[UUID]:
    """Add nodes: the false page supports all, the true page every second one."""
    node_ids = []
    for number in range(count):
        claims_by_url = {TRUE: {"capital": "Accra"}} if number % 2 else {}
        node_ids.append(
            await retraction_graph.node(
                f"Node {number}", {**claims_by_url, FALSE: {"capital": "Atlantis"}}
            )
        )
    return node_ids


async def _is_done(retraction_graph: RetractionGraph) -> bool:
    async with retraction_graph.agent_graph.database.transaction() as session:
        due = await session.scalar(
            select(func.count()).select_from(Retraction).where(Retraction.due_at.is_not(None))
        )
        return not due


async def _count_remaining(retraction_graph: RetractionGraph, retraction_id: UUID) -> int:
    scope = retraction_graph.agent_graph.scope
    async with retraction_graph.agent_graph.database.transaction() as session:
        retraction = await provenance.get_retraction(
            agent_access(session, scope.owner_id, scope.agent_id), retraction_id
        )
        return retraction.left


async def _count_deadlocks(retraction_graph: RetractionGraph) -> int:
    async with retraction_graph.agent_graph.database.transaction() as session:
        # Backends report their statistics when idle; this call forces it.
        await session.execute(text("select pg_stat_force_next_flush()"))
        statement = text(
            "select deadlocks from pg_stat_database where datname = current_database()"
        )
        return int((await session.execute(statement)).scalar_one())


async def test_propagation_survives_repeated_kills(
    retraction_graph: RetractionGraph, seed: int
) -> None:
    chance = Random(seed)
    nodes = await _add_nodes(retraction_graph)
    await retraction_graph.analysis("On them", *(f"[node:{node}]" for node in nodes))
    before = await retraction_graph.state()
    retraction_id = await retraction_graph.ask_retract(FALSE)
    kills = await _propagate_despite_kills(retraction_graph, chance)
    assert kills
    after = await retraction_graph.state()
    assert after.unsupported == frozenset(nodes[::2])
    assert {element for _, element, _ in after.doubted} == set(nodes)
    assert len(await retraction_graph.notices()) == 1
    await retraction_graph.ask_restore(retraction_id)
    await _propagate_despite_kills(retraction_graph, chance)
    assert await retraction_graph.state() == before


async def _propagate_despite_kills(retraction_graph: RetractionGraph, chance: Random) -> int:
    kills = 0
    while not await _is_done(retraction_graph):
        work = asyncio.create_task(retraction_graph.work_off(at_once=1))
        await asyncio.wait({work}, timeout=chance.uniform(0.001, 0.3))
        kills += not work.done()
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
    return kills


async def test_restoring_during_propagation_restores_the_previous_state(
    retraction_graph: RetractionGraph,
) -> None:
    nodes = await _add_nodes(retraction_graph)
    await retraction_graph.analysis("On them", f"[node:{nodes[0]}]", f"[node:{nodes[1]}]")
    before = await retraction_graph.state()
    retraction_id = await retraction_graph.ask_retract(FALSE)
    assert await _count_remaining(retraction_graph, retraction_id) == NODES
    work = asyncio.create_task(retraction_graph.work_off(at_once=1))
    await wait_until(lambda: _has_begun(retraction_graph), what="the first nodes to be flagged")
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)
    assert 0 < await _count_remaining(retraction_graph, retraction_id) < NODES
    await retraction_graph.restore(retraction_id)
    assert await retraction_graph.state() == before
    assert await retraction_graph.notices() == []


async def _has_begun(retraction_graph: RetractionGraph) -> bool:
    return bool((await retraction_graph.state()).unsupported)


async def test_two_workers_and_two_retractions_at_once(
    retraction_graph: RetractionGraph, other_replica: Database
) -> None:
    nodes = await _add_nodes(retraction_graph)
    before = await retraction_graph.state()
    retraction_ids = [await retraction_graph.ask_retract(url) for url in (FALSE, TRUE)]
    await asyncio.gather(
        retraction_graph.work_off(at_once=3), propagate_retractions(other_replica, at_once=3)
    )
    await retraction_graph.work_off()
    assert (await retraction_graph.state()).unsupported == frozenset(nodes)
    await asyncio.gather(*map(retraction_graph.ask_restore, retraction_ids))
    await asyncio.gather(
        retraction_graph.work_off(at_once=3), propagate_retractions(other_replica, at_once=3)
    )
    await retraction_graph.work_off()
    assert await retraction_graph.state() == before
    assert await _count_deadlocks(retraction_graph) == 0


async def test_concurrent_retractions_of_one_page_are_one(
    retraction_graph: RetractionGraph,
) -> None:
    await _add_nodes(retraction_graph, 1)
    retraction_ids = await asyncio.gather(*(retraction_graph.ask_retract(FALSE) for _ in range(8)))
    assert len(set(retraction_ids)) == 1


@pytest.mark.parametrize("rounds", ROUNDS)
async def test_a_retraction_applies_despite_concurrent_writes(
    retraction_graph: RetractionGraph, other_replica: Database, seed: int, rounds: int
) -> None:
    nodes = await _add_nodes(retraction_graph)
    writers = [
        _write(retraction_graph, nodes, number, rounds, Random(seed + number))
        for number in range(WRITERS)
    ]

    async def retract_and_restore() -> UUID:
        for _ in range(rounds):
            retraction_id = await retraction_graph.ask_retract(FALSE)
            await asyncio.gather(
                retraction_graph.work_off(at_once=7),
                propagate_retractions(other_replica, at_once=7),
            )
            await retraction_graph.restore(retraction_id)
        return await retraction_graph.retract(FALSE)

    retraction_id = (await asyncio.gather(retract_and_restore(), *writers))[0]
    await retraction_graph.work_off()
    for node_id in nodes:
        node = await retraction_graph.get_node(node_id)
        capital = node.properties.get("capital")
        assert capital != "Atlantis"
        assert (node.unsupported_since is not None) == (capital is None)
    await retraction_graph.restore(retraction_id)
    assert (await retraction_graph.state()).unsupported == frozenset()
    assert await _count_deadlocks(retraction_graph) == 0


async def _write(
    retraction_graph: RetractionGraph, nodes: list[UUID], number: int, rounds: int, chance: Random
) -> UUID:
    """Write the claims of two pages to random nodes, as Researchers do that read the pages earlier."""
    for round_ in range(rounds):
        node = chance.choice(nodes)
        for url, capital in ((FALSE, "Atlantis"), (f"https://{number}.example", "Accra")):
            await retraction_graph.says(url, {"capital": capital}, node_id=node, day=10 + round_)
    return nodes[0]


async def test_propagation_waits_for_writers_that_started_earlier(
    retraction_graph: RetractionGraph,
) -> None:
    """The writer checked the source before its retraction, and commits after it."""
    (node,) = await _add_nodes(retraction_graph, 1)
    late = await retraction_graph.node("Late", {})
    async with retraction_graph.agent_graph.database.transaction() as session:
        await retraction_graph.write(session, FALSE, {"capital": "Atlantis"}, node_id=late)
        await retraction_graph.ask_retract(FALSE)
        work = asyncio.create_task(retraction_graph.work_off())
        await wait_until(
            lambda: _is_waiting(retraction_graph), what="the worker to wait for the writer"
        )
    await work
    assert (await retraction_graph.state()).unsupported == {node, late}


async def _is_waiting(retraction_graph: RetractionGraph) -> bool:
    async with retraction_graph.agent_graph.database.transaction() as session:
        statement = text("select count(*) from pg_locks where not granted")
        begun = select(func.count()).where(RetractedSource.through.is_not(None))
        assert not await session.scalar(begun)
        return bool((await session.execute(statement)).scalar_one())
