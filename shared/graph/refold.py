"""Bringing nodes and edges up to what their evidence says, and sealing them: after anything about that changed.

Many of a kind take as many statements as one: they are locked, what is claimed of them is read, what changed is written.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from sqlalchemy import bindparam, select
from sqlalchemy.ext.asyncio import AsyncSession

from shared.graph.alike import EDGES, NODES, Alike, changed_row
from shared.graph.claimed import Claimed, claimed_of
from shared.graph.proof import seals
from shared.graph.proof.fold import Claim, folded
from shared.graph.scope import Scope
from shared.store.direct import Direct
from shared.store.tables import Evidence, Source
from shared.tools import Json

_CLAIMS: Final = {
    column.key: Direct(
        select(
            Evidence.id,
            Evidence.claims,
            Evidence.as_of,
            Evidence.learned_at,
            Source.retracted_at.is_not(None).label("is_retracted"),
        )
        .join(Source, Source.id == Evidence.source_id)
        .where(column == bindparam("thing"))
    )
    for column in (Evidence.node_id, Evidence.edge_id)
}


@dataclass(frozen=True)
class Refolded:
    """A node or edge as its evidence has it."""

    properties: Json
    claimed: Claimed


async def refold_node(session: AsyncSession, scope: Scope, node_id: UUID) -> Json:
    """The node's properties as they are then. Locks the node. Raises KeyError where the agent has no such node.

    For whoever has changed what it rests on: it is sealed anew.
    """
    return (await _refold(session, scope, NODES, [node_id], is_changed=True))[node_id].properties


async def refold_edge(session: AsyncSession, scope: Scope, edge_id: UUID) -> Json:
    """As `refold_node`."""
    return (await _refold(session, scope, EDGES, [edge_id], is_changed=True))[edge_id].properties


async def refold_nodes(
    session: AsyncSession, scope: Scope, node_ids: Collection[UUID]
) -> dict[UUID, Refolded]:
    """Those that the agent has, by id. Locks them in the order of their ids; what is as it should be is not written.

    For whoever has changed which pages count. A seal that does not fit is kept: sealed anew, what was changed behind
    Vigil's back would be found no more.
    """
    return await _refold(session, scope, NODES, node_ids, is_changed=False)


async def refold_edges(
    session: AsyncSession, scope: Scope, edge_ids: Collection[UUID]
) -> dict[UUID, Refolded]:
    """As `refold_nodes`; who folds both folds nodes first."""
    return await _refold(session, scope, EDGES, edge_ids, is_changed=False)


async def claims_of(session: AsyncSession, column: str, thing: UUID) -> list[Claim]:
    """All that was ever claimed of what the `column` of evidence names, `node_id` or `edge_id`; retracted or not.

    Its row must be locked where something follows from them.
    """
    return [Claim(*row) for row in await _CLAIMS[column].rows(session, {"thing": thing})]


async def _refold(
    session: AsyncSession,
    scope: Scope,
    kind: Alike,
    things: Collection[UUID],
    *,
    is_changed: bool,
) -> dict[UUID, Refolded]:
    table = kind.table
    # Whoever writes evidence of a thing holds its key by then, two at once both do: neither may wait for that.
    rows = await session.execute(
        select(table.id, table.properties, table.seal, table.unsupported_since, *kind.called)
        .where(table.id.in_(things), table.agent_id == scope.agent())
        .order_by(table.id)
        .with_for_update(of=table, key_share=True)
    )
    held = {row[0]: row[1:] for row in rows}
    # A statement of its own: what others had not committed before the locks were had is only seen by the next.
    claimed = await claimed_of(session, kind, held)
    found: dict[UUID, Refolded] = {}
    changed: list[Json] = []
    for thing, (properties, seal, since, *called) in held.items():
        known = claimed[thing]
        now = folded(properties, known.claims)
        sealed = kind.seal(scope.agent_id, thing, called, now, known.evidence)
        was = kind.seal(scope.agent_id, thing, called, properties, known.evidence)
        if seal is not None and seal != was and not is_changed:
            sealed = seal
        found[thing] = Refolded(now, known)
        flagged = known.is_unsupported
        # A seal alone would not show that somebody has edited the properties.
        if seal != sealed or (since is not None) != flagged or not _same(properties, now):
            changed.append(changed_row(thing, now, sealed, is_unsupported=flagged))
    if changed:
        await session.execute(kind.update, {"rows": changed})
    return found


def _same(one: Json, other: Json) -> bool:
    return seals.canonical(one) == seals.canonical(other)
