"""Nodes as a model refers to them: by id, or by name where it has no id at hand."""

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Final, TypeVar
from uuid import UUID

from pydantic import BeforeValidator
from sqlalchemy.ext.asyncio import AsyncSession

from shared.database.statements import Direct, Row
from shared.graph.entity_resolution import normalization
from shared.graph.prompt_format import quoted
from shared.graph.retrieval import query
from shared.graph.scope import OWNED_SQL, Scope
from shared.graph.types import UnknownTypeError
from shared.graph.validation import normal_name
from shared.tools import UNDERSTOOD, Json, ToolRefusalError

T = TypeVar("T")

NodeReference = Annotated[
    str, BeforeValidator(lambda given: str(given) if isinstance(given, UUID) else given)
]
"""What a tool takes for a node: its id, or its name."""

_ID: Final = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.IGNORECASE)
_MAX_CANDIDATES: Final = 5
_ADD_FIRST: Final = (
    "If it is not in the graph, this call cannot succeed: first call addGraphNode with its type, its name, and evidence, "
    "which is a sourceUrl and a quote of that page, word for word."
)
_MAX_REFERENCE_CHARACTERS: Final = 300
# By type, for that is how the index of names begins: an agent has some dozen types, and may have a million names.
_NAMED: Final = Direct(
    f"""
    select distinct node.id, node.type, node.name, known.key, node.name = :called as is_exact
    from graph_node_types as kind
    join graph_names as known
      on known.agent_id = kind.agent_id and known.type = kind.name
      and known.key = any(cast(:keys as text[]))
    join graph_nodes as node on node.agent_id = known.agent_id and node.id = known.node_id
    where kind.agent_id = {OWNED_SQL}
    union
    select id, type, name, null, name = :called
    from graph_nodes
    where agent_id = {OWNED_SQL} and lower(name) = lower(:called)
    """
)


async def node_id(
    session: AsyncSession, scope: Scope, reference: str, argument: str, understood: list[str]
) -> UUID:
    """The node that `reference` means. One that was found by its name is added to `understood`, in a sentence.

    An id is taken as it is. Raises ToolRefusalError, which lists candidates, where a name means no node or several.
    """
    ids = set(_ID.findall(reference.lower()))
    if len(ids) == 1:
        return UUID(ids.pop())
    name = normal_name(reference.strip("\"'`[] ")[:_MAX_REFERENCE_CHARACTERS], argument)
    found = await _named(session, scope, name)
    if len(found) == 1:
        [node] = found
        understood.append(
            f"{argument}: {quoted(name)} was read as [node:{node.id}], the {node.type} {quoted(node.name)}."
        )
        return UUID(str(node.id))
    raise ToolRefusalError(
        f"{argument}: {quoted(name)} is no id, and {await _meant(session, scope, name, found)}"
    )


async def node_ids(
    session: AsyncSession,
    scope: Scope,
    references: Sequence[str],
    argument: str,
    understood: list[str],
) -> list[UUID]:
    """As `node_id`, of many."""
    return [await node_id(session, scope, each, argument, understood) for each in references]


async def with_known_type(
    write: Callable[[str], Awaitable[T]], type_name: str, understood: list[str]
) -> T:
    """What `write` gives of the type, or of the one whose name is spelled a little otherwise where there is no such.

    Raises ToolRefusalError.
    """
    try:
        return await write(type_name)
    except UnknownTypeError as unknown:
        if unknown.meant is None:
            raise
        written = await write(unknown.meant)
        understood.append(f"type: {quoted(type_name[:80])} was read as {unknown.meant}.")
        return written


def with_understood(result: Json, understood: Sequence[str]) -> Json:
    """`result`, which tells the model and the record of the run what was `understood`."""
    return {**result, UNDERSTOOD: list(understood)} if understood else result


async def _named(session: AsyncSession, scope: Scope, name: str) -> list[Row]:
    """The nodes that are called `name` exactly; else those known by it in another spelling, or as an alias."""
    keys = sorted({normalization.read(name, kind).key for kind in ("", "Topic")})
    rows = await _NAMED.rows(session, {**scope.bound, "called": name, "keys": keys})
    meant = [
        row for row in rows if row.key is None or row.key == normalization.read(name, row.type).key
    ]
    exact = {row.id: row for row in meant if row.is_exact}
    return list((exact or {row.id: row for row in meant}).values())


async def _meant(session: AsyncSession, scope: Scope, name: str, found: Sequence[Row]) -> str:
    if found:
        told = [f"[node:{each.id}] {each.type} {quoted(each.name)}" for each in found]
        listed = ", ".join(sorted(told)[:_MAX_CANDIDATES])
        return f"{len(found)} nodes are called so: {listed}. Give the id of the one that you mean."
    near = await query.query(session, scope, text=name, limit=_MAX_CANDIDATES)
    told = [f"[node:{each['id']}] {each['type']} {quoted(each['name'])}" for each in near["nodes"]]
    if not told:
        return f"no node is called so. {_ADD_FIRST}"
    return f"no node is called so. Near to it are {', '.join(told)}. Give the id of the one that you mean. {_ADD_FIRST}"
