"""Propagation of retractions and restorations, in batches.

A batch is one transaction: the things are folded, the conclusions on them weighed, and how far it has come written down.
Whoever writes evidence has its turn until the end of its transaction, and is waited for before the first batch: what it
wrote is then found here, or it has seen the retraction itself.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from sqlalchemy import Select, exists, func, select
from sqlalchemy.ext.asyncio import AsyncSession

from shared.database.engine import Database
from shared.database.locks import write_alone, write_beside_others
from shared.database.tables import Agent, Doubt, Evidence, RetractedSource, Retraction, Source
from shared.graph.conclusions import citation_index
from shared.graph.projection import (
    EDGES,
    NODES,
    Alike,
    claimed_of,
    lock,
    refold_edges,
    refold_nodes,
)
from shared.graph.retraction import doubts, notices
from shared.graph.retraction.retractions import BEFORE_ALL
from shared.graph.scope import Scope, make_move

AT_ONCE: Final = 500
"""Spans of evidence to a batch: as long nobody else can write to what they speak of."""


@dataclass(frozen=True)
class _Things:
    nodes: frozenset[UUID] = frozenset()
    edges: frozenset[UUID] = frozenset()

    def __or__(self, other: "_Things") -> "_Things":
        return _Things(self.nodes | other.nodes, self.edges | other.edges)

    def __sub__(self, other: "_Things") -> "_Things":
        return _Things(self.nodes - other.nodes, self.edges - other.edges)

    def __bool__(self) -> bool:
        return bool(self.nodes or self.edges)


async def work_off(database: Database, *, at_once: int = AT_ONCE) -> None:
    """All that is due, unless another does it. Raises TransientError where that must be tried again."""
    while await _advance(database, at_once):
        pass


async def _advance(database: Database, at_once: int) -> bool:
    """One transaction further; False where nothing is left that nobody is at."""
    async with database.transaction() as session:
        retraction = await session.scalar(
            select(Retraction)
            .where(Retraction.due_at.is_not(None))
            .order_by(Retraction.due_at, Retraction.id)
            .limit(1)
            .with_for_update(skip_locked=True)
        )
        if retraction is None:
            return False
        scope = await _scope(session, retraction.agent_id)
        source = await session.scalar(
            select(RetractedSource)
            .where(RetractedSource.retraction_id == retraction.id, RetractedSource.is_due)
            .order_by(RetractedSource.source_id)
            .limit(1)
        )
        if source is None:
            await _finish(session, scope, retraction)
        elif source.through is None:
            await _begin(session, scope, source)
        else:
            await _go_on(session, scope, source, source.through, at_once)
        return True


async def _scope(session: AsyncSession, agent_id: UUID) -> Scope:
    owner = (await session.scalars(select(Agent.owner_id).where(Agent.id == agent_id))).one()
    return Scope(owner, agent_id)


async def _begin(session: AsyncSession, scope: Scope, source: RetractedSource) -> None:
    """Waits for those who write evidence of it, whose turn it is or who hold on to it by its key.

    Nothing else is locked with it, so that nobody waits in a circle.
    """
    await write_alone(session, scope.agent_id)
    await session.execute(select(Source.id).where(Source.id == source.source_id).with_for_update())
    await citation_index.keep_older(session, scope.agent_id)
    source.through = BEFORE_ALL


async def _go_on(
    session: AsyncSession, scope: Scope, source: RetractedSource, through: UUID, at_once: int
) -> None:
    spans = (
        await session.scalars(
            select(Evidence.id)
            .where(Evidence.source_id == source.source_id, Evidence.id > through)
            .order_by(Evidence.id)
            .limit(at_once)
        )
    ).all()
    if spans:
        await write_beside_others(session, scope.agent_id)
        await make_move(session, scope.agent_id)
        await _refold(session, scope, await _locked(session, spans), source.source_id)
        source.through = spans[-1]
    source.is_due = len(spans) == at_once


async def _refold(session: AsyncSession, scope: Scope, things: _Things, source: UUID) -> None:
    folded = await refold_nodes(session, scope, things.nodes)
    folded |= await refold_edges(session, scope, things.edges)
    claimed = {thing: each.claimed for thing, each in folded.items()}
    await doubts.weigh(session, claimed, because_of=source)


async def _locked(session: AsyncSession, spans: Collection[UUID]) -> _Things:
    """What the spans speak of, nodes before edges and each in the order of their ids, which is how nobody deadlocks.

    Looked at again when it is locked: meanwhile it may have been merged into something else.
    """
    locked = _Things()
    while new := await _spoken_of(session, spans) - locked:
        await lock(session, NODES, new.nodes)
        await lock(session, EDGES, new.edges)
        locked |= new
    return await _spoken_of(session, spans)


async def _spoken_of(session: AsyncSession, spans: Collection[UUID]) -> _Things:
    rows = (
        await session.execute(
            select(Evidence.node_id, Evidence.edge_id).where(Evidence.id.in_(spans))
        )
    ).all()
    return _Things(
        frozenset(row.node_id for row in rows if row.node_id is not None),
        frozenset(row.edge_id for row in rows if row.edge_id is not None),
    )


async def _finish(session: AsyncSession, scope: Scope, retraction: Retraction) -> None:
    of_it = RetractedSource.retraction_id == retraction.id
    sources = (await session.scalars(select(RetractedSource.source_id).where(of_it))).all()
    if retraction.restored_at is None:
        await notices.tell_owner(session, scope, retraction, sources)
    else:
        restored = await session.scalars(
            select(Source.id).where(Source.id.in_(sources), Source.retracted_at.is_(None))
        )
        # What was merged into something else since is weighed by its own name no more.
        await doubts.clear(session, restored.all())
    retraction.due_at = None


@dataclass(frozen=True)
class _WrittenTo:
    """Of one agent."""

    scope: Scope
    nodes: Sequence[UUID]
    edges: Sequence[UUID]


async def lift(database: Database, *, at_once: int = AT_ONCE) -> None:
    """All doubts that are to be lifted, each owner told. Raises TransientError where that must be tried again."""
    while await _lift_some(database, at_once):
        pass


async def _lift_some(database: Database, at_once: int) -> bool:
    """False where nothing that is doubted was written to."""
    async with database.transaction() as session:
        found = await _written_to(session, at_once)
        if found is None:
            return False
        await write_beside_others(session, found.scope.agent_id)
        nodes = await lock(session, NODES, found.nodes)
        edges = await lock(session, EDGES, found.edges)
        claimed = await claimed_of(session, NODES, nodes)
        claimed |= await claimed_of(session, EDGES, edges)
        lifted = await doubts.lift(session, claimed)
        await notices.tell_lifted(session, found.scope, lifted)
        return True


async def _written_to(session: AsyncSession, at_once: int) -> _WrittenTo | None:
    nodes, edges = [
        (await session.execute(_doubted(kind).limit(at_once))).all() for kind in (NODES, EDGES)
    ]
    if not nodes and not edges:
        return None
    owner_id, agent_id, _ = (nodes or edges)[0]
    return _WrittenTo(
        Scope(owner_id, agent_id),
        [thing for _, of_agent, thing in nodes if of_agent == agent_id],
        [thing for _, of_agent, thing in edges if of_agent == agent_id],
    )


def _doubted(kind: Alike) -> Select[UUID, UUID, UUID]:
    """Owner, agent and id of those that were written to since. Whoever writes has the row, and notes when."""
    table = kind.table
    still_going = (
        exists()
        .where(RetractedSource.source_id == Doubt.source_id)
        .where(Retraction.id == RetractedSource.retraction_id, Retraction.due_at.is_not(None))
    )
    return (
        select(Agent.owner_id, table.agent_id, table.id)
        .join(Doubt, Doubt.thing_id == table.id)
        .join(Agent, Agent.id == table.agent_id)
        .where(
            Doubt.cleared_at.is_(None),
            table.updated_at > func.coalesce(Doubt.weighed_at, Doubt.since),
            ~still_going,
        )
        .distinct()
        .order_by(table.agent_id, table.id)
    )
