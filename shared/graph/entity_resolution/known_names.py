"""The names by which pages may call a node, and whether quotes are about it."""

from collections.abc import Collection, Sequence
from typing import Final
from uuid import UUID

from shared.database.statements import CompiledStatement, Executor, InTransaction, uuid_array
from shared.graph.provenance.evidence import UngroundedError, VerifiedQuote, ground_quotes
from shared.graph.scope import OWNED_AGENT_ID_SQL, GraphScope

_NAMES: Final = CompiledStatement(f"""
    select node_id, name from graph_names
    where agent_id = {OWNED_AGENT_ID_SQL} and node_id = any(cast(:nodes as uuid[]))
    """)

End = tuple[UUID, list[str], bool]
"""A node, names that are known of it, and whether it is stored, and may have more."""


async def ground(
    session: InTransaction, scope: GraphScope, quotes: Sequence[VerifiedQuote], ends: Sequence[End]
) -> list[VerifiedQuote]:
    """`ground_quotes` for a node, or for the two ends of an edge. Looks up more names only if those given do not do."""
    is_edge = len(ends) > 1
    try:
        return ground_quotes(quotes, [names for _, names, _ in ends], is_edge=is_edge)
    except UngroundedError:
        stored = [node_id for node_id, _, is_stored in ends if is_stored]
        if not stored:
            raise
        more = await _load_names(session, scope, stored)
        if not any(more.values()):
            raise
        return ground_quotes(
            quotes,
            [[*names, *more.get(node_id, ())] for node_id, names, _ in ends],
            is_edge=is_edge,
        )


async def _load_names(
    session: Executor, scope: GraphScope, node_ids: Collection[UUID]
) -> dict[UUID, list[str]]:
    names: dict[UUID, list[str]] = {}
    params = {**scope.sql_params, "nodes": uuid_array(node_ids)}
    for node_id, name in await _NAMES.rows(session, params):
        names.setdefault(node_id, []).append(name)
    return names
