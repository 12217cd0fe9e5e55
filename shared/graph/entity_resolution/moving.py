"""Moving evidence and edges from one node to another, so that it can be undone: rows, ids, seals and verdicts."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any, Final
from uuid import UUID

from pydantic import BaseModel

from shared.database import ids
from shared.database.statements import CompiledStatement, json_text, uuid_array
from shared.database.transaction import Transaction
from shared.graph.projection import EDGES, NODES, ElementKind, reproject
from shared.graph.provenance import integrity
from shared.graph.scope import IS_OWNED_SQL, GraphScope
from shared.graph.upsert import WRITTEN_COLUMNS
from shared.tools import Json


class MovedEvidence(BaseModel):
    row: Json
    to: UUID
    """Its new id, which is derived from what the evidence is about."""
    was_there: bool
    """Whether the same evidence existed there already."""
    verdicts: list[Json] = []
    """If so, what models had found in the evidence that was removed."""
    verdict: Json | None = None
    """The only one, in merges of earlier releases."""

    @property
    def claims(self) -> Json:
        claims: Json = self.row["claims"]
        return claims


class PreviousState(BaseModel):
    """What a merge changes of a row that remains."""

    properties: Json
    seal: str | None
    updated_at: datetime


class MovedEdge(BaseModel):
    row: Json
    to: UUID | None
    """Its new id; None for an edge between the two nodes, which merges of earlier versions removed."""
    before: PreviousState | None = None
    """State of the edge that existed there; None if there was none."""
    added: Json = {}
    """Properties without evidence that the existing edge took over."""
    evidence: list[MovedEvidence]
    stays: bool = False
    """Whether it stays too, with other evidence: a split has moved a part."""
    touched_at: datetime | None = None
    """`updated_at` of the target edge after the merge."""


def as_json(row: Mapping[str, Any]) -> Json:
    return {name: _to_json(value) for name, value in row.items()}


def _to_json(value: Any) -> Any:
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, datetime):
        return value.isoformat()
    return value.hex() if isinstance(value, bytes) else value


Row = Mapping[str, Any]
"""A row by column."""

_COLUMNS: Final[Mapping[str, Sequence[str]]] = {
    "graph_nodes": [*WRITTEN_COLUMNS["graph_nodes"], "agent_id", "created_at", "updated_at"],
    "graph_edges": [*WRITTEN_COLUMNS["graph_edges"], "agent_id", "created_at", "updated_at"],
    "evidence": [*WRITTEN_COLUMNS["evidence"], "agent_id"],
    "entailment_verdicts": [
        *("evidence_id", "agent_id", "verdict", "reason", "model", "call_id", "step_id"),
        *("created_at", "due_at", "prompt_version", "property"),
    ],
}
"""Columns of rows that are deleted and inserted again."""
_BYTES: Final = {"seal", "quote_sha256"}


async def load_rows(
    transaction: Transaction, statement: CompiledStatement, **params: Any
) -> list[Row]:
    return [row._asdict() for row in await statement.rows(transaction, params)]


async def insert_row(transaction: Transaction, table: str, row: Json) -> None:
    """Insert a row of a journal; evidence and verdicts, unless they exist. Columns that it lacks get their defaults."""
    columns = tuple(column for column in _COLUMNS[table] if column in row)
    values = {
        column: f"\\x{row[column]}" if column in _BYTES and row[column] else row[column]
        for column in columns
    }
    await _insertion(table, columns).run(transaction, {"row": json_text(values)})


@cache
def _insertion(table: str, columns: Sequence[str]) -> CompiledStatement:
    conflict = "" if table in (NODES.table, EDGES.table) else "on conflict do nothing"
    return CompiledStatement(
        f"insert into {table} ({', '.join(columns)}) select {', '.join(columns)}"
        f" from jsonb_populate_record(cast(null as {table}), cast(:row as jsonb)) {conflict}"
    )


async def _restore_state(
    transaction: Transaction, kind: ElementKind, row_id: UUID, state: PreviousState
) -> None:
    """Restore seal and timestamp of a row that again has its state from before the merge.

    Does nothing if more evidence supports the row than before: then its seal covers that evidence.
    """
    seal = None if state.seal is None else bytes.fromhex(state.seal)
    params = {"id": row_id, "seal": seal, "updated_at": state.updated_at}
    await _RESTORE_STATE[kind].run(transaction, params)


async def set_properties(
    transaction: Transaction, kind: ElementKind, row_id: UUID, properties: Json
) -> None:
    params = {"id": row_id, "properties": json_text(properties)}
    await _SET_PROPERTIES[kind].run(transaction, params)


def added_properties(row: Row, evidence: Iterable[Row], kept: Row) -> Json:
    """The properties of `row` that no evidence supports and `kept` does not have."""
    excluded = {name for each in evidence for name in each["claims"]} | kept["properties"].keys()
    return {name: value for name, value in row["properties"].items() if name not in excluded}


async def restore_element(
    transaction: Transaction,
    scope: GraphScope,
    kind: ElementKind,
    row: Json,
    evidence: Sequence[MovedEvidence],
) -> None:
    """Insert a node or edge again, with its evidence.

    Sources may have been retracted since; then the properties follow from the remaining evidence.
    """
    element_id, before = UUID(row["id"]), PreviousState.model_validate(row)
    await insert_row(transaction, kind.table, row)
    await _move_evidence_back(transaction, evidence)
    if await reproject(transaction, scope, kind, element_id) == before.properties:
        await _restore_state(transaction, kind, element_id, before)


async def restore_kept(
    transaction: Transaction,
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
    [row] = await load_rows(transaction, SELECT[kind], ids=uuid_array([element_id]))
    removed = {name for each in evidence for name in each.claims}
    removed |= {name for name, value in added.items() if row["properties"].get(name) == value}
    previous = {} if before is None else before.properties
    left = {name: value for name, value in row["properties"].items() if name not in removed}
    left |= {name: previous[name] for name in removed if name in previous}
    await set_properties(transaction, kind, element_id, left)
    properties = await reproject(transaction, scope, kind, element_id)
    if before is not None and properties == before.properties:
        await _restore_state(transaction, kind, element_id, before)


async def move_evidence(
    transaction: Transaction,
    kind: ElementKind,
    rows: Sequence[Row],
    element_id: UUID,
    without: Collection[str] = (),
) -> list[MovedEvidence]:
    """Move evidence to another node or edge, `without` claims on these properties."""
    if not rows:
        return []
    fitting = [row for row in rows if row["claims"].keys().isdisjoint(without)]
    if len(fitting) < len(rows):
        others = [row for row in rows if not row["claims"].keys().isdisjoint(without)]
        return [
            *await move_evidence(transaction, kind, fitting, element_id),
            *[await _move_reduced(transaction, kind, row, element_id, without) for row in others],
        ]
    new_ids = [_evidence_id(row, element_id) for row in rows]
    existing = await _EXISTING_EVIDENCE.rows(transaction, {"ids": uuid_array(new_ids)})
    existing_ids = {row.id for row in existing}
    moved = [
        MovedEvidence(row=as_json(row), to=new_id, was_there=new_id in existing_ids)
        for row, new_id in zip(rows, new_ids, strict=True)
    ]
    duplicates = {UUID(each.row["id"]): each.to for each in moved if each.was_there}
    verdicts = await _load_verdicts(transaction, duplicates)
    for each in moved:
        each.verdicts = verdicts.get(each.row["id"], [])
    await _move_verdicts(transaction, duplicates)
    await _delete_evidence(transaction, list(duplicates))
    changes = [
        {
            "id": row["id"],
            "to": new_id,
            "seal": _new_seal(row, kind, new_id, element_id),
        }
        for row, new_id in zip(rows, new_ids, strict=True)
        if new_id not in existing_ids
    ]
    params = {"element": element_id, "changes": json_text(changes)}
    await _MOVE_EVIDENCE[kind].run(transaction, params)
    return moved


async def _move_reduced(
    transaction: Transaction,
    kind: ElementKind,
    row: Row,
    element_id: UUID,
    without: Collection[str],
) -> MovedEvidence:
    """Replace evidence by evidence of another element without some of its claims."""
    claims = {name: value for name, value in row["claims"].items() if name not in without}
    reduced = {**row, "claims": claims, kind.evidence_column: element_id}
    new_id = _evidence_id(reduced, element_id)
    is_intact = row["seal"] == _evidence_seal(row, row["id"], row[kind.evidence_column])
    seal = _evidence_seal(reduced, new_id, element_id) if is_intact else row["seal"]
    existing = await _EXISTING_EVIDENCE.rows(transaction, {"ids": uuid_array([new_id])})
    verdicts = await _load_verdicts(transaction, [row["id"]])
    if not existing:
        await insert_row(transaction, "evidence", as_json({**reduced, "id": new_id, "seal": seal}))
    await _move_verdicts(transaction, {row["id"]: new_id})
    await _delete_evidence(transaction, [row["id"]])
    return MovedEvidence(
        row=as_json(row),
        to=new_id,
        was_there=bool(existing),
        verdicts=verdicts.get(str(row["id"]), []) if existing else [],
    )


async def _move_evidence_back(transaction: Transaction, moved: Sequence[MovedEvidence]) -> None:
    """Move evidence back to the element it came from, which exists again."""
    if not moved:
        return
    for entry in moved:
        await insert_row(transaction, "evidence", entry.row)
    old_ids = {entry.to: UUID(entry.row["id"]) for entry in moved if not entry.was_there}
    # Merges of an earlier version deleted the evidence of some edges instead of moving it.
    old_ids = {moved_id: old_id for moved_id, old_id in old_ids.items() if moved_id != old_id}
    await _move_verdicts(transaction, old_ids)
    await _delete_evidence(transaction, list(old_ids))
    for entry in moved:
        for verdict in entry.verdicts or filter(None, [entry.verdict]):
            await _restore_verdict(transaction, entry.to, verdict)


async def _load_verdicts(
    transaction: Transaction, evidence_ids: Collection[UUID]
) -> dict[str, list[Json]]:
    """What models found, by the id of the evidence as text."""
    if not evidence_ids:
        return {}
    found: dict[str, list[Json]] = {}
    for row in await load_rows(transaction, _VERDICTS, ids=uuid_array(evidence_ids)):
        found.setdefault(str(row["evidence_id"]), []).append(as_json(row))
    return found


async def _restore_verdict(transaction: Transaction, moved_to: UUID, verdict: Json) -> None:
    """Move a verdict back to the evidence that is there again, or write it again if the other evidence had its own."""
    params = {
        "to": moved_to,
        "call": verdict["call_id"],
        "name": verdict.get("property"),
        "evidence": verdict["evidence_id"],
    }
    await _MOVE_VERDICT_BACK.run(transaction, params)
    await insert_row(transaction, "entailment_verdicts", verdict)


# What cites the other evidence may have to be doubted now.
_MOVE_VERDICTS: Final = CompiledStatement("""
update entailment_verdicts
set evidence_id = moved.to_id, due_at = case when verdict <> 'supported' then clock_timestamp() end
from unnest(cast(:ids as uuid[]), cast(:to_ids as uuid[])) as moved (id, to_id)
where evidence_id = moved.id
  and not exists (
    select from entailment_verdicts as other
    where other.evidence_id = moved.to_id and other.property is not distinct from entailment_verdicts.property)
""")


async def _move_verdicts(transaction: Transaction, to_ids: Mapping[UUID, UUID]) -> None:
    """Move what models found to other evidence of the same content, unless its value has a verdict."""
    if to_ids:
        params = {"ids": uuid_array(to_ids), "to_ids": uuid_array(to_ids.values())}
        await _MOVE_VERDICTS.run(transaction, params)


async def _delete_evidence(transaction: Transaction, evidence_ids: Collection[UUID]) -> None:
    if evidence_ids:
        await _DELETE_EVIDENCE.run(transaction, {"ids": uuid_array(evidence_ids)})


def _evidence_id(row: Row, element_id: UUID) -> UUID:
    content = integrity.evidence_content(
        row["claims"], row["valid_from"], row["valid_to"], row["speaker"]
    )
    return ids.evidence_id(
        element_id, row["source_id"], row["first_byte"], row["end_byte"], content
    )


def _new_seal(row: Row, kind: ElementKind, evidence_id: UUID, element_id: UUID) -> bytes:
    """The seal at the new place.

    A seal that did not match is kept, so that the change made outside Vigil stays visible.
    """
    stored_seal: bytes = row["seal"]
    return (
        _evidence_seal(row, evidence_id, element_id)
        if stored_seal == _evidence_seal(row, row["id"], row[kind.evidence_column])
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
        speaker=row["speaker"],
    )


async def move_edge(
    transaction: Transaction,
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
    existing = await load_rows(transaction, SELECT[EDGES], ids=uuid_array([new_id]))
    moved = MovedEdge(row=as_json(edge), to=new_id, evidence=[])
    if existing:
        moved.before = PreviousState.model_validate(as_json(existing[0]))
        moved.added = added_properties(edge, evidence, existing[0])
        properties = {**moved.added, **existing[0]["properties"]}
        await set_properties(transaction, EDGES, new_id, properties)
    else:
        moved_row = {**edge, "id": new_id, "source_id": ends[0], "target_id": ends[1]}
        await insert_row(transaction, "graph_edges", as_json(moved_row))
    moved.evidence = await move_evidence(transaction, EDGES, evidence, new_id)
    await DELETE[EDGES].run(transaction, {"id": edge["id"]})
    await reproject(transaction, scope, EDGES, new_id)
    moved.touched_at = await _UPDATED_AT.value(transaction, {"id": new_id})
    return moved


async def move_edge_back(transaction: Transaction, scope: GraphScope, moved: MovedEdge) -> bool:
    """Undo `_move_edge` when both nodes exist again. Returns False if this removes the edge it was moved to."""
    await restore_element(transaction, scope, EDGES, moved.row, moved.evidence)
    if moved.to is None:
        return True
    if moved.before is None and await _is_unused(transaction, moved):
        await DELETE[EDGES].run(transaction, {"id": moved.to})
        return False
    await restore_kept(
        transaction, scope, EDGES, moved.to, moved.before, moved.added, moved.evidence
    )
    return True


async def _is_unused(transaction: Transaction, moved: MovedEdge) -> bool:
    """Whether nothing was added to the edge since the merge that created it."""
    if await _HAS_EVIDENCE.value(transaction, {"edge": moved.to}):
        return False
    updated_at = await _UPDATED_AT.value(transaction, {"id": moved.to})
    # An edge with evidence is nothing without it. Writing the same evidence again only updates the timestamp.
    return bool(moved.evidence) or updated_at == moved.touched_at


SELECT: Final = {
    kind: CompiledStatement(
        f"select * from {kind.table} where id = any(cast(:ids as uuid[])) order by id"
    )
    for kind in (NODES, EDGES)
}
SELECT_OWNED: Final = CompiledStatement(
    f"select * from graph_nodes where id = any(cast(:ids as uuid[])) and {IS_OWNED_SQL} order by id"
)
EDGES_OF_NODE: Final = CompiledStatement(
    "select * from graph_edges where source_id = :node or target_id = :node order by id"
)
EVIDENCE_OF: Final = {
    kind: CompiledStatement(
        f"select * from evidence where {kind.evidence_column} = any(cast(:ids as uuid[])) order by id"
    )
    for kind in (NODES, EDGES)
}
_EXISTING_EVIDENCE: Final = CompiledStatement(
    "select id from evidence where id = any(cast(:ids as uuid[]))"
)
_HAS_EVIDENCE: Final = CompiledStatement(
    "select exists (select from evidence where edge_id = :edge)"
)
_UPDATED_AT: Final = CompiledStatement("select updated_at from graph_edges where id = :id")
_VERDICTS: Final = CompiledStatement(
    "select * from entailment_verdicts where evidence_id = any(cast(:ids as uuid[])) order by property"
)
_RESTORE_STATE: Final = {
    kind: CompiledStatement(f"""
update {kind.table} set seal = cast(:seal as bytea), updated_at = :updated_at
where id = :id and case when cast(:seal as bytea) is null
  then not exists (select from evidence where {kind.evidence_column} = :id)
  else seal = cast(:seal as bytea) end
""")
    for kind in (NODES, EDGES)
}
_SET_PROPERTIES: Final = {
    kind: CompiledStatement(
        f"update {kind.table} set properties = cast(:properties as jsonb) where id = :id"
    )
    for kind in (NODES, EDGES)
}
DELETE: Final = {
    kind: CompiledStatement(f"delete from {kind.table} where id = :id") for kind in (NODES, EDGES)
}
_DELETE_EVIDENCE: Final = CompiledStatement(
    "delete from evidence where id = any(cast(:ids as uuid[]))"
)
_MOVE_EVIDENCE: Final = {
    kind: CompiledStatement(f"""
update evidence set id = "change"."to", {kind.evidence_column} = :element, seal = "change".seal
from jsonb_to_recordset(cast(:changes as jsonb)) as "change" (id uuid, "to" uuid, seal bytea)
where evidence.id = "change".id
""")
    for kind in (NODES, EDGES)
}
_MOVE_VERDICT_BACK: Final = CompiledStatement("""
update entailment_verdicts set evidence_id = cast(:evidence as uuid)
where evidence_id = :to and call_id = cast(:call as uuid) and property is not distinct from cast(:name as text)
""")
