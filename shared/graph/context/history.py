"""Earlier queries and their outcome, and the nodes that a reference means, for prompts."""

import re
import unicodedata
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import Final
from uuid import UUID

from shared.database.statements import Batch, BoundQuery, CompiledStatement, Executor, Row
from shared.database.tables.graph import NAME_IN_SMALL
from shared.enums import ANALYSIS_TYPE, StepKind, StepStatus
from shared.graph.context import recent
from shared.graph.context.recent import NodeFacts
from shared.graph.elements import existing_ids
from shared.graph.entity_resolution.redirects import (
    current_ids,
    has_redirect,
    resolve_redirects,
)
from shared.graph.prompt_format import (
    byte_length,
    concluded_on,
    edge_line,
    json_line,
    node_line,
    quote_name,
    shown_date,
    truncate_text,
    truncate_to_budget,
)
from shared.graph.provenance.beside import beside_query
from shared.graph.retrieval import query
from shared.graph.retrieval.claimed import claimed_query, says
from shared.graph.scope import OWNED_AGENT_ID_SQL, GraphScope
from shared.graph.short_ids import ShortIds
from shared.graph.validation import one_line
from shared.tools import Json
from shared.urls import urls_in
from shared.workflow.agent_clock import shown_time_sql
from shared.workflow.investigations import NotFoundRequest, OpenRequest

_MAX_QUERIES: Final = 60
_MARK: Final = re.compile(r"\[?[ne]\d+\]?")
_MAX_AGE_DAYS: Final = 7
"""A query that was answered longer ago may be asked again."""


def not_found_lines(requests: Sequence[NotFoundRequest]) -> list[str]:
    """One line for each request that lacks an answer or a part of it, with the date, its answer, and what was not found."""
    return [
        f"- {request.not_found_at:%Y-%m-%d}: {truncate_text(request.objective)}{_outcome(request)}"
        for request in requests
    ]


def _outcome(request: NotFoundRequest) -> str:
    by = ", ".join(map(quote_name, request.answered_by)) or "edges of the graph"
    parts = [f"answered in part by {by}"] if request.is_partial else []
    parts += [f"not found: {truncate_text(request.not_found)}"] if request.not_found else []
    return f" ({'; '.join(parts)})" if parts else ""


def request_lines(requests: Sequence[OpenRequest]) -> list[str]:
    """Open investigation requests, each with the id by which a query refers to it."""
    return [
        f"- [request:{request.id}] {truncate_text(request.objective)} (lacking since iteration {request.iteration_number})"
        for request in requests
    ]


_NEWEST_QUERIES: Final = CompiledStatement(f"""
    select newest.number, steps.input, steps.status, steps.result,
      {shown_time_sql("steps.ended_at")} as ended_at
    from steps join (
        select id, number from iterations
        where agent_id = {OWNED_AGENT_ID_SQL} order by number desc limit :most
    ) as newest on newest.id = steps.iteration_id
    where steps.kind = '{StepKind.QUERY}'
      and (steps.ended_at is null or steps.ended_at > statement_timestamp() - make_interval(days => {_MAX_AGE_DAYS}))
    order by newest.number desc, steps.index limit {_MAX_QUERIES}
    """)


def recent_query_lines(scope: GraphScope, iterations: int) -> BoundQuery[list[str]]:
    """The queries of the last iterations, the newest first."""
    # One more, because the newest iteration is mostly the running one.
    return BoundQuery(_NEWEST_QUERIES, {**scope.sql_params, "most": iterations + 1}, _query_lines)


def _query_lines(queries: Sequence[Row]) -> list[str]:
    return [
        f"- iteration {query.number}, {_describe_outcome(query)}:"
        f" {truncate_text(one_line(query.input.get('objective', '')))}{_not_found(query)}"
        for query in queries
    ]


def _describe_outcome(step: Row) -> str:
    match step.status:
        case StepStatus.COMPLETED if lacks_something(step):
            outcome = "answered in part" if _has_written(step) else "not found"
            return f"{outcome}{f' on {step.ended_at:%Y-%m-%d}' if step.ended_at else ''}"
        case StepStatus.COMPLETED:
            return "answered"
        case StepStatus.FAILED:
            return "failed"
        case _:
            return "under way"


def _not_found(step: Row) -> str:
    statements = (step.result or {}).get("not_found")
    parts = [f"not found: {truncate_text(one_line(' '.join(statements)))}"] if statements else []
    parts += [f"not read: {url}" for url in _unread(step)]
    return f" ({'; '.join(parts)})" if parts else ""


def lacks_something(query: Row) -> bool:
    """Returns true if the completed query wrote nothing, did not read a page that its objective names, or did not find
    or answer all that it was for.
    """
    result = query.result or {}
    has_gap = bool(result.get("not_found") or result.get("unanswered") or _unread(query))
    return has_gap or not _has_written(query)


def _unread(query: Row) -> Sequence[str]:
    """Addresses in the objective of a completed query whose pages it did not read."""
    if query.status != StepStatus.COMPLETED:
        return []
    read = (query.result or {}).get("read", ())
    return [url for url in urls_in(query.input.get("objective", "")) if url not in read]


def _has_written(query: Row) -> bool:
    result = query.result or {}
    return bool(result.get("nodes") or result.get("edges"))


MAX_REFERENCES = 200
_MAX_NODES_PER_NAME = 5

_NODES_BY_NAME: Final = CompiledStatement(f"""
select name, id from graph_nodes
where agent_id = {OWNED_AGENT_ID_SQL}
  and {NAME_IN_SMALL} = any(array(select lower(each) from unnest(cast(:names as text[])) as each))
order by updated_at desc, id
""")


def prepare_references(
    batch: Batch, scope: GraphScope, lists: Sequence[Sequence[str]]
) -> Callable[[Executor], Awaitable[list[tuple[list[UUID], list[str]]]]]:
    """Resolves lists of references to node ids; for each list, the ids, each once and in order, and the references without
    a match. The first statements are part of `batch`; when it was executed, the returned function executes the rest.

    A reference is a node id (bare, or as the citation `[node:uuid]`) or a name in any case; a name of several nodes
    means all of them. Of each list, MAX_REFERENCES are resolved.
    """
    distinct_lists = [list(dict.fromkeys(references)) for references in lists]
    within_limit = {each for references in distinct_lists for each in references[:MAX_REFERENCES]}
    ids_by_reference = {each: node_id for each in within_limit if (node_id := _parse_id(each))}
    ids = set(ids_by_reference.values())
    names = {_normalize_name(each) for each in within_limit - ids_by_reference.keys()}
    existing = batch.add(existing_ids(scope, ids)) if ids else None
    by_name = batch.add(_nodes_by_name(scope, names)) if names else None

    async def resolve(transaction: Executor) -> list[tuple[list[UUID], list[str]]]:
        current = await _follow_merges(transaction, scope, ids, existing.value) if existing else {}
        named = by_name.value if by_name else {}
        by_id = {
            each: [current[node_id]]
            for each, node_id in ids_by_reference.items()
            if node_id in current
        }
        resolved = []
        for references in distinct_lists:
            ids_of_list = {
                each: by_id.get(each) or named.get(_normalize_name(each).lower(), [])
                for each in references[:MAX_REFERENCES]
            }
            node_ids = dict.fromkeys(chain.from_iterable(ids_of_list.values()))
            unresolved = [each for each in references if not ids_of_list.get(each)]
            resolved.append((list(node_ids), unresolved))
        return resolved

    return resolve


def is_id(reference: str) -> bool:
    """Whether the reference is an id, or a mark such as `[n17]`, and no name."""
    return _parse_id(reference) is not None or bool(_MARK.fullmatch(reference.strip()))


def _parse_id(text: str) -> UUID | None:
    stripped = text.strip(" \t\n\"'`<>").removeprefix("[").removesuffix("]").removeprefix("node:")
    try:
        return UUID(stripped.strip(" \"'`"))
    except ValueError:
        return None


def _normalize_name(text: str) -> str:
    # PostgreSQL rejects NUL in parameters.
    return unicodedata.normalize("NFC", one_line(text.replace("\x00", " ")))


async def _follow_merges(
    transaction: Executor, scope: GraphScope, ids: Collection[UUID], existing: set[UUID]
) -> dict[UUID, UUID]:
    """The current id of each given id that belongs to a node, following merges."""
    redirected = await current_ids(transaction, scope, set(ids) - existing)
    targets = (
        await existing_ids(scope, redirected.values()).execute(transaction) if redirected else set()
    )
    return {node_id: node_id for node_id in existing} | {
        old_id: node_id for old_id, node_id in redirected.items() if node_id in targets
    }


def _nodes_by_name(scope: GraphScope, names: Iterable[str]) -> BoundQuery[dict[str, list[UUID]]]:
    """Ids by lower-case name, the most recently updated first."""

    def read(rows: Sequence[Row]) -> dict[str, list[UUID]]:
        ids_by_name: dict[str, list[UUID]] = {}
        for name, node_id in rows:
            ids_by_name.setdefault(name.lower(), []).append(node_id)
        return {name: ids[:_MAX_NODES_PER_NAME] for name, ids in ids_by_name.items()}

    return BoundQuery(_NODES_BY_NAME, {**scope.sql_params, "names": sorted(names)}, read)


MAX_NODES = 50
_MAX_NEIGHBOURS = 30
_MAX_EDGES = 40
_TOKEN_BUDGET = 2_500
_NEIGHBOUR_CHARS = 100
"""Of the summary of a neighbour, and of an earlier value."""
_CHANGES = 40
_SITES = 3
_ANALYSIS_PROPERTIES = ("type", "summary", "content", "confidence", "horizon")


def prepare_nodes(
    batch: Batch, scope: GraphScope, ids: Sequence[UUID], short_ids: ShortIds | None = None
) -> Callable[[Executor, Sequence[str]], Awaitable[str]]:
    """The lines for `<relevant_nodes>`: the nodes in full, their edges, and the neighbours shortened.

    Ids that are not nodes of this agent are skipped. Empty if none is left. The first statements are part of `batch`; when
    it was executed, the returned function executes the rest. These give `short_ids` to what is in the given texts, and to
    what the lines can show.
    """
    if not ids:
        return _no_nodes
    is_moved = batch.add(has_redirect(scope, ids))
    found = batch.add(recent.nodes_by_ids(scope, ids))
    linked = batch.add(query.incident_query(scope, set(ids), _MAX_EDGES))

    async def describe(transaction: Executor, texts: Sequence[str]) -> str:
        nodes, links = _in_order(found.value, ids), linked.value
        if is_moved.value or len(nodes) < len(set(ids)):
            current = await resolve_redirects(transaction, scope, ids)
            nodes = _in_order(
                await recent.nodes_by_ids(scope, current).execute(transaction), current
            )
            node_ids = [node.id for node in nodes]
            links = await query.incident_edges(transaction, scope, node_ids, _MAX_EDGES)
        if not nodes:
            return ""
        return await _describe(transaction, scope, nodes, links, short_ids, texts)

    return describe


async def _no_nodes(_: Executor, __: Sequence[str]) -> str:
    return ""


async def _describe(
    transaction: Executor,
    scope: GraphScope,
    nodes: Sequence[NodeFacts],
    links: Sequence[query.Link],
    short_ids: ShortIds | None,
    texts: Sequence[str],
) -> str:
    node_ids = {node.id for node in nodes}
    # In the order of the edges below: the most recently updated first.
    ends = dict.fromkeys(end for link in links for end in (link.source_id, link.target_id))
    shown = [end for end in ends if end not in node_ids][:_MAX_NEIGHBOURS]
    batch = Batch()
    edge_ids = [link.id for link in links]
    edges = batch.add(recent.edges_by_ids(scope, edge_ids))
    neighbours = batch.add(recent.nodes_by_ids(scope, shown))
    held = batch.add(recent.held_query(scope, [*node_ids, *edge_ids]))
    changes = batch.add(recent.changes_of_nodes(scope, node_ids, _CHANGES))
    claimed = batch.add(claimed_query(scope, [*node_ids, *edge_ids]))
    of_nodes = batch.add(beside_query(scope, "node_id", node_ids))
    of_edges = batch.add(beside_query(scope, "edge_id", edge_ids))
    if short_ids is not None:
        in_order = [*(node.id for node in nodes), *(link.id for link in links), *shown]
        short_ids.number_with(batch, texts, in_order)
    await batch.execute(transaction)
    earlier: dict[UUID, list[str]] = {}
    for change in changes.value:
        earlier.setdefault(change.id, []).append(
            f"{change.key} was {truncate_text(json_line(change.old), _NEIGHBOUR_CHARS)} ({change.old_date})"
        )

    def said(element_id: UUID) -> str:
        """Date, sites, speakers of what is only claimed, what stands beside the values, and earlier ones, behind the line of
        a node or edge.
        """
        row = held.value.get(element_id)
        parts = (
            []
            if row is None
            else [shown_date(row.as_of), *recent.sites_of_hosts(row.hosts)[:_SITES]]
        )
        beside = of_nodes.value.get(element_id) or of_edges.value.get(element_id, "")
        notes = filter(None, (", ".join(parts), says(claimed.value.get(element_id)), beside))
        text = f" ({shown})" if (shown := "; ".join(notes)) else ""
        return f"{text} {'; '.join(earlier[element_id])}" if element_id in earlier else text

    lines = [
        *(
            f"{node_line(node.id, node.type, node.name, node.properties)}{said(node.id)}"
            for node in nodes
        ),
        *(
            f"{edge_line(e.id, e.type, e.source, e.target, e.properties)}{said(e.id)}"
            for e in edges.value
        ),
        *(node_line(n.id, n.type, n.name, _summary(n)) for n in _in_order(neighbours.value, shown)),
    ]
    return truncate_to_budget(lines, scope.budget_bytes(_TOKEN_BUDGET))


def _summary(node: NodeFacts) -> Json:
    summary = str(node.properties.get("summary", ""))
    return {"summary": truncate_text(summary, _NEIGHBOUR_CHARS)} if summary else {}


def analyses_query(scope: GraphScope, ids: Sequence[UUID]) -> BoundQuery[str]:
    """The lines for `<analyses>`, in the order of `ids`; ids that are not analyses of this agent are skipped."""
    nodes_query = recent.nodes_by_ids(scope, ids)

    def read(rows: list[Row]) -> str:
        nodes = _in_order(nodes_query.read(rows), ids)
        analyses = [node for node in nodes if node.type == ANALYSIS_TYPE]
        lines = [
            node_line(node.id, node.type, node.name, _pick(_ANALYSIS_PROPERTIES, node.properties))
            + concluded_on(node.properties)
            for node in analyses
        ]
        # What does not fit can still be cited and looked up.
        names = [node_line(node.id, node.type, node.name, {}) for node in analyses]
        return _fit_or_shorten(lines, names, scope.budget_bytes(_TOKEN_BUDGET))

    return BoundQuery(nodes_query.statement, nodes_query.params, read)


def _fit_or_shorten(lines: Sequence[str], short: Sequence[str], budget_bytes: int) -> str:
    """The lines that fit the budget, and the others in their short form."""
    left = budget_bytes - sum(byte_length(each) + 1 for each in short)
    shown = []
    for line, short_line in zip(lines, short, strict=True):
        more = byte_length(line) - byte_length(short_line)
        if more <= left:
            left -= more
            short_line = line
        shown.append(short_line)
    return truncate_to_budget(shown, budget_bytes)


def _pick(keys: Sequence[str], properties: Json) -> Json:
    return {key: properties[key] for key in keys if key in properties}


def _in_order(nodes: Mapping[UUID, NodeFacts], ids: Sequence[UUID]) -> list[NodeFacts]:
    """At most MAX_NODES nodes in the order of `ids`."""
    return [nodes[node_id] for node_id in dict.fromkeys(ids) if node_id in nodes][:MAX_NODES]
