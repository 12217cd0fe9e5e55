"""Projection: brings nodes and edges up to what their evidence says, and seals them.

Many of a kind take as many statements as one: they are locked, what is claimed of them is read, what changed is written.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Boolean, Text, Update, Uuid, bindparam, case, column, func, select, update
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import InstrumentedAttribute

from shared.database.statements import Direct
from shared.database.tables import Evidence, GraphEdge, GraphNode, Source
from shared.graph.provenance import integrity
from shared.graph.provenance.claims import Claim, folded
from shared.graph.scope import Scope
from shared.tools import Json


@dataclass(frozen=True)
class Alike:
    table: type[GraphNode] | type[GraphEdge]
    evidence_of: InstrumentedAttribute[UUID | None]
    called: Sequence[InstrumentedAttribute[Any]]
    """By what it is called, beside its id."""
    seal: Callable[[UUID, UUID, Sequence[Any], Json, Sequence[UUID]], bytes]
    """Of an agent's id, its own, what it is called, its properties and all its evidence."""
    update: Update
    """Writes many; takes `rows` as `changed_row` gives them."""


def changed_row(thing: UUID, properties: Json, seal: bytes, *, is_unsupported: bool) -> Json:
    return {
        "id": str(thing),
        "properties": properties,
        "seal": seal.hex(),
        "is_unsupported": is_unsupported,
    }


def _of_node(
    agent: UUID, node: UUID, called: Sequence[Any], properties: Json, evidence: Sequence[UUID]
) -> bytes:
    type_name, name = called
    return integrity.of_node(
        node_id=node,
        agent_id=agent,
        type_name=type_name,
        name=name,
        properties=properties,
        evidence=evidence,
    )


def _of_edge(
    agent: UUID, edge: UUID, called: Sequence[Any], properties: Json, evidence: Sequence[UUID]
) -> bytes:
    type_name, source_id, target_id = called
    return integrity.of_edge(
        edge_id=edge,
        agent_id=agent,
        type_name=type_name,
        source_id=source_id,
        target_id=target_id,
        properties=properties,
        evidence=evidence,
    )


def _update(table: type[GraphNode] | type[GraphEdge]) -> Update:
    told = (
        func.jsonb_to_recordset(bindparam("rows", type_=JSONB))
        .table_valued(
            column("id", Uuid),
            column("properties", JSONB),
            column("seal", Text),
            column("is_unsupported", Boolean),
        )
        .render_derived(name="told", with_types=True)
    )
    moment = func.clock_timestamp()
    since = case((told.c.is_unsupported, func.coalesce(table.unsupported_since, moment)))
    return (
        update(table)
        .where(table.id == told.c.id)
        .values(
            properties=told.c.properties,
            seal=func.decode(told.c.seal, "hex"),
            unsupported_since=since,
            updated_at=moment,
        )
        .execution_options(synchronize_session=False)
    )


NODES: Final = Alike(
    GraphNode, Evidence.node_id, (GraphNode.type, GraphNode.name), _of_node, _update(GraphNode)
)
EDGES: Final = Alike(
    GraphEdge,
    Evidence.edge_id,
    (GraphEdge.type, GraphEdge.source_id, GraphEdge.target_id),
    _of_edge,
    _update(GraphEdge),
)


@dataclass(frozen=True)
class Claimed:
    """All that was claimed of one thing, retracted or not."""

    claims: list[Claim] = field(default_factory=list)
    source_of: dict[UUID, UUID] = field(default_factory=dict)
    """By evidence."""
    retracted_at: dict[UUID, datetime] = field(default_factory=dict)
    """By source; those that are believed are left out."""

    @property
    def evidence(self) -> list[UUID]:
        return [claim.evidence_id for claim in self.claims]

    @property
    def is_unsupported(self) -> bool:
        """Whether it has evidence, and all of that is retracted."""
        return bool(self.claims) and all(claim.is_retracted for claim in self.claims)


async def lock(session: AsyncSession, kind: Alike, things: Collection[UUID]) -> Sequence[UUID]:
    """In the order of their ids, so that nobody deadlocks; who locks nodes and edges locks nodes first.

    Those that are there: the others were merged into something else, and nothing can be said of them by these ids.
    """
    table = kind.table
    # Whoever writes evidence of a thing holds its key by then, two at once both do: neither may wait for that.
    found = await session.scalars(
        select(table.id)
        .where(table.id.in_(things))
        .order_by(table.id)
        .with_for_update(key_share=True)
    )
    return found.all()


async def claimed_of(
    session: AsyncSession, kind: Alike, things: Collection[UUID]
) -> dict[UUID, Claimed]:
    """By thing, those of which nothing was claimed too. They must be locked where something follows from it."""
    found: defaultdict[UUID, Claimed] = defaultdict(Claimed)
    of = kind.evidence_of
    for thing, evidence, source, values, as_of, learned_at, retracted_at in await session.execute(
        select(
            of,
            Evidence.id,
            Evidence.source_id,
            Evidence.claims,
            Evidence.as_of,
            Evidence.learned_at,
            Source.retracted_at,
        )
        .join(Source, Source.id == Evidence.source_id)
        .where(of.in_(things))
    ):
        assert thing is not None
        known = found[thing]
        is_retracted = retracted_at is not None
        known.claims.append(Claim(evidence, values, as_of, learned_at, is_retracted))
        known.source_of[evidence] = source
        if retracted_at is not None:
            known.retracted_at[source] = retracted_at
    return {thing: found[thing] for thing in things}


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
    return integrity.canonical(one) == integrity.canonical(other)
