"""Nodes and edges as a search shows them, each with when it was true by its evidence, at the cost of one statement.

PostgreSQL writes them as JSON, which is read in one go: to make the rows into values of Python one by one, and these into
JSON, takes longer than to find them.
"""

from collections.abc import Iterable
from typing import Final
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from shared.graph.scope import OWNED_SQL, Scope
from shared.tools import Json

STANDS: Final = "unsupported_since is null"
"""What rests on retracted pages alone is not shown. As `shared.graph.standing.is_supported`."""
_TRUTH: Final = ("asOf", "until")


async def shown(
    session: AsyncSession, scope: Scope, node_ids: Iterable[UUID], edge_ids: Iterable[UUID]
) -> tuple[list[Json], list[Json]]:
    """Those of the nodes and of the edges that the agent has, in this order.

    `asOf` is by the evidence that is true latest, of what was not retracted; `until` is when that ended. Either is left
    out where nothing says it.
    """
    values = {"node_ids": list(node_ids), "edge_ids": list(edge_ids)}
    nodes, edges = (await session.execute(_SHOWN, {**scope.bound, **values})).one()
    return [_told(each) for each in nodes], [_told(each) for each in edges]


def _told(thing: Json) -> Json:
    for moment in _TRUTH:
        if thing[moment] is None:
            del thing[moment]
    return thing


def _utc(moment: str) -> str:
    """As `shared.graph.lines.utc`."""
    return f"to_char({moment} at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')"


def _listed(kind: str, columns: str) -> str:
    """Each is looked up by itself: planned as one for very many ids, all that there is would be gone through."""
    return (
        "(select coalesce(json_agg(json_build_object("
        f"'id', thing.id, {columns}, 'asOf', {_utc('as_of')}, 'until', {_utc('valid_to')}) order by place), '[]')"
        f" from unnest(cast(:{kind}_ids as uuid[])) with ordinality given (id, place)"
        f" cross join lateral (select * from graph_{kind}s"
        f"  where id = given.id and agent_id = {OWNED_SQL} and {STANDS} limit 1) thing"
        " left join lateral (select as_of, valid_to from evidence"
        f"  where {kind}_id = thing.id"
        "  and (select retracted_at from sources where id = evidence.source_id) is null"
        "  order by as_of desc limit 1) truth on true)"
    )


_NODES: Final = _listed(
    "node",
    f"'type', type, 'name', name, 'properties', properties, 'updatedAt', {_utc('updated_at')}",
)
_EDGES: Final = _listed(
    "edge",
    "'type', type, 'sourceId', thing.source_id, 'targetId', target_id, 'properties', properties",
)
# Made once: to put such a statement together takes longer than PostgreSQL takes to answer it.
_SHOWN: Final = text(f"select {_NODES}, {_EDGES}")
