"""Nodes and edges as a search shows them, each with when it was true by its evidence, at the cost of one statement.

PostgreSQL writes them as JSON, which is read in one go: to make the rows into values of Python one by one, and these into
JSON, takes longer than to find them.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession

from shared.graph.around import LEADING
from shared.graph.listing import listed
from shared.graph.scope import OWNED_SQL, Scope
from shared.graph.standing import STANDS
from shared.store.direct import Direct
from shared.tools import Json

_TRUTH: Final = ("asOf", "until")


async def shown(
    session: AsyncSession, scope: Scope, node_ids: Iterable[UUID], edge_ids: Iterable[UUID]
) -> tuple[list[Json], list[Json]]:
    """Those of the nodes and of the edges that the agent has, in this order.

    `asOf` is by the evidence that is true latest, of what was not retracted; `until` is when that ended. Either is left
    out where nothing says it.
    """
    values = {"node_ids": listed(node_ids), "edge_ids": listed(edge_ids)}
    return await _told(session, _SHOWN, {**scope.bound, **values})


async def shown_among(
    session: AsyncSession, scope: Scope, node_ids: Iterable[UUID], limit: int
) -> tuple[list[Json], list[Json]]:
    """As `shown`, with at most `limit` of the edges that lead from one of the nodes to another, those touched last first."""
    ids = listed(node_ids)
    values = {"node_ids": ids, "some": ids, "others": ids, "most": limit}
    return await _told(session, _SHOWN_AMONG, {**scope.bound, **values})


async def _told(
    session: AsyncSession, statement: Direct, values: Mapping[str, Any]
) -> tuple[list[Json], list[Json]]:
    nodes, edges = await statement.row(session, values)
    for thing in (*nodes, *edges):
        for moment in _TRUTH:
            if thing[moment] is None:
                del thing[moment]
    return nodes, edges


def _utc(moment: str) -> str:
    """As `shared.graph.lines.utc`."""
    return f"to_char({moment} at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')"


def _listed(kind: str, columns: str, given: str) -> str:
    """Those of which `given` has `id` and `place`."""
    # Each is looked up by itself: planned for very many at once, all that there is would be gone through.
    return (
        "(select coalesce(json_agg(json_build_object("
        f"'id', thing.id, {columns}, 'asOf', {_utc('as_of')}, 'until', {_utc('valid_to')}) order by place), '[]')"
        f" from {given}"
        f" cross join lateral (select * from graph_{kind}s"
        f"  where id = given.id and agent_id = {OWNED_SQL} and {STANDS} limit 1) thing"
        " left join lateral (select as_of, valid_to from evidence"
        f"  where {kind}_id = thing.id"
        "  and (select retracted_at from sources where id = evidence.source_id) is null"
        "  order by as_of desc limit 1) truth on true)"
    )


def _given(ids: str) -> str:
    return f"unnest(cast(:{ids} as uuid[])) with ordinality given (id, place)"


def _shown(given_edges: str) -> Direct:
    nodes = _listed(
        "node",
        f"'type', type, 'name', name, 'properties', properties, 'updatedAt', {_utc('updated_at')}",
        _given("node_ids"),
    )
    ends = "'sourceId', thing.source_id, 'targetId', target_id"
    edges = _listed("edge", f"'type', type, {ends}, 'properties', properties", given_edges)
    return Direct(f"select {nodes} as nodes, {edges} as edges")


# Made once: to put such a statement together takes longer than PostgreSQL takes to answer it.
_SHOWN: Final = _shown(_given("edge_ids"))
_SHOWN_AMONG: Final = _shown(
    f"(select id, row_number() over () as place from ({LEADING}) newest) given"
)
