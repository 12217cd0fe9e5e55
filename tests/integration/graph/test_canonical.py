"""The canonical form: equal for the same knowledge, different for any other."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import select, update

from shared.database.tables import (
    Evidence,
    GraphEdge,
    GraphEdgeType,
    GraphNode,
    GraphNodeType,
    Iteration,
    Source,
)
from shared.graph import elements
from shared.graph.conclusions import conclusions
from shared.graph.scope import GraphScope
from shared.graph.types import RESERVED_TYPES
from tests.support.canonical_graph import graph_fingerprint
from tests.support.forecast_terms import ADVICE_TERMS
from tests.support.graph.agent_graph import EVIDENCE_INPUTS, AgentGraph
from tests.support.second_analysis import add_second_analysis
from tests.support.table_rows import change

LATER = datetime(2031, 1, 31, tzinfo=UTC)

Row = GraphNode | GraphEdge | GraphNodeType | GraphEdgeType | Evidence | Source


async def hash_of(agent_graph: AgentGraph, scope: GraphScope | None = None) -> str:
    async with agent_graph.database.transaction() as session:
        return await graph_fingerprint(session, scope or agent_graph.scope)


async def learn(agent_graph: AgentGraph, *, backwards: bool = False) -> None:
    """Two states, a border with a length, an analysis that cites all three, and advice that cites it."""
    names = ["Ghana", "Togo"]
    ids = {name: await agent_graph.node(name) for name in (reversed(names) if backwards else names)}
    for facts in ({"capital": "Accra"}, {"population": 33})[:: -1 if backwards else 1]:
        await agent_graph.node("Ghana", **facts)
    async with agent_graph.database.transaction() as session:
        result = await elements.add_edge(
            session,
            agent_graph.scope,
            agent_graph.validators,
            type_name="borders",
            source_id=ids["Ghana"],
            target_id=ids["Togo"],
            properties={"lengths_km": [1098, {"since": "1914"}], "open": True},
            evidence=EVIDENCE_INPUTS,
        )
        border = result.id
        analysis = await conclusions.add_analysis(
            session,
            agent_graph.scope,
            name="Neighbours",
            kind="observation",
            summary=f"They touch [edge:{border}].",
            content=f"Ghana [node:{ids['Ghana']}] touches Togo [node:{ids['Togo']}] [edge:{border}].",
            confidence=0.5,
        )
        second = await add_second_analysis(session, agent_graph.scope, ids["Ghana"])
        await conclusions.add_advice(
            session,
            agent_graph.scope,
            name="Wait",
            action="HOLD",
            summary="Wait.",
            content=f"Nothing moves [node:{analysis}] [node:{second}].",
            **ADVICE_TERMS,
        )


async def test_agents_with_the_same_knowledge_have_the_same_hash(
    agent_graph: AgentGraph, stranger: AgentGraph
) -> None:
    assert await hash_of(agent_graph) == await hash_of(stranger)
    await learn(agent_graph)
    assert await hash_of(agent_graph) != await hash_of(stranger)
    await learn(stranger, backwards=True)
    assert await hash_of(agent_graph) == await hash_of(stranger)


KNOWLEDGE: dict[type[Row], tuple[str, ...]] = {
    GraphNode: ("name", "properties"),
    GraphEdge: ("properties",),
    GraphNodeType: ("description", "properties_schema", "example_properties"),
    GraphEdgeType: ("description", "properties_schema", "source_types", "target_types"),
    Evidence: ("first_byte", "end_byte", "claims", "valid_from", "valid_to"),
    Source: ("url", "sha256", "retracted_at"),
}


def variants(value: Any) -> Iterator[Any]:
    """Yield every variant of `value` with one change in one place."""
    if isinstance(value, dict):
        yield {**value, "another": 1}
        for key in value.keys() - {"generated_at"}:
            yield {name: inner for name, inner in value.items() if name != key}
            yield from ({**value, key: other} for other in variants(value[key]))
    elif isinstance(value, list):
        yield [*value, "another"]
        for index, inner in enumerate(value):
            for other in variants(inner):
                yield [*value[:index], other, *value[index + 1 :]]
    elif isinstance(value, bool):
        yield not value
    elif isinstance(value, str):
        yield f"{value}!"
    elif isinstance(value, bytes):
        yield value + b"!"
    elif value is None:
        yield LATER
    else:
        yield value + 1


@pytest.mark.slow
async def test_any_change_changes_the_hash(agent_graph: AgentGraph) -> None:
    await learn(agent_graph)
    hashes = {await hash_of(agent_graph)}
    async with agent_graph.database.transaction() as session:
        for table, columns in KNOWLEDGE.items():
            for row in await session.scalars(select(table)):
                for column in columns:
                    original = getattr(row, column)
                    for other in variants(original):
                        await change(session, row, **{column: other})
                        changed_hash = await graph_fingerprint(session, agent_graph.scope)
                        assert changed_hash not in hashes, (table, column, other)
                        hashes.add(changed_hash)
                    await change(session, row, **{column: original})
    assert len(hashes) > 150


async def test_edge_direction_and_element_types_change_the_hash(
    agent_graph: AgentGraph, stranger: AgentGraph
) -> None:
    for agent in (agent_graph, stranger):
        await agent.edge_type("near")
        await agent.node_type("River")
    ghana, togo = await agent_graph.node("Ghana"), await agent_graph.node("Togo")
    await agent_graph.edge(ghana, togo)
    other_ghana, other_togo = await stranger.node("Ghana"), await stranger.node("Togo")
    await stranger.edge(other_togo, other_ghana)
    assert await hash_of(agent_graph) != await hash_of(stranger)
    await agent_graph.edge(togo, ghana)
    await stranger.edge(other_ghana, other_togo)
    assert await hash_of(agent_graph) == await hash_of(stranger)
    await agent_graph.edge(ghana, togo, "near")
    assert await hash_of(agent_graph) != await hash_of(stranger)
    await stranger.edge(other_ghana, other_togo, "near")
    await agent_graph.node("Volta", "River")
    await stranger.node("Volta")
    assert await hash_of(agent_graph) != await hash_of(stranger)


async def test_author_times_and_number_format_do_not_change_the_hash(
    agent_graph: AgentGraph,
) -> None:
    await learn(agent_graph)
    before = await hash_of(agent_graph)
    await agent_graph.iteration(1, queries=["What grows?"])
    async with agent_graph.database.transaction() as session:
        iteration = (await session.scalars(select(Iteration))).one()
        for node in await session.scalars(select(GraphNode)):
            node = await change(
                session, node, iteration_id=iteration.id, created_at=LATER, updated_at=LATER
            )
            if node.type in RESERVED_TYPES:
                node = await change(
                    session,
                    node,
                    properties={**node.properties, "generated_at": "2031-01-31T12:00:00Z"},
                )
            elif node.name == "Ghana":
                node = await change(
                    session, node, properties={**node.properties, "population": 33.0}
                )
        await session.execute(update(GraphNodeType).values(created_by="somebody", created_at=LATER))
    assert await hash_of(agent_graph) == before


async def test_the_cited_element_changes_the_hash(
    agent_graph: AgentGraph, stranger: AgentGraph
) -> None:
    for agent, cited_name in ((agent_graph, "Ghana"), (stranger, "Togo")):
        ids = {name: await agent.node(name) for name in ("Ghana", "Togo")}
        await agent.analysis(f"It grows [node:{ids[cited_name]}].", "It grows")
    assert await hash_of(agent_graph) != await hash_of(stranger)
