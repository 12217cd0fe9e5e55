"""Edges at and among nodes, through indexes only: what a hub has beyond the newest of its edges costs nothing."""

from collections.abc import Collection
from typing import Any, Final
from uuid import UUID

from sqlalchemy import (
    ColumnElement,
    Select,
    TableValuedAlias,
    Uuid,
    any_,
    cast,
    column,
    func,
    select,
    true,
    union_all,
)
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.ext.asyncio import AsyncSession

from shared.graph.scope import Scope
from shared.store.tables import GraphEdge

FEWEST_A_NODE: Final = 5
"""Edges in each direction that each of many nodes has followed, at least."""


async def touching(
    session: AsyncSession, scope: Scope, ids: Collection[UUID], limit: int
) -> list[GraphEdge]:
    """At most `limit` of those that begin or end at `ids`, those touched last first, of each node its share."""
    return await _edges(session, ids_touching(scope, ids, limit), limit)


async def among(
    session: AsyncSession, scope: Scope, ids: Collection[UUID], limit: int
) -> list[GraphEdge]:
    """Those that join two of `ids`, those touched last first."""
    return await _edges(session, ids_leading(scope, ids, ids), limit)


async def by_ids(session: AsyncSession, scope: Scope, ids: Collection[UUID]) -> list[GraphEdge]:
    """Those of them that the agent has, in this order."""
    wanted = select(GraphEdge.id).where(
        GraphEdge.agent_id == scope.agent(), GraphEdge.id == any_(uuids(ids))
    )
    found = {edge.id: edge for edge in await _edges(session, wanted, len(ids))}
    return [found[each] for each in ids if each in found]


def ids_touching(scope: Scope, ids: Collection[UUID], limit: int) -> Select[UUID]:
    """Of the edges: of each node the newest in both directions, as many as `limit` has for it, or FEWEST_A_NODE."""
    share = max(FEWEST_A_NODE, -(-limit // max(1, len(ids))))
    ways = []
    for end in (GraphEdge.source_id, GraphEdge.target_id):
        node = each_of(ids)
        newest = (
            select(GraphEdge.id)
            .where(GraphEdge.agent_id == scope.agent(), end == node.c.id)
            .order_by(GraphEdge.updated_at.desc())
            .limit(share)
            .correlate(node)
            .lateral()
        )
        ways.append(select(newest.c.id).select_from(node).join(newest, true()))
    return select(union_all(*ways).subquery().c.id)


def ids_leading(scope: Scope, some: Collection[UUID], others: Collection[UUID]) -> Select[UUID]:
    """Of the edges that lead from one of `some` to one of `others`."""
    return select(GraphEdge.id).where(
        GraphEdge.agent_id == scope.agent(),
        GraphEdge.source_id == any_(uuids(some)),
        GraphEdge.target_id == any_(uuids(others)),
    )


def each_of(ids: Collection[UUID]) -> TableValuedAlias:
    """A row for each, with the column `id`."""
    return func.unnest(uuids(ids)).table_valued(column("id", Uuid())).render_derived(name="given")


def uuids(ids: Collection[UUID]) -> ColumnElement[Any]:
    """One value, however many: the statement is the same for any number, and is made ready once."""
    return cast(list(ids), ARRAY(Uuid()))


async def _edges(session: AsyncSession, ids: Select[UUID], limit: int) -> list[GraphEdge]:
    rows = await session.scalars(
        select(GraphEdge)
        .where(GraphEdge.id.in_(ids))
        .order_by(GraphEdge.updated_at.desc(), GraphEdge.id)
        .limit(limit)
        .execution_options(populate_existing=True)
    )
    return list(rows)
