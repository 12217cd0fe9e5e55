"""Which citations of a text hold."""

from collections.abc import Iterable

from sqlalchemy.ext.asyncio import AsyncSession

from shared.graph.citations import Citation, Kind
from shared.graph.scope import Scope
from shared.store.reading import graph
from shared.store.reading.graph import Named


async def named(
    session: AsyncSession, scope: Scope, citations: Iterable[Citation]
) -> dict[Citation, Named]:
    """What is cited, by type and name; what this graph has not, or has only as the other kind, is left out."""
    wanted = list(citations)
    ids = {kind: {each.id for each in wanted if each.kind == kind} for kind in Kind}
    whose = scope.owner_id, scope.agent_id
    found = {
        Kind.NODE: await graph.nodes_named(session, *whose, ids[Kind.NODE]),
        Kind.EDGE: await graph.edges_named(session, *whose, ids[Kind.EDGE]),
    }
    return {each: found[each.kind][each.id] for each in wanted if each.id in found[each.kind]}
