"""Redirects: maps the ids of merged nodes and edges to their current ids."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import Final
from uuid import UUID

from shared.database.statements import BoundQuery, CompiledStatement, Executor, uuid_array
from shared.database.transaction import Transaction
from shared.graph.scope import OWNED_AGENT_ID_SQL, GraphScope

MAX_CHAIN_LENGTH: Final = 64
"""Merges in a row, each of which moved what the previous one had kept."""


# An element with that id can have been written again since the merge.
IS_MERGED_AWAY_SQL: Final = (
    "not (exists (select from graph_nodes where id = move.merged_id)"
    " or exists (select from graph_edges where id = move.merged_id))"
)
"""SQL condition on a redirect `move`."""
_CURRENT_IDS: Final = CompiledStatement(f"""
    with recursive chain (original_id, kept_id, length) as (
        select merged_id, kept_id, 1 from graph_redirects as move
        where agent_id = {OWNED_AGENT_ID_SQL} and merged_id = any(cast(:ids as uuid[])) and {IS_MERGED_AWAY_SQL}
        union all
        select original_id, move.kept_id, length + 1 from graph_redirects as move, chain
        where agent_id = {OWNED_AGENT_ID_SQL} and merged_id = chain.kept_id and {IS_MERGED_AWAY_SQL}
          and length < {MAX_CHAIN_LENGTH}
    )
    select distinct on (original_id) original_id, kept_id from chain order by original_id, length desc
    """)
_EARLIER_IDS: Final = CompiledStatement(f"""
    with recursive chain (original_id, merged_id, length) as (
        select kept_id, merged_id, 1 from graph_redirects as move
        where kept_id = any(cast(:ids as uuid[])) and {IS_MERGED_AWAY_SQL}
        union all
        select original_id, move.merged_id, length + 1 from graph_redirects as move, chain
        where kept_id = chain.merged_id and {IS_MERGED_AWAY_SQL} and length < {MAX_CHAIN_LENGTH}
    )
    select original_id, merged_id from chain order by merged_id
    """)


async def earlier_ids(transaction: Transaction, ids: Collection[UUID]) -> dict[UUID, list[UUID]]:
    """The reverse: the old ids that were merged into each element; elements without any are left out."""
    by_current_id: defaultdict[UUID, list[UUID]] = defaultdict(list)
    if ids:
        for row in await _EARLIER_IDS.rows(transaction, {"ids": uuid_array(ids)}):
            by_current_id[row.original_id].append(row.merged_id)
    return by_current_id


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
    transaction: Executor, scope: GraphScope, ids: Iterable[UUID]
) -> dict[UUID, UUID]:
    """The current id by old id, of those that were merged; other ids are left out."""
    id_set = set(ids)
    # Resolving is slow compared with this check, and most ids were never merged.
    if not id_set or not await has_redirect(scope, id_set).execute(transaction):
        return {}
    rows = await _CURRENT_IDS.rows(transaction, {**scope.sql_params, "ids": uuid_array(id_set)})
    return {row.original_id: row.kept_id for row in rows}


async def resolve_redirects(
    transaction: Executor, scope: GraphScope, ids: Sequence[UUID]
) -> list[UUID]:
    """Resolve ids to their current ids, in the same order."""
    current = await current_ids(transaction, scope, ids)
    return [current.get(element_id, element_id) for element_id in ids]
