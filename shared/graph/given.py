"""What a search is told to go by, before it begins: ids that a merge has moved, and types that must exist."""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession

from shared.graph.moves import IS_MOVED, followed
from shared.graph.scope import OWNED_SQL, Scope
from shared.graph.types import node_type
from shared.store.direct import Direct


async def checked(
    session: AsyncSession, scope: Scope, ids: Sequence[UUID], types: Sequence[str] = ()
) -> list[UUID]:
    """Each of `ids` as it is now, in their order. Refuses a type of nodes that does not exist."""
    if not ids and not types:
        return []
    values = {**scope.bound, "ids": list(ids), "types": list(types)}
    is_moved, known = await _GIVEN.row(session, values)
    for missing in (each for each in types if each not in known):
        await node_type(session, scope, missing)
    return await followed(session, scope, ids) if is_moved else list(ids)


_GIVEN: Final = Direct(
    f"select {IS_MOVED} as is_moved,"
    f" array(select name from graph_node_types where agent_id = {OWNED_SQL} and name = any(cast(:types as text[]))) as known"
)
