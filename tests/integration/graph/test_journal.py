"""Replaying a graph's journal names exactly the rows that changed, whichever writer changed them."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from random import Random
from typing import Final

import psycopg
import pytest
from sqlalchemy import delete, func, select, text

from shared.database.tables import Agent, GraphEdge, GraphHead, GraphJournal, GraphNode
from shared.database.tables.graph import GRAPH_CHANGES
from shared.errors import RetrySoonError
from tests.support.graph.agent_graph import AgentGraph, make_agent_graph
from tests.support.graph.graph_with_evidence import EvidenceGraph
from tests.support.graph.history import Snapshot, read_journal, replay, take_snapshot
from tests.support.graph.transfer import exported, imported
from tests.support.graph.walking import Walk
from tests.support.seeds import repeatable

STEPS: Final = 40
STEPS_TO_FIND: Final = 400
"""After so many steps, a walk has made every kind of change."""
WALKERS: Final = 6
STEPS_OF_WALKER: Final = 20
PAIRS: Final = 30
NOTERS: Final = [
    ("graph_nodes", "note_insert"),
    ("graph_nodes", "note_update"),
    ("graph_nodes", "note_delete"),
    ("graph_edges", "note_insert"),
    ("graph_edges", "note_update"),
    ("graph_edges", "note_delete"),
    ("graph_node_types", "note_insert"),
    ("graph_edge_types", "note_insert"),
    ("graph_changes", "write_graph_journal"),
]


async def snapshot(graph: AgentGraph) -> Snapshot:
    async with graph.database.snapshot() as session:
        return await take_snapshot(session, graph.scope.agent_id)


async def journal(graph: AgentGraph) -> Sequence[GraphJournal]:
    async with graph.database.snapshot() as session:
        left = await session.scalar(select(func.count()).select_from(GRAPH_CHANGES))
        assert left == 0, f"the journal lacks {left} changes"
        return await read_journal(session, graph.scope.agent_id)


async def walk_and_check(graph: AgentGraph, seed: int, steps: int) -> None:
    """Compare the graph after each step of a walk with the one before, and random ones with each other."""
    chance = Random(seed)
    walk = Walk(graph, chance)
    snapshots = [Snapshot(0, {}), await snapshot(graph)]
    replay(await journal(graph), *snapshots)
    await walk.begin()
    for _ in range(steps):
        await roll_back(graph, chance)
        await walk.step()
        snapshots.append(await snapshot(graph))
        replay(await journal(graph), *snapshots[-2:])
    entries = await journal(graph)
    for _ in range(PAIRS):
        first, last = sorted(chance.sample(range(len(snapshots)), 2))
        replay(entries, snapshots[first], snapshots[last])


class UndoneError(Exception):
    """Undoes a change."""


async def roll_back(graph: AgentGraph, chance: Random) -> None:
    """Change rows in a transaction that is rolled back, or in a savepoint that is."""
    change = text("update graph_nodes set properties = '{}' where agent_id = :agent")
    params = {"agent": graph.scope.agent_id}
    in_savepoint = chance.random() < 0.5
    with suppress(UndoneError):
        async with graph.database.transaction() as session:
            if not in_savepoint:
                await session.execute(change, params)
                raise UndoneError
            with suppress(UndoneError):
                async with session.savepoint():
                    await session.execute(change, params)
                    raise UndoneError


@pytest.mark.parametrize("number", range(2))
async def test_replaying_the_journal_names_exactly_the_rows_that_changed(
    agent_graph: AgentGraph, seed: int, number: int
) -> None:
    with repeatable(seed):
        await walk_and_check(agent_graph, seed + number, STEPS)


def context_of(error: BaseException) -> str:
    """The message with the function and row at which PostgreSQL raised it."""
    cause = getattr(error.__cause__, "orig", error.__cause__)
    context = cause.diag.context if isinstance(cause, psycopg.Error) else None
    return f"{error} {context or ''}"


async def test_writers_at_once_have_one_history(agent_graph: AgentGraph, seed: int) -> None:
    has_ended = asyncio.Event()
    snapshots = [Snapshot(0, {})]
    retried: list[str] = []

    async def watch() -> None:
        while not has_ended.is_set():
            snapshots.append(await snapshot(agent_graph))

    async def run(number: int) -> None:
        walk = Walk(agent_graph, Random(seed + number), is_alone=False)
        for _ in range(STEPS_OF_WALKER):
            try:
                await walk.step()
            except RetrySoonError as error:
                retried.append(context_of(error))

    with repeatable(seed):
        await Walk(agent_graph, Random(seed)).begin()
        watcher = asyncio.create_task(watch())
        await asyncio.gather(*[run(number) for number in range(WALKERS)])
        has_ended.set()
        await watcher
        snapshots.append(await snapshot(agent_graph))
        assert [error for error in retried if "graph_journal" in error] == []
        entries = await journal(agent_graph)
        for earlier, later in pairwise(snapshots):
            replay(entries, earlier, later)


@pytest.mark.parametrize(("table", "trigger"), NOTERS)
async def test_a_writer_that_leaves_out_the_journal_is_found(
    agent_graph: AgentGraph, seed: int, table: str, trigger: str
) -> None:
    """Each trigger is one of the places in which the journal could be left out."""
    database = agent_graph.database
    graph = await make_agent_graph(database, "another")
    async with database.transaction() as session:
        await session.execute(text(f"alter table {table} disable trigger {trigger}"))
    await graph.node_type("City")
    await graph.edge_type("contains")

    with repeatable(seed), pytest.raises(AssertionError, match="the journal"):
        await walk_and_check(graph, seed, STEPS_TO_FIND)
    async with database.transaction() as session:
        await session.execute(text(f"alter table {table} enable trigger {trigger}"))


async def test_an_imported_graph_has_a_history_of_its_own(agent_graph: AgentGraph) -> None:
    walk = Walk(agent_graph, Random(1))
    await walk.begin()
    await walk.add_edge()
    file = await exported(EvidenceGraph(agent_graph))
    scope = await imported(EvidenceGraph(agent_graph), file)
    copy = replace(agent_graph, scope=scope)
    replay(await journal(copy), Snapshot(0, {}), await snapshot(copy))


async def test_a_deleted_agent_leaves_no_history(
    agent_graph: AgentGraph, stranger: AgentGraph
) -> None:
    await Walk(agent_graph, Random(1)).begin()
    async with agent_graph.database.transaction() as session:
        await session.execute(delete(Agent).where(Agent.id == agent_graph.scope.agent_id))
    async with agent_graph.database.transaction() as session:
        agents = {
            *await session.scalars(select(GraphHead.agent_id)),
            *await session.scalars(select(GraphJournal.agent_id)),
            *await session.scalars(select(GRAPH_CHANGES.c.agent_id)),
        }
    assert agents == {stranger.scope.agent_id}


async def test_a_change_that_changes_nothing_has_no_entry(agent_graph: AgentGraph) -> None:
    node = await agent_graph.node("Ghana")
    before = await snapshot(agent_graph)
    async with agent_graph.database.transaction() as session:
        await session.execute(text("update graph_nodes set name = name"))
        await session.execute(delete(GraphEdge))
    assert (await snapshot(agent_graph)).seq == before.seq
    async with agent_graph.database.transaction() as session:
        await session.execute(
            text("update graph_nodes set properties = '{}' where id = :id"), {"id": node}
        )
        await session.execute(delete(GraphNode).where(GraphNode.id == node))
    [*_, last] = await journal(agent_graph)
    assert (last.changed, last.deleted, last.types) == ([], [node], [])


async def test_an_element_that_is_deleted_and_inserted_again_has_changed(
    agent_graph: AgentGraph,
) -> None:
    node = await agent_graph.node("Ghana")
    async with agent_graph.database.transaction() as session:
        await session.execute(
            text("create temporary table kept on commit drop as select * from graph_nodes")
        )
        await session.execute(delete(GraphNode).where(GraphNode.id == node))
        await session.execute(
            text("insert into graph_nodes select * from kept where id = :id"), {"id": node}
        )
    [*_, last] = await journal(agent_graph)
    assert (last.changed, last.deleted) == ([node], [])
