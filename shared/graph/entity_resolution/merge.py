"""Merging two nodes: names, evidence and edges move to the node that is kept."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any, Final, NamedTuple
from uuid import UUID, uuid4

from pydantic import BaseModel

from shared.database import ids
from shared.database.locks import exclusive_write_lock
from shared.database.statements import CompiledStatement, json_text, uuid_array
from shared.database.transaction import Transaction
from shared.errors import VigilError
from shared.graph.entity_resolution import normalization
from shared.graph.entity_resolution.aliases import name_row
from shared.graph.projection import EDGES, NODES, ElementKind, load_claims, lock_elements, reproject
from shared.graph.provenance import integrity
from shared.graph.retraction import doubts
from shared.graph.retrieval.embedding_backlog import rewind_sweep
from shared.graph.scope import IS_OWNED_SQL, OWNED_AGENT_ID_SQL, GraphScope
from shared.graph.types import RESERVED_TYPES
from shared.graph.upsert import WRITTEN_COLUMNS
from shared.tools import Json


class MovedEvidence(BaseModel):
    row: Json
    to: UUID
    """Its new id, which is derived from what the evidence is about."""
    was_there: bool
    """Whether the same evidence existed there already."""
    verdict: Json | None = None
    """If so, what a model had found in the evidence that was removed, if anything."""

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
    touched_at: datetime | None = None
    """`updated_at` of the target edge after the merge."""


class MergeJournal(BaseModel):
    names: list[str]
    """Keys."""
    before: PreviousState
    """State of the node that was kept."""
    added: Json
    evidence: list[MovedEvidence]
    edges: list[MovedEdge]

    @property
    def edge_redirects(self) -> dict[UUID, UUID]:
        """New edge id by old edge id."""
        return {UUID(edge.row["id"]): edge.to for edge in self.edges if edge.to is not None}


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
        *("created_at", "due_at", "prompt_version"),
    ],
}
"""Columns of rows that are deleted and inserted again."""
_BYTES: Final = {"seal", "quote_sha256"}


async def _load_rows(
    transaction: Transaction, statement: CompiledStatement, **params: Any
) -> list[Row]:
    return [row._asdict() for row in await statement.rows(transaction, params)]


async def _insert_row(transaction: Transaction, table: str, row: Json) -> None:
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


async def _set_properties(
    transaction: Transaction, kind: ElementKind, row_id: UUID, properties: Json
) -> None:
    params = {"id": row_id, "properties": json_text(properties)}
    await _SET_PROPERTIES[kind].run(transaction, params)


def _added_properties(row: Row, evidence: Iterable[Row], kept: Row) -> Json:
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
    await _insert_row(transaction, kind.table, row)
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
    [row] = await _load_rows(transaction, _SELECT[kind], ids=uuid_array([element_id]))
    removed = {name for each in evidence for name in each.claims}
    removed |= {name for name, value in added.items() if row["properties"].get(name) == value}
    previous = {} if before is None else before.properties
    left = {name: value for name, value in row["properties"].items() if name not in removed}
    left |= {name: previous[name] for name in removed if name in previous}
    await _set_properties(transaction, kind, element_id, left)
    properties = await reproject(transaction, scope, kind, element_id)
    if before is not None and properties == before.properties:
        await _restore_state(transaction, kind, element_id, before)


async def _move_evidence(
    transaction: Transaction, kind: ElementKind, rows: Sequence[Row], element_id: UUID
) -> list[MovedEvidence]:
    """Move evidence to another node or edge."""
    if not rows:
        return []
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
        each.verdict = verdicts.get(each.row["id"])
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


async def _move_evidence_back(transaction: Transaction, moved: Sequence[MovedEvidence]) -> None:
    """Move evidence back to the element it came from, which exists again."""
    if not moved:
        return
    for entry in moved:
        await _insert_row(transaction, "evidence", entry.row)
    old_ids = {entry.to: UUID(entry.row["id"]) for entry in moved if not entry.was_there}
    # Merges of an earlier version deleted the evidence of some edges instead of moving it.
    old_ids = {moved_id: old_id for moved_id, old_id in old_ids.items() if moved_id != old_id}
    await _move_verdicts(transaction, old_ids)
    await _delete_evidence(transaction, list(old_ids))
    for entry in moved:
        if entry.verdict is not None:
            await _restore_verdict(transaction, entry.to, entry.verdict)


async def _load_verdicts(
    transaction: Transaction, evidence_ids: Collection[UUID]
) -> dict[str, Json]:
    """What models found, by the id of the evidence as text."""
    if not evidence_ids:
        return {}
    rows = await _load_rows(transaction, _VERDICTS, ids=uuid_array(evidence_ids))
    return {str(row["evidence_id"]): as_json(row) for row in rows}


async def _restore_verdict(transaction: Transaction, moved_to: UUID, verdict: Json) -> None:
    """Move a verdict back to the evidence that is there again, or write it again if the other evidence had its own."""
    params = {"to": moved_to, "call": verdict["call_id"], "evidence": verdict["evidence_id"]}
    await _MOVE_VERDICT_BACK.run(transaction, params)
    await _insert_row(transaction, "entailment_verdicts", verdict)


# What cites the other evidence may have to be doubted now.
_MOVE_VERDICTS: Final = CompiledStatement("""
update entailment_verdicts
set evidence_id = moved.to_id, due_at = case verdict when 'contradicted' then clock_timestamp() end
from unnest(cast(:ids as uuid[]), cast(:to_ids as uuid[])) as moved (id, to_id)
where evidence_id = moved.id
  and not exists (select from entailment_verdicts as other where other.evidence_id = moved.to_id)
""")


async def _move_verdicts(transaction: Transaction, to_ids: Mapping[UUID, UUID]) -> None:
    """Move what models found to other evidence of the same content, unless that has a verdict."""
    if to_ids:
        params = {"ids": uuid_array(to_ids), "to_ids": uuid_array(to_ids.values())}
        await _MOVE_VERDICTS.run(transaction, params)


async def _delete_evidence(transaction: Transaction, evidence_ids: Collection[UUID]) -> None:
    if evidence_ids:
        await _DELETE_EVIDENCE.run(transaction, {"ids": uuid_array(evidence_ids)})


def _evidence_id(row: Row, element_id: UUID) -> UUID:
    content = integrity.canonical_json([row["claims"], row["valid_from"], row["valid_to"]])
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
    )


async def _move_edge(
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
    existing = await _load_rows(transaction, _SELECT[EDGES], ids=uuid_array([new_id]))
    moved = MovedEdge(row=as_json(edge), to=new_id, evidence=[])
    if existing:
        moved.before = PreviousState.model_validate(as_json(existing[0]))
        moved.added = _added_properties(edge, evidence, existing[0])
        properties = {**moved.added, **existing[0]["properties"]}
        await _set_properties(transaction, EDGES, new_id, properties)
    else:
        moved_row = {**edge, "id": new_id, "source_id": ends[0], "target_id": ends[1]}
        await _insert_row(transaction, "graph_edges", as_json(moved_row))
    moved.evidence = await _move_evidence(transaction, EDGES, evidence, new_id)
    await _DELETE[EDGES].run(transaction, {"id": edge["id"]})
    await reproject(transaction, scope, EDGES, new_id)
    moved.touched_at = await _UPDATED_AT.value(transaction, {"id": new_id})
    return moved


async def move_edge_back(transaction: Transaction, scope: GraphScope, moved: MovedEdge) -> bool:
    """Undo `_move_edge` when both nodes exist again. Returns False if this removes the edge it was moved to."""
    await restore_element(transaction, scope, EDGES, moved.row, moved.evidence)
    if moved.to is None:
        return True
    if moved.before is None and await _is_unused(transaction, moved):
        await _DELETE[EDGES].run(transaction, {"id": moved.to})
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


class MergeRefusedError(VigilError):
    """The merge is not possible; the message says why and what to do instead."""


MAX_MOVED_ROWS: Final = 5_000
"""Edges and evidence that one merge may move, so that it ends before the client gives up."""


MERGE_COLUMNS: Final = (
    "id, agent_id, kept_id, merged_id, reason, merged_node, journal, made_by, made_at, undone_at"
)


class Merge(NamedTuple):
    """A row of `graph_merges`: MERGE_COLUMNS."""

    id: UUID
    agent_id: UUID
    kept_id: UUID
    merged_id: UUID
    reason: str
    merged_node: Json
    journal: Json
    made_by: UUID | None
    made_at: datetime
    undone_at: datetime | None


async def merge_nodes(
    transaction: Transaction,
    scope: GraphScope,
    *,
    kept_id: UUID,
    merged_id: UUID,
    reason: str,
    made_by: UUID,
) -> Merge | None:
    """Merge the node `merged_id` into `kept_id`; None if the agent does not have both.

    Raises MergeRefusedError if they cannot be merged.
    """
    await exclusive_write_lock(transaction, scope.agent_id)
    ends = uuid_array((kept_id, merged_id))
    rows = await _load_rows(transaction, _SELECT_OWNED, **scope.sql_params, ids=ends)
    by_id = {row["id"]: row for row in rows}
    if kept_id not in by_id or merged_id not in by_id:
        return None
    kept, merged = by_id[kept_id], by_id[merged_id]
    _refuse_merge(kept, merged)
    merge_journal = await _move_all(transaction, scope, kept, merged)
    params = {
        "id": uuid4(),
        "agent": scope.agent_id,
        "kept": kept_id,
        "merged": merged_id,
        "reason": reason,
        "merged_node": json_text(as_json(merged)),
        "journal": json_text(merge_journal.model_dump(mode="json")),
        "made_by": made_by,
    }
    merge = Merge(*await _INSERT_MERGE.row(transaction, params))
    new_ids = {merged_id: kept_id} | merge_journal.edge_redirects
    await _store_redirects(transaction, merge, new_ids)
    await doubts.transfer_doubts(
        transaction, {old_id: [new_id] for old_id, new_id in new_ids.items()}
    )
    return merge


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
    transaction: Transaction, scope: GraphScope, kept: Row, merged: Row
) -> MergeJournal:
    edges = await _load_rows(transaction, _EDGES_OF_NODE, node=merged["id"])
    evidence = await _load_rows(transaction, _EVIDENCE_OF[NODES], ids=uuid_array([merged["id"]]))
    edge_ids = uuid_array(edge["id"] for edge in edges)
    edge_evidence = await _load_rows(transaction, _EVIDENCE_OF[EDGES], ids=edge_ids)
    _refuse_too_many_rows(len(edges) + len(evidence) + len(edge_evidence))
    added = _added_properties(merged, evidence, kept)
    evidence_by_edge: defaultdict[UUID, list[Row]] = defaultdict(list)
    for row in edge_evidence:
        evidence_by_edge[row["edge_id"]].append(row)
    merge_journal = MergeJournal(
        names=await _move_names(transaction, scope, kept, merged),
        before=PreviousState.model_validate(as_json(kept)),
        added=added,
        evidence=await _move_evidence(transaction, NODES, evidence, kept["id"]),
        edges=[
            await _move_edge(
                transaction, scope, edge, evidence_by_edge[edge["id"]], merged["id"], kept["id"]
            )
            for edge in edges
        ],
    )
    await _DELETE[NODES].run(transaction, {"id": merged["id"]})
    if added:
        await _set_properties(transaction, NODES, kept["id"], {**added, **kept["properties"]})
    await reproject(transaction, scope, NODES, kept["id"])
    return merge_journal


def _refuse_too_many_rows(rows: int) -> None:
    if rows > MAX_MOVED_ROWS:
        raise MergeRefusedError(
            f"{rows} edges and rows of evidence belong to the node to be merged, more than the {MAX_MOVED_ROWS} that a "
            "merge can move: merge the other node into this one instead"
        )


async def _move_names(
    transaction: Transaction, scope: GraphScope, kept: Row, merged: Row
) -> list[str]:
    """The keys of the merged node. Its own name leads to the kept node from now on, even if it was never reserved."""
    ends = {**scope.sql_params, "merged": merged["id"], "kept": kept["id"]}
    moved = await _MOVE_NAMES.rows(transaction, ends)
    own_key = (merged["type"], normalization.normalize(merged["name"], merged["type"]).key)
    row = name_row(scope, own_key, merged["name"], kept["id"])
    inserted = await _INSERT_NAME.rows(transaction, {**scope.sql_params, "row": json_text(row)})
    return sorted(row.key for row in (*moved, *inserted))


async def _store_redirects(
    transaction: Transaction, merge: Merge, new_ids: Mapping[UUID, UUID]
) -> None:
    replaced = uuid_array([*new_ids.keys(), *new_ids.values()])
    await _DELETE_REDIRECTS.run(transaction, {"of_agent": merge.agent_id, "ids": replaced})
    await insert_redirects(transaction, merge, new_ids)


async def insert_redirects(
    transaction: Transaction, merge: Merge, new_ids: Mapping[UUID, UUID]
) -> None:
    """Redirect old ids to new ones, as long as the merge is not undone."""
    params = {
        "of_agent": merge.agent_id,
        "of_merge": merge.id,
        "ids": uuid_array(new_ids),
        "to_ids": uuid_array(new_ids.values()),
    }
    await _INSERT_REDIRECTS.run(transaction, params)


_SELECT: Final = {
    kind: CompiledStatement(
        f"select * from {kind.table} where id = any(cast(:ids as uuid[])) order by id"
    )
    for kind in (NODES, EDGES)
}
_SELECT_OWNED: Final = CompiledStatement(
    f"select * from graph_nodes where id = any(cast(:ids as uuid[])) and {IS_OWNED_SQL} order by id"
)
_EDGES_OF_NODE: Final = CompiledStatement(
    "select * from graph_edges where source_id = :node or target_id = :node order by id"
)
_EVIDENCE_OF: Final = {
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
    "select * from entailment_verdicts where evidence_id = any(cast(:ids as uuid[]))"
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
_DELETE: Final = {
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
where evidence_id = :to and call_id = cast(:call as uuid)
""")
_MOVE_NAMES: Final = CompiledStatement(f"""
update graph_names set node_id = :kept
where node_id = :merged and {IS_OWNED_SQL} returning key
""")
_INSERT_NAME: Final = CompiledStatement(f"""
insert into graph_names (agent_id, {", ".join(WRITTEN_COLUMNS["graph_names"])})
select {OWNED_AGENT_ID_SQL}, {", ".join(f"new.{column}" for column in WRITTEN_COLUMNS["graph_names"])}
from jsonb_populate_record(cast(null as graph_names), cast(:row as jsonb)) as new
on conflict do nothing returning key
""")
_INSERT_MERGE: Final = CompiledStatement(f"""
insert into graph_merges (id, agent_id, kept_id, merged_id, reason, merged_node, journal, made_by)
values (:id, :agent, :kept, :merged, :reason, cast(:merged_node as jsonb), cast(:journal as jsonb), :made_by)
returning {MERGE_COLUMNS}
""")
_DELETE_REDIRECTS: Final = CompiledStatement(
    "delete from graph_redirects where agent_id = :of_agent and merged_id = any(cast(:ids as uuid[]))"
)
_INSERT_REDIRECTS: Final = CompiledStatement("""
insert into graph_redirects (agent_id, merge_id, merged_id, kept_id)
select :of_agent, :of_merge, redirect.merged_id, redirect.kept_id
from unnest(cast(:ids as uuid[]), cast(:to_ids as uuid[])) as redirect (merged_id, kept_id)
""")


async def undo_merge(transaction: Transaction, scope: GraphScope, merge_id: UUID) -> Merge | None:
    """Undo a merge; None if the agent has no such merge. A merge that is undone already is not changed.

    Raises MergeRefusedError if a later merge builds on this one.
    """
    await exclusive_write_lock(transaction, scope.agent_id)
    row = await _SELECT_MERGE.row(transaction, {**scope.sql_params, "id": merge_id})
    if row is None:
        return None
    merge = Merge(*row)
    if merge.undone_at is not None:
        return merge
    merge_journal = MergeJournal.model_validate(merge.journal)
    await _refuse_later_merges(transaction, merge, merge_journal)
    await _DELETE_REDIRECTS_OF_MERGE.run(transaction, {"id": merge.id})
    evidence, before = merge_journal.evidence, merge_journal.before
    await restore_element(transaction, scope, NODES, merge.merged_node, evidence)
    await _restore_names(transaction, merge, merge_journal)
    await _restore_edges(transaction, scope, merge, merge_journal)
    await restore_kept(
        transaction, scope, NODES, merge.kept_id, before, merge_journal.added, evidence
    )
    await rewind_sweep(transaction, scope, [merge.merged_id, merge.kept_id])
    undone = Merge(*await _END.row(transaction, {"id": merge.id}))
    await _restore_doubts(transaction, merge, merge_journal)
    return undone


async def _refuse_later_merges(
    transaction: Transaction, merge: Merge, merge_journal: MergeJournal
) -> None:
    params = {
        "of_agent": merge.agent_id,
        "ids": uuid_array({merge.kept_id, *merge_journal.edge_redirects.values()}),
        "made_at": merge.made_at,
    }
    later = await _NEWEST_LATER.row(transaction, params)
    if later is not None:
        raise MergeRefusedError(
            f"merge {later.id} of {later.name!r} was made later and depends on this one: undo it first"
        )


async def _restore_names(
    transaction: Transaction, merge: Merge, merge_journal: MergeJournal
) -> None:
    params = {
        "of_agent": merge.agent_id,
        "type": merge.merged_node["type"],
        "keys": merge_journal.names,
        "kept": merge.kept_id,
        "merged": merge.merged_id,
    }
    await _RESTORE_NAMES.run(transaction, params)


async def _restore_edges(
    transaction: Transaction, scope: GraphScope, merge: Merge, merge_journal: MergeJournal
) -> None:
    """Redirect an edge that this removes to the one that holds its evidence now: a conclusion may have cited it."""
    # In reverse, because several can have become one: each was moved to what those before it had left.
    for edge in reversed(merge_journal.edges):
        if not await move_edge_back(transaction, scope, edge):
            assert edge.to is not None
            await insert_redirects(transaction, merge, {edge.to: UUID(edge.row["id"])})


async def _restore_doubts(
    transaction: Transaction, merge: Merge, merge_journal: MergeJournal
) -> None:
    """After the nodes are separate again: what only the merge supported is in doubt again."""
    edges = merge_journal.edge_redirects
    node_ids = await lock_elements(transaction, NODES, [merge.merged_id, merge.kept_id])
    edge_ids = await lock_elements(transaction, EDGES, [*edges, *edges.values()])
    await doubts.reopen_doubts(transaction, [merge.merged_id, *edges], merge.made_at)
    remaining, removed = set(edge_ids), defaultdict[UUID, list[UUID]](list)
    for old_id, new_id in edges.items():
        if new_id not in remaining:
            removed[new_id].append(old_id)
    await doubts.transfer_doubts(transaction, removed)
    claims = await load_claims(transaction, NODES, node_ids)
    claims |= await load_claims(transaction, EDGES, edge_ids)
    await doubts.reevaluate_doubts(transaction, claims)


_SELECT_MERGE: Final = CompiledStatement(
    f"select {MERGE_COLUMNS} from graph_merges where id = :id and {IS_OWNED_SQL}"
)
_DELETE_REDIRECTS_OF_MERGE: Final = CompiledStatement(
    "delete from graph_redirects where merge_id = :id"
)
_END: Final = CompiledStatement(
    f"update graph_merges set undone_at = clock_timestamp() where id = :id returning {MERGE_COLUMNS}"
)
_NEWEST_LATER: Final = CompiledStatement("""
select graph_merges.id, merged_node ->> 'name' as name
from graph_merges join graph_redirects on merge_id = graph_merges.id
where graph_redirects.agent_id = :of_agent and made_at > :made_at and undone_at is null
  and (graph_redirects.merged_id = any(cast(:ids as uuid[]))
    or graph_redirects.kept_id = any(cast(:ids as uuid[])))
order by made_at desc limit 1
""")
_RESTORE_NAMES: Final = CompiledStatement("""
update graph_names set node_id = :merged
where agent_id = :of_agent and type = :type and key = any(cast(:keys as text[])) and node_id = :kept
""")
