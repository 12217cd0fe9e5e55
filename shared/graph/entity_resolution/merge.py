"""Merging two nodes: names, evidence and edges move to the one that stays."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, cast
from uuid import UUID, uuid4

from sqlalchemy import ColumnElement, Table, bindparam, delete, exists, insert, or_, select, update
from sqlalchemy.dialects.postgresql import insert as pg_insert
from sqlalchemy.ext.asyncio import AsyncSession

from shared.database import ids
from shared.database.locks import write_alone
from shared.database.tables import Evidence, GraphEdge, GraphMerge, GraphMove, GraphName, GraphNode
from shared.errors import VigilError
from shared.graph.entity_resolution import journal, normalization
from shared.graph.entity_resolution.aliases import row as name_row
from shared.graph.entity_resolution.journal import (
    Before,
    Moved,
    MovedEdge,
    MovedEvidence,
    as_json,
    as_row,
    claimed,
)
from shared.graph.projection import refold_edge, refold_node
from shared.graph.provenance import integrity
from shared.graph.scope import Scope
from shared.graph.types import RESERVED_TYPES
from shared.tools import Json

NODES: Final = cast("Table", GraphNode.__table__)
EDGES: Final = cast("Table", GraphEdge.__table__)
EVIDENCE: Final = cast("Table", Evidence.__table__)
NAMES: Final = cast("Table", GraphName.__table__)

Row = Mapping[str, Any]


async def rows_of(session: AsyncSession, table: Table, *where: ColumnElement[bool]) -> list[Row]:
    """In the order of their ids."""
    found = await session.execute(select(table).where(*where).order_by(table.c.id))
    return [dict(row) for row in found.mappings()]


async def put_back(session: AsyncSession, table: Table, kept: Json) -> None:
    await session.execute(insert(table).values(as_row(table, kept)))


def before(row: Row) -> Before:
    plain = as_json(row)
    return Before(
        properties=plain["properties"], seal=plain["seal"], updated_at=plain["updated_at"]
    )


async def as_before(session: AsyncSession, table: Table, row_id: UUID, was: Before) -> None:
    """Gives a row that says again what it said `before` the moment that it had then, and no seal where it had none.

    Not where what it says now is borne out by more than then: it was folded, and its seal is of all that evidence.
    """
    seal = None if was.seal is None else bytes.fromhex(was.seal)
    bears_out = EVIDENCE.c.node_id if table is NODES else EVIDENCE.c.edge_id
    is_as_then = ~exists().where(bears_out == row_id) if seal is None else table.c.seal == seal
    await session.execute(
        update(table)
        .where(table.c.id == row_id, is_as_then)
        .values(seal=seal, updated_at=was.updated_at)
    )


async def with_properties(
    session: AsyncSession, table: Table, row_id: UUID, properties: Json
) -> None:
    await session.execute(update(table).where(table.c.id == row_id).values(properties=properties))


def unproven(properties: Json, evidence: Iterable[Row]) -> Json:
    """The properties that no evidence speaks of."""
    spoken_of = {name for each in evidence for name in each["claims"]}
    return {name: value for name, value in properties.items() if name not in spoken_of}


def left_behind(properties: Json, was: Json, added: Json, claimed: Iterable[str]) -> Json:
    """The properties of the one that stays, before its own evidence is folded into them.

    Without those that were `added` and are as they were, and without what the evidence that leaves had `claimed`; there
    it says what it said before.
    """
    taken = set(claimed) | {name for name, value in added.items() if properties.get(name) == value}
    own = {name: value for name, value in properties.items() if name not in taken}
    return own | {name: was[name] for name in taken if name in was}


def of_each(rows: Sequence[Row], column: str) -> dict[UUID, list[Row]]:
    """`rows` by what stands in `column`."""
    found: dict[UUID, list[Row]] = {}
    for row in rows:
        found.setdefault(row[column], []).append(row)
    return found


async def move_evidence(
    session: AsyncSession, rows: Sequence[Row], column: str, to: UUID
) -> list[MovedEvidence]:
    """To the node or edge `to`; `column` is `node_id` or `edge_id`."""
    if not rows:
        return []
    new = [_id_of(row, to) for row in rows]
    there = set(await session.scalars(select(EVIDENCE.c.id).where(EVIDENCE.c.id.in_(new))))
    moved = [
        MovedEvidence(row=as_json(row), to=new_id, was_there=new_id in there)
        for row, new_id in zip(rows, new, strict=True)
    ]
    await _delete(
        session, [row["id"] for row, each in zip(rows, moved, strict=True) if each.was_there]
    )
    changes = [
        {"old": row["id"], "new": each.to, "thing": to, "sealed": _sealed(row, column, each.to, to)}
        for row, each in zip(rows, moved, strict=True)
        if not each.was_there
    ]
    if changes:
        changed: dict[str, Any] = {
            "id": bindparam("new"),
            column: bindparam("thing"),
            "seal": bindparam("sealed"),
        }
        connection = await session.connection()
        await connection.execute(
            update(EVIDENCE).where(EVIDENCE.c.id == bindparam("old")).values(changed), changes
        )
    return moved


async def move_evidence_back(session: AsyncSession, moved: Sequence[MovedEvidence]) -> None:
    """To where it was; what it was of is there again."""
    await _delete(session, [each.to for each in moved if not each.was_there])
    if moved:
        rows = [as_row(EVIDENCE, each.row) for each in moved]
        connection = await session.connection()
        await connection.execute(pg_insert(EVIDENCE).on_conflict_do_nothing(), rows)


async def _delete(session: AsyncSession, gone: Sequence[UUID]) -> None:
    if gone:
        await session.execute(delete(EVIDENCE).where(EVIDENCE.c.id.in_(gone)))


def _id_of(row: Row, thing: UUID) -> UUID:
    says = integrity.canonical([row["claims"], row["valid_from"], row["valid_to"]])
    return ids.evidence_id(thing, row["source_id"], row["first_byte"], row["end_byte"], says)


def _sealed(row: Row, column: str, evidence_id: UUID, thing: UUID) -> bytes:
    """What was changed behind Vigil's back keeps a seal that does not fit, and is found there too."""
    was: bytes = row["seal"]
    return (
        _seal_of(row, evidence_id, thing) if was == _seal_of(row, row["id"], row[column]) else was
    )


def _seal_of(row: Row, evidence_id: UUID, thing: UUID) -> bytes:
    return integrity.of_evidence(
        evidence_id=evidence_id,
        agent_id=row["agent_id"],
        thing_id=thing,
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
    told.evidence = await move_evidence(session, spans, "edge_id", new_id)
    await session.execute(delete(EDGES).where(EDGES.c.id == edge["id"]))
    await refold_edge(session, scope, new_id)
    told.touched_at = await session.scalar(select(EDGES.c.updated_at).where(EDGES.c.id == new_id))
    return told


async def move_edge_back(session: AsyncSession, scope: Scope, moved: MovedEdge) -> bool:
    """Where both nodes are there again. False where the edge that was moved to is gone by that."""
    await put_back(session, EDGES, moved.row)
    await move_evidence_back(session, moved.evidence)
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


class MergeRefusedError(VigilError):
    """What there is speaks against it; the message says what, and what to do instead."""


MOST_MOVED: Final = 5_000
"""Edges and spans of evidence that one merge may move, so that it ends before whoever asks has gone."""


async def merge(
    session: AsyncSession, scope: Scope, *, kept_id: UUID, gone_id: UUID, reason: str, made_by: UUID
) -> GraphMerge | None:
    """None where the agent has not both nodes. Raises MergeRefusedError where they cannot be one."""
    await write_alone(session, scope.agent_id)
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
    await journal.move(session, made, moved)
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
        evidence=await move_evidence(session, spans, "node_id", kept["id"]),
        edges=[
            await move_edge(
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
    own = (gone["type"], normalization.read(gone["name"], gone["type"]).key)
    untaken = pg_insert(NAMES).values(name_row(scope, own, gone["name"], kept["id"]))
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
