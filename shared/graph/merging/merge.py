"""Making one node of two: the one that goes leaves its names, its evidence and its edges to the one that is kept."""

from typing import Final
from uuid import UUID, uuid4

from sqlalchemy import delete, or_, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from shared.graph import naming
from shared.graph.merging import doubted, edges, evidence
from shared.graph.merging.journal import Moved, as_json
from shared.graph.merging.refusal import MergeRefusedError
from shared.graph.merging.rows import (
    EDGES,
    EVIDENCE,
    NAMES,
    NODES,
    Row,
    before,
    of_each,
    rows_of,
    unproven,
    with_properties,
)
from shared.graph.names import row as name_row
from shared.graph.refold import refold_node
from shared.graph.scope import Scope
from shared.graph.turns import write_alone
from shared.graph.type_names import RESERVED_TYPES
from shared.store.tables import GraphMerge, GraphMove

MOST_MOVED: Final = 5_000
"""Edges and spans of evidence that one merge may move, so that it ends before whoever asks has gone."""


async def merge(
    session: AsyncSession, scope: Scope, *, kept_id: UUID, gone_id: UUID, reason: str, made_by: UUID
) -> GraphMerge | None:
    """None where the agent has not both nodes. Raises MergeRefusedError where they cannot be one."""
    await write_alone(session, scope)
    found = await rows_of(
        session, NODES, NODES.c.agent_id == scope.agent(), NODES.c.id.in_((kept_id, gone_id))
    )
    by_id = {row["id"]: row for row in found}
    if kept_id not in by_id or gone_id not in by_id:
        return None
    kept, gone = by_id[kept_id], by_id[gone_id]
    _refuse(kept, gone)
    moved = await _move_all(session, scope, kept, gone)
    made = GraphMerge(
        id=uuid4(),
        agent_id=scope.agent_id,
        kept_id=kept_id,
        gone_id=gone_id,
        reason=reason,
        gone=as_json(gone),
        moved=moved.model_dump(mode="json"),
        made_by=made_by,
    )
    session.add(made)
    await session.flush()
    await _tell_where(session, made, moved)
    await doubted.move(session, made, moved)
    await session.refresh(made)
    return made


def _refuse(kept: Row, gone: Row) -> None:
    if kept["id"] == gone["id"]:
        raise MergeRefusedError(f"{kept['name']!r} is one node already: name two")
    if RESERVED_TYPES & {kept["type"], gone["type"]}:
        raise MergeRefusedError(
            "analyses and advice are what the agent concluded, and are never merged"
        )
    if kept["type"] != gone["type"]:
        raise MergeRefusedError(
            f"{kept['name']!r} is a {kept['type']} and {gone['name']!r} a {gone['type']}: "
            "only nodes of one type are merged"
        )


async def _move_all(session: AsyncSession, scope: Scope, kept: Row, gone: Row) -> Moved:
    touching = await rows_of(
        session, EDGES, or_(EDGES.c.source_id == gone["id"], EDGES.c.target_id == gone["id"])
    )
    spans = await rows_of(session, EVIDENCE, EVIDENCE.c.node_id == gone["id"])
    edge_ids = [edge["id"] for edge in touching]
    of_edges = await rows_of(session, EVIDENCE, EVIDENCE.c.edge_id.in_(edge_ids))
    _refuse_too_much(len(touching) + len(spans) + len(of_edges))
    added = {
        name: value
        for name, value in unproven(gone["properties"], spans).items()
        if name not in kept["properties"]
    }
    by_edge = of_each(of_edges, "edge_id")
    moved = Moved(
        names=await _move_names(session, scope, kept, gone),
        before=before(kept),
        added=added,
        evidence=await evidence.move(session, spans, "node_id", kept["id"]),
        edges=[
            await edges.move(
                session, scope, edge, by_edge.get(edge["id"], []), gone["id"], kept["id"]
            )
            for edge in touching
        ],
    )
    await session.execute(delete(NODES).where(NODES.c.id == gone["id"]))
    if added:
        await with_properties(session, NODES, kept["id"], {**added, **kept["properties"]})
    await refold_node(session, scope, kept["id"])
    return moved


def _refuse_too_much(rows: int) -> None:
    if rows > MOST_MOVED:
        raise MergeRefusedError(
            f"{rows} edges and spans of evidence hang on the node that would go, more than the {MOST_MOVED} that a "
            "merge moves: keep that one, and merge the other into it"
        )


async def _move_names(session: AsyncSession, scope: Scope, kept: Row, gone: Row) -> list[str]:
    """The keys that the gone one had. Its own name leads to the kept one from now on, even where it was never taken."""
    keys = await session.scalars(
        update(NAMES)
        .where(NAMES.c.agent_id == scope.agent(), NAMES.c.node_id == gone["id"])
        .values(node_id=kept["id"])
        .returning(NAMES.c.key)
    )
    own = (gone["type"], naming.read(gone["name"], gone["type"]).key)
    untaken = insert(NAMES).values(name_row(scope, own, gone["name"], kept["id"]))
    taken = await session.scalars(untaken.on_conflict_do_nothing().returning(NAMES.c.key))
    return sorted([*keys, *taken])


async def _tell_where(session: AsyncSession, made: GraphMerge, moved: Moved) -> None:
    places = {made.gone_id: made.kept_id}
    places |= {UUID(edge.row["id"]): edge.to for edge in moved.edges if edge.to is not None}
    await session.execute(
        delete(GraphMove)
        .where(
            GraphMove.agent_id == made.agent_id,
            GraphMove.gone_id.in_([*places.keys(), *places.values()]),
        )
        .execution_options(synchronize_session=False)
    )
    session.add_all(
        GraphMove(agent_id=made.agent_id, gone_id=gone_id, kept_id=kept_id, merge_id=made.id)
        for gone_id, kept_id in places.items()
    )
    await session.flush()
