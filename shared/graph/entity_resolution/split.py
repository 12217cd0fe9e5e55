"""Splitting a node: some of its evidence belongs to another thing of the same name, which becomes a node of its own."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Final
from uuid import UUID, uuid4

from shared.database import ids
from shared.database.locks import exclusive_write_lock
from shared.database.statements import CompiledStatement, json_text, uuid_array
from shared.database.transaction import Transaction
from shared.graph.entity_resolution import distinct, moving, normalization
from shared.graph.entity_resolution.merge import (
    MERGE_COLUMNS,
    Merge,
    MergeJournal,
    MergeRefusedError,
    reserve_own_name,
    store_redirects,
)
from shared.graph.entity_resolution.moving import (
    MovedEdge,
    PreviousState,
    Row,
    as_json,
    load_rows,
    move_evidence,
)
from shared.graph.projection import EDGES, NODES, load_claims, lock_elements, reproject
from shared.graph.retraction import doubts
from shared.graph.retrieval.embedding_backlog import rewind_sweep
from shared.graph.scope import IS_OWNED_SQL, GraphScope
from shared.graph.types import RESERVED_TYPES
from shared.graph.validation import normalize_name
from shared.tools import ToolRefusalError

_COPIED_COLUMNS: Final = ("agent_id", "type", "rules", "iteration_id", "step_id")
_ENDS: Final = ("source_id", "target_id")


async def split_node(
    transaction: Transaction,
    scope: GraphScope,
    *,
    node_id: UUID,
    evidence_ids: Collection[UUID],
    qualifier: str,
    reason: str,
    made_by: UUID,
) -> Merge | None:
    """Move evidence of a node, and of its edges, to a new node of its name; None if the agent has no such node.

    The new node's name is that of the old one with the `qualifier`. An edge all of whose evidence moves redirects to that of
    the new node. Conclusions that rest on what has moved are in doubt. The split is stored as a merge that was undone when
    it was made: by mistake, two things had been one node. Merging the two nodes undoes it. Raises MergeRefusedError.
    """
    await exclusive_write_lock(transaction, scope.agent_id)
    rows = await load_rows(
        transaction, moving.SELECT_OWNED, **scope.sql_params, ids=uuid_array([node_id])
    )
    if not rows:
        return None
    [node] = rows
    edges = await load_rows(transaction, moving.EDGES_OF_NODE, node=node_id)
    of_node = await load_rows(transaction, moving.EVIDENCE_OF[NODES], ids=uuid_array([node_id]))
    edge_ids = uuid_array(edge["id"] for edge in edges)
    of_edges = await load_rows(transaction, moving.EVIDENCE_OF[EDGES], ids=edge_ids)
    leaving = [row for row in of_node if row["id"] in evidence_ids]
    leaving_edges = [row for row in of_edges if row["id"] in evidence_ids]
    _refuse_split(node, evidence_ids, of_node, leaving, leaving_edges)
    name = _new_name(node, qualifier)
    new_id = await _insert_node(transaction, scope, node, name)
    merge_journal = MergeJournal(
        names=[],
        before=PreviousState.model_validate(as_json(node)),
        added={},
        evidence=await move_evidence(transaction, NODES, leaving, new_id),
        edges=await _move_edges(
            transaction, scope, edges, of_edges, leaving_edges, node_id, new_id
        ),
    )
    claimed = {property_name for row in leaving for property_name in row["claims"]}
    remaining = {key: value for key, value in node["properties"].items() if key not in claimed}
    await moving.set_properties(transaction, NODES, node_id, remaining)
    for each in (node_id, new_id):
        await reproject(transaction, scope, NODES, each)
    await rewind_sweep(transaction, scope, [node_id, new_id])
    split = await _store(transaction, scope, merge_journal, node_id, new_id, reason, made_by)
    await distinct.declare_distinct(transaction, scope, (node_id, new_id), made_by)
    await _open_doubts(transaction, node_id, merge_journal)
    return split


def _refuse_split(
    node: Row,
    evidence_ids: Collection[UUID],
    of_node: Sequence[Row],
    leaving: Sequence[Row],
    leaving_edges: Sequence[Row],
) -> None:
    if node["type"] in RESERVED_TYPES:
        raise MergeRefusedError("analyses and advice are conclusions and cannot be split")
    known = {row["id"] for row in (*leaving, *leaving_edges)}
    if unknown := [each for each in evidence_ids if each not in known]:
        raise MergeRefusedError(
            f"evidence {unknown[0]} is neither of {node['name']!r} nor of one of its edges"
        )
    if not leaving:
        raise MergeRefusedError(
            f"name evidence of {node['name']!r} itself, not only of its edges: the new node must rest on something"
        )
    if len(leaving) == len(of_node):
        raise MergeRefusedError(
            f"that is all evidence of {node['name']!r}: name what is of the other thing, and leave the rest"
        )


def _new_name(node: Row, qualifier: str) -> str:
    base, _ = normalization.split_qualifier(node["name"])
    try:
        return normalize_name(f"{base} ({normalize_name(qualifier, 'qualifier')})")
    except ToolRefusalError as refusal:
        raise MergeRefusedError(str(refusal).rstrip(".")) from refusal


async def _insert_node(transaction: Transaction, scope: GraphScope, node: Row, name: str) -> UUID:
    """Insert the new node, whose properties follow from the evidence that it gets."""
    new_id = ids.node_id(scope.agent_id, node["type"], name)
    row = {**{column: node[column] for column in _COPIED_COLUMNS}, "id": new_id, "name": name}
    taken = {**scope.sql_params, "type": node["type"], "name": name, "id": new_id}
    if await _IS_TAKEN.value(transaction, taken):
        raise MergeRefusedError(
            f"there is a {node['type']} {name!r} already: give another qualifier"
        )
    await moving.insert_row(transaction, NODES.table, as_json({**row, "properties": {}}))
    if not await reserve_own_name(transaction, scope, row, new_id):
        raise MergeRefusedError(f"another node has the name {name!r}: give another qualifier")
    return new_id


async def _move_edges(
    transaction: Transaction,
    scope: GraphScope,
    edges: Sequence[Row],
    of_edges: Sequence[Row],
    leaving: Sequence[Row],
    node_id: UUID,
    new_id: UUID,
) -> list[MovedEdge]:
    """Move the leaving evidence of edges to the same edges of the new node. One that is left without any is deleted."""
    all_evidence: defaultdict[UUID, list[Row]] = defaultdict(list)
    moving_evidence: defaultdict[UUID, list[Row]] = defaultdict(list)
    for rows, by_edge in ((of_edges, all_evidence), (leaving, moving_evidence)):
        for row in rows:
            by_edge[row["edge_id"]].append(row)
    moved = []
    for edge in edges:
        if evidence := moving_evidence[edge["id"]]:
            is_whole = len(evidence) == len(all_evidence[edge["id"]])
            moved.append(
                await _move_edge(
                    transaction, scope, edge, evidence, node_id, new_id, is_whole=is_whole
                )
            )
    return moved


async def _move_edge(
    transaction: Transaction,
    scope: GraphScope,
    edge: Row,
    evidence: Sequence[Row],
    node_id: UUID,
    new_id: UUID,
    *,
    is_whole: bool,
) -> MovedEdge:
    ends = [new_id if edge[end] == node_id else edge[end] for end in _ENDS]
    to_id = ids.edge_id(scope.agent_id, edge["type"], *ends)
    claimed = {name for row in evidence for name in row["claims"]}
    unclaimed = {key: value for key, value in edge["properties"].items() if key not in claimed}
    new_edge = {
        **{column: edge[column] for column in _COPIED_COLUMNS if column in edge},
        **dict(zip(_ENDS, ends, strict=True)),
        "id": to_id,
        "properties": unclaimed if is_whole else {},
    }
    await moving.insert_row(transaction, EDGES.table, as_json(new_edge))
    moved_evidence = await move_evidence(transaction, EDGES, evidence, to_id)
    await reproject(transaction, scope, EDGES, to_id)
    if is_whole:
        await moving.DELETE[EDGES].run(transaction, {"id": edge["id"]})
    else:
        await moving.set_properties(transaction, EDGES, edge["id"], unclaimed)
        await reproject(transaction, scope, EDGES, edge["id"])
    return MovedEdge(row=as_json(edge), to=to_id, evidence=moved_evidence, stays=not is_whole)


async def _store(
    transaction: Transaction,
    scope: GraphScope,
    merge_journal: MergeJournal,
    node_id: UUID,
    new_id: UUID,
    reason: str,
    made_by: UUID,
) -> Merge:
    [new_node] = await load_rows(transaction, moving.SELECT[NODES], ids=uuid_array([new_id]))
    params = {
        "id": uuid4(),
        "agent": scope.agent_id,
        "kept": node_id,
        "merged": new_id,
        "reason": reason,
        "merged_node": json_text(as_json(new_node)),
        "journal": json_text(merge_journal.model_dump(mode="json")),
        "made_by": made_by,
    }
    split = Merge(*await _INSERT_SPLIT.row(transaction, params))
    if moved := merge_journal.edge_redirects:
        await store_redirects(transaction, split, moved)
        await doubts.transfer_doubts(transaction, {old: [new] for old, new in moved.items()})
    return split


async def _open_doubts(
    transaction: Transaction, node_id: UUID, merge_journal: MergeJournal
) -> None:
    edges = merge_journal.edge_redirects
    edge_ids_before = [UUID(edge.row["id"]) for edge in merge_journal.edges]
    changed = [edges.get(each, each) for each in edge_ids_before]
    node_ids = await lock_elements(transaction, NODES, [node_id])
    edge_ids = await lock_elements(transaction, EDGES, changed)
    claims = await load_claims(transaction, NODES, node_ids)
    claims |= await load_claims(transaction, EDGES, edge_ids)
    await doubts.reevaluate_doubts(transaction, claims)


_IS_TAKEN: Final = CompiledStatement(
    f"select exists (select from graph_nodes where {IS_OWNED_SQL} and (id = :id or type = :type and name = :name))"
)
_INSERT_SPLIT: Final = CompiledStatement(f"""
insert into graph_merges
  (id, agent_id, kept_id, merged_id, reason, merged_node, journal, made_by, made_at, undone_at)
values (:id, :agent, :kept, :merged, :reason, cast(:merged_node as jsonb), cast(:journal as jsonb), :made_by,
  statement_timestamp(), statement_timestamp())
returning {MERGE_COLUMNS}
""")
