"""Merging two nodes: names, evidence and edges move to the node that is kept."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, cast
from uuid import UUID, uuid4

from sqlalchemy import (
    ColumnElement,
    Table,
    bindparam,
    delete,
    exists,
    insert,
    or_,
    select,
    text,
    update,
)
from sqlalchemy.dialects.postgresql import insert as pg_insert
from sqlalchemy.ext.asyncio import AsyncSession

from shared.database import ids
from shared.database.locks import exclusive_write_lock
from shared.database.tables import (
    EntailmentVerdict,
    Evidence,
    GraphEdge,
    GraphMerge,
    GraphMove,
    GraphName,
    GraphNode,
)
from shared.errors import VigilError
from shared.graph import projection
from shared.graph.entity_resolution import normalization
from shared.graph.entity_resolution.aliases import name_row
from shared.graph.entity_resolution.journal import (
    MergeJournal,
    MovedEdge,
    MovedEvidence,
    PreviousState,
    as_json,
    as_row,
)
from shared.graph.projection import ElementKind, reproject
from shared.graph.provenance import integrity
from shared.graph.retraction import doubts
from shared.graph.scope import GraphScope
from shared.graph.types import RESERVED_TYPES
from shared.tools import Json

NODES: Final = cast("Table", GraphNode.__table__)
EDGES: Final = cast("Table", GraphEdge.__table__)
EVIDENCE: Final = cast("Table", Evidence.__table__)
NAMES: Final = cast("Table", GraphName.__table__)
VERDICTS: Final = cast("Table", EntailmentVerdict.__table__)

Row = Mapping[str, Any]


def _table(kind: ElementKind) -> Table:
    return cast("Table", kind.table.__table__)


async def _select_rows(
    session: AsyncSession, table: Table, *where: ColumnElement[bool]
) -> list[Row]:
    """Rows as dictionaries, in id order."""
    result = await session.execute(select(table).where(*where).order_by(table.c.id))
    return [dict(row) for row in result.mappings()]


async def _insert_row(session: AsyncSession, table: Table, row: Json) -> None:
    await session.execute(insert(table).values(as_row(table, row)))


async def _restore_state(
    session: AsyncSession, kind: ElementKind, row_id: UUID, state: PreviousState
) -> None:
    """Restore seal and timestamp of a row that again has its state from before the merge.

    Does nothing if more evidence supports the row than before: then its seal covers that evidence.
    """
    table = _table(kind)
    seal = None if state.seal is None else bytes.fromhex(state.seal)
    is_unchanged = (
        ~exists().where(kind.evidence_column == row_id) if seal is None else table.c.seal == seal
    )
    await session.execute(
        update(table)
        .where(table.c.id == row_id, is_unchanged)
        .values(seal=seal, updated_at=state.updated_at)
    )


async def _set_properties(
    session: AsyncSession, table: Table, row_id: UUID, properties: Json
) -> None:
    await session.execute(update(table).where(table.c.id == row_id).values(properties=properties))


def _added_properties(row: Row, evidence: Iterable[Row], kept: Row) -> Json:
    """The properties of `row` that no evidence supports and `kept` does not have."""
    excluded = {name for each in evidence for name in each["claims"]} | kept["properties"].keys()
    return {name: value for name, value in row["properties"].items() if name not in excluded}


async def restore_element(
    session: AsyncSession,
    scope: GraphScope,
    kind: ElementKind,
    row: Json,
    evidence: Sequence[MovedEvidence],
) -> None:
    """Insert a node or edge again, with its evidence.

    Sources may have been retracted since; then the properties follow from the remaining evidence.
    """
    element_id, before = UUID(row["id"]), PreviousState.model_validate(row)
    await _insert_row(session, _table(kind), row)
    await _move_evidence_back(session, evidence)
    if await reproject(session, scope, kind, element_id) == before.properties:
        await _restore_state(session, kind, element_id, before)


async def restore_kept(
    session: AsyncSession,
    scope: GraphScope,
    kind: ElementKind,
    element_id: UUID,
    before: PreviousState | None,
    added: Json,
    evidence: Sequence[MovedEvidence],
) -> None:
    """Take from a node or edge what a merge has given it.

    It loses the properties that were `added` and still have that value, and those that the leaving evidence claims; these
    get their value from before the merge.
    """
    [row] = await _select_rows(session, _table(kind), _table(kind).c.id == element_id)
    removed = {name for each in evidence for name in each.claims}
    removed |= {name for name, value in added.items() if row["properties"].get(name) == value}
    previous = {} if before is None else before.properties
    left = {name: value for name, value in row["properties"].items() if name not in removed}
    left |= {name: previous[name] for name in removed if name in previous}
    await _set_properties(session, _table(kind), element_id, left)
    properties = await reproject(session, scope, kind, element_id)
    if before is not None and properties == before.properties:
        await _restore_state(session, kind, element_id, before)


async def _move_evidence(
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
    duplicates = {UUID(each.row["id"]): each.to for each in moved if each.was_there}
    verdicts = await _load_verdicts(session, duplicates)
    for each in moved:
        each.verdict = verdicts.get(each.row["id"])
    await _move_verdicts(session, duplicates)
    await _delete_evidence(session, list(duplicates))
    changes = [
        {
            "old": row["id"],
            "new": new_id,
            "element_id": element_id,
            "sealed": _new_seal(row, column, new_id, element_id),
        }
        for row, new_id in zip(rows, new_ids, strict=True)
        if new_id not in existing_ids
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


async def _move_evidence_back(session: AsyncSession, moved: Sequence[MovedEvidence]) -> None:
    """Move evidence back to the element it came from, which exists again."""
    if not moved:
        return
    rows = [as_row(EVIDENCE, entry.row) for entry in moved]
    connection = await session.connection()
    await connection.execute(pg_insert(EVIDENCE).on_conflict_do_nothing(), rows)
    old_ids = {entry.to: UUID(entry.row["id"]) for entry in moved if not entry.was_there}
    # Merges of an earlier version deleted the evidence of some edges instead of moving it.
    old_ids = {moved_id: old_id for moved_id, old_id in old_ids.items() if moved_id != old_id}
    await _move_verdicts(session, old_ids)
    await _delete_evidence(session, list(old_ids))
    for entry in moved:
        if entry.verdict is not None:
            await _restore_verdict(session, entry.to, as_row(VERDICTS, entry.verdict))


async def _load_verdicts(session: AsyncSession, evidence_ids: Collection[UUID]) -> dict[str, Json]:
    """What models found, by the id of the evidence as text."""
    if not evidence_ids:
        return {}
    rows = await session.execute(select(VERDICTS).where(VERDICTS.c.evidence_id.in_(evidence_ids)))
    return {str(row["evidence_id"]): as_json(dict(row)) for row in rows.mappings()}


async def _restore_verdict(
    session: AsyncSession, moved_to: UUID, verdict: Mapping[str, Any]
) -> None:
    """Move a verdict back to the evidence that is there again, or write it again if the other evidence had its own."""
    is_moved = (VERDICTS.c.evidence_id == moved_to) & (VERDICTS.c.call_id == verdict["call_id"])
    await session.execute(
        update(VERDICTS).where(is_moved).values(evidence_id=verdict["evidence_id"])
    )
    await session.execute(pg_insert(VERDICTS).values(verdict).on_conflict_do_nothing())


# What cites the other evidence may have to be doubted now.
_MOVE_VERDICTS: Final = text("""
update entailment_verdicts
set evidence_id = moved.to_id, due_at = case verdict when 'contradicted' then clock_timestamp() end
from unnest(cast(:ids as uuid[]), cast(:to_ids as uuid[])) as moved (id, to_id)
where evidence_id = moved.id
  and not exists (select from entailment_verdicts as other where other.evidence_id = moved.to_id)
""")


async def _move_verdicts(session: AsyncSession, to_ids: Mapping[UUID, UUID]) -> None:
    """Move what models found to other evidence of the same content, unless that has a verdict."""
    if to_ids:
        params = {"ids": list(to_ids), "to_ids": list(to_ids.values())}
        await session.execute(_MOVE_VERDICTS, params)


async def _delete_evidence(session: AsyncSession, evidence_ids: Collection[UUID]) -> None:
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
        rules=row["rules"],
    )


async def _move_edge(
    session: AsyncSession,
    scope: GraphScope,
    edge: Row,
    evidence: Sequence[Row],
    merged_id: UUID,
    kept_id: UUID,
) -> MovedEdge:
    """Move an edge from the node `merged_id` to the node `kept_id`.

    One between the two becomes an edge of the kept node with itself: see JOINS_TWO_NODES_SQL.
    """
    ends = [kept_id if edge[end] == merged_id else edge[end] for end in ("source_id", "target_id")]
    new_id = ids.edge_id(scope.agent_id, edge["type"], *ends)
    existing = await _select_rows(session, EDGES, EDGES.c.id == new_id)
    moved = MovedEdge(row=as_json(edge), to=new_id, evidence=[])
    if existing:
        moved.before = PreviousState.model_validate(as_json(existing[0]))
        moved.added = _added_properties(edge, evidence, existing[0])
        properties = {**moved.added, **existing[0]["properties"]}
        await _set_properties(session, EDGES, new_id, properties)
    else:
        moved_row = {**edge, "id": new_id, "source_id": ends[0], "target_id": ends[1]}
        await _insert_row(session, EDGES, as_json(moved_row))
    moved.evidence = await _move_evidence(session, evidence, "edge_id", new_id)
    await session.execute(delete(EDGES).where(EDGES.c.id == edge["id"]))
    await reproject(session, scope, projection.EDGES, new_id)
    moved.touched_at = await session.scalar(select(EDGES.c.updated_at).where(EDGES.c.id == new_id))
    return moved


async def move_edge_back(session: AsyncSession, scope: GraphScope, moved: MovedEdge) -> bool:
    """Undo `_move_edge` when both nodes exist again. Returns False if this removes the edge it was moved to."""
    await restore_element(session, scope, projection.EDGES, moved.row, moved.evidence)
    if moved.to is None:
        return True
    if moved.before is None and await _is_unused(session, moved):
        await session.execute(delete(EDGES).where(EDGES.c.id == moved.to))
        return False
    await restore_kept(
        session, scope, projection.EDGES, moved.to, moved.before, moved.added, moved.evidence
    )
    return True


async def _is_unused(session: AsyncSession, moved: MovedEdge) -> bool:
    """Whether nothing was added to the edge since the merge that created it."""
    if await session.scalar(select(exists().where(EVIDENCE.c.edge_id == moved.to))):
        return False
    updated_at = await session.scalar(select(EDGES.c.updated_at).where(EDGES.c.id == moved.to))
    # An edge with evidence is nothing without it. Writing the same evidence again only updates the timestamp.
    return bool(moved.evidence) or updated_at == moved.touched_at


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
    rows = await _select_rows(
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
    new_ids = {merged_id: kept_id} | merge_journal.edge_redirects
    await _store_redirects(session, graph_merge, new_ids)
    await doubts.transfer_doubts(session, {old_id: [new_id] for old_id, new_id in new_ids.items()})
    await session.refresh(graph_merge)
    return graph_merge


def _refuse_merge(kept: Row, merged: Row) -> None:
    if kept["id"] == merged["id"]:
        raise MergeRefusedError(f"both ids refer to {kept['name']!r}: give two different nodes")
    if RESERVED_TYPES & {kept["type"], merged["type"]}:
        raise MergeRefusedError("analyses and advice are conclusions and cannot be merged")
    if kept["type"] != merged["type"]:
        raise MergeRefusedError(
            f"{kept['name']!r} is a {kept['type']} and {merged['name']!r} a {merged['type']}: only nodes of "
            "the same type can be merged"
        )


async def _move_all(
    session: AsyncSession, scope: GraphScope, kept: Row, merged: Row
) -> MergeJournal:
    edges = await _select_rows(
        session, EDGES, or_(EDGES.c.source_id == merged["id"], EDGES.c.target_id == merged["id"])
    )
    evidence = await _select_rows(session, EVIDENCE, EVIDENCE.c.node_id == merged["id"])
    edge_ids = [edge["id"] for edge in edges]
    edge_evidence = await _select_rows(session, EVIDENCE, EVIDENCE.c.edge_id.in_(edge_ids))
    _refuse_too_many_rows(len(edges) + len(evidence) + len(edge_evidence))
    added = _added_properties(merged, evidence, kept)
    evidence_by_edge: defaultdict[UUID, list[Row]] = defaultdict(list)
    for row in edge_evidence:
        evidence_by_edge[row["edge_id"]].append(row)
    merge_journal = MergeJournal(
        names=await _move_names(session, scope, kept, merged),
        before=PreviousState.model_validate(as_json(kept)),
        added=added,
        evidence=await _move_evidence(session, evidence, "node_id", kept["id"]),
        edges=[
            await _move_edge(
                session, scope, edge, evidence_by_edge[edge["id"]], merged["id"], kept["id"]
            )
            for edge in edges
        ],
    )
    await session.execute(delete(NODES).where(NODES.c.id == merged["id"]))
    if added:
        await _set_properties(session, NODES, kept["id"], {**added, **kept["properties"]})
    await reproject(session, scope, projection.NODES, kept["id"])
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
    session: AsyncSession, merge: GraphMerge, new_ids: Mapping[UUID, UUID]
) -> None:
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
