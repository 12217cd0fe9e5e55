"""What a phase is shown of the graph in `<graph_context>`: only what it needs, the oldest first.

The text is a function of the agent, the state of its graph and the kind of the step: no counts and no times that change
while the graph does not. What changes seldom stands first, so that requests share their beginnings, which servers cache.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import takewhile
from typing import Final
from uuid import UUID

from shared.database.statements import (
    BoundQuery,
    CompiledStatement,
    Executor,
    PendingResult,
    RoundTrip,
    Row,
)
from shared.enums import ADVICE_TYPE, ANALYSIS_TYPE, StepKind
from shared.graph.context import history, recent
from shared.graph.context.recent import NodeFacts
from shared.graph.prompt_format import (
    SHORT_TEXT_CHARS,
    Section,
    byte_length,
    conclusion_line,
    edge_line,
    fit_sections,
    format_age,
    node_line,
    quote_name,
    schema_summary,
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

DEGREE_LIMIT = 500
"""Counting the edges of a node stops here, in each direction."""
_EDGES_SAMPLED = 1_000
"""The best connected nodes are searched among the newest edges, so that the cost does not grow with the graph."""


@dataclass(frozen=True)
class ConnectedNode:
    id: UUID
    type: str
    name: str
    edges: int


_TYPES_SQL: Final = f"where agent_id = {OWNED_AGENT_ID_SQL} order by name limit {MAX_TYPES}"
_NODE_TYPES: Final = CompiledStatement(
    f"select name, description, properties_schema from graph_node_types {_TYPES_SQL}"
)
_EDGE_TYPES: Final = CompiledStatement(
    "select name, description, properties_schema, source_types, target_types"
    f" from graph_edge_types {_TYPES_SQL}"
)
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
    order by degree desc, node.name, node.id
    """)


def best_connected(scope: GraphScope, limit: int) -> BoundQuery[list[ConnectedNode]]:
    params = {**scope.sql_params, "most": limit}
    return BoundQuery(_NODES_BY_DEGREE, params, lambda rows: [ConnectedNode(*row) for row in rows])


STALE_AFTER = timedelta(days=7)
_BEST_CONNECTED = 15
_PLAN_TEXT_CHARS = 100
"""Of a property of a new node, for plans."""
_NAMES = 1_000
_NAMES_IN_LINE = 20
_INDEX_SHARE = 0.45
"""Share of the budget for names of nodes. If they do not fit, groups of nodes are named too."""
_GROUPS_SHARE = 0.12
_MIN_NAME_BYTES = 8
_MIN_LINE_BYTES = 40
"""Minimum length of the line of a node or edge, which limits the number of loaded rows."""
_FOLDED_NODES = 10_000
"""Nodes that a folded index covers. The others are found by their names."""
_GROUPS_OF_TYPE = 40
_GROUP_NAME_CHARS = 30
_GROUP_BYTES = 45
FOLDED: Final = "Nodes by type and first letter"
"""Title of an index that is folded."""
PAGES_READ: Final = "Pages read"
_PAGES = 60
_MAX_ENDS = 12
_ANALYSES = 20
_ADVICE = 10
_QUERY_ITERATIONS = 20


TOKENS_OF_KIND: Final[Mapping[StepKind, int]] = {
    StepKind.QUERY: 1_600,
    StepKind.INSIGHT: 1_900,
    StepKind.ADVISE: 1_250,
}
"""Token budgets of the kinds that need a part of the graph. The others have that of the settings."""


async def build_survey(
    session: Executor, scope: GraphScope, kind: StepKind, *, token_budget: int = 6_000
) -> str:
    """Build the text for `<graph_context>` with a fixed number of bounded queries, however large the graph."""
    trip = RoundTrip()
    survey = ask_survey(trip, scope, kind, token_budget=token_budget)
    await trip.make(session)
    return survey.value


def ask_survey(
    trip: RoundTrip, scope: GraphScope, kind: StepKind, *, token_budget: int
) -> PendingResult[str]:
    """Like `build_survey`, as a part of `trip`."""
    budget = scope.budget_bytes(min(token_budget, TOKENS_OF_KIND.get(kind, token_budget)))
    sections = _SECTIONS_OF_KIND[kind](trip, scope, budget)
    return trip.then(lambda: fit_sections([section() for section in sections], budget) or EMPTY)


EMPTY: Final = "The graph is empty."
_Sections = Sequence[Callable[[], Section]]


def _ask_overview(
    trip: RoundTrip, scope: GraphScope, budget: int, *, shows_ids: bool = False
) -> _Sections:
    """An overview of the whole graph, for plans and conversations. `shows_ids`: for phases that cite its elements.

    It shows more of a larger graph until the budget is used up, and not less of one that is larger still.
    """

    def mark(element_id: UUID) -> UUID | None:
        return element_id if shows_ids else None

    # A plan needs what is known of a node, and not its words.
    text_chars = SHORT_TEXT_CHARS if shows_ids else _PLAN_TEXT_CHARS
    most = budget // _MIN_LINE_BYTES
    clock = trip.ask(CLOCK)
    nodes = trip.ask(recent.newest_facts(scope, most))
    stale = trip.ask(recent.stalest_facts(scope, most // 10))
    edges = trip.ask(recent.newest_edges(scope, most // 3))
    connected = trip.ask(best_connected(scope, _BEST_CONNECTED))
    queries = trip.ask(history.recent_query_lines(scope, _QUERY_ITERATIONS))
    return [
        *_ask_types(trip, scope),
        *_ask_index(trip, scope, budget, is_folded=not shows_ids),
        *_ask_conclusions(trip, scope, shows_ids=shows_ids),
        lambda: Section(
            "Stale nodes", _stale_lines(stale.value, clock.value), rank=6, keep=5, share=0.08
        ),
        lambda: Section(
            "Best connected nodes",
            [
                f"{node_line(mark(n.id), n.type, n.name)} ({_format_degree(n.edges)} edges)"
                for n in connected.value
            ],
            rank=9,
        ),
        lambda: Section(
            "Newest edges",
            [edge_line(mark(e.id), e.type, e.source, e.target) for e in edges.value],
            rank=7,
            keep=5,
            share=0.25,
            oldest_first=True,
        ),
        lambda: Section(
            "Newest nodes",
            [
                node_line(mark(n.id), n.type, n.name, shorten_properties(n.properties, text_chars))
                for n in nodes.value
            ],
            rank=8,
            keep=10,
            oldest_first=True,
        ),
        *_ask_requests(trip, scope),
        lambda: Section(
            "Recently asked", queries.value, rank=3, keep=60, share=0.2, oldest_first=True
        ),
    ]


def _ask_index(trip: RoundTrip, scope: GraphScope, budget: int, *, is_folded: bool) -> _Sections:
    """The names of nodes, as many as fit its share of the budget, and if there are more, groups of nodes by their first
    letters. Names that were not updated for the longest time come first: the newest nodes have a section of their own.
    """
    room = int(budget * _INDEX_SHARE)
    names = trip.ask(recent.settled_names(scope, room // _MIN_NAME_BYTES))
    groups = trip.ask(recent.name_groups(scope, _FOLDED_NODES)) if is_folded else None

    def fitting() -> Sequence[Row]:
        left = room
        for place, row in enumerate(names.value):
            left -= byte_length(quote_name(row.name)) + 2
            if left < 0:
                return names.value[:place]
        return names.value

    def folded() -> Section:
        is_whole = len(fitting()) == len(names.value) < room // _MIN_NAME_BYTES
        lines = [] if groups is None or is_whole else _group_lines(groups.value, budget)
        return Section(FOLDED, lines, rank=1, keep=len(lines), share=_GROUPS_SHARE)

    def named() -> Section:
        lines = _name_lines(fitting())
        return Section("Nodes by type", lines, rank=1, keep=len(lines))

    return [named, folded]


def _ask_research_sections(trip: RoundTrip, scope: GraphScope, _: int) -> _Sections:
    """Types and names to use, and pages that were read."""
    names = trip.ask(recent.names_in_order(scope, _NAMES))
    pages = trip.ask(recent.newest_pages(scope, _PAGES))
    return [
        *_ask_types(trip, scope, shows_schemas=True),
        lambda: Section("Nodes by type", _name_lines(names.value), rank=2, keep=20),
        lambda: Section(
            PAGES_READ,
            [f"- {url}" for url in pages.value],
            rank=3,
            keep=10,
        ),
    ]


def _ask_analysis_sections(trip: RoundTrip, scope: GraphScope, _: int) -> _Sections:
    """What has been concluded and asked for already."""
    return [_ask_edge_types(trip, scope), _ask_analyses(trip, scope), *_ask_requests(trip, scope)]


_SECTIONS_OF_KIND: Final[Mapping[StepKind, Callable[[RoundTrip, GraphScope, int], _Sections]]] = {
    StepKind.OBSERVE: _ask_overview,
    StepKind.CONVERSE: lambda trip, scope, budget: _ask_overview(
        trip, scope, budget, shows_ids=True
    ),
    StepKind.QUERY: _ask_research_sections,
    StepKind.INSIGHT: _ask_analysis_sections,
    StepKind.ADVISE: lambda trip, scope, _: _ask_conclusions(trip, scope, shows_ids=True),
}


def _ask_types(trip: RoundTrip, scope: GraphScope, *, shows_schemas: bool = False) -> _Sections:
    """`shows_schemas`: also the properties, for phases that write them."""
    node_types = trip.ask(_types_query(_NODE_TYPES, scope, shows_schemas=shows_schemas))
    return [
        lambda: Section("Node types", node_types.value, rank=0, keep=30),
        _ask_edge_types(trip, scope, shows_schemas=shows_schemas),
    ]


def _ask_edge_types(
    trip: RoundTrip, scope: GraphScope, *, shows_schemas: bool = False
) -> Callable[[], Section]:
    edge_types = trip.ask(_types_query(_EDGE_TYPES, scope, shows_schemas=shows_schemas))
    rank = 1 if shows_schemas else 4
    return lambda: Section("Edge types", edge_types.value, rank=rank, keep=20)


def _types_query(
    statement: CompiledStatement, scope: GraphScope, *, shows_schemas: bool
) -> BoundQuery[list[str]]:
    return BoundQuery(
        statement,
        scope.sql_params,
        lambda rows: [
            _type_line(row, shows_schema=shows_schemas)
            for row in rows
            if row.name not in RESERVED_TYPES
        ],
    )


def _type_line(row: Row, *, shows_schema: bool) -> str:
    """`- Country: A state. (summary*: string, …)`; an edge type has the types that its ends are restricted to:
    `(Country|Place -> any)`.
    """
    ends: list[Sequence[str]] = []
    if hasattr(row, "source_types"):
        # Conclusions are written by other phases.
        both = (row.source_types, row.target_types)
        ends = [[each for each in types if each not in RESERVED_TYPES] for types in both]
    parts = [" -> ".join(map(_end, ends))] if any(ends) else []
    if shows_schema and (row.properties_schema is not None or not ends):
        parts.append(schema_summary(row.properties_schema or {}))
    details = f" ({'; '.join(parts)})" if parts else ""
    return f"- {row.name}: {truncate_text(row.description)}{details}"


def _end(types: Sequence[str]) -> str:
    more = len(types) - _MAX_ENDS
    shown = types if more <= 0 else [*types[:_MAX_ENDS], f"{more} more"]
    return "|".join(shown) or "any"


def _ask_conclusions(trip: RoundTrip, scope: GraphScope, *, shows_ids: bool = False) -> _Sections:
    advice = trip.ask(recent.newest_of_type(scope, ADVICE_TYPE, _ADVICE))
    return [
        _ask_analyses(trip, scope, shows_ids=shows_ids),
        lambda: Section(
            "Advice",
            _advice_lines(advice.value, shows_ids=shows_ids),
            rank=9,
            oldest_first=True,
        ),
    ]


def _ask_analyses(
    trip: RoundTrip, scope: GraphScope, *, shows_ids: bool = False
) -> Callable[[], Section]:
    analyses = trip.ask(recent.newest_of_type(scope, ANALYSIS_TYPE, _ANALYSES))
    return lambda: Section(
        "Analyses",
        _conclusion_lines(analyses.value, "type", shows_ids=shows_ids),
        rank=1,
        keep=10,
        oldest_first=True,
    )


def _advice_lines(nodes: Sequence[NodeFacts], *, shows_ids: bool) -> list[str]:
    """Advice, with the name of what replaces it; both are of one run, so both are among the newest."""
    names = {node.properties.get("replaces"): node.name for node in nodes}
    lines = _conclusion_lines(nodes, "action", shows_ids=shows_ids)
    return [
        f"{line} (replaced by {quote_name(names[str(node.id)])})" if str(node.id) in names else line
        for line, node in zip(lines, nodes, strict=True)
    ]


def _conclusion_lines(nodes: Sequence[NodeFacts], verdict: str, *, shows_ids: bool) -> list[str]:
    return [
        conclusion_line(
            node.id if shows_ids else None,
            node.properties[verdict],
            node.name,
            node.properties["summary"],
        )
        for node in nodes
    ]


def _ask_requests(trip: RoundTrip, scope: GraphScope) -> _Sections:
    requests = trip.ask(investigations.list_outstanding(scope.agent_id))
    return [
        lambda: Section(
            "Open investigation requests", history.request_lines(requests.value.open), rank=2
        ),
        lambda: Section("Not found", history.not_found_lines(requests.value.not_found), rank=2),
        lambda: Section(
            "Answered in part", history.not_found_lines(requests.value.partial), rank=2
        ),
    ]


def section_lines(text: str, title: str) -> list[str]:
    """The lines of the section `title` in the text of a survey."""
    lines = iter(text.splitlines())
    if f"## {title}" not in lines:
        return []
    return list(takewhile(lambda line: not line.startswith("## "), lines))


def _format_degree(edges: int) -> str:
    return f"{edges}+" if edges >= DEGREE_LIMIT else str(edges)


def _name_lines(names: Sequence[Row]) -> list[str]:
    """A line for each type, with the names of its nodes, oldest first; long lists are continued on further lines."""
    by_type: dict[str, list[str]] = {}
    for row in names:
        by_type.setdefault(row.type, []).append(quote_name(row.name))
    return [
        f"- {type_name}: {', '.join(of_type[start : start + _NAMES_IN_LINE])}"
        for type_name, of_type in sorted(by_type.items())
        for start in range(0, len(of_type), _NAMES_IN_LINE)
    ]


def _group_lines(groups: Sequence[Row], budget: int) -> list[str]:
    """A line for each type: how many nodes begin with which letter, and the first of them. Of many types, few letters."""
    by_type: dict[str, list[Row]] = {}
    for group in groups:
        by_type.setdefault(group.type, []).append(group)
    fitting = int(budget * _GROUPS_SHARE) // (_GROUP_BYTES * max(len(by_type), 1))
    most = min(max(fitting, 1), _GROUPS_OF_TYPE)
    lines = []
    for type_name, of_type in by_type.items():
        counts = ", ".join(
            f"{group.initial} {group.nodes} ({quote_name(truncate_text(group.first_name, _GROUP_NAME_CHARS))})"
            for group in of_type[:most]
        )
        more = len(of_type) - most
        lines.append(f"- {type_name}: {counts}{f', and {more} more letters' if more > 0 else ''}")
    return lines


def _stale_lines(nodes: Sequence[NodeFacts], now: datetime) -> list[str]:
    return [
        f"{node_line(None, node.type, node.name)}, last confirmed {format_age(now - node.updated_at)}"
        for node in nodes
        if now - node.updated_at > STALE_AFTER
    ]
