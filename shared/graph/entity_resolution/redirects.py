"""Redirects: maps the ids of merged nodes and edges to their current ids."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from functools import cache
from typing import Final
from uuid import UUID

from sqlalchemy import ColumnElement, exists, literal, or_, select
from sqlalchemy.dialects.postgresql import distinct_on
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased

from shared.database.statements import (
    ANY_OF_IDS,
    BoundQuery,
    CompiledStatement,
    Executor,
    uuid_array,
)
from shared.database.tables import GraphEdge, GraphMove, GraphNode
from shared.graph.scope import OWNED_AGENT_ID, OWNED_AGENT_ID_SQL, GraphScope

MAX_CHAIN_LENGTH: Final = 64
"""Merges in a row, each of which moved what the previous one had kept."""


async def current_ids_of_agent(
    session: Executor, owner_id: UUID, agent_id: UUID, ids: Iterable[UUID]
) -> dict[UUID, UUID]:
    """The current id by old id, of those that were merged; other ids are left out."""
    id_set = set(ids)
    if not id_set:
        return {}
    scope = GraphScope(owner_id, agent_id)
    rows = await _chain().rows(session, {**scope.sql_params, "ids": uuid_array(id_set)})
    return {row.original_id: row.kept_id for row in rows}


@cache
def _chain() -> CompiledStatement:
    chain = (
        select(
            GraphMove.merged_id.label("original_id"), GraphMove.kept_id, literal(1).label("length")
        )
        .where(
            GraphMove.agent_id == OWNED_AGENT_ID,
            GraphMove.merged_id == ANY_OF_IDS,
            _is_merged_away(GraphMove),
        )
        .cte("chain", recursive=True)
    )
    next_move = aliased(GraphMove)
    chain = chain.union_all(
        select(chain.c.original_id, next_move.kept_id, chain.c.length + 1).where(
            next_move.agent_id == OWNED_AGENT_ID,
            next_move.merged_id == chain.c.kept_id,
            _is_merged_away(next_move),
            chain.c.length < MAX_CHAIN_LENGTH,
        )
    )
    return CompiledStatement(
        select(chain.c.original_id, chain.c.kept_id)
        .ext(distinct_on(chain.c.original_id))
        .order_by(chain.c.original_id, chain.c.length.desc())
    )


async def earlier_ids(session: AsyncSession, ids: Collection[UUID]) -> dict[UUID, list[UUID]]:
    """The reverse: the old ids that were merged into each element; elements without any are left out."""
    if not ids:
        return {}
    chain = (
        select(
            GraphMove.kept_id.label("original_id"), GraphMove.merged_id, literal(1).label("length")
        )
        .where(GraphMove.kept_id.in_(ids), _is_merged_away(GraphMove))
        .cte("chain", recursive=True)
    )
    next_move = aliased(GraphMove)
    chain = chain.union_all(
        select(chain.c.original_id, next_move.merged_id, chain.c.length + 1).where(
            next_move.kept_id == chain.c.merged_id,
            _is_merged_away(next_move),
            chain.c.length < MAX_CHAIN_LENGTH,
        )
    )
    by_current_id: defaultdict[UUID, list[UUID]] = defaultdict(list)
    for row in await session.execute(
        select(chain.c.original_id, chain.c.merged_id).order_by(chain.c.merged_id)
    ):
        by_current_id[row.original_id].append(row.merged_id)
    return by_current_id


def _is_merged_away(move: type[GraphMove]) -> ColumnElement[bool]:
    """An element with that id can have been written again since the merge."""
    return ~or_(
        exists().where(GraphNode.id == move.merged_id),
        exists().where(GraphEdge.id == move.merged_id),
    )


HAS_REDIRECT_SQL: Final = (
    f"exists (select from graph_redirects where agent_id = {OWNED_AGENT_ID_SQL}"
    " and merged_id = any(cast(:ids as uuid[])))"
)
"""Whether a merge has redirected any of `ids`."""
_HAS_REDIRECT: Final = CompiledStatement(f"select {HAS_REDIRECT_SQL}")


def has_redirect(scope: GraphScope, ids: Iterable[UUID]) -> BoundQuery[bool]:
    """Whether a merge has redirected any of `ids`."""
    params = {**scope.sql_params, "ids": uuid_array(ids)}
    return BoundQuery(_HAS_REDIRECT, params, lambda rows: bool(rows[0][0]))


async def current_ids(
    session: Executor, scope: GraphScope, ids: Iterable[UUID]
) -> dict[UUID, UUID]:
    """The current id by old id, of those that were merged; other ids are left out."""
    id_set = set(ids)
    # Resolving is slow compared with this check, and most ids were never merged.
    if not id_set or not await has_redirect(scope, id_set).answer(session):
        return {}
    return await current_ids_of_agent(session, scope.owner_id, scope.agent_id, id_set)


async def resolve_redirects(
    session: Executor, scope: GraphScope, ids: Sequence[UUID]
) -> list[UUID]:
    """Resolve ids to their current ids, in the same order."""
    current = await current_ids(session, scope, ids)
    return [current.get(element_id, element_id) for element_id in ids]
