"""The survey of the graph in `<graph_context>`."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from typing import Any
from uuid import UUID

from sqlalchemy import (
    ColumnElement,
    Select,
    and_,
    desc,
    func,
    select,
    true,
    union_all,
)
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import InstrumentedAttribute

from shared.database.statements import Asked, Direct, RoundTrip
from shared.database.tables import GraphEdge, GraphEdgeType, GraphNode, GraphNodeType
from shared.enums import ADVICE_TYPE, ANALYSIS_TYPE
from shared.graph.context import history, recent
from shared.graph.context.recent import MOST, NodeFacts
from shared.graph.prompt_format import (
    Section,
    ago,
    conclusion_line,
    edge_line,
    fit,
    node_line,
    quoted,
    short,
    shortened,
    utc,
)
from shared.graph.scope import OWNED, Scope, is_supported
from shared.graph.types import MAX_TYPES, RESERVED_TYPES
from shared.workflow import investigations
from shared.workflow.iterations import CLOCK

COUNT_LIMIT = 500
"""Of a type, no more nodes or edges than this are counted."""
DEGREE_LIMIT = 500
"""Of a node, no more edges than this are counted, in each direction."""
_EDGES_SAMPLED = 1_000
"""The best connected nodes are looked for among the newest edges, so that the search does not grow with the graph."""


@dataclass(frozen=True)
class NodeTypeFacts:
    name: str
    description: str
    count: int
    newest_id: UUID | None
    newest_name: str | None
    newest_at: datetime | None


@dataclass(frozen=True)
class EdgeTypeFacts:
    name: str
    description: str
    count: int


@dataclass(frozen=True)
class ConnectedNode:
    id: UUID
    type: str
    name: str
    edges: int


def node_types(scope: Scope) -> Asked[list[NodeTypeFacts]]:
    return Asked(_node_types(), scope.bound, lambda rows: [NodeTypeFacts(*row) for row in rows])


# Statements are put together once: that takes longer than PostgreSQL takes to answer.
@cache
def _node_types() -> Direct:
    of_type = and_(
        GraphNode.agent_id == GraphNodeType.agent_id, GraphNode.type == GraphNodeType.name
    )
    counted = select(1).select_from(GraphNode).where(of_type).correlate(GraphNodeType)
    newest = (
        select(GraphNode.id, GraphNode.name.label("node_name"), GraphNode.updated_at)
        .where(of_type, is_supported(GraphNode))
        .correlate(GraphNodeType)
        .order_by(GraphNode.updated_at.desc())
        .limit(1)
        .lateral()
    )
    return Direct(
        select(
            GraphNodeType.name,
            GraphNodeType.description,
            _at_most(counted, COUNT_LIMIT),
            newest.c.id,
            newest.c.node_name,
            newest.c.updated_at,
        )
        .join(newest, true(), isouter=True)
        .where(GraphNodeType.agent_id == OWNED)
        .order_by(GraphNodeType.name)
        .limit(MAX_TYPES)
    )


def edge_types(scope: Scope) -> Asked[list[EdgeTypeFacts]]:
    return Asked(_edge_types(), scope.bound, lambda rows: [EdgeTypeFacts(*row) for row in rows])


@cache
def _edge_types() -> Direct:
    counted = (
        select(1)
        .select_from(GraphEdge)
        .where(GraphEdge.agent_id == GraphEdgeType.agent_id, GraphEdge.type == GraphEdgeType.name)
        .correlate(GraphEdgeType)
    )
    return Direct(
        select(GraphEdgeType.name, GraphEdgeType.description, _at_most(counted, COUNT_LIMIT))
        .where(GraphEdgeType.agent_id == OWNED)
        .order_by(GraphEdgeType.name)
        .limit(MAX_TYPES)
    )


def best_connected(scope: Scope, limit: int) -> Asked[list[ConnectedNode]]:
    given = {**scope.bound, "most": limit}
    return Asked(_best_connected(), given, lambda rows: [ConnectedNode(*row) for row in rows])


@cache
def _best_connected() -> Direct:
    recent = (
        select(GraphEdge.source_id, GraphEdge.target_id)
        .where(GraphEdge.agent_id == OWNED)
        .order_by(GraphEdge.updated_at.desc())
        .limit(_EDGES_SAMPLED)
        .cte("recent")
    )
    ends = union_all(
        select(recent.c.source_id.label("node_id")), select(recent.c.target_id)
    ).subquery()
    busiest = (
        select(ends.c.node_id)
        .group_by(ends.c.node_id)
        .order_by(func.count().desc(), ends.c.node_id)
        .limit(MOST)
        .subquery()
    )
    degree = (_degree(GraphEdge.source_id) + _degree(GraphEdge.target_id)).label("degree")
    return Direct(
        select(GraphNode.id, GraphNode.type, GraphNode.name, degree)
        .join(busiest, busiest.c.node_id == GraphNode.id)
        .where(is_supported(GraphNode))
        .order_by(desc("degree"), GraphNode.id)
    )


def _degree(end: InstrumentedAttribute[UUID]) -> ColumnElement[int]:
    touching = select(1).select_from(GraphEdge).where(end == GraphNode.id).correlate(GraphNode)
    return _at_most(touching, DEGREE_LIMIT)


def _at_most(rows: Select[Any], limit: int) -> ColumnElement[int]:
    """How many `rows` there are, counted up to `limit`."""
    bounded = rows.limit(limit).subquery()
    return select(func.count()).select_from(bounded).scalar_subquery()


STALE_AFTER = timedelta(days=7)
_NEWEST_NODES = 40
_BEST_CONNECTED = 15
_STALE_REGIONS = 10
_NEWEST_EDGES = 30
_ANALYSES = 20
_ADVICE = 10
_ITERATIONS_OF_QUERIES = 3


async def build(session: AsyncSession, scope: Scope, *, token_budget: int = 6_000) -> str:
    """The block for `<graph_context>`. Costs a fixed number of bounded queries, however large the graph."""
    trip = RoundTrip()
    clock = trip.ask(CLOCK)
    nodes_by_type = trip.ask(node_types(scope))
    edges_by_type = trip.ask(edge_types(scope))
    analyses = trip.ask(recent.newest_of_type(scope, ANALYSIS_TYPE, _ANALYSES))
    advice = trip.ask(recent.newest_of_type(scope, ADVICE_TYPE, _ADVICE))
    nodes = trip.ask(recent.newest_facts(scope, _NEWEST_NODES))
    edges = trip.ask(recent.newest_edges(scope, _NEWEST_EDGES))
    connected = trip.ask(best_connected(scope, _BEST_CONNECTED))
    recently = trip.ask(history.asked_lines(scope, _ITERATIONS_OF_QUERIES))
    requests = trip.ask(investigations.open_of(scope.agent_id))
    await trip.make(session)
    now, node_facts, edge_facts = clock.value, nodes_by_type.value, edges_by_type.value
    sections = [
        Section("Node types", _node_type_lines(node_facts), rank=0, keep=30),
        Section("Edge types", _edge_type_lines(edge_facts), rank=4, keep=20),
        Section("Newest nodes", [_newest_line(node) for node in nodes.value], rank=5, keep=10),
        Section(
            "Best connected nodes",
            [
                f"{node_line(n.id, n.type, n.name)} ({_degree_words(n.edges)} edges)"
                for n in connected.value
            ],
            rank=8,
        ),
        Section("Stale regions", _stale_lines(node_facts, now), rank=6, keep=5),
        Section(
            "Newest edges",
            [edge_line(edge.id, edge.type, edge.source, edge.target) for edge in edges.value],
            rank=7,
            keep=5,
        ),
        Section(
            "Analyses", [_conclusion(each, "type") for each in analyses.value], rank=1, keep=10
        ),
        Section("Advice", [_conclusion(each, "action") for each in advice.value], rank=9),
        Section("Open investigation requests", history.request_lines(requests.value), rank=2),
        Section("Recently asked", recently.value, rank=3),
    ]
    return fit(_header(node_facts, edge_facts, now), sections, token_budget)


def _header(
    node_types: Sequence[NodeTypeFacts], edge_types: Sequence[EdgeTypeFacts], now: datetime
) -> str:
    by_name = {each.name: each.count for each in node_types}
    nodes = _total([each.count for each in node_types])
    edges = _total([each.count for each in edge_types])
    return (
        f"As of {utc(now)}: {nodes} nodes, {edges} edges, {len(node_types)} node types, "
        f"{len(edge_types)} edge types, {_count(by_name.get(ANALYSIS_TYPE, 0))} analyses, "
        f"{_count(by_name.get(ADVICE_TYPE, 0))} advice."
    )


def _total(counts: Sequence[int]) -> str:
    more = "+" if any(count >= COUNT_LIMIT for count in counts) else ""
    return f"{sum(counts)}{more}"


def _count(count: int) -> str:
    return _total([count])


def _degree_words(edges: int) -> str:
    return f"{edges}+" if edges >= DEGREE_LIMIT else str(edges)


def _node_type_lines(types: Sequence[NodeTypeFacts]) -> list[str]:
    return [
        f"- {each.name}: {short(each.description)} ({_count(each.count)} nodes)" for each in types
    ]


def _edge_type_lines(types: Sequence[EdgeTypeFacts]) -> list[str]:
    return [
        f"- {each.name}: {short(each.description)} ({_count(each.count)} edges)" for each in types
    ]


def _newest_line(node: NodeFacts) -> str:
    line = node_line(node.id, node.type, node.name, shortened(node.properties))
    return f"{line}  (updated {utc(node.updated_at)})"


def _stale_lines(types: Sequence[NodeTypeFacts], now: datetime) -> list[str]:
    regions = sorted(
        (each.newest_at, each.name, each)
        for each in types
        if each.newest_at is not None
        and each.name not in RESERVED_TYPES
        and now - each.newest_at > STALE_AFTER
    )
    return [
        f"- {_count(each.count)} {each.name} nodes, last touched {ago(now - touched)}, "
        f"for instance [node:{each.newest_id}] {quoted(each.newest_name or '')}"
        for touched, _, each in regions[:_STALE_REGIONS]
    ]


def _conclusion(node: NodeFacts, word: str) -> str:
    return conclusion_line(node.id, node.properties[word], node.name, node.properties["summary"])
