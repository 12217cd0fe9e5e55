"""What was asked before and what came of it, for the Observer's context."""

import unicodedata
from collections.abc import Collection, Sequence
from functools import cache
from typing import Final
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from shared.database.statements import ANY_OF_IDS, Asked, Direct, Row, listed
from shared.database.tables import GraphNode, Iteration, Step
from shared.database.tables.graph import NAME_IN_SMALL
from shared.enums import ANALYSIS_TYPE, StepKind, StepStatus
from shared.graph.context import recent
from shared.graph.context.recent import MOST, EdgeFacts, NodeFacts
from shared.graph.entity_resolution.redirects import current_ids, followed
from shared.graph.prompt_format import edge_line, node_line, short, shortened, within
from shared.graph.retrieval import traversal
from shared.graph.scope import OWNED, OWNED_SQL, Scope
from shared.graph.validation import one_line
from shared.tools import Json
from shared.workflow.investigations import Open

_MOST_QUERIES: Final = 20


def request_lines(requests: Sequence[Open]) -> list[str]:
    """Open investigation requests, each with the id by which a query names it."""
    return [
        f"- [request:{each.id}] {short(each.objective)} (lacking since iteration {each.iteration_number})"
        for each in requests
    ]


def asked_lines(scope: Scope, iterations: int) -> Asked[list[str]]:
    """The queries of the last iterations, the newest first."""
    # One more than asked for: the newest iteration is mostly the one that is running.
    return Asked(_newest(), {**scope.bound, "most": iterations + 1}, _lines)


def _lines(queries: Sequence[Row]) -> list[str]:
    return [
        f"- iteration {each.number}, {_came_of(each)}: {short(one_line(each.input.get('objective', '')))}"
        for each in queries
    ]


@cache
def _newest() -> Direct:
    newest = (
        select(Iteration.id, Iteration.number)
        .where(Iteration.agent_id == OWNED)
        .order_by(Iteration.number.desc())
        .limit(MOST)
        .subquery()
    )
    return Direct(
        select(newest.c.number, Step.input, Step.status, Step.result)
        .join(newest, newest.c.id == Step.iteration_id)
        .where(Step.kind == StepKind.QUERY)
        .order_by(newest.c.number.desc(), Step.index)
        .limit(_MOST_QUERIES)
    )


def _came_of(step: Row) -> str:
    match step.status:
        case StepStatus.COMPLETED:
            return "answered" if has_written(step) else "nothing found"
        case StepStatus.FAILED:
            return "failed"
        case _:
            return "under way"


def has_written(query: Row) -> bool:
    """Whether the query has put anything into the graph."""
    result = query.result or {}
    return query.status == StepStatus.COMPLETED and bool(result.get("nodes") or result.get("edges"))


def request_id_in(text: str) -> UUID | None:
    """The id that `text` is, bare or as the context shows it; None where it is none."""
    bare = text.strip().removeprefix("[").removesuffix("]").removeprefix("request:")
    try:
        return UUID(bare.strip())
    except ValueError:
        return None


MAX_REFERENCES = 200
_MAX_NODES_OF_A_NAME = 5

_EXISTING: Final = Direct(
    select(GraphNode.id).where(GraphNode.agent_id == OWNED, GraphNode.id == ANY_OF_IDS)
)
_NAMED: Final = Direct(f"""
select name, id from graph_nodes
where agent_id = {OWNED_SQL}
  and {NAME_IN_SMALL} = any(array(select lower(each) from unnest(cast(:names as text[])) as each))
order by updated_at desc, id
""")


async def resolve(
    session: AsyncSession, scope: Scope, references: Sequence[str]
) -> tuple[list[UUID], list[str]]:
    """The nodes that `references` mean, each once and in their order, and the references that mean none.

    A reference is a node's id (bare, or as the citation `[node:uuid]`) or its name, whatever the case; a name that
    nodes of several types bear means all of them.
    """
    asked = list(dict.fromkeys(references))
    by_id = {text: node_id for text in asked[:MAX_REFERENCES] if (node_id := _as_id(text))}
    names = [_name(text) for text in asked[:MAX_REFERENCES] if text not in by_id]
    current = await _current(session, scope, set(by_id.values()))
    named = await _named(session, scope, names)
    resolved: dict[UUID, None] = {}
    dropped = []
    for text in asked:
        node_id = current.get(by_id[text]) if text in by_id else None
        meant = [node_id] if node_id else named.get(_name(text).lower(), [])
        resolved.update(dict.fromkeys(meant))
        if not meant:
            dropped.append(text)
    return list(resolved), dropped


def _as_id(text: str) -> UUID | None:
    bare = text.strip(" \t\n\"'`<>").removeprefix("[").removesuffix("]").removeprefix("node:")
    try:
        return UUID(bare.strip(" \"'`"))
    except ValueError:
        return None


def _name(text: str) -> str:
    # PostgreSQL refuses NUL even in a question.
    return unicodedata.normalize("NFC", one_line(text.replace("\x00", " ")))


async def _current(session: AsyncSession, scope: Scope, ids: Collection[UUID]) -> dict[UUID, UUID]:
    """Of `ids`, those of nodes, each with the id under which its node is found: a merge may have moved it."""
    existing = await _existing(session, scope, ids)
    moved = await current_ids(session, scope, set(ids) - existing)
    kept = await _existing(session, scope, moved.values())
    return {each: each for each in existing} | {
        gone: node_id for gone, node_id in moved.items() if node_id in kept
    }


async def _existing(session: AsyncSession, scope: Scope, ids: Collection[UUID]) -> set[UUID]:
    if not ids:
        return set()
    rows = await _EXISTING.rows(session, {**scope.bound, "ids": listed(ids)})
    return {row.id for row in rows}


async def _named(
    session: AsyncSession, scope: Scope, names: Sequence[str]
) -> dict[str, list[UUID]]:
    """Ids by name in small letters, the nodes touched last first."""
    if not names:
        return {}
    found: dict[str, list[UUID]] = {}
    for name, node_id in await _NAMED.rows(session, {**scope.bound, "names": list(names)}):
        found.setdefault(name.lower(), []).append(node_id)
    return {name: ids[:_MAX_NODES_OF_A_NAME] for name, ids in found.items()}


MAX_NODES = 50
_MAX_NEIGHBOURS = 30
_MAX_EDGES = 100
_TOKEN_BUDGET = 6_000
_SHOWN_OF_ANALYSES = ("type", "summary", "content", "confidence", "horizon")


async def describe_nodes(session: AsyncSession, scope: Scope, ids: Sequence[UUID]) -> str:
    """The lines for `<relevant_nodes>`: the nodes in full, their edges, and briefly the nodes at the other ends.

    Ids that are not this agent's nodes are passed over. Empty where none is.
    """
    nodes = await _given(session, scope, await followed(session, scope, ids))
    if not nodes:
        return ""
    known = [node.id for node in nodes]
    touching = await traversal.touching(session, scope, known, _MAX_EDGES)
    edges = await recent.edges_by_ids(session, scope, [edge.id for edge in touching])
    neighbours = await _neighbours(session, scope, known, edges)
    lines = [
        *(node_line(node.id, node.type, node.name, node.properties) for node in nodes),
        *(edge_line(e.id, e.type, e.source, e.target, e.properties) for e in edges),
        *(node_line(n.id, n.type, n.name, shortened(n.properties)) for n in neighbours),
    ]
    return within(lines, _TOKEN_BUDGET)


async def describe_analyses(session: AsyncSession, scope: Scope, ids: Sequence[UUID]) -> str:
    """The lines for `<analyses>`, in the order of `ids`; ids that are not this agent's analyses are passed over."""
    given = await _given(session, scope, ids)
    analyses = [each for each in given if each.type == ANALYSIS_TYPE]
    lines = [
        node_line(each.id, each.type, each.name, _only(_SHOWN_OF_ANALYSES, each.properties))
        for each in analyses
    ]
    return within(lines, _TOKEN_BUDGET)


def _only(keys: Sequence[str], properties: Json) -> Json:
    return {key: properties[key] for key in keys if key in properties}


async def _given(session: AsyncSession, scope: Scope, ids: Sequence[UUID]) -> list[NodeFacts]:
    """In the order of `ids`, MAX_NODES at most."""
    found = await recent.nodes_by_ids(session, scope, ids)
    return [found[each] for each in dict.fromkeys(ids) if each in found][:MAX_NODES]


async def _neighbours(
    session: AsyncSession, scope: Scope, ids: Sequence[UUID], edges: Sequence[EdgeFacts]
) -> list[NodeFacts]:
    """The nodes at the other ends of `edges`."""
    ends = dict.fromkeys(end for edge in edges for end in (edge.source_id, edge.target_id))
    return await _given(session, scope, [end for end in ends if end not in ids][:_MAX_NEIGHBOURS])
