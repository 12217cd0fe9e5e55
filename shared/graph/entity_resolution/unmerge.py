"""Making two nodes again of what a merge has made one. What was learned since stays with the node that was kept."""

from collections.abc import Collection
from typing import Any
from uuid import UUID

from sqlalchemy import delete, func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from shared.database.locks import write_alone
from shared.database.tables import GraphMerge, GraphMove
from shared.graph.entity_resolution import journal
from shared.graph.entity_resolution.journal import Moved, as_row, claimed
from shared.graph.entity_resolution.merge import (
    NAMES,
    NODES,
    MergeRefusedError,
    as_before,
    before,
    left_behind,
    move_edge_back,
    move_evidence_back,
    put_back,
    rows_of,
    with_properties,
)
from shared.graph.projection import refold_node
from shared.graph.retrieval.embedding_backlog import sweep_again
from shared.graph.scope import Scope


async def undo(session: AsyncSession, scope: Scope, merge_id: UUID) -> GraphMerge | None:
    """None where the agent has no such merge; one that is undone already stays so.

    Raises MergeRefusedError where a later merge moved what this one had moved, or moved more to it.
    """
    await write_alone(session, scope.agent_id)
    made = await session.scalar(
        select(GraphMerge)
        .where(GraphMerge.id == merge_id, GraphMerge.agent_id == scope.agent())
        .execution_options(populate_existing=True)
    )
    if made is None or made.undone_at is not None:
        return made
    moved = Moved.model_validate(made.moved)
    await _refuse_built_upon(session, made, moved)
    await session.execute(delete(GraphMove).where(GraphMove.merge_id == made.id))
    await put_back(session, NODES, made.gone)
    await _give_names_back(session, made, moved)
    await move_evidence_back(session, moved.evidence)
    await _edges_back(session, scope, made, moved)
    await _gone_as_it_was(session, scope, made)
    await _kept_as_it_was(session, scope, made, moved)
    await sweep_again(session, scope, [made.gone_id, made.kept_id])
    made.undone_at = func.clock_timestamp()
    await session.flush()
    await journal.move_back(session, made, moved)
    await session.refresh(made)
    return made


async def _refuse_built_upon(session: AsyncSession, made: GraphMerge, moved: Moved) -> None:
    places = _places(made, moved)
    later = await session.scalar(
        select(GraphMerge)
        .join(GraphMove, GraphMove.merge_id == GraphMerge.id)
        .where(
            GraphMove.agent_id == made.agent_id,
            or_(GraphMove.gone_id.in_(places), GraphMove.kept_id.in_(places)),
            GraphMerge.made_at > made.made_at,
            GraphMerge.undone_at.is_(None),
        )
        .order_by(GraphMerge.made_at.desc())
        .limit(1)
    )
    if later is not None:
        raise MergeRefusedError(
            f"merge {later.id}, by which {later.gone['name']!r} went, was made since and builds on this one: "
            "undo that first"
        )


def _places(made: GraphMerge, moved: Moved) -> Collection[UUID]:
    return {made.kept_id, *(edge.to for edge in moved.edges if edge.to is not None)}


async def _give_names_back(session: AsyncSession, made: GraphMerge, moved: Moved) -> None:
    kind = made.gone["type"]
    await session.execute(
        update(NAMES)
        .where(
            NAMES.c.agent_id == made.agent_id,
            NAMES.c.type == kind,
            NAMES.c.key.in_(moved.names),
            NAMES.c.node_id == made.kept_id,
        )
        .values(node_id=made.gone_id)
    )


async def _edges_back(session: AsyncSession, scope: Scope, made: GraphMerge, moved: Moved) -> None:
    """An edge that goes by that is found where its evidence is now: a conclusion may have cited it since."""
    for edge in moved.edges:
        if not await move_edge_back(session, scope, edge):
            assert edge.to is not None
            session.add(
                GraphMove(
                    agent_id=made.agent_id,
                    gone_id=edge.to,
                    kept_id=UUID(edge.row["id"]),
                    merge_id=made.id,
                )
            )


async def _gone_as_it_was(session: AsyncSession, scope: Scope, made: GraphMerge) -> None:
    was: dict[str, Any] = as_row(NODES, made.gone)
    properties = await refold_node(session, scope, made.gone_id)
    if properties == was["properties"]:
        await as_before(session, NODES, made.gone_id, before(was))


async def _kept_as_it_was(
    session: AsyncSession, scope: Scope, made: GraphMerge, moved: Moved
) -> None:
    [now] = await rows_of(session, NODES, NODES.c.id == made.kept_id)
    claims = claimed(moved.evidence)
    left = left_behind(now["properties"], moved.before.properties, moved.added, claims)
    await with_properties(session, NODES, made.kept_id, left)
    properties = await refold_node(session, scope, made.kept_id)
    if properties == moved.before.properties:
        await as_before(session, NODES, made.kept_id, moved.before)
