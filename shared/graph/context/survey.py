"""The survey of the graph in `<graph_context>`."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from shared.database.statements import (
    BoundQuery,
    CompiledStatement,
    Executor,
    PendingResult,
    RoundTrip,
)
from shared.enums import ADVICE_TYPE, ANALYSIS_TYPE
from shared.graph.context import history, recent
from shared.graph.context.recent import NodeFacts
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
from shared.graph.scope import (
    IS_SUPPORTED_SQL,
    JOINS_TWO_NODES_SQL,
    OWNED_AGENT_ID_SQL,
    GraphScope,
)
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
class TypeFacts:
    name: str
    description: str
    count: int


@dataclass(frozen=True)
class NodeTypeFacts(TypeFacts):
    newest_id: UUID | None
    newest_name: str | None
    newest_at: datetime | None


@dataclass(frozen=True)
class ConnectedNode:
    id: UUID
    type: str
    name: str
    edges: int


_NODE_TYPES: Final = CompiledStatement(f"""
    select kind.name, kind.description,
      (select count(*) from (
        select from graph_nodes where agent_id = kind.agent_id and type = kind.name limit {COUNT_LIMIT}
      ) as counted) as nodes,
      newest.id, newest.name as newest_name, newest.updated_at
    from graph_node_types as kind
    left join lateral (
        select id, name, updated_at from graph_nodes
        where agent_id = kind.agent_id and type = kind.name and {IS_SUPPORTED_SQL}
        order by updated_at desc limit 1
    ) as newest on true
    where kind.agent_id = {OWNED_AGENT_ID_SQL}
    order by kind.name limit {MAX_TYPES}
    """)
_EDGE_TYPES: Final = CompiledStatement(f"""
    select kind.name, kind.description,
      (select count(*) from (
        select from graph_edges
        where agent_id = kind.agent_id and type = kind.name and {JOINS_TWO_NODES_SQL} limit {COUNT_LIMIT}
      ) as counted) as edges
    from graph_edge_types as kind
    where kind.agent_id = {OWNED_AGENT_ID_SQL}
    order by kind.name limit {MAX_TYPES}
    """)
# An edge of the node with itself (see JOINS_TWO_NODES_SQL) is counted and taken off. A condition that leaves it out would
# be checked in the table, for each edge of a hub, because no index of the edges that end at a node has their source.
_NODES_BY_DEGREE: Final = CompiledStatement(f"""
    with recent as (
        select source_id, target_id from graph_edges
        where agent_id = {OWNED_AGENT_ID_SQL} and {JOINS_TWO_NODES_SQL}
        order by updated_at desc limit {_EDGES_SAMPLED}
    ), busiest as (
        select node_id
        from (select source_id as node_id from recent union all select target_id from recent) as ends
        group by node_id order by count(*) desc, node_id limit :most
    )
    select node.id, node.type, node.name,
      (select count(*) from (
        select from graph_edges where source_id = node.id limit {DEGREE_LIMIT} + history.edges
      ) as starting)
      + (select count(*) from (
        select from graph_edges where target_id = node.id limit {DEGREE_LIMIT} + history.edges
      ) as ending)
      - 2 * history.edges as degree
    from graph_nodes as node join busiest on busiest.node_id = node.id
    cross join lateral (
        select count(*) as edges from graph_edges where source_id = node.id and target_id = node.id
    ) as history
    where {IS_SUPPORTED_SQL}
    order by degree desc, node.id
    """)


def best_connected(scope: GraphScope, limit: int) -> BoundQuery[list[ConnectedNode]]:
    params = {**scope.sql_params, "most": limit}
    return BoundQuery(_NODES_BY_DEGREE, params, lambda rows: [ConnectedNode(*row) for row in rows])


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
    node_types = trip.ask(
        BoundQuery(
            _NODE_TYPES, scope.sql_params, lambda rows: [NodeTypeFacts(*row) for row in rows]
        )
    )
    edge_types = trip.ask(
        BoundQuery(_EDGE_TYPES, scope.sql_params, lambda rows: [TypeFacts(*row) for row in rows])
    )
    analyses = trip.ask(recent.newest_of_type(scope, ANALYSIS_TYPE, _ANALYSES))
    advice = trip.ask(recent.newest_of_type(scope, ADVICE_TYPE, _ADVICE))
    nodes = trip.ask(recent.newest_facts(scope, _NEWEST_NODES))
    edges = trip.ask(recent.newest_edges(scope, _NEWEST_EDGES))
    connected = trip.ask(best_connected(scope, _BEST_CONNECTED))
    recent_queries = trip.ask(history.recent_query_lines(scope, _QUERY_ITERATIONS))
    requests = trip.ask(investigations.list_open_requests(scope.agent_id))

    def compose() -> str:
        now, node_facts, edge_facts = clock.value, node_types.value, edge_types.value
        sections = [
            Section("Node types", _type_lines(node_facts, "nodes"), rank=0, keep=30),
            Section("Edge types", _type_lines(edge_facts, "edges"), rank=4, keep=20),
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
    node_types: Sequence[NodeTypeFacts], edge_types: Sequence[TypeFacts], now: datetime
) -> str:
    counts_by_type = {type_facts.name: type_facts.count for type_facts in node_types}
    nodes = _count(*counts_by_type.values())
    edges = _count(*(type_facts.count for type_facts in edge_types))
    return (
        f"As of {format_utc(now)}: {nodes} nodes, {edges} edges, {len(node_types)} node types, "
        f"{len(edge_types)} edge types, {_count(counts_by_type.get(ANALYSIS_TYPE, 0))} analyses, "
        f"{_count(counts_by_type.get(ADVICE_TYPE, 0))} advice."
    )


def _count(*counts: int) -> str:
    """The sum of counts that stop at COUNT_LIMIT."""
    more = "+" if any(count >= COUNT_LIMIT for count in counts) else ""
    return f"{sum(counts)}{more}"


def _format_degree(edges: int) -> str:
    return f"{edges}+" if edges >= DEGREE_LIMIT else str(edges)


def _type_lines(types: Sequence[TypeFacts], elements: str) -> list[str]:
    return [
        f"- {type_facts.name}: {truncate_text(type_facts.description)} ({_count(type_facts.count)} {elements})"
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
