"""The survey of the whole graph that stands in `<graph_context>`."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from sqlalchemy.ext.asyncio import AsyncSession

from shared.graph.context import asked, listed, survey
from shared.graph.context.listed import NodeFacts
from shared.graph.context.survey import (
    COUNT_LIMIT,
    DEGREE_LIMIT,
    EdgeTypeFacts,
    NodeTypeFacts,
)
from shared.graph.layout import Section, fit
from shared.graph.lines import (
    ago,
    conclusion_line,
    edge_line,
    node_line,
    quoted,
    short,
    shortened,
    utc,
)
from shared.graph.scope import Scope
from shared.graph.type_names import RESERVED_TYPES
from shared.store import investigations
from shared.store.iterations import CLOCK
from shared.store.round_trip import RoundTrip
from shared.store.words import ADVICE_TYPE, ANALYSIS_TYPE

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
    nodes_by_type = trip.ask(survey.node_types(scope))
    edges_by_type = trip.ask(survey.edge_types(scope))
    analyses = trip.ask(listed.newest_of_type(scope, ANALYSIS_TYPE, _ANALYSES))
    advice = trip.ask(listed.newest_of_type(scope, ADVICE_TYPE, _ADVICE))
    nodes = trip.ask(listed.newest_facts(scope, _NEWEST_NODES))
    edges = trip.ask(listed.newest_edges(scope, _NEWEST_EDGES))
    connected = trip.ask(survey.best_connected(scope, _BEST_CONNECTED))
    recently = trip.ask(asked.asked_lines(scope, _ITERATIONS_OF_QUERIES))
    requests = trip.ask(investigations.open_of(scope.agent_id))
    await trip.make(session)
    now, node_types, edge_types = clock.value, nodes_by_type.value, edges_by_type.value
    sections = [
        Section("Node types", _node_type_lines(node_types), rank=0, keep=30),
        Section("Edge types", _edge_type_lines(edge_types), rank=4, keep=20),
        Section("Newest nodes", [_newest_line(node) for node in nodes.value], rank=5, keep=10),
        Section(
            "Best connected nodes",
            [
                f"{node_line(n.id, n.type, n.name)} ({_degree(n.edges)} edges)"
                for n in connected.value
            ],
            rank=8,
        ),
        Section("Stale regions", _stale_lines(node_types, now), rank=6, keep=5),
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
        Section("Open investigation requests", asked.request_lines(requests.value), rank=2),
        Section("Recently asked", recently.value, rank=3),
    ]
    return fit(_header(node_types, edge_types, now), sections, token_budget)


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


def _degree(edges: int) -> str:
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
