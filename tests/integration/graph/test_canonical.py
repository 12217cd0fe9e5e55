"""The canonical form: equal for the same knowledge, different for any other."""

from collections.abc import Iterator
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any
from uuid import uuid4

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
from shared.enums import ADVICE_TYPE, ANALYSIS_TYPE
from shared.graph import edges
from shared.graph.conclusions import conclusions
from shared.graph.scope import GraphScope
from shared.graph.types import RESERVED_TYPES
from tests.support.canonical_graph import canonical, graph_fingerprint
from tests.support.forecast_terms import ADVICE_TERMS, ANALYSIS_TERMS
from tests.support.graph.agent_graph import EVIDENCE_INPUTS, PAGE, AgentGraph
from tests.support.second_analysis import add_second_analysis

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
        result = await edges.add_edge(
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


async def test_the_form_names_cited_elements_and_omits_ids_and_times(
    agent_graph: AgentGraph,
) -> None:
    await learn(agent_graph)
    async with agent_graph.database.transaction() as session:
        form = await canonical(session, agent_graph.scope)
    ghana, togo = ["Country", "Ghana"], ["Country", "Togo"]
    assert form["edges"] == [
        {
            "type": "borders",
            "source": ghana,
            "target": togo,
            "properties": {"lengths_km": [1098, {"since": "1914"}], "open": True},
            "evidence": [
                {
                    "url": PAGE["url"],
                    "sha256": sha256(PAGE["content"].encode()).hexdigest(),
                    "bytes": [0, len(PAGE["content"])],
                    "claims": {"lengths_km": [1098, {"since": "1914"}], "open": True},
                    "valid_from": None,
                    "valid_to": None,
                    "retracted": False,
                }
            ],
        }
    ]
    advice, _, analysis, first, second = form["nodes"]
    assert (first["name"], second["name"]) == ("Ghana", "Togo")
    assert analysis == {
        "type": ANALYSIS_TYPE,
        "name": "Neighbours",
        "properties": {
            "type": "observation",
            "summary": 'They touch [edge:["borders",["Country","Ghana"],["Country","Togo"]]].',
            "content": 'Ghana [node:["Country","Ghana"]] touches Togo [node:["Country","Togo"]] '
            '[edge:["borders",["Country","Ghana"],["Country","Togo"]]].',
            "confidence": 0.5,
        },
        "evidence": [],
    }
    assert advice["type"] == ADVICE_TYPE
    assert advice["properties"]["content"] == (
        'Nothing moves [node:["AgentAnalysis","Neighbours"]] [node:["AgentAnalysis","And so it is"]].'
    )


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


async def test_any_change_changes_the_hash(agent_graph: AgentGraph) -> None:
    await learn(agent_graph)
    hashes = {await hash_of(agent_graph)}
    async with agent_graph.database.transaction() as session:
        for table, columns in KNOWLEDGE.items():
            for row in await session.scalars(select(table)):
                for column in columns:
                    original = getattr(row, column)
                    for other in variants(original):
                        setattr(row, column, other)
                        await session.flush()
                        changed_hash = await graph_fingerprint(session, agent_graph.scope)
                        assert changed_hash not in hashes, (table, column, other)
                        hashes.add(changed_hash)
                    setattr(row, column, original)
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
            node.iteration_id, node.created_at, node.updated_at = iteration.id, LATER, LATER
            if node.type in RESERVED_TYPES:
                node.properties = {**node.properties, "generated_at": "2031-01-31T12:00:00Z"}
            elif node.name == "Ghana":
                node.properties = {**node.properties, "population": 33.0}
        await session.execute(update(GraphNodeType).values(created_by="somebody", created_at=LATER))
    assert await hash_of(agent_graph) == before


async def test_the_cited_element_changes_the_hash(
    agent_graph: AgentGraph, stranger: AgentGraph
) -> None:
    for agent, cited_name in ((agent_graph, "Ghana"), (stranger, "Togo")):
        ids = {name: await agent.node(name) for name in ("Ghana", "Togo")}
        async with agent.database.transaction() as session:
            await conclusions.add_analysis(
                session,
                agent.scope,
                name="It grows",
                kind="pattern",
                summary="It grows.",
                content=f"It grows [node:{ids[cited_name]}].",
                **ANALYSIS_TERMS,
            )
    assert await hash_of(agent_graph) != await hash_of(stranger)


async def test_the_graph_of_another_owner_is_not_read(
    agent_graph: AgentGraph, stranger: AgentGraph
) -> None:
    empty = await hash_of(agent_graph, GraphScope(agent_graph.scope.owner_id, uuid4()))
    await learn(stranger)
    assert (
        await hash_of(agent_graph, GraphScope(agent_graph.scope.owner_id, stranger.scope.agent_id))
        == empty
    )
