"""Nodes and edges: updated, refused, and stored once with concurrent writers."""

import asyncio
from uuid import uuid4

import pytest
from sqlalchemy import func, select

from services.api.resources.graph import model as graph
from shared.database.tables import GraphEdge, GraphNode
from shared.graph import elements
from shared.graph.projection import EDGES, NODES, ElementKind
from shared.graph.provenance.claims import PropertyChange
from shared.graph.upsert import Element
from shared.tools import ToolRefusalError
from tests.support.api.access import agent_access
from tests.support.graph.agent_graph import EVIDENCE_INPUTS, AgentGraph
from tests.support.graph.concurrent_writes import retried

WRITERS = 16


@retried
async def _add(agent_graph: AgentGraph, name: str, **properties: object) -> tuple[object, bool]:
    result = await agent_graph.add_node(name, properties)
    return result.id, result.created


async def _properties(agent_graph: AgentGraph, name: str) -> dict[str, object]:
    async with agent_graph.database.transaction() as session:
        properties = await session.scalar(
            select(GraphNode.properties).where(GraphNode.name == name)
        )
    assert properties is not None
    return properties


async def test_the_same_name_updates_the_same_node(agent_graph: AgentGraph) -> None:
    first, created = await _add(agent_graph, "Ghana", summary="A state.", capital="Accra")
    second, created_again = await _add(agent_graph, " Ghana\n", summary="A republic.", population=3)
    assert (first, created, created_again) == (second, True, False)
    assert await _properties(agent_graph, "Ghana") == {
        "summary": "A republic.",
        "capital": "Accra",
        "population": 3,
    }


async def test_an_update_needs_only_the_new_properties(agent_graph: AgentGraph) -> None:
    await _add(agent_graph, "Ghana", summary="A state.")
    await _add(agent_graph, "Ghana", population=3)
    assert await _properties(agent_graph, "Ghana") == {"summary": "A state.", "population": 3}


async def test_an_update_changes_updated_at_and_keeps_created_at(agent_graph: AgentGraph) -> None:
    node_id, _ = await _add(agent_graph, "Ghana", summary="A state.")
    async with agent_graph.database.transaction() as session:
        before = await session.get_one(GraphNode, node_id)
    await _add(agent_graph, "Ghana", population=3)
    async with agent_graph.database.transaction() as session:
        after = await session.get_one(GraphNode, node_id)
    assert after.updated_at > before.updated_at
    assert after.created_at == before.created_at


async def test_a_refused_update_leaves_node_and_transaction_unchanged(
    agent_graph: AgentGraph,
) -> None:
    await _add(agent_graph, "Ghana", summary="A state.")
    async with agent_graph.database.transaction() as session:
        with pytest.raises(ToolRefusalError, match=r"population: 'many' is not of type 'integer'"):
            await elements.add_node(
                session,
                agent_graph.scope,
                agent_graph.validators,
                type_name="Country",
                name="Ghana",
                properties={"population": "many"},
                evidence=EVIDENCE_INPUTS,
            )
        await elements.add_node(
            session,
            agent_graph.scope,
            agent_graph.validators,
            type_name="Country",
            name="Togo",
            properties={"summary": "Another."},
            evidence=EVIDENCE_INPUTS,
        )
    assert await _properties(agent_graph, "Ghana") == {"summary": "A state."}
    assert await _properties(agent_graph, "Togo") == {"summary": "Another."}


INVALID_NODES: list[tuple[str, str, dict[str, str], str]] = [
    ("Country", "Ghana", {}, "'summary' is a required property"),
    ("Country", "Ghana", {"summary": "a", "colour": "red"}, "'colour' was unexpected"),
    ("Country", "  ", {"summary": "a"}, "give 1 to 200"),
    ("Country", "x" * 201, {"summary": "a"}, "201 characters"),
    ("Country", "Gh\x00ana", {"summary": "a"}, r"name: contains U\+0000"),
    ("Country", "Ghana", {"summary": "\ud800"}, r"properties.summary: contains U\+D800"),
    ("Country", "Ghana", {"summary": "a" * 20_000}, "bytes, more than the limit of 20000"),
    ("country", "Ghana", {"summary": "a"}, r"no node type 'country'.* mean Country\?"),
    ("AgentAnalysis", "Ghana", {"summary": "a"}, "conclusions and cannot be added here"),
    ("AgentAdvice", "Ghana", {"summary": "a"}, "conclusions and cannot be added here"),
]


async def test_invalid_nodes_are_refused_with_the_reason(
    agent_graph: AgentGraph, subtests: pytest.Subtests
) -> None:
    for type_name, name, properties, reason in INVALID_NODES:
        with subtests.test(reason):
            async with agent_graph.database.transaction() as session:
                with pytest.raises(ToolRefusalError, match=reason):
                    await elements.add_node(
                        session,
                        agent_graph.scope,
                        agent_graph.validators,
                        type_name=type_name,
                        name=name,
                        properties=properties,
                        evidence=EVIDENCE_INPUTS,
                    )
                assert (
                    await graph.count_by_type(agent_access(session, agent_graph.scope))
                ).totals.nodes == 0


async def test_concurrent_writers_store_overlapping_nodes_once(agent_graph: AgentGraph) -> None:
    async def write(writer: int) -> int:
        order = [(writer + index) % 10 for index in range(10)]
        results = [
            await _add(agent_graph, f"Country {index}", summary="A state.", population=writer)
            for index in order
        ]
        return sum(created for _, created in results)

    created = await asyncio.gather(*(write(writer) for writer in range(WRITERS)))
    assert sum(created) == 10
    async with agent_graph.database.transaction() as session:
        assert await session.scalar(select(func.count()).select_from(GraphNode)) == 10


async def test_concurrent_updates_of_one_node_lose_nothing(agent_graph: AgentGraph) -> None:
    @retried
    async def write(writer: int) -> None:
        await agent_graph.add_node("Ghana", {"summary": "A state.", **property_of(writer)})

    def property_of(writer: int) -> dict[str, object]:
        return {"population": 7} if writer % 2 else {"capital": "Accra"}

    await asyncio.gather(*(write(writer) for writer in range(WRITERS)))
    assert await _properties(agent_graph, "Ghana") == {
        "summary": "A state.",
        "population": 7,
        "capital": "Accra",
    }


async def test_concurrent_writers_store_each_edge_once(agent_graph: AgentGraph) -> None:
    ends = [await agent_graph.node(name) for name in ("Ghana", "Togo", "Benin")]
    pairs = [(a, b) for a in ends for b in ends if a != b]

    async def write(writer: int) -> None:
        for index in range(len(pairs)):
            await agent_graph.edge(*pairs[(writer + index) % len(pairs)])

    await asyncio.gather(*(write(writer) for writer in range(WRITERS)))
    async with agent_graph.database.transaction() as session:
        assert await session.scalar(select(func.count()).select_from(GraphEdge)) == len(pairs)


async def test_an_edge_is_updated_with_new_properties(agent_graph: AgentGraph) -> None:
    ghana, togo = await agent_graph.node("Ghana"), await agent_graph.node("Togo")

    async def add(**properties: object) -> tuple[object, bool]:
        async with agent_graph.database.transaction() as session:
            result = await elements.add_edge(
                session,
                agent_graph.scope,
                agent_graph.validators,
                type_name="borders",
                source_id=ghana,
                target_id=togo,
                properties=dict(properties),
                evidence=EVIDENCE_INPUTS,
            )
            return result.id, result.created

    first, created = await add(length_km=1)
    second, created_again = await add(length_km=2, since=1914)
    assert (first, created, created_again) == (second, True, False)
    async with agent_graph.database.transaction() as session:
        edge = await session.scalar(select(GraphEdge))
    assert edge is not None
    assert edge.properties == {"length_km": 2, "since": 1914}


async def test_an_edge_joins_two_different_nodes_of_the_right_types(
    agent_graph: AgentGraph,
) -> None:
    await agent_graph.node_type("River")
    ghana, volta = await agent_graph.node("Ghana"), await agent_graph.node("Volta", "River")
    with pytest.raises(ToolRefusalError, match="an edge joins two different nodes"):
        await agent_graph.edge(ghana, ghana)
    with pytest.raises(ToolRefusalError, match="borders edges lead to Country nodes, not River"):
        await agent_graph.edge(ghana, volta)
    with pytest.raises(ToolRefusalError, match="borders edges start from Country nodes, not River"):
        await agent_graph.edge(volta, ghana)
    with pytest.raises(ToolRefusalError, match=r"no edge type 'border'.* mean borders"):
        await agent_graph.edge(ghana, volta, "border")


async def test_edges_to_nodes_of_another_agent_are_refused(
    agent_graph: AgentGraph, stranger: AgentGraph
) -> None:
    ghana, foreign_node = await agent_graph.node("Ghana"), await stranger.node("Togo")
    with pytest.raises(ToolRefusalError, match=f"targetId: no such node: {foreign_node}"):
        await agent_graph.edge(ghana, foreign_node)
    with pytest.raises(ToolRefusalError, match=f"sourceId: no such node: {foreign_node}"):
        await agent_graph.edge(foreign_node, ghana)


@pytest.mark.parametrize("kind", [NODES, EDGES])
async def test_updating_a_missing_element_fails(agent_graph: AgentGraph, kind: ElementKind) -> None:
    ends = {"source_id": uuid4(), "target_id": uuid4()}
    identity = {"type": "Country", "name": "Ghana", **ends}
    element = Element(kind, agent_graph.scope, uuid4(), identity)
    async with agent_graph.database.transaction() as session:
        with pytest.raises(RuntimeError, match=f"{element.id} is locked"):
            await element.update(session, PropertyChange({}), [])
