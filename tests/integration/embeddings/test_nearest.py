"""The nearest of very many vectors of many agents: by the index almost all are found, and no other agent's."""

import random
from uuid import UUID

import pytest
from sqlalchemy import text

from shared.database.engine import Database
from shared.database.tables.graph import DIMENSIONS
from shared.graph.retrieval import VectorQuery, node_search
from tests.support.graph.world import World, make_world

MANY = 600
CENTRES = 40
QUESTIONS = 10
MODEL = "any"


@pytest.fixture
async def crowd(database: Database) -> list[World]:
    """Agents with as many vectors each, which lie in the same heaps."""
    worlds = [await make_world(database, name) for name in ("one", "two", "three", "four")]
    chance = random.Random(1)
    centres = [[chance.gauss(0, 1) for _ in range(DIMENSIONS)] for _ in range(CENTRES)]
    for world in worlds:
        vectors = [_beside(chance, chance.choice(centres)) for _ in range(MANY)]
        async with database.transaction() as session:
            given = {"agent": world.scope.agent_id, "model": MODEL}
            await session.execute(
                text(
                    "insert into graph_nodes (id, agent_id, type, name, properties)"
                    " select gen_random_uuid(), :agent, 'Country', 'Land ' || n, '{}'"
                    " from generate_series(1, :many) n"
                ),
                {"agent": world.scope.agent_id, "many": MANY},
            )
            ids = await session.scalars(
                text("select id from graph_nodes where agent_id = :agent order by id"), given
            )
            await session.execute(
                text(
                    "insert into node_embeddings (node_id, agent_id, model, text_sha256, embedding)"
                    " values (:node, :agent, :model, '', cast(:meaning as real[]))"
                ),
                [
                    {**given, "node": node_id, "meaning": vector}
                    for node_id, vector in zip(ids, vectors, strict=True)
                ],
            )
    return worlds


async def test_the_index_finds_almost_all_and_nobody_elses(
    crowd: list[World], monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(2)
    hits = []
    for number in range(QUESTIONS):
        world = crowd[number % len(crowd)]
        async with world.database.transaction() as session:
            [of_one] = await session.scalars(
                text(
                    "select embedding from node_embeddings where agent_id = :a order by random() limit 1"
                ),
                {"a": world.scope.agent_id},
            )
        question = VectorQuery(_beside(chance, of_one), MODEL, 0.0)
        exact = await _nearest(world, question)
        with monkeypatch.context() as many:
            many.setattr(node_search, "MAX_EXACT_VECTORS", 10)
            by_index = await _nearest(world, question, "enable_sort")
        assert await _owners(world, by_index) == {world.scope.agent_id}
        assert [each for each in by_index if each in exact] == [
            each for each in exact if each in by_index
        ], "the nearest first"
        hits.append(len(set(exact[:20]) & set(by_index)))
    assert sum(hits) >= 0.9 * 20 * QUESTIONS, hits


async def test_it_is_the_index_that_is_asked_for_many(crowd: list[World]) -> None:
    world = crowd[0]
    async with world.database.transaction() as session:
        await session.execute(text("analyze node_embeddings"))
        await session.execute(text("set local enable_seqscan = off"))
        await session.execute(text("set local enable_sort = off"))
        plan = await session.scalars(
            text(f"explain {node_search.NEAREST_BY_INDEX_SQL}"),
            {
                **world.scope.sql_params,
                "vector": [0.1] * DIMENSIONS,
                "model": MODEL,
                "farthest": 0.7,
            },
        )
        assert "node_embeddings_near_idx" in "\n".join(plan)


def _beside(chance: random.Random, centre: list[float]) -> list[float]:
    return [each + chance.gauss(0, 0.3) for each in centre]


async def _nearest(world: World, near: VectorQuery, *off: str) -> list[UUID]:
    async with world.database.transaction() as session:
        for each in off:
            await session.execute(text(f"set local {each} = off"))
        return await node_search.nearest_nodes(session, world.scope, near)


async def _owners(world: World, ids: list[UUID]) -> set[UUID]:
    async with world.database.transaction() as session:
        found = await session.scalars(
            text("select agent_id from graph_nodes where id = any(:ids)"), {"ids": ids}
        )
        return set(found)
