"""References to nodes in tool arguments: by id, or by name."""

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Final, TypeVar
from uuid import UUID

from pydantic import BeforeValidator

from shared.database.statements import CompiledStatement, InTransaction, Row
from shared.graph.entity_resolution import normalization
from shared.graph.prompt_format import quote_name
from shared.graph.retrieval import query
from shared.graph.scope import OWNED_AGENT_ID_SQL, GraphScope
from shared.graph.types import UnknownTypeError
from shared.graph.validation import normalize_name
from shared.tools import INTERPRETATIONS_KEY, Json, ToolRefusalError

T = TypeVar("T")

NodeReference = Annotated[
    str, BeforeValidator(lambda value: str(value) if isinstance(value, UUID) else value)
]
"""A tool argument that names a node: its id, or its name."""

_ID: Final = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.IGNORECASE)
_MAX_CANDIDATES: Final = 5
_ADD_FIRST: Final = (
    "If it is not in the graph, this call cannot succeed: first call addGraphNode with its type, its name, and evidence: "
    "the page and its sentences."
)
_MAX_REFERENCE_CHARS: Final = 300
# Joined by type, the first column of the index: an agent has a few dozen types, but may have a million names.
_NODES_BY_NAME: Final = CompiledStatement(
    f"""
    select distinct node.id, node.type, node.name, known.key, node.name = :called as is_exact
    from graph_node_types as kind
    join graph_names as known
      on known.agent_id = kind.agent_id and known.type = kind.name
      and known.key = any(cast(:keys as text[]))
    join graph_nodes as node on node.agent_id = known.agent_id and node.id = known.node_id
    where kind.agent_id = {OWNED_AGENT_ID_SQL}
    union
    select id, type, name, null, name = :called
    from graph_nodes
    where agent_id = {OWNED_AGENT_ID_SQL} and lower(name) = lower(:called)
    """
)


def referenced_id(reference: str) -> UUID | None:
    """The id that a reference contains; None if it contains none or several."""
    ids = set(_ID.findall(reference.lower()))
    return UUID(ids.pop()) if len(ids) == 1 else None


async def resolve_node_id(
    session: InTransaction,
    scope: GraphScope,
    reference: str,
    argument: str,
    interpretations: list[str],
) -> UUID:
    """Resolve a reference to a node id. A match by name is described in a sentence added to `interpretations`.

    An id is returned as it is. Raises ToolRefusalError, which lists candidates, if a name matches no node or several.
    """
    if (node_id := referenced_id(reference)) is not None:
        return node_id
    name = normalize_name(reference.strip("\"'`[] ")[:_MAX_REFERENCE_CHARS], argument)
    matches = await _find_by_name(session, scope, name)
    if len(matches) == 1:
        [node] = matches
        interpretations.append(
            f"{argument}: {quote_name(name)} was read as [node:{node.id}], the {node.type} {quote_name(node.name)}."
        )
        return UUID(str(node.id))
    raise ToolRefusalError(
        f"{argument}: {quote_name(name)} is no id, and {await _describe_candidates(session, scope, name, matches)}"
    )


async def resolve_node_ids(
    session: InTransaction,
    scope: GraphScope,
    references: Sequence[str],
    argument: str,
    interpretations: list[str],
) -> list[UUID]:
    """Like `resolve_node_id`, for many references."""
    return [
        await resolve_node_id(session, scope, reference, argument, interpretations)
        for reference in references
    ]


async def write_with_known_type(
    write: Callable[[str], Awaitable[T]], type_name: str, interpretations: list[str]
) -> T:
    """Call `write` with the type, or with a similarly spelled one if it does not exist.

    Raises ToolRefusalError.
    """
    try:
        return await write(type_name)
    except UnknownTypeError as error:
        if error.suggestion is None:
            raise
        result = await write(error.suggestion)
        interpretations.append(
            f"type: {quote_name(type_name[:80])} was read as {error.suggestion}."
        )
        return result


def with_interpretations(result: Json, interpretations: Sequence[str]) -> Json:
    """Add `interpretations` to the result, for the model and the record of the run."""
    return {**result, INTERPRETATIONS_KEY: list(interpretations)} if interpretations else result


async def _find_by_name(session: InTransaction, scope: GraphScope, name: str) -> list[Row]:
    """The nodes with exactly this name; else those known by it in another spelling, or as an alias."""
    keys = sorted({normalization.normalize(name, type_name).key for type_name in ("", "Topic")})
    rows = await _NODES_BY_NAME.rows(session, {**scope.sql_params, "called": name, "keys": keys})
    matches = [
        row
        for row in rows
        if row.key is None or row.key == normalization.normalize(name, row.type).key
    ]
    exact = {row.id: row for row in matches if row.is_exact}
    return list((exact or {row.id: row for row in matches}).values())


async def _describe_candidates(
    session: InTransaction, scope: GraphScope, name: str, matches: Sequence[Row]
) -> str:
    if matches:
        listing = [f"[node:{node.id}] {node.type} {quote_name(node.name)}" for node in matches]
        joined = ", ".join(sorted(listing)[:_MAX_CANDIDATES])
        return (
            f"{len(matches)} nodes have this name: {joined}. Give the id of the one that you mean."
        )
    similar = await query.query_graph(session, scope, text=name, limit=_MAX_CANDIDATES)
    listing = [
        f"[node:{node['id']}] {node['type']} {quote_name(node['name'])}"
        for node in similar["nodes"]
    ]
    if not listing:
        return f"no node has this name. {_ADD_FIRST}"
    return f"no node has this name. Similar nodes: {', '.join(listing)}. Give the id of the one that you mean. {_ADD_FIRST}"
