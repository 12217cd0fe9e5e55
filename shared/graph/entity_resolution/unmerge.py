"""Undo of a merge. What was learned since stays with the node that was kept."""

from collections import defaultdict
from uuid import UUID

from sqlalchemy import delete, func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from shared.database.locks import exclusive_write_lock
from shared.database.tables import GraphMerge, GraphMove
from shared.graph.entity_resolution.journal import MergeJournal
from shared.graph.entity_resolution.merge import (
    NAMES,
    MergeRefusedError,
    move_edge_back,
    restore_element,
    restore_kept,
)
from shared.graph.projection import EDGES, NODES, load_claims, lock_elements
from shared.graph.retraction import doubts
from shared.graph.retrieval.embedding_backlog import rewind_sweep
from shared.graph.scope import GraphScope


async def undo_merge(session: AsyncSession, scope: GraphScope, merge_id: UUID) -> GraphMerge | None:
    """Undo a merge; None if the agent has no such merge. A merge that is undone already is not changed.

    Raises MergeRefusedError if a later merge builds on this one.
    """
    await exclusive_write_lock(session, scope.agent_id)
    merge = await session.scalar(
        select(GraphMerge)
        .where(GraphMerge.id == merge_id, GraphMerge.agent_id == scope.owned_agent_id())
        .execution_options(populate_existing=True)
    )
    if merge is None or merge.undone_at is not None:
        return merge
    merge_journal = MergeJournal.model_validate(merge.journal)
    await _refuse_later_merges(session, merge, merge_journal)
    await session.execute(delete(GraphMove).where(GraphMove.merge_id == merge.id))
    evidence, before = merge_journal.evidence, merge_journal.before
    await restore_element(session, scope, NODES, merge.merged_node, evidence)
    await _restore_names(session, merge, merge_journal)
    await _restore_edges(session, scope, merge, merge_journal)
    await restore_kept(session, scope, NODES, merge.kept_id, before, merge_journal.added, evidence)
    await rewind_sweep(session, scope, [merge.merged_id, merge.kept_id])
    merge.undone_at = func.clock_timestamp()
    await session.flush()
    await _restore_doubts(session, merge, merge_journal)
    await session.refresh(merge)
    return merge


async def _refuse_later_merges(
    session: AsyncSession, merge: GraphMerge, merge_journal: MergeJournal
) -> None:
    element_ids = {merge.kept_id, *merge_journal.edge_redirects.values()}
    later = await session.scalar(
        select(GraphMerge)
        .join(GraphMove, GraphMove.merge_id == GraphMerge.id)
        .where(
            GraphMove.agent_id == merge.agent_id,
            or_(GraphMove.merged_id.in_(element_ids), GraphMove.kept_id.in_(element_ids)),
            GraphMerge.made_at > merge.made_at,
            GraphMerge.undone_at.is_(None),
        )
        .order_by(GraphMerge.made_at.desc())
        .limit(1)
    )
    if later is not None:
        raise MergeRefusedError(
            f"merge {later.id} of {later.merged_node['name']!r} was made later and depends on this one: undo it first"
        )


async def _restore_names(
    session: AsyncSession, merge: GraphMerge, merge_journal: MergeJournal
) -> None:
    type_name = merge.merged_node["type"]
    await session.execute(
        update(NAMES)
        .where(
            NAMES.c.agent_id == merge.agent_id,
            NAMES.c.type == type_name,
            NAMES.c.key.in_(merge_journal.names),
            NAMES.c.node_id == merge.kept_id,
        )
        .values(node_id=merge.merged_id)
    )


async def _restore_edges(
    session: AsyncSession, scope: GraphScope, merge: GraphMerge, merge_journal: MergeJournal
) -> None:
    """Redirect an edge that this removes to the one that holds its evidence now: a conclusion may have cited it."""
    # In reverse, because several can have become one: each was moved to what those before it had left.
    for edge in reversed(merge_journal.edges):
        if not await move_edge_back(session, scope, edge):
            assert edge.to is not None
            session.add(
                GraphMove(
                    agent_id=merge.agent_id,
                    merged_id=edge.to,
                    kept_id=UUID(edge.row["id"]),
                    merge_id=merge.id,
                )
            )


async def _restore_doubts(
    session: AsyncSession, merge: GraphMerge, merge_journal: MergeJournal
) -> None:
    """After the nodes are separate again: what only the merge supported is in doubt again."""
    edges = merge_journal.edge_redirects
    node_ids = await lock_elements(session, NODES, [merge.merged_id, merge.kept_id])
    edge_ids = await lock_elements(session, EDGES, [*edges, *edges.values()])
    await doubts.reopen_doubts(session, [merge.merged_id, *edges], merge.made_at)
    remaining, removed = set(edge_ids), defaultdict[UUID, list[UUID]](list)
    for old_id, new_id in edges.items():
        if new_id not in remaining:
            removed[new_id].append(old_id)
    await doubts.transfer_doubts(session, removed)
    claims = await load_claims(session, NODES, node_ids)
    claims |= await load_claims(session, EDGES, edge_ids)
    await doubts.reevaluate_doubts(session, claims)
