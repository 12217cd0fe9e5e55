"""Undo of a merge. What was learned since stays with the node that was kept."""

from collections.abc import Collection
from typing import Any
from uuid import UUID

from sqlalchemy import delete, func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from shared.database.locks import exclusive_write_lock
from shared.database.tables import GraphMerge, GraphMove
from shared.graph.entity_resolution import journal
from shared.graph.entity_resolution.journal import MergeJournal, as_row, claimed_properties
from shared.graph.entity_resolution.merge import (
    NAMES,
    NODES,
    MergeRefusedError,
    move_edge_back,
    move_evidence_back,
    previous_state,
    remaining_properties,
    restore_row,
    restore_state,
    select_rows,
    set_properties,
)
from shared.graph.projection import reproject_node
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
    await restore_row(session, NODES, merge.merged_node)
    await _restore_names(session, merge, merge_journal)
    await move_evidence_back(session, merge_journal.evidence)
    await _restore_edges(session, scope, merge, merge_journal)
    await _restore_merged_node(session, scope, merge)
    await _restore_kept_node(session, scope, merge, merge_journal)
    await rewind_sweep(session, scope, [merge.merged_id, merge.kept_id])
    merge.undone_at = func.clock_timestamp()
    await session.flush()
    await journal.restore_doubts(session, merge, merge_journal)
    await session.refresh(merge)
    return merge


async def _refuse_later_merges(
    session: AsyncSession, merge: GraphMerge, merge_journal: MergeJournal
) -> None:
    element_ids = _affected_ids(merge, merge_journal)
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
            f"merge {later.id} of {later.merged_node['name']!r} was made later and builds on this one: "
            "undo it first"
        )


def _affected_ids(merge: GraphMerge, merge_journal: MergeJournal) -> Collection[UUID]:
    return {merge.kept_id, *(edge.to for edge in merge_journal.edges if edge.to is not None)}


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
    for edge in merge_journal.edges:
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


async def _restore_merged_node(session: AsyncSession, scope: GraphScope, merge: GraphMerge) -> None:
    row: dict[str, Any] = as_row(NODES, merge.merged_node)
    properties = await reproject_node(session, scope, merge.merged_id)
    if properties == row["properties"]:
        await restore_state(session, NODES, merge.merged_id, previous_state(row))


async def _restore_kept_node(
    session: AsyncSession, scope: GraphScope, merge: GraphMerge, merge_journal: MergeJournal
) -> None:
    [row] = await select_rows(session, NODES, NODES.c.id == merge.kept_id)
    claimed_names = claimed_properties(merge_journal.evidence)
    properties_left = remaining_properties(
        row["properties"], merge_journal.before.properties, merge_journal.added, claimed_names
    )
    await set_properties(session, NODES, merge.kept_id, properties_left)
    properties = await reproject_node(session, scope, merge.kept_id)
    if properties == merge_journal.before.properties:
        await restore_state(session, NODES, merge.kept_id, merge_journal.before)
