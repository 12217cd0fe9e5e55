"""Nearest-neighbour search by index: it finds almost all of the nearest vectors, and none of another agent."""

import random
from uuid import UUID

import pytest
from sqlalchemy import text

from shared.database.engine import Database
from shared.database.tables.graph import DIMENSIONS
from shared.graph.retrieval import VectorQuery, node_search
from tests.support.graph.agent_graph import AgentGraph, make_agent_graph

NODES_PER_AGENT = 600
CLUSTERS = 40
QUESTIONS = 10
MODEL = "any"


@pytest.fixture
async def agent_graphs(database: Database) -> list[AgentGraph]:
    """Agents with equally many vectors each, in the same clusters."""
    agent_graphs = [
        await make_agent_graph(database, name) for name in ("one", "two", "three", "four")
    ]
    chance = random.Random(1)
    centres = [[chance.gauss(0, 1) for _ in range(DIMENSIONS)] for _ in range(CLUSTERS)]
    for agent_graph in agent_graphs:
        vectors = [_near(chance, chance.choice(centres)) for _ in range(NODES_PER_AGENT)]
        async with database.transaction() as session:
            params = {"agent": agent_graph.scope.agent_id, "model": MODEL}
            await session.execute(
                text(
                    "insert into graph_nodes (id, agent_id, type, name, properties)"
                    " select gen_random_uuid(), :agent, 'Country', 'Land ' || n, '{}'"
                    " from generate_series(1, :many) n"
                ),
                {"agent": agent_graph.scope.agent_id, "many": NODES_PER_AGENT},
            )
            ids = await session.scalars(
                text("select id from graph_nodes where agent_id = :agent order by id"), params
            )
            await session.execute_each(
                text(
                    "insert into node_embeddings (node_id, agent_id, model, text_sha256, embedding)"
                    " values (:node, :agent, :model, '', cast(:meaning as real[]))"
                ),
                [
                    {**params, "node": node_id, "meaning": vector}
                    for node_id, vector in zip(ids, vectors, strict=True)
                ],
            )
    return agent_graphs


async def test_the_index_finds_almost_all_of_an_agents_nearest_nodes_and_no_others(
    agent_graphs: list[AgentGraph], monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(2)
    hits = []
    for number in range(QUESTIONS):
        agent_graph = agent_graphs[number % len(agent_graphs)]
        async with agent_graph.database.transaction() as session:
            [vector] = await session.scalars(
                text(
                    "select embedding from node_embeddings where agent_id = :a order by random() limit 1"
                ),
                {"a": agent_graph.scope.agent_id},
            )
        query = VectorQuery(_near(chance, vector), MODEL, 0.0)
        exact = await _nearest(agent_graph, query)
        with monkeypatch.context() as patch:
            patch.setattr(node_search, "MAX_EXACT_VECTORS", 10)
            by_index = await _nearest(agent_graph, query, "enable_sort")
        assert await _owners(agent_graph, by_index) == {agent_graph.scope.agent_id}
        assert [node_id for node_id in by_index if node_id in exact] == [
            node_id for node_id in exact if node_id in by_index
        ], "the nearest first"
        hits.append(len(set(exact[:20]) & set(by_index)))
    assert sum(hits) >= 0.9 * 20 * QUESTIONS, hits


async def test_a_large_graph_is_searched_by_the_index(agent_graphs: list[AgentGraph]) -> None:
    agent_graph = agent_graphs[0]
    async with agent_graph.database.transaction() as session:
        await session.execute(text("analyze node_embeddings"))
        await session.execute(text("set local enable_seqscan = off"))
        await session.execute(text("set local enable_sort = off"))
        plan = await session.scalars(
            text(f"explain {node_search.NEAREST_BY_INDEX_SQL}"),
            {
                **agent_graph.scope.sql_params,
                "vector": [0.1] * DIMENSIONS,
                "model": MODEL,
                "farthest": 0.7,
            },
        )
        assert "node_embeddings_near_idx" in "\n".join(plan)


def _near(chance: random.Random, centre: list[float]) -> list[float]:
    return [value + chance.gauss(0, 0.3) for value in centre]


async def _nearest(agent_graph: AgentGraph, query: VectorQuery, *off: str) -> list[UUID]:
    async with agent_graph.database.transaction() as session:
        for setting in off:
            await session.execute(text(f"set local {setting} = off"))
        return await node_search.nearest_nodes(session, agent_graph.scope, query)


async def _owners(agent_graph: AgentGraph, ids: list[UUID]) -> set[UUID]:
    async with agent_graph.database.transaction() as session:
        agent_ids = await session.scalars(
            text("select agent_id from graph_nodes where id = any(:ids)"), {"ids": ids}
        )
        return set(agent_ids)
