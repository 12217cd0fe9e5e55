"""Edges led to another node, and back. Their ids follow from their ends, and are made anew."""

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import delete, exists, select
from sqlalchemy.ext.asyncio import AsyncSession

from shared.graph.merging import evidence
from shared.graph.merging.journal import MovedEdge, MovedEvidence, as_json, as_row, claimed
from shared.graph.merging.rows import (
    EDGES,
    EVIDENCE,
    Row,
    as_before,
    before,
    left_behind,
    put_back,
    rows_of,
    unproven,
    with_properties,
)
from shared.graph.refold import refold_edge
from shared.graph.scope import Scope
from shared.store import ids


async def move(
    session: AsyncSession, scope: Scope, edge: Row, spans: Sequence[Row], gone: UUID, kept: UUID
) -> MovedEdge:
    """From the node `gone` to the node `kept`; one that would join a node with itself is dropped."""
    ends = [kept if edge[end] == gone else edge[end] for end in ("source_id", "target_id")]
    if ends[0] == ends[1]:
        return await _drop(session, edge, spans)
    new_id = ids.edge_id(scope.agent_id, edge["type"], *ends)
    there = await rows_of(session, EDGES, EDGES.c.id == new_id)
    told = MovedEdge(row=as_json(edge), to=new_id, evidence=[])
    if there:
        told.before = before(there[0])
        own = there[0]["properties"]
        told.added = {k: v for k, v in unproven(edge["properties"], spans).items() if k not in own}
        await with_properties(session, EDGES, new_id, {**told.added, **own})
    else:
        led = {**edge, "id": new_id, "source_id": ends[0], "target_id": ends[1]}
        await put_back(session, EDGES, as_json(led))
    told.evidence = await evidence.move(session, spans, "edge_id", new_id)
    await session.execute(delete(EDGES).where(EDGES.c.id == edge["id"]))
    await refold_edge(session, scope, new_id)
    told.touched_at = await session.scalar(select(EDGES.c.updated_at).where(EDGES.c.id == new_id))
    return told


async def move_back(session: AsyncSession, scope: Scope, moved: MovedEdge) -> bool:
    """Where both nodes are there again. False where the edge that was moved to is gone by that."""
    await put_back(session, EDGES, moved.row)
    await evidence.move_back(session, moved.evidence)
    await _as_it_was(session, scope, moved)
    if moved.to is None:
        return True
    [now] = await rows_of(session, EDGES, EDGES.c.id == moved.to)
    if moved.before is None and await _is_bare(session, now, moved):
        await session.execute(delete(EDGES).where(EDGES.c.id == moved.to))
        return False
    was = {} if moved.before is None else moved.before.properties
    left = left_behind(now["properties"], was, moved.added, claimed(moved.evidence))
    await with_properties(session, EDGES, moved.to, left)
    properties = await refold_edge(session, scope, moved.to)
    if moved.before is not None and properties == moved.before.properties:
        await as_before(session, EDGES, moved.to, moved.before)
    return True


async def _drop(session: AsyncSession, edge: Row, spans: Sequence[Row]) -> MovedEdge:
    kept = [MovedEvidence(row=as_json(row), to=row["id"], was_there=False) for row in spans]
    await session.execute(delete(EDGES).where(EDGES.c.id == edge["id"]))
    return MovedEdge(row=as_json(edge), to=None, evidence=kept)


async def _as_it_was(session: AsyncSession, scope: Scope, moved: MovedEdge) -> None:
    """Pages may have been retracted since: then it says what the others say."""
    was = as_row(EDGES, moved.row)
    properties = await refold_edge(session, scope, was["id"])
    if properties == was["properties"]:
        await as_before(session, EDGES, was["id"], before(was))


async def _is_bare(session: AsyncSession, now: Row, moved: MovedEdge) -> bool:
    """Whether nothing was said of it since the merge that made it, but what is led back with the one that it was."""
    spoken_of = await session.scalar(select(exists().where(EVIDENCE.c.edge_id == now["id"])))
    # What rests on pages is nothing without them; who says the same again touches it, and adds none.
    return not spoken_of and (bool(moved.evidence) or now["updated_at"] == moved.touched_at)
