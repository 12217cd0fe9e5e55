"""Propagation of retractions, restorations and contradictions to nodes, edges and conclusions, in batches.

A batch is one transaction: it reprojects elements, re-evaluates the doubts about them and records its progress.
Before the first batch it waits for all writers of evidence: what they wrote is found here, or they have seen the
retraction.
"""

from collections.abc import Collection
from typing import Final
from uuid import UUID

from sqlalchemy import Select, exists, func, select
from sqlalchemy.ext.asyncio import AsyncSession

from shared.database.engine import Database
from shared.database.locks import exclusive_write_lock, shared_write_lock
from shared.database.tables import (
    Agent,
    Doubt,
    EntailmentVerdict,
    Evidence,
    RetractedSource,
    Retraction,
    Source,
)
from shared.graph.conclusions import citation_index
from shared.graph.projection import (
    EDGES,
    NODES,
    ElementClaims,
    ElementKind,
    load_claims,
    lock_elements,
    reproject_all,
)
from shared.graph.retraction import doubts, notices
from shared.graph.retraction.retractions import FIRST_CURSOR
from shared.graph.scope import GraphScope, take_exclusive_retraction_lock

BATCH_SIZE: Final = 500
"""Rows of evidence per batch. Their elements are locked for the duration of a batch."""


async def propagate_retractions(database: Database, *, at_once: int = BATCH_SIZE) -> None:
    """Propagate all due retractions, except those another process works on. Raises TransientError: retry it then."""
    while await _run_step(database, at_once):
        pass


async def _run_step(database: Database, at_once: int) -> bool:
    """Run one transaction; returns False if nothing is left to do."""
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
        agent = await session.get_one(Agent, retraction.agent_id)
        scope = GraphScope(agent.owner_id, agent.id)
        source = await session.scalar(
            select(RetractedSource)
            .where(RetractedSource.retraction_id == retraction.id, RetractedSource.is_due)
            .order_by(RetractedSource.source_id)
            .limit(1)
        )
        if source is None:
            await _finish(session, scope, retraction)
        elif source.through is None:
            await _wait_for_writers(session, scope, source)
        else:
            await _propagate_batch(session, scope, source, source.through, at_once)
        return True


async def _wait_for_writers(
    session: AsyncSession, scope: GraphScope, source: RetractedSource
) -> None:
    """Wait for transactions that write evidence of the source.

    Locks nothing else at the same time, so that no deadlock is possible.
    """
    await exclusive_write_lock(session, scope.agent_id)
    await session.execute(select(Source.id).where(Source.id == source.source_id).with_for_update())
    await citation_index.store_missing_citations(session, scope.agent_id)
    source.through = FIRST_CURSOR


async def _propagate_batch(
    session: AsyncSession, scope: GraphScope, source: RetractedSource, cursor: UUID, at_once: int
) -> None:
    evidence_ids = (
        await session.scalars(
            select(Evidence.id)
            .where(Evidence.source_id == source.source_id, Evidence.id > cursor)
            .order_by(Evidence.id)
            .limit(at_once)
        )
    ).all()
    if evidence_ids:
        await shared_write_lock(session, scope.agent_id)
        await take_exclusive_retraction_lock(session, scope.agent_id)
        element_ids = await _lock_elements(session, evidence_ids)
        projections = await reproject_all(session, scope, NODES, element_ids)
        projections |= await reproject_all(session, scope, EDGES, element_ids)
        claims = {element_id: projection.claims for element_id, projection in projections.items()}
        await doubts.reevaluate_doubts(session, claims, because_of=source.source_id)
        source.through = evidence_ids[-1]
    source.is_due = len(evidence_ids) == at_once


async def _lock_elements(session: AsyncSession, evidence_ids: Collection[UUID]) -> set[UUID]:
    """Lock the elements of the evidence, nodes before edges and each in id order, which prevents deadlocks.

    Checks again after locking: an element can have been merged into another one meanwhile. Returns their ids.
    """
    statement = select(Evidence.node_id, Evidence.edge_id).where(Evidence.id.in_(evidence_ids))
    locked = set[UUID]()
    while True:
        rows = await session.execute(statement)
        element_ids = {element_id for row in rows for element_id in row if element_id is not None}
        if element_ids <= locked:
            return element_ids
        for kind in (NODES, EDGES):
            await lock_elements(session, kind, element_ids - locked)
        locked |= element_ids


async def _finish(session: AsyncSession, scope: GraphScope, retraction: Retraction) -> None:
    is_of_retraction = RetractedSource.retraction_id == retraction.id
    sources = (
        await session.scalars(select(RetractedSource.source_id).where(is_of_retraction))
    ).all()
    if retraction.restored_at is None:
        await notices.notify_new_doubts(session, scope, retraction, sources)
    else:
        restored = await session.scalars(
            select(Source.id).where(Source.id.in_(sources), Source.retracted_at.is_(None))
        )
        # Doubts about elements that were merged since are not re-evaluated under their old ids.
        await doubts.close_doubts(session, restored.all())
        await notices.resolve_notices(session, scope, [retraction])
    retraction.due_at = None


async def propagate_contradictions(database: Database, *, at_once: int = BATCH_SIZE) -> None:
    """Open doubts about conclusions that rest on contradicted evidence, and notify the owners. Raises TransientError: retry
    it then.
    """
    while await _propagate_contradictions(database, at_once):
        pass


async def _propagate_contradictions(database: Database, at_once: int) -> bool:
    """Run one transaction; returns False if nothing is left to do."""
    async with database.transaction() as session:
        due = (
            select(EntailmentVerdict)
            .where(EntailmentVerdict.due_at.is_not(None))
            .order_by(EntailmentVerdict.due_at, EntailmentVerdict.evidence_id)
        )
        verdict = await session.scalar(due.limit(1))
        if verdict is None:
            return False
        agent = await session.get_one(Agent, verdict.agent_id)
        # Without a lock on its verdicts until then: a merge, which changes them, holds this lock.
        await shared_write_lock(session, agent.id)
        await take_exclusive_retraction_lock(session, agent.id)
        verdicts = (
            await session.scalars(
                due.where(EntailmentVerdict.agent_id == agent.id)
                .limit(at_once)
                .execution_options(populate_existing=True)
            )
        ).all()
        await citation_index.store_missing_citations(session, agent.id)
        evidence_ids = [verdict.evidence_id for verdict in verdicts]
        element_ids = await _lock_elements(session, evidence_ids)
        claims = await load_claims(session, NODES, element_ids)
        claims_of_edges = await load_claims(session, EDGES, element_ids)
        claims |= {key: value for key, value in claims_of_edges.items() if value.claims}
        opened = await doubts.reevaluate_doubts(session, claims)
        scope = GraphScope(agent.owner_id, agent.id)
        await notices.notify_contradictions(session, scope, opened)
        for verdict in verdicts:
            verdict.due_at = None
        return True


async def resolve_doubts(database: Database, *, at_once: int = BATCH_SIZE) -> None:
    """Resolve doubts that new evidence makes unfounded, and notify the owners. Raises TransientError: retry it then."""
    while await _resolve_batch(database, at_once):
        pass


async def _resolve_batch(database: Database, at_once: int) -> bool:
    """Returns False if no element in doubt was written to."""
    async with database.transaction() as session:
        updated = [
            row
            for kind in (NODES, EDGES)
            for row in await session.execute(_updated_since_doubt(kind).limit(at_once))
        ]
        if not updated:
            return False
        owner_id, agent_id, _ = updated[0]  # those of other agents in another transaction
        element_ids = [element_id for _, agent, element_id in updated if agent == agent_id]
        await shared_write_lock(session, agent_id)
        claims: dict[UUID, ElementClaims] = {}
        for kind in (NODES, EDGES):
            locked_ids = await lock_elements(session, kind, element_ids)
            claims |= await load_claims(session, kind, locked_ids)
        closed_ids = await doubts.resolve_doubts(session, claims)
        await notices.notify_resolved_doubts(session, GraphScope(owner_id, agent_id), closed_ids)
        return True


def _updated_since_doubt(kind: ElementKind) -> Select[UUID, UUID, UUID]:
    """Owner, agent and id of elements that were written to after their doubt was last evaluated."""
    table = kind.table
    is_propagating = (
        exists()
        .where(RetractedSource.source_id == Doubt.source_id)
        .where(Retraction.id == RetractedSource.retraction_id, Retraction.due_at.is_not(None))
    )
    return (
        select(Agent.owner_id, table.agent_id, table.id)
        .join(Doubt, Doubt.element_id == table.id)
        .join(Agent, Agent.id == table.agent_id)
        .where(
            Doubt.resolved_at.is_(None),
            table.updated_at > func.coalesce(Doubt.evaluated_at, Doubt.since),
            ~is_propagating,
        )
        .distinct()
        .order_by(table.agent_id, table.id)
    )
