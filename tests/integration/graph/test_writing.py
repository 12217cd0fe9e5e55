"""Nodes and edges: merged, refused, and written once however many write."""

import asyncio
from uuid import uuid4

import pytest
from sqlalchemy import func, select

from services.api.queries import graph
from shared.database.tables import GraphEdge, GraphNode
from shared.graph import edges, nodes, upsert
from shared.tools import ToolRefusalError
from tests.support.graph.world import GROUNDS, World

WRITERS = 16


async def _add(world: World, name: str, **properties: object) -> tuple[object, bool]:
    async with world.database.transaction() as session:
        added = await nodes.add_node(
            session,
            world.scope,
            world.validators,
            type_name="Country",
            name=name,
            properties=dict(properties),
            grounds=GROUNDS,
        )
    return added.id, added.created


async def _properties(world: World, name: str) -> dict[str, object]:
    async with world.database.transaction() as session:
        found = await session.scalar(select(GraphNode.properties).where(GraphNode.name == name))
    assert found is not None
    return found


async def test_the_same_name_is_the_same_node_and_takes_new_properties_on_top(world: World) -> None:
    first, created = await _add(world, "Ghana", summary="A state.", capital="Accra")
    second, created_again = await _add(world, " Ghana\n", summary="A republic.", population=3)
    assert (first, created, created_again) == (second, True, False)
    assert await _properties(world, "Ghana") == {
        "summary": "A republic.",
        "capital": "Accra",
        "population": 3,
    }


async def test_a_merge_needs_to_give_only_what_is_new(world: World) -> None:
    await _add(world, "Ghana", summary="A state.")
    await _add(world, "Ghana", population=3)
    assert await _properties(world, "Ghana") == {"summary": "A state.", "population": 3}


async def test_a_merge_moves_updated_at_and_keeps_who_made_it(world: World) -> None:
    node_id, _ = await _add(world, "Ghana", summary="A state.")
    async with world.database.transaction() as session:
        before = await session.get_one(GraphNode, node_id)
    await _add(world, "Ghana", population=3)
    async with world.database.transaction() as session:
        after = await session.get_one(GraphNode, node_id)
    assert after.updated_at > before.updated_at
    assert after.created_at == before.created_at


async def test_a_refused_merge_leaves_the_node_and_the_transaction_as_they_were(
    world: World,
) -> None:
    await _add(world, "Ghana", summary="A state.")
    async with world.database.transaction() as session:
        with pytest.raises(ToolRefusalError, match=r"population: 'many' is not of type 'integer'"):
            await nodes.add_node(
                session,
                world.scope,
                world.validators,
                type_name="Country",
                name="Ghana",
                properties={"population": "many"},
                grounds=GROUNDS,
            )
        await nodes.add_node(
            session,
            world.scope,
            world.validators,
            type_name="Country",
            name="Togo",
            properties={"summary": "Another."},
            grounds=GROUNDS,
        )
    assert await _properties(world, "Ghana") == {"summary": "A state."}
    assert await _properties(world, "Togo") == {"summary": "Another."}


@pytest.mark.parametrize(
    ("type_name", "name", "properties", "reason"),
    [
        ("Country", "Ghana", {}, "'summary' is a required property"),
        ("Country", "Ghana", {"summary": "a", "colour": "red"}, "'colour' was unexpected"),
        ("Country", "  ", {"summary": "a"}, "give 1 to 200"),
        ("Country", "x" * 201, {"summary": "a"}, "201 characters"),
        ("Country", "Gh\x00ana", {"summary": "a"}, r"name: holds U\+0000"),
        ("Country", "Ghana", {"summary": "\ud800"}, r"properties.summary: holds U\+D800"),
        ("Country", "Ghana", {"summary": "a" * 20_000}, "bytes, more than the limit of 20000"),
        ("country", "Ghana", {"summary": "a"}, r"no node type 'country'.* mean Country\?"),
        ("AgentAnalysis", "Ghana", {"summary": "a"}, "conclusions and cannot be added here"),
        ("AgentAdvice", "Ghana", {"summary": "a"}, "conclusions and cannot be added here"),
    ],
)
async def test_what_a_node_must_not_be_is_refused_in_words(
    world: World, type_name: str, name: str, properties: dict[str, object], reason: str
) -> None:
    async with world.database.transaction() as session:
        with pytest.raises(ToolRefusalError, match=reason):
            await nodes.add_node(
                session,
                world.scope,
                world.validators,
                type_name=type_name,
                name=name,
                properties=properties,
                grounds=GROUNDS,
            )
        assert (await graph.counts(session, world.scope)).nodes == 0


async def test_many_writers_of_overlapping_nodes_make_each_once(world: World) -> None:
    async def write(writer: int) -> int:
        order = [(writer + index) % 10 for index in range(10)]
        added = [
            await _add(world, f"Country {index}", summary="A state.", population=writer)
            for index in order
        ]
        return sum(created for _, created in added)

    created = await asyncio.gather(*(write(writer) for writer in range(WRITERS)))
    assert sum(created) == 10
    async with world.database.transaction() as session:
        assert await session.scalar(select(func.count()).select_from(GraphNode)) == 10


async def test_a_merge_loses_none_of_what_many_write_at_once(world: World) -> None:
    async def write(writer: int) -> None:
        async with world.database.transaction() as session:
            await nodes.add_node(
                session,
                world.scope,
                world.validators,
                type_name="Country",
                name="Ghana",
                properties={"summary": "A state.", **one_of(writer)},
                grounds=GROUNDS,
            )

    def one_of(writer: int) -> dict[str, object]:
        return {"population": 7} if writer % 2 else {"capital": "Accra"}

    await asyncio.gather(*(write(writer) for writer in range(WRITERS)))
    assert await _properties(world, "Ghana") == {
        "summary": "A state.",
        "population": 7,
        "capital": "Accra",
    }


async def test_many_writers_of_one_edge_make_it_once(world: World) -> None:
    ends = [await world.node(name) for name in ("Ghana", "Togo", "Benin")]
    pairs = [(a, b) for a in ends for b in ends if a != b]

    async def write(writer: int) -> None:
        for index in range(len(pairs)):
            await world.edge(*pairs[(writer + index) % len(pairs)])

    await asyncio.gather(*(write(writer) for writer in range(WRITERS)))
    async with world.database.transaction() as session:
        assert await session.scalar(select(func.count()).select_from(GraphEdge)) == len(pairs)


async def test_an_edge_takes_new_properties_on_top(world: World) -> None:
    ghana, togo = await world.node("Ghana"), await world.node("Togo")

    async def add(**properties: object) -> tuple[object, bool]:
        async with world.database.transaction() as session:
            added = await edges.add_edge(
                session,
                world.scope,
                world.validators,
                type_name="borders",
                source_id=ghana,
                target_id=togo,
                properties=dict(properties),
                grounds=GROUNDS,
            )
            return added.id, added.created

    first, created = await add(length_km=1)
    second, created_again = await add(length_km=2, since=1914)
    assert (first, created, created_again) == (second, True, False)
    async with world.database.transaction() as session:
        edge = await session.scalar(select(GraphEdge))
    assert edge is not None
    assert edge.properties == {"length_km": 2, "since": 1914}


async def test_an_edge_joins_two_different_nodes_of_the_right_types(world: World) -> None:
    await world.node_type("River")
    ghana, volta = await world.node("Ghana"), await world.node("Volta", "River")
    with pytest.raises(ToolRefusalError, match="an edge joins two different nodes"):
        await world.edge(ghana, ghana)
    with pytest.raises(ToolRefusalError, match="borders edges lead to Country nodes, not River"):
        await world.edge(ghana, volta)
    with pytest.raises(ToolRefusalError, match="borders edges start from Country nodes, not River"):
        await world.edge(volta, ghana)
    with pytest.raises(ToolRefusalError, match=r"no edge type 'border'.* mean borders"):
        await world.edge(ghana, volta, "border")


async def test_the_node_of_another_agent_is_no_such_node(world: World, stranger: World) -> None:
    ghana, theirs = await world.node("Ghana"), await stranger.node("Togo")
    with pytest.raises(ToolRefusalError, match=f"targetId: no such node: {theirs}"):
        await world.edge(ghana, theirs)
    with pytest.raises(ToolRefusalError, match=f"sourceId: no such node: {theirs}"):
        await world.edge(theirs, ghana)


@pytest.mark.parametrize("statement", [upsert.UPDATE_NODE_SQL, upsert.UPDATE_EDGE_SQL])
async def test_what_is_not_there_is_not_brought_up_in_silence(world: World, statement: str) -> None:
    thing = {"id": uuid4(), "properties": {}, "seal": b""}
    async with world.database.transaction() as session:
        with pytest.raises(RuntimeError, match=f"{thing['id']} is locked"):
            await upsert.update_element(session, statement, {**world.scope.sql_params, **thing}, [])
