"""Merging two nodes: names, evidence and edges move to the node that is kept."""

from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID, uuid4

from pydantic import BaseModel

from shared.database.locks import exclusive_write_lock
from shared.database.statements import CompiledStatement, json_text, uuid_array
from shared.database.transaction import Transaction
from shared.errors import VigilError
from shared.graph import types
from shared.graph.entity_resolution import moving, normalization
from shared.graph.entity_resolution.aliases import name_row
from shared.graph.entity_resolution.moving import (
    EDGES_OF_NODE,
    EVIDENCE_OF,
    MovedEdge,
    MovedEvidence,
    PreviousState,
    Row,
    added_properties,
    as_json,
    load_rows,
    move_edge,
    move_edge_back,
    move_evidence,
    restore_element,
    restore_kept,
    set_properties,
)
from shared.graph.projection import EDGES, NODES, load_claims, lock_elements, reproject
from shared.graph.retraction import doubts
from shared.graph.retrieval.embedding_backlog import rewind_sweep
from shared.graph.scope import IS_OWNED_SQL, OWNED_AGENT_ID_SQL, GraphScope
from shared.graph.types import RESERVED_TYPES
from shared.graph.upsert import WRITTEN_COLUMNS
from shared.graph.validation import fitting_properties
from shared.tools import Json


class MergeJournal(BaseModel):
    names: list[str]
    """Keys."""
    before: PreviousState
    """State of the node that was kept."""
    added: Json
    evidence: list[MovedEvidence]
    edges: list[MovedEdge]
    left_out: Json = {}
    """Properties that the type of the kept node does not allow. They come back if the merge is undone."""

    @property
    def edge_redirects(self) -> dict[UUID, UUID]:
        """New edge id by old edge id."""
        return {
            UUID(edge.row["id"]): edge.to
            for edge in self.edges
            if edge.to is not None and not edge.stays
        }


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
    rows = await load_rows(transaction, moving.SELECT_OWNED, **scope.sql_params, ids=ends)
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
    await store_redirects(transaction, merge, new_ids)
    await doubts.transfer_doubts(
        transaction, {old_id: [new_id] for old_id, new_id in new_ids.items()}
    )
    await _end_split_doubts(transaction, merge, new_ids)
    return merge


async def _end_split_doubts(
    transaction: Transaction, merge: Merge, new_ids: Mapping[UUID, UUID]
) -> None:
    """Close the doubts about a node that was split, if what was split off is merged into it again."""
    pair = {"kept": merge.kept_id, "merged": merge.merged_id}
    if not await _WAS_SPLIT.value(transaction, pair):
        return
    node_ids = await lock_elements(transaction, NODES, [merge.kept_id])
    edge_ids = await lock_elements(transaction, EDGES, list(new_ids.values()))
    claims = await load_claims(transaction, NODES, node_ids)
    claims |= await load_claims(transaction, EDGES, edge_ids)
    await doubts.reevaluate_doubts(transaction, claims)


def _refuse_merge(kept: Row, merged: Row) -> None:
    if kept["id"] == merged["id"]:
        raise MergeRefusedError(f"both ids refer to {kept['name']!r}: give two different nodes")
    if RESERVED_TYPES & {kept["type"], merged["type"]}:
        raise MergeRefusedError("analyses and advice are conclusions and cannot be merged")


async def _move_all(
    transaction: Transaction, scope: GraphScope, kept: Row, merged: Row
) -> MergeJournal:
    edges = await load_rows(transaction, EDGES_OF_NODE, node=merged["id"])
    evidence = await load_rows(transaction, EVIDENCE_OF[NODES], ids=uuid_array([merged["id"]]))
    edge_ids = uuid_array(edge["id"] for edge in edges)
    edge_evidence = await load_rows(transaction, EVIDENCE_OF[EDGES], ids=edge_ids)
    _refuse_too_many_rows(len(edges) + len(evidence) + len(edge_evidence))
    schema = None
    if kept["type"] != merged["type"]:
        schema = await types.get_node_schema(transaction, scope, kept["type"])
    added, left_out = _split_by_schema(added_properties(merged, evidence, kept), schema)
    for row in evidence:
        left_out |= _split_by_schema(row["claims"], schema)[1]
    evidence_by_edge: defaultdict[UUID, list[Row]] = defaultdict(list)
    for row in edge_evidence:
        evidence_by_edge[row["edge_id"]].append(row)
    merge_journal = MergeJournal(
        names=await _move_names(transaction, scope, kept, merged),
        before=PreviousState.model_validate(as_json(kept)),
        added=added,
        evidence=await move_evidence(
            transaction, NODES, evidence, kept["id"], without=left_out.keys()
        ),
        left_out=left_out,
        edges=[
            await move_edge(
                transaction, scope, edge, evidence_by_edge[edge["id"]], merged["id"], kept["id"]
            )
            for edge in edges
        ],
    )
    await moving.DELETE[NODES].run(transaction, {"id": merged["id"]})
    if added:
        await set_properties(transaction, NODES, kept["id"], {**added, **kept["properties"]})
    await reproject(transaction, scope, NODES, kept["id"])
    return merge_journal


def _split_by_schema(properties: Json, schema: Json | None) -> tuple[Json, Json]:
    """The properties that a type allows, and those that it does not."""
    allowed = properties if schema is None else fitting_properties(schema, properties)
    return dict(allowed), {name: properties[name] for name in properties.keys() - allowed.keys()}


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
    inserted = await reserve_own_name(transaction, scope, merged, kept["id"])
    return sorted({*(row.key for row in moved), *inserted})


async def reserve_own_name(
    transaction: Transaction, scope: GraphScope, node: Row, owner_id: UUID
) -> list[str]:
    """Reserve the name of a node, for another node or for itself; returns its key, or nothing if it is reserved already."""
    own_key = (node["type"], normalization.normalize(node["name"], node["type"]).key)
    row = name_row(scope, own_key, node["name"], owner_id)
    rows = await _INSERT_NAME.rows(transaction, {**scope.sql_params, "row": json_text(row)})
    return [inserted.key for inserted in rows]


async def store_redirects(
    transaction: Transaction, merge: Merge, new_ids: Mapping[UUID, UUID]
) -> None:
    """Redirect old ids to new ones; those that exist now, or existed until now, lead nowhere else."""
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
_WAS_SPLIT: Final = CompiledStatement(
    "select exists (select from graph_merges"
    f" where kept_id = :kept and merged_id = :merged and {doubts.IS_SPLIT_SQL})"
)
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

    Raises MergeRefusedError if a later merge builds on this one, or a later split has moved evidence of its nodes or edges.
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
    # What the split has moved may be all that a node or one of its properties would rest on.
    split = await _NEWEST_LATER_SPLIT.row(transaction, {**params, "kept": merge.kept_id})
    if split is not None:
        raise MergeRefusedError(
            f"{split.name!r} was split off later, with evidence that may be of this merge: separate the rest by a split"
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
    await doubts.reevaluate_doubts(transaction, claims, are_separated=True)


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
_NEWEST_LATER_SPLIT: Final = CompiledStatement(f"""
select merged_node ->> 'name' as name from graph_merges
where agent_id = :of_agent and made_at > :made_at and {doubts.IS_SPLIT_SQL} and (
  kept_id = :kept or exists (
    select from jsonb_array_elements(journal -> 'edges') as edge
    where cast(edge -> 'row' ->> 'id' as uuid) = any(cast(:ids as uuid[]))))
order by made_at desc limit 1
""")
_RESTORE_NAMES: Final = CompiledStatement("""
update graph_names set node_id = :merged
where agent_id = :of_agent and type = :type and key = any(cast(:keys as text[])) and node_id = :kept
""")
