"""Nodes and edges as a search shows them, each with when it was true by its evidence, at the cost of one statement.

Written out as SQL: to put such a statement together anew takes longer than PostgreSQL takes to answer it.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from shared.graph.scope import OWNED_SQL, Scope
from shared.tools import Json

STANDS: Final = "unsupported_since is null"
"""What rests on retracted pages alone is not shown. As `shared.graph.standing.is_supported`."""


@dataclass(frozen=True)
class NodeFact:
    id: UUID
    type: str
    name: str
    properties: Json
    updated_at: datetime
    as_of: datetime | None
    """By the evidence that is true latest, of what was not retracted; None where there is none."""
    until: datetime | None
    """When that ended, where it says so."""


@dataclass(frozen=True)
class EdgeFact:
    id: UUID
    type: str
    source_id: UUID
    target_id: UUID
    properties: Json
    updated_at: datetime
    as_of: datetime | None
    until: datetime | None


async def nodes(session: AsyncSession, scope: Scope, ids: Collection[UUID]) -> list[NodeFact]:
    """Those of `ids` that the agent has, in this order."""
    rows = await session.execute(text(_NODES), {**scope.bound, "ids": list(ids)})
    by_id = {row[0]: NodeFact(*row) for row in rows}
    return [by_id[each] for each in dict.fromkeys(ids) if each in by_id]


async def edges(
    session: AsyncSession, scope: Scope, of: str, values: Mapping[str, Any], limit: int
) -> list[EdgeFact]:
    """Those whose ids the SQL `of` finds, those touched last first."""
    statement = _EDGES.format(of=of)
    rows = await session.execute(text(statement), {**scope.bound, **values, "most": limit})
    return [EdgeFact(*row) for row in rows]


def _with_truth(columns: str, table: str, thing: str) -> str:
    return (
        f"select {columns}, truth.as_of, truth.valid_to from {table} left join lateral"
        " (select evidence.as_of, evidence.valid_to from evidence"
        "  join sources on sources.id = evidence.source_id and sources.retracted_at is null"
        f"  where evidence.{thing}_id = {table}.id order by evidence.as_of desc limit 1) truth on true"
    )


_NODES: Final = (
    _with_truth("graph_nodes.id, type, name, properties, updated_at", "graph_nodes", "node")
    + f" where graph_nodes.id = any(cast(:ids as uuid[])) and agent_id = {OWNED_SQL} and {STANDS}"
)
_EDGES: Final = (
    "with wanted as materialized (select graph_edges.* from graph_edges"
    f" where id in ({{of}}) and agent_id = {OWNED_SQL} and {STANDS}"
    " order by updated_at desc, id limit :most) "
    + _with_truth("wanted.id, type, source_id, target_id, properties, updated_at", "wanted", "edge")
    + " order by updated_at desc, wanted.id"
)
