"""Merging two nodes: names, evidence and edges move to the node that is kept."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, cast
from uuid import UUID, uuid4

from sqlalchemy import ColumnElement, Table, bindparam, delete, exists, insert, or_, select, update
from sqlalchemy.dialects.postgresql import insert as pg_insert
from sqlalchemy.ext.asyncio import AsyncSession

from shared.database import ids
from shared.database.locks import exclusive_write_lock
from shared.database.tables import Evidence, GraphEdge, GraphMerge, GraphMove, GraphName, GraphNode
from shared.errors import VigilError
from shared.graph.entity_resolution import journal, normalization
from shared.graph.entity_resolution.aliases import name_row as name_row
from shared.graph.entity_resolution.journal import (
    MergeJournal,
    MovedEdge,
    MovedEvidence,
    PreviousState,
    as_json,
    as_row,
    claimed_properties,
)
from shared.graph.projection import reproject_edge, reproject_node
from shared.graph.provenance import integrity
from shared.graph.scope import GraphScope
from shared.graph.types import RESERVED_TYPES
from shared.tools import Json

NODES: Final = cast("Table", GraphNode.__table__)
EDGES: Final = cast("Table", GraphEdge.__table__)
EVIDENCE: Final = cast("Table", Evidence.__table__)
NAMES: Final = cast("Table", GraphName.__table__)

Row = Mapping[str, Any]


async def select_rows(
    session: AsyncSession, table: Table, *where: ColumnElement[bool]
) -> list[Row]:
    """Rows as dictionaries, in id order."""
    result = await session.execute(select(table).where(*where).order_by(table.c.id))
    return [dict(row) for row in result.mappings()]


async def restore_row(session: AsyncSession, table: Table, row: Json) -> None:
    await session.execute(insert(table).values(as_row(table, row)))


def previous_state(row: Row) -> PreviousState:
    plain = as_json(row)
    return PreviousState(
        properties=plain["properties"], seal=plain["seal"], updated_at=plain["updated_at"]
    )


async def restore_state(
    session: AsyncSession, table: Table, row_id: UUID, state: PreviousState
) -> None:
    """Restore seal and timestamp of a row that again has its state from before the merge.

    Does nothing if more evidence supports the row than before: then its seal covers that evidence.
    """
    seal = None if state.seal is None else bytes.fromhex(state.seal)
    element_column = EVIDENCE.c.node_id if table is NODES else EVIDENCE.c.edge_id
    is_unchanged = (
        ~exists().where(element_column == row_id) if seal is None else table.c.seal == seal
    )
    await session.execute(
        update(table)
        .where(table.c.id == row_id, is_unchanged)
        .values(seal=seal, updated_at=state.updated_at)
    )


async def set_properties(
    session: AsyncSession, table: Table, row_id: UUID, properties: Json
) -> None:
    await session.execute(update(table).where(table.c.id == row_id).values(properties=properties))


def properties_without_evidence(properties: Json, evidence: Iterable[Row]) -> Json:
    """The properties that no evidence supports."""
    claimed_names = {name for row in evidence for name in row["claims"]}
    return {name: value for name, value in properties.items() if name not in claimed_names}


def remaining_properties(
    properties: Json, previous: Json, added: Json, claimed_names: Iterable[str]
) -> Json:
    """The properties of the kept node before its own evidence is projected.

    Without those that were `added` and still have that value, and without those that the leaving evidence claimed;
    these get their earlier value.
    """
    removed = set(claimed_names) | {
        name for name, value in added.items() if properties.get(name) == value
    }
    own = {name: value for name, value in properties.items() if name not in removed}
    return own | {name: previous[name] for name in removed if name in previous}


def group_by_column(rows: Sequence[Row], column: str) -> dict[UUID, list[Row]]:
    """Group rows by the value of `column`."""
    groups: dict[UUID, list[Row]] = {}
    for row in rows:
        groups.setdefault(row[column], []).append(row)
    return groups


async def move_evidence(
    session: AsyncSession, rows: Sequence[Row], column: str, element_id: UUID
) -> list[MovedEvidence]:
    """Move evidence to another node or edge; `column` is `node_id` or `edge_id`."""
    if not rows:
        return []
    new_ids = [_evidence_id(row, element_id) for row in rows]
    existing_ids = set(
        await session.scalars(select(EVIDENCE.c.id).where(EVIDENCE.c.id.in_(new_ids)))
    )
    moved = [
        MovedEvidence(row=as_json(row), to=new_id, was_there=new_id in existing_ids)
        for row, new_id in zip(rows, new_ids, strict=True)
    ]
    await _delete_evidence(
        session, [row["id"] for row, entry in zip(rows, moved, strict=True) if entry.was_there]
    )
    changes = [
        {
            "old": row["id"],
            "new": entry.to,
            "element_id": element_id,
            "sealed": _new_seal(row, column, entry.to, element_id),
        }
        for row, entry in zip(rows, moved, strict=True)
        if not entry.was_there
    ]
    if changes:
        columns: dict[str, Any] = {
            "id": bindparam("new"),
            column: bindparam("element_id"),
            "seal": bindparam("sealed"),
        }
        connection = await session.connection()
        await connection.execute(
            update(EVIDENCE).where(EVIDENCE.c.id == bindparam("old")).values(columns), changes
        )
    return moved


async def move_evidence_back(session: AsyncSession, moved: Sequence[MovedEvidence]) -> None:
    """Move evidence back to the element it came from, which exists again."""
    await _delete_evidence(session, [entry.to for entry in moved if not entry.was_there])
    if moved:
        rows = [as_row(EVIDENCE, entry.row) for entry in moved]
        connection = await session.connection()
        await connection.execute(pg_insert(EVIDENCE).on_conflict_do_nothing(), rows)


async def _delete_evidence(session: AsyncSession, evidence_ids: Sequence[UUID]) -> None:
    if evidence_ids:
        await session.execute(delete(EVIDENCE).where(EVIDENCE.c.id.in_(evidence_ids)))


def _evidence_id(row: Row, element_id: UUID) -> UUID:
    content = integrity.canonical_json([row["claims"], row["valid_from"], row["valid_to"]])
    return ids.evidence_id(
        element_id, row["source_id"], row["first_byte"], row["end_byte"], content
    )


def _new_seal(row: Row, column: str, evidence_id: UUID, element_id: UUID) -> bytes:
    """The seal at the new place.

    A seal that did not match is kept, so that the change made outside Vigil stays visible.
    """
    stored_seal: bytes = row["seal"]
    return (
        _evidence_seal(row, evidence_id, element_id)
        if stored_seal == _evidence_seal(row, row["id"], row[column])
        else stored_seal
    )


def _evidence_seal(row: Row, evidence_id: UUID, element_id: UUID) -> bytes:
    return integrity.evidence_seal(
        evidence_id=evidence_id,
        agent_id=row["agent_id"],
        element_id=element_id,
        source_id=row["source_id"],
        first_byte=row["first_byte"],
        end_byte=row["end_byte"],
        quote_sha256=row["quote_sha256"],
        claims=row["claims"],
        valid_from=row["valid_from"],
        valid_to=row["valid_to"],
        as_of=row["as_of"],
        learned_at=row["learned_at"],
    )


async def move_edge(
    session: AsyncSession,
    scope: GraphScope,
    edge: Row,
    evidence: Sequence[Row],
    merged_id: UUID,
    kept_id: UUID,
) -> MovedEdge:
    """Move an edge from the node `merged_id` to the node `kept_id`; drop it if it would join a node with itself."""
    ends = [kept_id if edge[end] == merged_id else edge[end] for end in ("source_id", "target_id")]
    if ends[0] == ends[1]:
        return await _drop_loop(session, edge, evidence)
    new_id = ids.edge_id(scope.agent_id, edge["type"], *ends)
    existing = await select_rows(session, EDGES, EDGES.c.id == new_id)
    moved = MovedEdge(row=as_json(edge), to=new_id, evidence=[])
    if existing:
        moved.before = previous_state(existing[0])
        own_properties = existing[0]["properties"]
        moved.added = {
            name: value
            for name, value in properties_without_evidence(edge["properties"], evidence).items()
            if name not in own_properties
        }
        await set_properties(session, EDGES, new_id, {**moved.added, **own_properties})
    else:
        moved_row = {**edge, "id": new_id, "source_id": ends[0], "target_id": ends[1]}
        await restore_row(session, EDGES, as_json(moved_row))
    moved.evidence = await move_evidence(session, evidence, "edge_id", new_id)
    await session.execute(delete(EDGES).where(EDGES.c.id == edge["id"]))
    await reproject_edge(session, scope, new_id)
    moved.touched_at = await session.scalar(select(EDGES.c.updated_at).where(EDGES.c.id == new_id))
    return moved


async def move_edge_back(session: AsyncSession, scope: GraphScope, moved: MovedEdge) -> bool:
    """Undo `move_edge` when both nodes exist again. Returns False if this removes the edge it was moved to."""
    await restore_row(session, EDGES, moved.row)
    await move_evidence_back(session, moved.evidence)
    await _restore_edge_state(session, scope, moved)
    if moved.to is None:
        return True
    [row] = await select_rows(session, EDGES, EDGES.c.id == moved.to)
    if moved.before is None and await _is_unused(session, row, moved):
        await session.execute(delete(EDGES).where(EDGES.c.id == moved.to))
        return False
    previous = {} if moved.before is None else moved.before.properties
    properties_left = remaining_properties(
        row["properties"], previous, moved.added, claimed_properties(moved.evidence)
    )
    await set_properties(session, EDGES, moved.to, properties_left)
    properties = await reproject_edge(session, scope, moved.to)
    if moved.before is not None and properties == moved.before.properties:
        await restore_state(session, EDGES, moved.to, moved.before)
    return True


async def _drop_loop(session: AsyncSession, edge: Row, evidence: Sequence[Row]) -> MovedEdge:
    journal_entries = [
        MovedEvidence(row=as_json(row), to=row["id"], was_there=False) for row in evidence
    ]
    await session.execute(delete(EDGES).where(EDGES.c.id == edge["id"]))
    return MovedEdge(row=as_json(edge), to=None, evidence=journal_entries)


async def _restore_edge_state(session: AsyncSession, scope: GraphScope, moved: MovedEdge) -> None:
    """Sources may have been retracted since; then the properties follow from the remaining evidence."""
    row = as_row(EDGES, moved.row)
    properties = await reproject_edge(session, scope, row["id"])
    if properties == row["properties"]:
        await restore_state(session, EDGES, row["id"], previous_state(row))


async def _is_unused(session: AsyncSession, row: Row, moved: MovedEdge) -> bool:
    """Whether nothing was added to the edge since the merge that created it."""
    has_evidence = await session.scalar(select(exists().where(EVIDENCE.c.edge_id == row["id"])))
    # An edge with evidence is nothing without it. Writing the same evidence again only updates the timestamp.
    return not has_evidence and (bool(moved.evidence) or row["updated_at"] == moved.touched_at)


class MergeRefusedError(VigilError):
    """The merge is not possible; the message says why and what to do instead."""


MAX_MOVED_ROWS: Final = 5_000
"""Edges and evidence that one merge may move, so that it ends before the client gives up."""


async def merge_nodes(
    session: AsyncSession,
    scope: GraphScope,
    *,
    kept_id: UUID,
    merged_id: UUID,
    reason: str,
    made_by: UUID,
) -> GraphMerge | None:
    """Merge the node `merged_id` into `kept_id`; None if the agent does not have both.

    Raises MergeRefusedError if they cannot be merged.
    """
    await exclusive_write_lock(session, scope.agent_id)
    rows = await select_rows(
        session,
        NODES,
        NODES.c.agent_id == scope.owned_agent_id(),
        NODES.c.id.in_((kept_id, merged_id)),
    )
    by_id = {row["id"]: row for row in rows}
    if kept_id not in by_id or merged_id not in by_id:
        return None
    kept, merged = by_id[kept_id], by_id[merged_id]
    _refuse_merge(kept, merged)
    merge_journal = await _move_all(session, scope, kept, merged)
    graph_merge = GraphMerge(
        id=uuid4(),
        agent_id=scope.agent_id,
        kept_id=kept_id,
        merged_id=merged_id,
        reason=reason,
        merged_node=as_json(merged),
        journal=merge_journal.model_dump(mode="json"),
        made_by=made_by,
    )
    session.add(graph_merge)
    await session.flush()
    await _store_redirects(session, graph_merge, merge_journal)
    await journal.transfer_doubts(session, graph_merge, merge_journal)
    await session.refresh(graph_merge)
    return graph_merge


def _refuse_merge(kept: Row, merged: Row) -> None:
    if kept["id"] == merged["id"]:
        raise MergeRefusedError(f"both ids refer to {kept['name']!r}: give two different nodes")
    if RESERVED_TYPES & {kept["type"], merged["type"]}:
        raise MergeRefusedError("analyses and advice are conclusions and cannot be merged")
    if kept["type"] != merged["type"]:
        raise MergeRefusedError(
            f"{kept['name']!r} is a {kept['type']} and {merged['name']!r} a {merged['type']}: "
            "only nodes of one type are merged"
        )


async def _move_all(
    session: AsyncSession, scope: GraphScope, kept: Row, merged: Row
) -> MergeJournal:
    edges = await select_rows(
        session, EDGES, or_(EDGES.c.source_id == merged["id"], EDGES.c.target_id == merged["id"])
    )
    evidence = await select_rows(session, EVIDENCE, EVIDENCE.c.node_id == merged["id"])
    edge_ids = [edge["id"] for edge in edges]
    edge_evidence = await select_rows(session, EVIDENCE, EVIDENCE.c.edge_id.in_(edge_ids))
    _refuse_too_many_rows(len(edges) + len(evidence) + len(edge_evidence))
    added = {
        name: value
        for name, value in properties_without_evidence(merged["properties"], evidence).items()
        if name not in kept["properties"]
    }
    evidence_by_edge = group_by_column(edge_evidence, "edge_id")
    merge_journal = MergeJournal(
        names=await _move_names(session, scope, kept, merged),
        before=previous_state(kept),
        added=added,
        evidence=await move_evidence(session, evidence, "node_id", kept["id"]),
        edges=[
            await move_edge(
                session, scope, edge, evidence_by_edge.get(edge["id"], []), merged["id"], kept["id"]
            )
            for edge in edges
        ],
    )
    await session.execute(delete(NODES).where(NODES.c.id == merged["id"]))
    if added:
        await set_properties(session, NODES, kept["id"], {**added, **kept["properties"]})
    await reproject_node(session, scope, kept["id"])
    return merge_journal


def _refuse_too_many_rows(rows: int) -> None:
    if rows > MAX_MOVED_ROWS:
        raise MergeRefusedError(
            f"{rows} edges and rows of evidence belong to the node to be merged, more than the {MAX_MOVED_ROWS} that a "
            "merge can move: merge the other node into this one instead"
        )


async def _move_names(
    session: AsyncSession, scope: GraphScope, kept: Row, merged: Row
) -> list[str]:
    """The keys of the merged node. Its own name leads to the kept node from now on, even if it was never reserved."""
    keys = await session.scalars(
        update(NAMES)
        .where(NAMES.c.agent_id == scope.owned_agent_id(), NAMES.c.node_id == merged["id"])
        .values(node_id=kept["id"])
        .returning(NAMES.c.key)
    )
    own_key = (merged["type"], normalization.normalize(merged["name"], merged["type"]).key)
    insertion = pg_insert(NAMES).values(name_row(scope, own_key, merged["name"], kept["id"]))
    inserted_keys = await session.scalars(insertion.on_conflict_do_nothing().returning(NAMES.c.key))
    return sorted([*keys, *inserted_keys])


async def _store_redirects(
    session: AsyncSession, merge: GraphMerge, merge_journal: MergeJournal
) -> None:
    new_ids = {merge.merged_id: merge.kept_id}
    new_ids |= {
        UUID(edge.row["id"]): edge.to for edge in merge_journal.edges if edge.to is not None
    }
    await session.execute(
        delete(GraphMove)
        .where(
            GraphMove.agent_id == merge.agent_id,
            GraphMove.merged_id.in_([*new_ids.keys(), *new_ids.values()]),
        )
        .execution_options(synchronize_session=False)
    )
    session.add_all(
        GraphMove(agent_id=merge.agent_id, merged_id=merged_id, kept_id=kept_id, merge_id=merge.id)
        for merged_id, kept_id in new_ids.items()
    )
    await session.flush()
