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
from sqlalchemy.orm import InstrumentedAttribute

from shared.database.statements import (
    BoundQuery,
    CompiledStatement,
    Executor,
    PendingResult,
    RoundTrip,
)
from shared.database.tables import GraphEdge, GraphEdgeType, GraphNode, GraphNodeType
from shared.enums import ADVICE_TYPE, ANALYSIS_TYPE
from shared.graph.context import history, recent
from shared.graph.context.recent import LIMIT_PARAM, NodeFacts
from shared.graph.prompt_format import (
    Section,
    conclusion_line,
    edge_line,
    fit_sections,
    format_age,
    format_utc,
    node_line,
    quote_name,
    shorten_properties,
    truncate_text,
)
from shared.graph.scope import OWNED_AGENT_ID, GraphScope, is_supported
from shared.graph.types import MAX_TYPES, RESERVED_TYPES
from shared.workflow import investigations
from shared.workflow.iterations import CLOCK

COUNT_LIMIT = 500
"""Counting the nodes or edges of a type stops here."""
DEGREE_LIMIT = 500
"""Counting the edges of a node stops here, in each direction."""
_EDGES_SAMPLED = 1_000
"""The best connected nodes are searched among the newest edges, so that the cost does not grow with the graph."""


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


def node_types(scope: GraphScope) -> BoundQuery[list[NodeTypeFacts]]:
    return BoundQuery(
        _node_types(), scope.sql_params, lambda rows: [NodeTypeFacts(*row) for row in rows]
    )


# Statements are built once: that takes longer than PostgreSQL takes to run them.
@cache
def _node_types() -> CompiledStatement:
    of_type = and_(
        GraphNode.agent_id == GraphNodeType.agent_id, GraphNode.type == GraphNodeType.name
    )
    rows_of_type = select(1).select_from(GraphNode).where(of_type).correlate(GraphNodeType)
    newest = (
        select(GraphNode.id, GraphNode.name.label("node_name"), GraphNode.updated_at)
        .where(of_type, is_supported(GraphNode))
        .correlate(GraphNodeType)
        .order_by(GraphNode.updated_at.desc())
        .limit(1)
        .lateral()
    )
    return CompiledStatement(
        select(
            GraphNodeType.name,
            GraphNodeType.description,
            _at_most(rows_of_type, COUNT_LIMIT),
            newest.c.id,
            newest.c.node_name,
            newest.c.updated_at,
        )
        .join(newest, true(), isouter=True)
        .where(GraphNodeType.agent_id == OWNED_AGENT_ID)
        .order_by(GraphNodeType.name)
        .limit(MAX_TYPES)
    )


def edge_types(scope: GraphScope) -> BoundQuery[list[EdgeTypeFacts]]:
    return BoundQuery(
        _edge_types(), scope.sql_params, lambda rows: [EdgeTypeFacts(*row) for row in rows]
    )


@cache
def _edge_types() -> CompiledStatement:
    edges_of_type = (
        select(1)
        .select_from(GraphEdge)
        .where(GraphEdge.agent_id == GraphEdgeType.agent_id, GraphEdge.type == GraphEdgeType.name)
        .correlate(GraphEdgeType)
    )
    return CompiledStatement(
        select(GraphEdgeType.name, GraphEdgeType.description, _at_most(edges_of_type, COUNT_LIMIT))
        .where(GraphEdgeType.agent_id == OWNED_AGENT_ID)
        .order_by(GraphEdgeType.name)
        .limit(MAX_TYPES)
    )


def best_connected(scope: GraphScope, limit: int) -> BoundQuery[list[ConnectedNode]]:
    params = {**scope.sql_params, "most": limit}
    return BoundQuery(_best_connected(), params, lambda rows: [ConnectedNode(*row) for row in rows])


@cache
def _best_connected() -> CompiledStatement:
    recent = (
        select(GraphEdge.source_id, GraphEdge.target_id)
        .where(GraphEdge.agent_id == OWNED_AGENT_ID)
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
        .limit(LIMIT_PARAM)
        .subquery()
    )
    degree = (_degree(GraphEdge.source_id) + _degree(GraphEdge.target_id)).label("degree")
    return CompiledStatement(
        select(GraphNode.id, GraphNode.type, GraphNode.name, degree)
        .join(busiest, busiest.c.node_id == GraphNode.id)
        .where(is_supported(GraphNode))
        .order_by(desc("degree"), GraphNode.id)
    )


def _degree(end: InstrumentedAttribute[UUID]) -> ColumnElement[int]:
    edges = select(1).select_from(GraphEdge).where(end == GraphNode.id).correlate(GraphNode)
    return _at_most(edges, DEGREE_LIMIT)


def _at_most(rows: Select[Any], limit: int) -> ColumnElement[int]:
    """The number of `rows`, counted up to `limit`."""
    bounded = rows.limit(limit).subquery()
    return select(func.count()).select_from(bounded).scalar_subquery()


STALE_AFTER = timedelta(days=7)
_NEWEST_NODES = 40
_BEST_CONNECTED = 15
_STALE_REGIONS = 10
_NEWEST_EDGES = 30
_ANALYSES = 20
_ADVICE = 10
_QUERY_ITERATIONS = 3


async def build_survey(session: Executor, scope: GraphScope, *, token_budget: int = 6_000) -> str:
    """Build the text for `<graph_context>` with a fixed number of bounded queries, however large the graph."""
    trip = RoundTrip()
    survey = ask_survey(trip, scope, token_budget=token_budget)
    await trip.make(session)
    return survey.value


def ask_survey(trip: RoundTrip, scope: GraphScope, *, token_budget: int) -> PendingResult[str]:
    """Like `build_survey`, as a part of `trip`."""
    clock = trip.ask(CLOCK)
    nodes_by_type = trip.ask(node_types(scope))
    edges_by_type = trip.ask(edge_types(scope))
    analyses = trip.ask(recent.newest_of_type(scope, ANALYSIS_TYPE, _ANALYSES))
    advice = trip.ask(recent.newest_of_type(scope, ADVICE_TYPE, _ADVICE))
    nodes = trip.ask(recent.newest_facts(scope, _NEWEST_NODES))
    edges = trip.ask(recent.newest_edges(scope, _NEWEST_EDGES))
    connected = trip.ask(best_connected(scope, _BEST_CONNECTED))
    recent_queries = trip.ask(history.recent_query_lines(scope, _QUERY_ITERATIONS))
    requests = trip.ask(investigations.list_open_requests(scope.agent_id))

    def compose() -> str:
        now, node_facts, edge_facts = clock.value, nodes_by_type.value, edges_by_type.value
        sections = [
            Section("Node types", _node_type_lines(node_facts), rank=0, keep=30),
            Section("Edge types", _edge_type_lines(edge_facts), rank=4, keep=20),
            Section("Newest nodes", [_newest_line(node) for node in nodes.value], rank=5, keep=10),
            Section(
                "Best connected nodes",
                [
                    f"{node_line(n.id, n.type, n.name)} ({_format_degree(n.edges)} edges)"
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
                "Analyses",
                [_conclusion_text(conclusion, "type") for conclusion in analyses.value],
                rank=1,
                keep=10,
            ),
            Section(
                "Advice",
                [_conclusion_text(conclusion, "action") for conclusion in advice.value],
                rank=9,
            ),
            Section("Open investigation requests", history.request_lines(requests.value), rank=2),
            Section("Recently asked", recent_queries.value, rank=3),
        ]
        return fit_sections(_header(node_facts, edge_facts, now), sections, token_budget)

    return trip.then(compose)


def _header(
    node_types: Sequence[NodeTypeFacts], edge_types: Sequence[EdgeTypeFacts], now: datetime
) -> str:
    counts_by_type = {type_facts.name: type_facts.count for type_facts in node_types}
    nodes = _total([type_facts.count for type_facts in node_types])
    edges = _total([type_facts.count for type_facts in edge_types])
    return (
        f"As of {format_utc(now)}: {nodes} nodes, {edges} edges, {len(node_types)} node types, "
        f"{len(edge_types)} edge types, {_count(counts_by_type.get(ANALYSIS_TYPE, 0))} analyses, "
        f"{_count(counts_by_type.get(ADVICE_TYPE, 0))} advice."
    )


def _total(counts: Sequence[int]) -> str:
    more = "+" if any(count >= COUNT_LIMIT for count in counts) else ""
    return f"{sum(counts)}{more}"


def _count(count: int) -> str:
    return _total([count])


def _format_degree(edges: int) -> str:
    return f"{edges}+" if edges >= DEGREE_LIMIT else str(edges)


def _node_type_lines(types: Sequence[NodeTypeFacts]) -> list[str]:
    return [
        f"- {type_facts.name}: {truncate_text(type_facts.description)} ({_count(type_facts.count)} nodes)"
        for type_facts in types
    ]


def _edge_type_lines(types: Sequence[EdgeTypeFacts]) -> list[str]:
    return [
        f"- {type_facts.name}: {truncate_text(type_facts.description)} ({_count(type_facts.count)} edges)"
        for type_facts in types
    ]


def _newest_line(node: NodeFacts) -> str:
    line = node_line(node.id, node.type, node.name, shorten_properties(node.properties))
    return f"{line}  (updated {format_utc(node.updated_at)})"


def _stale_lines(types: Sequence[NodeTypeFacts], now: datetime) -> list[str]:
    regions = sorted(
        (type_facts.newest_at, type_facts.name, type_facts)
        for type_facts in types
        if type_facts.newest_at is not None
        and type_facts.name not in RESERVED_TYPES
        and now - type_facts.newest_at > STALE_AFTER
    )
    return [
        f"- {_count(type_facts.count)} {type_facts.name} nodes, last touched {format_age(now - updated_at)}, "
        f"for instance [node:{type_facts.newest_id}] {quote_name(type_facts.newest_name or '')}"
        for updated_at, _, type_facts in regions[:_STALE_REGIONS]
    ]


def _conclusion_text(node: NodeFacts, verdict_property: str) -> str:
    return conclusion_line(
        node.id, node.properties[verdict_property], node.name, node.properties["summary"]
    )
