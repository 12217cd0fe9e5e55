"""What a phase is shown of the graph in `<graph_context>`: only what it needs, the oldest first.

The text is a function of the agent, the state of its graph and the kind of the step: no counts and no times that change
while the graph does not. What changes seldom stands first, so that requests share their beginnings, which servers cache.
"""

import asyncio
import re
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from typing import Final
from uuid import UUID

from shared.agents import contexts
from shared.agents.contexts import StepGroup
from shared.database.engine import Database
from shared.database.statements import (
    Batch,
    BoundQuery,
    CompiledStatement,
    Executor,
    PendingResult,
    Row,
)
from shared.enums import ADVICE_TYPE, ANALYSIS_TYPE, Phase, StepKind
from shared.graph.conclusions import position_store
from shared.graph.context import history, recent
from shared.graph.context.recent import NodeFacts
from shared.graph.prompt_format import (
    SHORT_TEXT_CHARS,
    Section,
    byte_length,
    concluded_on,
    conclusion_line,
    edge_line,
    fit_sections,
    format_age,
    json_line,
    node_line,
    quote_name,
    schema_summary,
    shorten_properties,
    shown_date,
    truncate_text,
    truncate_to_budget,
)
from shared.graph.provenance.beside import beside_sql, stated_beside
from shared.graph.provenance.claims import HOST_SQL, KNOWN_DATE_SQL
from shared.graph.provenance.integrity import is_equal
from shared.graph.provenance.verdicts import COUNTS_SQL, STATED_SQL
from shared.graph.scope import OWNED_AGENT_ID_SQL, GraphScope
from shared.graph.types import MAX_TYPES, RESERVED_TYPES
from shared.graph.validation import one_line
from shared.tools import Json
from shared.workflow import investigations, steps
from shared.workflow.agent_clock import agent_clock
from shared.workflow.iterations import StepRow

_TYPES_SQL: Final = f"where agent_id = {OWNED_AGENT_ID_SQL} order by name limit {MAX_TYPES}"
_NODE_TYPES: Final = CompiledStatement(
    f"select name, description, properties_schema from graph_node_types {_TYPES_SQL}"
)
_OWN_TYPES: Final = CompiledStatement(f"""
select name from graph_node_types
where agent_id = {OWNED_AGENT_ID_SQL} and created_by <> '{Phase.GRAPH_CONSTRUCTION}'
  and name not in ('{ANALYSIS_TYPE}', '{ADVICE_TYPE}')
order by name
""")
_EDGE_TYPES: Final = CompiledStatement(
    "select name, description, properties_schema, source_types, target_types"
    f" from graph_edge_types {_TYPES_SQL}"
)
STALE_AFTER = timedelta(days=7)
_STALE_NODES = 500
"""Stale nodes that are counted, at most: those that were not confirmed for the longest time."""
_STALE_NAMES = 5
_NODES_COMPARED = 60
"""The most recently updated nodes, of which changes of values are shown."""
_CHANGES = 20
NODES: Final = "Nodes, with the date of the newest page and the number of sites"
_NODES_SHARE = 0.6
"""Share of the budget up to which all nodes are shown with their values, and names have no section of their own."""
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
PAGES_READ: Final = "Pages read last, the newest first"
_PAGES = 40
_TITLE_CHARS = 60
_MAX_ENDS = 12
_ANALYSES = 20
_ADVICE = 10
_QUERY_ITERATIONS = 20
_LOADED_MAX: Final = 100
"""Surveys that a process keeps for steps that start later."""


TOKENS_OF_KIND: Final[Mapping[StepKind, int]] = {
    StepKind.QUERY: 1_600,
    StepKind.INSIGHT: 1_900,
    StepKind.ADVISE: 1_250,
}
"""Token budgets of the kinds that need a part of the graph. The others have that of the settings."""


async def build_survey(
    transaction: Executor,
    scope: GraphScope,
    kind: StepKind,
    *,
    token_budget: int = 6_000,
    shown: Collection[UUID] = (),
) -> str:
    """Build the text for `<graph_context>` with a fixed number of bounded queries, however large the graph."""
    batch = Batch()
    survey = prepare_survey(batch, scope, kind, token_budget=token_budget, shown=shown)
    await batch.execute(transaction)
    return survey.value


def prepare_survey(
    batch: Batch,
    scope: GraphScope,
    kind: StepKind,
    *,
    token_budget: int,
    shown: Collection[UUID] = (),
) -> PendingResult[str]:
    """Adds the queries of `build_survey` to `batch`. An Adviser's message has the analyses `shown` in full, so that its
    survey leaves them out.
    """
    budget = scope.budget_bytes(min(token_budget, TOKENS_OF_KIND.get(kind, token_budget)))
    sections = (
        [_prepare_analyses(batch, scope, shows_ids=True, without=shown)]
        if kind == StepKind.ADVISE
        else _SECTIONS_OF_KIND[kind](batch, scope, budget)
    )
    empty = _NO_CONCLUSIONS if kind == StepKind.ADVISE else EMPTY
    return batch.then(lambda: fit_sections([section() for section in sections], budget) or empty)


EMPTY: Final = "The graph is empty."
_NO_CONCLUSIONS: Final = "There are no earlier analyses."
_Sections = Sequence[Callable[[], Section]]


def _prepare_overview(
    batch: Batch, scope: GraphScope, budget: int, *, shows_ids: bool = False
) -> _Sections:
    """An overview of the whole graph, for plans and conversations. `shows_ids`: for phases that cite its elements.

    It shows more of a larger graph until the budget is used up, and not less of one that is larger still.
    """

    def mark(element_id: UUID) -> UUID | None:
        return element_id if shows_ids else None

    # A plan needs what is known of a node, and not its words.
    text_chars = SHORT_TEXT_CHARS if shows_ids else _PLAN_TEXT_CHARS
    most = budget // _MIN_LINE_BYTES
    clock = batch.add(agent_clock(scope.agent_id))
    nodes = batch.add(recent.dated_facts(scope, most))
    changes = batch.add(recent.changes_query(scope, _NODES_COMPARED, _CHANGES))
    stale = batch.add(recent.stalest_nodes(scope, _STALE_NODES))
    edges = batch.add(recent.newest_edges(scope, most // 3))
    queries = batch.add(history.recent_query_lines(scope, _QUERY_ITERATIONS))

    @cache
    def node_lines() -> list[str]:
        return [
            _dated(
                node_line(mark(n.id), n.type, n.name, shorten_properties(n.properties, text_chars)),
                n,
            )
            for n in nodes.value
        ]

    def shows_all() -> bool:
        lines_bytes = sum(byte_length(line) + 1 for line in node_lines())
        return len(nodes.value) < most and lines_bytes <= budget * _NODES_SHARE

    return [
        *_prepare_types(batch, scope),
        *_prepare_index(batch, scope, budget, is_folded=not shows_ids, is_needless=shows_all),
        *_prepare_conclusions(batch, scope, shows_ids=shows_ids),
        lambda: Section(
            "Stale nodes", _stale_lines(stale.value, clock.value.now), rank=6, keep=5, share=0.08
        ),
        lambda: Section(
            "Changed values",
            [_change_line(change) for change in changes.value],
            rank=5,
            keep=10,
            share=0.1,
            oldest_first=True,
        ),
        lambda: Section(
            "Newest edges",
            [edge_line(mark(e.id), e.type, e.source, e.target) for e in edges.value],
            rank=7,
            keep=5,
            share=0.08,
            oldest_first=True,
        ),
        lambda: Section(
            NODES,
            node_lines(),
            rank=8,
            keep=10,
            oldest_first=True,
        ),
        *_prepare_requests(batch, scope),
        lambda: Section(
            "Recently asked", queries.value, rank=3, keep=60, share=0.2, oldest_first=True
        ),
    ]


def _dated(line: str, node: Row) -> str:
    """The line with the date of the node's newest page, the number of sites if several speak of it, and contested and
    upcoming values.
    """
    count = len(recent.sites_of_hosts(node.hosts))
    sites = f", {count} sites" if count > 1 else ""
    also = stated_beside(node.stated, node.properties)
    return f"{line} {shown_date(node.as_of)}{sites}{f'; {also}' if also else ''}"


def _change_line(change: Row) -> str:
    """`- Bid "A's bid" points: 81.4 (2026-09-17), now 80.4 (2026-10-02)`"""
    old, new = (
        truncate_text(json_line(value), _PLAN_TEXT_CHARS) for value in (change.old, change.value)
    )
    node = node_line(None, change.type, change.name)
    return f"{node} {change.key}: {old} ({change.old_date}), now {new} ({change.new_date})"


def _prepare_index(
    batch: Batch,
    scope: GraphScope,
    budget: int,
    *,
    is_folded: bool,
    is_needless: Callable[[], bool],
) -> _Sections:
    """The names of nodes, as many as fit its share of the budget, and if there are more, groups of nodes by their first
    letters. Names that were not updated for the longest time come first: the newest nodes have a section of their own.
    Empty if it `is_needless`, because that section has all nodes.
    """
    room = int(budget * _INDEX_SHARE)
    names = batch.add(recent.settled_names(scope, room // _MIN_NAME_BYTES))
    groups = batch.add(recent.name_groups(scope, _FOLDED_NODES)) if is_folded else None

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
        lines = [] if is_needless() else _name_lines(fitting())
        return Section("Nodes by type", lines, rank=1, keep=len(lines))

    return [named, folded]


def _prepare_research_sections(batch: Batch, scope: GraphScope, _: int) -> _Sections:
    """Types and names to use, and pages that were read."""
    names = batch.add(recent.names_in_order(scope, _NAMES))
    pages = batch.add(recent.newest_pages(scope, _PAGES))
    return [
        *_prepare_types(batch, scope, shows_schemas=True),
        lambda: Section("Nodes by type", _name_lines(names.value), rank=2, keep=20),
        lambda: Section(PAGES_READ, [_page_line(page) for page in pages.value], rank=3, keep=10),
    ]


def _page_line(page: Row) -> str:
    date = f"{page.published:%Y-%m-%d} " if page.published else ""
    title = truncate_text(one_line(page.title or ""), _TITLE_CHARS)
    return f"- {date}{title}{' ' if title else ''}{page.url}"


def _prepare_analysis_sections(batch: Batch, scope: GraphScope, _: int) -> _Sections:
    """What has been concluded and asked for already."""
    return [
        _prepare_edge_types(batch, scope),
        _prepare_analyses(batch, scope),
        *_prepare_requests(batch, scope),
    ]


_SECTIONS_OF_KIND: Final[Mapping[StepKind, Callable[[Batch, GraphScope, int], _Sections]]] = {
    StepKind.OBSERVE: _prepare_overview,
    StepKind.CONVERSE: lambda batch, scope, budget: _prepare_overview(
        batch, scope, budget, shows_ids=True
    ),
    StepKind.QUERY: _prepare_research_sections,
    StepKind.INSIGHT: _prepare_analysis_sections,
}


def _prepare_types(batch: Batch, scope: GraphScope, *, shows_schemas: bool = False) -> _Sections:
    """`shows_schemas`: also the properties, for phases that write them."""
    node_types = batch.add(_types_query(_NODE_TYPES, scope, shows_schemas=shows_schemas))
    return [
        lambda: Section("Node types", node_types.value, rank=0, keep=30),
        _prepare_edge_types(batch, scope, shows_schemas=shows_schemas),
    ]


def _prepare_edge_types(
    batch: Batch, scope: GraphScope, *, shows_schemas: bool = False
) -> Callable[[], Section]:
    edge_types = batch.add(_types_query(_EDGE_TYPES, scope, shows_schemas=shows_schemas))
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


def _prepare_conclusions(batch: Batch, scope: GraphScope, *, shows_ids: bool = False) -> _Sections:
    advice = batch.add(recent.newest_of_type(scope, ADVICE_TYPE, _ADVICE))
    ended = batch.add(position_store.ended_query(scope, _ADVICE))
    return [
        _prepare_analyses(batch, scope, shows_ids=shows_ids),
        lambda: Section(
            "Advice",
            _advice_lines(advice.value, ended.value, shows_ids=shows_ids),
            rank=9,
            oldest_first=True,
        ),
    ]


def _prepare_analyses(
    batch: Batch,
    scope: GraphScope,
    *,
    shows_ids: bool = False,
    without: Collection[UUID] = (),
) -> Callable[[], Section]:
    newest = batch.add(recent.newest_of_type(scope, ANALYSIS_TYPE, _ANALYSES + len(without)))

    def analyses() -> list[NodeFacts]:
        return [node for node in newest.value if node.id not in without][:_ANALYSES]

    return lambda: Section(
        "Analyses",
        _conclusion_lines(analyses(), "type", shows_ids=shows_ids),
        rank=1,
        keep=10,
        oldest_first=True,
    )


def _advice_lines(
    nodes: Sequence[NodeFacts], ended: Mapping[UUID, str | None], *, shows_ids: bool
) -> list[str]:
    """Advice, marked if it was replaced or withdrawn. `ended` has the names of what replaces it."""
    lines = _conclusion_lines(nodes, "action", shows_ids=shows_ids)
    return [
        line if node.id not in ended else f"{line} ({_end_of(ended[node.id])})"
        for line, node in zip(lines, nodes, strict=True)
    ]


def _end_of(newer: str | None) -> str:
    return "withdrawn" if newer is None else f"replaced by {quote_name(newer)}"


def _conclusion_lines(nodes: Sequence[NodeFacts], verdict: str, *, shows_ids: bool) -> list[str]:
    return [
        conclusion_line(
            node.id if shows_ids else None,
            node.properties[verdict],
            node.name,
            node.properties["summary"],
        )
        + concluded_on(node.properties)
        + (" (in doubt)" if node.is_doubted else "")
        for node in nodes
    ]


def _prepare_requests(batch: Batch, scope: GraphScope) -> _Sections:
    requests = batch.add(investigations.list_outstanding(scope.agent_id))
    return [
        lambda: Section(
            "Open investigation requests", history.request_lines(requests.value.open), rank=2
        ),
        lambda: Section("Not found", history.not_found_lines(requests.value.not_found), rank=2),
        lambda: Section(
            "Answered in part", history.not_found_lines(requests.value.partial), rank=2
        ),
    ]


def has_section(text: str, title: str) -> bool:
    """Whether the text of a survey has the section `title`; a name in it that looks like a title is none."""
    return f"## {title}" in text.splitlines()


def pages_read(text: str) -> str:
    """The section of pages in the text of a survey for a query, for the phase that searches; empty if it has none."""
    parts = re.split(r"^(?=## )", text, flags=re.MULTILINE)
    return "".join(part for part in parts if part.startswith(f"## {PAGES_READ}\n")).rstrip("\n")


def read_addresses(text: str) -> list[str]:
    """The addresses of the pages in that section. An address in the title of a page is not the page's."""
    return [line.rpartition(" ")[2] for line in pages_read(text).splitlines()[1:]]


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


def _stale_lines(nodes: Sequence[Row], now: datetime) -> list[str]:
    """`- Company: 12, confirmed last 3 weeks ago: "A", "B", …`, by type, the stalest first."""
    by_type: dict[str, list[Row]] = {}
    for node in nodes:
        if now - node.updated_at > STALE_AFTER:
            by_type.setdefault(node.type, []).append(node)
    lines = []
    for type_name, stale in by_type.items():
        names = ", ".join(quote_name(node.name) for node in stale[:_STALE_NAMES])
        more = ", …" if len(stale) > _STALE_NAMES else ""
        since = format_age(now - stale[0].updated_at)
        lines.append(f"- {type_name}: {len(stale)}, confirmed last {since}: {names}{more}")
    return lines


@dataclass(frozen=True)
class Survey:
    text: str
    """For `<graph_context>`."""
    pinned_for: StepGroup | None
    """The steps for which the first phase run with it pins it; None if it is pinned."""
    own_types: Sequence[str] = ()
    """For queries: the names of the node types that configuration or the owner created."""


class PinnedSurveys:
    """The pinned surveys of steps. Use one instance per handler.

    If none is pinned, it is built, and the first phase run with it pins it. The other steps in the same process wait for it
    and are given the same one. Processes do not wait for each other: if two of them build different surveys, one is pinned,
    and a step that was given the other one is retried.
    """

    def __init__(self) -> None:
        self._pending: dict[StepGroup, asyncio.Future[Survey | None]] = {}
        self._loaded: OrderedDict[StepGroup, Survey] = OrderedDict()

    async def load(
        self,
        database: Database,
        executor: Executor,
        scope: GraphScope,
        step: StepRow,
        batch: Batch,
        *,
        token_budget: int,
        is_first: bool,
    ) -> Survey:
        """The survey of `step`; see `build_survey`. Executes `batch` in the same round trip.

        For the first worker of the step, it is the one that this process has given to other steps. A later worker loads what
        is pinned.
        """
        assert step.iteration_id is not None, f"a step of kind {step.kind} has no iteration"
        group = StepGroup(step.iteration_id, step.kind, steps.step_round(step))
        while (pending := self._pending.get(group)) is not None:
            await batch.execute(executor)
            batch = Batch()
            # Several steps wait for it: the cancellation of one must not cancel it for the others.
            if (ready := await asyncio.shield(pending)) is not None:
                return ready
        if is_first and (loaded := self._loaded.get(group)) is not None:
            await batch.execute(executor)
            return loaded
        future = self._pending[group] = asyncio.get_running_loop().create_future()
        survey: Survey | None = None
        try:
            pinned = batch.add(
                contexts.pinned_text(database, scope.owner_id, scope.agent_id, group)
            )
            kind = StepKind(step.kind)
            built = prepare_survey(batch, scope, kind, token_budget=token_budget)
            own_types = batch.add(_own_types(scope)) if kind == StepKind.QUERY else None
            await batch.execute(executor)
            survey = Survey(
                built.value if pinned.value is None else pinned.value,
                group if pinned.value is None else None,
                own_types.value if own_types else (),
            )
            self._loaded[group] = survey
            if len(self._loaded) > _LOADED_MAX:
                self._loaded.popitem(last=False)
            return survey
        finally:
            # None if it failed: then the next waiting step builds it.
            del self._pending[group]
            future.set_result(survey)


def _own_types(scope: GraphScope) -> BoundQuery[list[str]]:
    return BoundQuery(_OWN_TYPES, scope.sql_params, lambda rows: [row.name for row in rows])


MAX_ELEMENTS: Final = 80
TOKENS: Final = 1_600
_VALUE_CHARS: Final = ((160, True), (160, False), (80, False))
"""Characters of a value, and whether quotes are shown: the first pair that lets all elements fit is used. If none does,
the newest elements have values.
"""
_QUOTE_BYTES: Final = 400

_WRITTEN: Final = CompiledStatement(f"""
with wrote as (
  select evidence.node_id, evidence.edge_id, max(learned_at) as at, jsonb_agg(
    jsonb_build_object('claims', stated_claims,
      'as_of', cast({KNOWN_DATE_SQL} as text),
      'site', {HOST_SQL},
      'speaker', speaker,
      'quote', case when end_byte - first_byte <= {_QUOTE_BYTES} then
        convert_from(substring(convert_to(text, 'UTF8'), first_byte + 1, end_byte - first_byte), 'UTF8') end)
    order by as_of, cast(stated_claims as text), url, first_byte, evidence.id) as evidence
  from steps join evidence on evidence.step_id = steps.id
  join sources on sources.id = source_id and retracted_at is null {STATED_SQL}
  where steps.iteration_id = :of_iteration and steps.kind = '{StepKind.QUERY}'
    and {COUNTS_SQL}
    and (evidence.agent_id = {OWNED_AGENT_ID_SQL}) is true
  group by 1, 2
)
select * from (
  select wrote.*, coalesce(node.type, edge.type) as type, node.name,
    coalesce(node.properties, edge.properties) as properties, origin.name as source, target.name as target,
    coalesce(of_node.stated, of_edge.stated) as stated
  from wrote
  left join graph_nodes as node on node.id = wrote.node_id and node.unsupported_since is null
  left join graph_edges as edge on edge.id = wrote.edge_id and edge.unsupported_since is null
  left join graph_nodes as origin on origin.id = edge.source_id
  left join graph_nodes as target on target.id = edge.target_id
  cross join lateral {beside_sql("node_id", "node", "node.properties")} as of_node
  cross join lateral {beside_sql("edge_id", "edge", "edge.properties")} as of_edge
  where coalesce(node.id, edge.id) is not null
  order by wrote.edge_id is not null, wrote.at desc, coalesce(node.id, edge.id)
  limit {MAX_ELEMENTS}
) as newest
order by edge_id is not null, at, name, source, target, coalesce(node_id, edge_id)
""")


def written_lines(scope: GraphScope) -> BoundQuery[str]:
    """The nodes and edges that the queries of the scope's iteration have written, nodes first, the newest of each kind last.

    Each stands once, with the values that it was given, the dates as of which they hold, the sites, and the quotes if all
    fit, and contested and upcoming values. Superseded values are left out. What does not fit has its name alone.
    """

    def read(rows: Sequence[Row]) -> str:
        budget = scope.budget_bytes(TOKENS)
        beside = {id(row): stated_beside(row.stated, row.properties) for row in rows}
        held = [(row, values) for row in rows if (values := _held_values(row)) or beside[id(row)]]
        for most_chars, has_quotes in _VALUE_CHARS:
            lines = [
                _line(row, values, beside[id(row)], most_chars, has_quotes=has_quotes)
                for row, values in held
            ]
            if sum(byte_length(line) + 1 for line in lines) <= budget:
                return "\n".join(lines)
        return _with_newest(
            lines, [_line(row, {}, "", 0, has_quotes=False) for row, _ in held], budget
        )

    return BoundQuery(_WRITTEN, {**scope.sql_params, "of_iteration": scope.iteration_id}, read)


def _held_values(row: Row) -> dict[tuple[str, str], Json]:
    """The claims that the element's properties follow, by date and site, and by quote; those that support only the element
    have no values.
    """
    values: dict[tuple[str, str], Json] = {}
    for each in row.evidence:
        held = {
            name: value
            for name, value in each["claims"].items()
            if name in row.properties and is_equal(row.properties[name], value)
        }
        if held or not each["claims"]:
            said = f"{each['as_of'] or 'undated'}, {each['site']}"
            if each["speaker"]:
                said += f", {each['speaker']} says"
            values.setdefault((said, one_line(each["quote"] or "")), {}).update(held)
    return values


def _line(
    row: Row,
    values: Mapping[tuple[str, str], Json],
    beside: str,
    most_chars: int,
    *,
    has_quotes: bool,
) -> str:
    line = (
        node_line(row.node_id, row.type, row.name)
        if row.edge_id is None
        else edge_line(row.edge_id, row.type, row.source, row.target)
    )
    said_of: dict[str, dict[str, None]] = {}
    quotes: dict[str, dict[str, None]] = {}
    for (said, quote), claims in values.items():
        quotes.setdefault(said, {})[quote] = None
        for name in claims:
            said_of.setdefault(name, {})[said] = None
    shown = {name: value for claims in values.values() for name, value in claims.items()}
    together: dict[tuple[str, ...], Json] = {}
    for name, each in said_of.items():
        together.setdefault(tuple(each), {})[name] = shown[name]
    unsaid = tuple(said for said in quotes if not any(said in each for each in together))
    parts = [
        f"{json_line(shorten_properties(claims, most_chars))} ({_sayings(each, quotes if has_quotes else {})})"
        for each, claims in together.items()
    ]
    if unsaid:
        parts.append(f"({_sayings(unsaid, quotes if has_quotes else {})})")
    if beside:
        parts.append(beside)
    return " ".join([line, "; ".join(parts)]).rstrip()


def _sayings(said: Sequence[str], quotes: dict[str, dict[str, None]]) -> str:
    """Dates and sites, each with its quotes; what was shown is removed from `quotes`."""
    return "; ".join(
        " ".join([each, *(json_line(quote) for quote in quotes.pop(each, {}) if quote)])
        for each in said
    )


def _with_newest(lines: Sequence[str], short: Sequence[str], budget_bytes: int) -> str:
    """As many of the `lines` as fit, from the last one on, and the short form of the others."""
    left = budget_bytes - sum(byte_length(line) + 1 for line in short)
    if left < 0:
        return truncate_to_budget(short, budget_bytes)
    shown = list(short)
    for place in reversed(range(len(lines))):
        more = byte_length(lines[place]) - byte_length(short[place])
        if more <= left:
            shown[place] = lines[place]
            left -= more
    return "\n".join(shown)
