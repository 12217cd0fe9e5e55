"""Earlier queries and their outcome, and the nodes that a reference means, for prompts."""

import unicodedata
from collections.abc import Collection, Sequence
from functools import cache
from typing import Final
from uuid import UUID

from sqlalchemy import select

from shared.database.statements import (
    ANY_OF_IDS,
    BoundQuery,
    CompiledStatement,
    Executor,
    Row,
    uuid_array,
)
from shared.database.tables import GraphNode, Iteration, Step
from shared.database.tables.graph import NAME_IN_SMALL
from shared.enums import ANALYSIS_TYPE, StepKind, StepStatus
from shared.graph.context import recent
from shared.graph.context.recent import LIMIT_PARAM, EdgeFacts, NodeFacts
from shared.graph.entity_resolution.redirects import current_ids, resolve_redirects
from shared.graph.prompt_format import (
    edge_line,
    node_line,
    shorten_properties,
    truncate_text,
    truncate_to_budget,
)
from shared.graph.retrieval import traversal
from shared.graph.scope import OWNED_AGENT_ID, OWNED_AGENT_ID_SQL, GraphScope
from shared.graph.validation import one_line
from shared.tools import Json
from shared.workflow.investigations import OpenRequest

_MAX_QUERIES: Final = 20


def request_lines(requests: Sequence[OpenRequest]) -> list[str]:
    """Open investigation requests, each with the id by which a query refers to it."""
    return [
        f"- [request:{request.id}] {truncate_text(request.objective)} (lacking since iteration {request.iteration_number})"
        for request in requests
    ]


def recent_query_lines(scope: GraphScope, iterations: int) -> BoundQuery[list[str]]:
    """The queries of the last iterations, the newest first."""
    # One more, because the newest iteration is mostly the running one.
    return BoundQuery(_newest_queries(), {**scope.sql_params, "most": iterations + 1}, _query_lines)


def _query_lines(queries: Sequence[Row]) -> list[str]:
    return [
        f"- iteration {query.number}, {_describe_outcome(query)}:"
        f" {truncate_text(one_line(query.input.get('objective', '')))}"
        for query in queries
    ]


@cache
def _newest_queries() -> CompiledStatement:
    newest = (
        select(Iteration.id, Iteration.number)
        .where(Iteration.agent_id == OWNED_AGENT_ID)
        .order_by(Iteration.number.desc())
        .limit(LIMIT_PARAM)
        .subquery()
    )
    return CompiledStatement(
        select(newest.c.number, Step.input, Step.status, Step.result)
        .join(newest, newest.c.id == Step.iteration_id)
        .where(Step.kind == StepKind.QUERY)
        .order_by(newest.c.number.desc(), Step.index)
        .limit(_MAX_QUERIES)
    )


def _describe_outcome(step: Row) -> str:
    match step.status:
        case StepStatus.COMPLETED:
            return "answered" if has_written(step) else "nothing found"
        case StepStatus.FAILED:
            return "failed"
        case _:
            return "under way"


def has_written(query: Row) -> bool:
    """Whether the query has written anything to the graph."""
    result = query.result or {}
    return query.status == StepStatus.COMPLETED and bool(result.get("nodes") or result.get("edges"))


def request_id_in(text: str) -> UUID | None:
    """The request id in `text`, bare or as the prompt shows it; None if it is none."""
    stripped = text.strip().removeprefix("[").removesuffix("]").removeprefix("request:")
    try:
        return UUID(stripped.strip())
    except ValueError:
        return None


MAX_REFERENCES = 200
_MAX_NODES_PER_NAME = 5

_EXISTING_NODES: Final = CompiledStatement(
    select(GraphNode.id).where(GraphNode.agent_id == OWNED_AGENT_ID, GraphNode.id == ANY_OF_IDS)
)
_NODES_BY_NAME: Final = CompiledStatement(f"""
select name, id from graph_nodes
where agent_id = {OWNED_AGENT_ID_SQL}
  and {NAME_IN_SMALL} = any(array(select lower(each) from unnest(cast(:names as text[])) as each))
order by updated_at desc, id
""")


async def resolve_references(
    session: Executor, scope: GraphScope, references: Sequence[str]
) -> tuple[list[UUID], list[str]]:
    """Resolve references to node ids, each once and in order; returns the ids and the references without a match.

    A reference is a node id (bare, or as the citation `[node:uuid]`) or a name in any case; a name of several nodes
    means all of them.
    """
    distinct = list(dict.fromkeys(references))
    by_id = {
        reference: node_id
        for reference in distinct[:MAX_REFERENCES]
        if (node_id := _parse_id(reference))
    }
    names = [
        _normalize_name(reference)
        for reference in distinct[:MAX_REFERENCES]
        if reference not in by_id
    ]
    current = await _current_node_ids(session, scope, set(by_id.values()))
    by_name = await _nodes_by_name(session, scope, names)
    resolved: dict[UUID, None] = {}
    unresolved = []
    for reference in distinct:
        node_id = current.get(by_id[reference]) if reference in by_id else None
        matches = [node_id] if node_id else by_name.get(_normalize_name(reference).lower(), [])
        resolved.update(dict.fromkeys(matches))
        if not matches:
            unresolved.append(reference)
    return list(resolved), unresolved


def _parse_id(text: str) -> UUID | None:
    stripped = text.strip(" \t\n\"'`<>").removeprefix("[").removesuffix("]").removeprefix("node:")
    try:
        return UUID(stripped.strip(" \"'`"))
    except ValueError:
        return None


def _normalize_name(text: str) -> str:
    # PostgreSQL rejects NUL in parameters.
    return unicodedata.normalize("NFC", one_line(text.replace("\x00", " ")))


async def _current_node_ids(
    session: Executor, scope: GraphScope, ids: Collection[UUID]
) -> dict[UUID, UUID]:
    """The current id of each given id that belongs to a node, following merges."""
    existing = await _existing_ids(session, scope, ids)
    redirected = await current_ids(session, scope, set(ids) - existing)
    existing_targets = await _existing_ids(session, scope, redirected.values())
    return {node_id: node_id for node_id in existing} | {
        old_id: node_id for old_id, node_id in redirected.items() if node_id in existing_targets
    }


async def _existing_ids(session: Executor, scope: GraphScope, ids: Collection[UUID]) -> set[UUID]:
    if not ids:
        return set()
    rows = await _EXISTING_NODES.rows(session, {**scope.sql_params, "ids": uuid_array(ids)})
    return {row.id for row in rows}


async def _nodes_by_name(
    session: Executor, scope: GraphScope, names: Sequence[str]
) -> dict[str, list[UUID]]:
    """Ids by lower-case name, the most recently updated first."""
    if not names:
        return {}
    ids_by_name: dict[str, list[UUID]] = {}
    for name, node_id in await _NODES_BY_NAME.rows(
        session, {**scope.sql_params, "names": list(names)}
    ):
        ids_by_name.setdefault(name.lower(), []).append(node_id)
    return {name: ids[:_MAX_NODES_PER_NAME] for name, ids in ids_by_name.items()}


MAX_NODES = 50
_MAX_NEIGHBOURS = 30
_MAX_EDGES = 100
_TOKEN_BUDGET = 6_000
_ANALYSIS_PROPERTIES = ("type", "summary", "content", "confidence", "horizon")


async def describe_nodes(session: Executor, scope: GraphScope, ids: Sequence[UUID]) -> str:
    """The lines for `<relevant_nodes>`: the nodes in full, their edges, and the neighbours shortened.

    Ids that are not nodes of this agent are skipped. Empty if none is left.
    """
    nodes = await _load_nodes(session, scope, await resolve_redirects(session, scope, ids))
    if not nodes:
        return ""
    node_ids = [node.id for node in nodes]
    links = await traversal.incident_edges(session, scope, node_ids, _MAX_EDGES)
    edges = await recent.edges_by_ids(session, scope, [edge.id for edge in links])
    neighbours = await _neighbours(session, scope, node_ids, edges)
    lines = [
        *(node_line(node.id, node.type, node.name, node.properties) for node in nodes),
        *(edge_line(e.id, e.type, e.source, e.target, e.properties) for e in edges),
        *(node_line(n.id, n.type, n.name, shorten_properties(n.properties)) for n in neighbours),
    ]
    return truncate_to_budget(lines, _TOKEN_BUDGET)


async def describe_analyses(session: Executor, scope: GraphScope, ids: Sequence[UUID]) -> str:
    """The lines for `<analyses>`, in the order of `ids`; ids that are not analyses of this agent are skipped."""
    nodes = await _load_nodes(session, scope, ids)
    analyses = [node for node in nodes if node.type == ANALYSIS_TYPE]
    lines = [
        node_line(node.id, node.type, node.name, _pick(_ANALYSIS_PROPERTIES, node.properties))
        for node in analyses
    ]
    return truncate_to_budget(lines, _TOKEN_BUDGET)


def _pick(keys: Sequence[str], properties: Json) -> Json:
    return {key: properties[key] for key in keys if key in properties}


async def _load_nodes(session: Executor, scope: GraphScope, ids: Sequence[UUID]) -> list[NodeFacts]:
    """At most MAX_NODES nodes in the order of `ids`."""
    nodes_by_id = await recent.nodes_by_ids(session, scope, ids)
    return [nodes_by_id[node_id] for node_id in dict.fromkeys(ids) if node_id in nodes_by_id][
        :MAX_NODES
    ]


async def _neighbours(
    session: Executor, scope: GraphScope, ids: Sequence[UUID], edges: Sequence[EdgeFacts]
) -> list[NodeFacts]:
    """The nodes at the other ends of `edges`."""
    ends = dict.fromkeys(end for edge in edges for end in (edge.source_id, edge.target_id))
    return await _load_nodes(
        session, scope, [end for end in ends if end not in ids][:_MAX_NEIGHBOURS]
    )
