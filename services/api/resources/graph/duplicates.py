"""Duplicate candidates, merges, splits, and pairs that are declared distinct."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Final, NamedTuple
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import ColumnElement, Integer, Select, cast, false, func, select
from sqlalchemy.dialects.postgresql import JSONB, JSONPATH

from services.api.auth.dependencies import AgentAccess, OwnedAgent
from services.api.http.dependencies import Page, PageQuery
from services.api.http.problem_details import ConflictError, NotFoundError
from services.api.http.texts import length_in_schema, trimmed
from services.api.reading import columns_of, read_one, read_page
from services.api.resources.graph.model import has_element
from shared.database.pagination import Keyset, PageSlice, paginate
from shared.database.statements import CompiledStatement, json_text, uuid_array
from shared.database.tables import GraphDistinctPair, GraphMerge, GraphNode
from shared.graph import entity_resolution
from shared.graph.entity_resolution import MergeRefusedError, distinct
from shared.graph.entity_resolution.candidates import (
    KnownName,
    key_columns,
    letters_of,
    most_similar,
    neighbour_names_sql,
)
from shared.graph.entity_resolution.distinct import NotComparableError
from shared.graph.entity_resolution.normalization import normalize
from shared.graph.entity_resolution.relations import DUPLICATE_THRESHOLD
from shared.graph.scope import IS_SUPPORTED_SQL, JOINS_TWO_NODES_SQL, OWNED_AGENT_ID_SQL
from shared.graph.types import RESERVED_TYPES
from shared.schemas.base import Json, PageRequest
from shared.schemas.graph import DistinctPairResponse, DuplicatePair, MergeResponse, NodeRef

_TOUCHED: Final = Keyset("duplicates", (GraphNode.updated_at, GraphNode.id))
_MERGES: Final = Keyset("merges", (GraphMerge.made_at, GraphMerge.id))
_DISTINCT_PAIRS: Final = Keyset("distinct pairs", (GraphDistinctPair.made_at, GraphDistinctPair.id))


def _select_candidates(access: AgentAccess) -> Select[UUID, str, str]:
    return select(GraphNode.id, GraphNode.type, GraphNode.name).where(
        GraphNode.agent_id == access.scope.owned_agent_id(), GraphNode.type.not_in(RESERVED_TYPES)
    )


async def list_duplicate_candidates(
    access: OwnedAgent, page_request: PageQuery
) -> Page[DuplicatePair]:
    """Lists pairs of possible duplicates. A page checks `limit` nodes, most recently changed first, and may be empty."""
    statement = _select_candidates(access)
    page_slice = await paginate(access.session, statement, _TOUCHED, page_request)
    pairs = await _similar_pairs(access, page_slice.rows)
    # Each pair once.
    items = [pair for pair in pairs if pair.other.id < pair.node.id]
    return Page(items=items, next=page_slice.next)


async def has_review(access: AgentAccess) -> bool:
    """Whether recently updated nodes may be the same, or an earlier decision about two nodes can be undone."""
    of_agent = access.scope.owned_agent_id()
    decisions = select(
        select(GraphMerge.id).where(GraphMerge.agent_id == of_agent).exists()
        | select(GraphDistinctPair.id).where(GraphDistinctPair.agent_id == of_agent).exists()
    )
    if await access.session.scalar(decisions):
        return True
    return bool((await list_duplicate_candidates(access, PageRequest())).items)


async def list_candidates_of_node(access: AgentAccess, node_id: UUID) -> list[DuplicatePair]:
    """Lists the nodes that may be the same as this one; empty if there is no such node."""
    rows = await access.session.execute(_select_candidates(access).where(GraphNode.id == node_id))
    return await _similar_pairs(access, [(row.id, row.type, row.name) for row in rows])


async def _similar_pairs(
    access: AgentAccess, nodes: Sequence[tuple[UUID, str, str]]
) -> list[DuplicatePair]:
    """Each node with those that are most similar to it, but for those that a person declared distinct."""
    session, params = access.session, access.scope.sql_params
    asking = []
    for node_id, type_name, name in nodes:
        normalized = normalize(name, type_name)
        columns = key_columns(normalized.key, type_name)
        letters = letters_of(normalized.base)
        asking.append({"id": node_id, "type": type_name, "letters": letters, **columns})
    neighbours: defaultdict[UUID, list[KnownName]] = defaultdict(list)
    for asking_id, node_id, name in await _NEIGHBOURS.rows(
        session, {**params, "asking": json_text(asking)}
    ):
        neighbours[asking_id].append(KnownName(node_id, name))
    declared = await distinct.distinct_nodes(session, access.scope, [each[0] for each in nodes])
    pairs: list[tuple[NodeRef, UUID, float]] = []
    for node_id, type_name, name in nodes:
        excluded = {node_id, *declared[node_id]}
        others = [each for each in neighbours[node_id] if each.node_id not in excluded]
        similar = most_similar(type_name, name, others, DUPLICATE_THRESHOLD, MAX_SIMILAR)
        node = NodeRef(id=node_id, type=type_name, name=name)
        pairs += [(node, other_id, similarity) for other_id, similarity in similar.items()]
    ids = [*{other_id for _, other_id, _ in pairs}]
    names = {row.id: row.name for row in await _NAMES.rows(session, {**params, "ids": ids})}
    return [
        DuplicatePair(
            node=node,
            other=NodeRef(id=other_id, type=node.type, name=names[other_id]),
            similarity=round(similarity, 2),
        )
        for node, other_id, similarity in pairs
        if other_id in names
    ]


_NEIGHBOURS: Final = CompiledStatement(
    "select asked.id, near.node_id, near.name"
    " from jsonb_to_recordset(cast(:asking as jsonb))"
    " asked (id uuid, type text, letters jsonb, key text, reversed_key text, sorted_words_key text)"
    f" cross join lateral ({neighbour_names_sql('asked.{}')}) near"
)
MAX_SIMILAR: Final = 5
"""Nodes that are listed as possible duplicates of one."""
_NAMES: Final = CompiledStatement(
    "select id, name from graph_nodes"
    f" where agent_id = {OWNED_AGENT_ID_SQL} and id = any(cast(:ids as uuid[]))"
)


async def list_merges(access: OwnedAgent, page_request: PageQuery) -> Page[MergeResponse]:
    """Lists merges, newest first, including undone ones."""
    return await read_page(
        access.session, MergeResponse, _select_merges(access), _MERGES, page_request
    )


async def get_merge(access: OwnedAgent, merge_id: UUID) -> MergeResponse:
    statement = _select_merges(access).where(GraphMerge.id == merge_id)
    merge = await read_one(access.session, MergeResponse, statement)
    if merge is None:
        raise NotFoundError("merge", merge_id)
    return merge


def _select_merges(access: AgentAccess) -> Select[*tuple[Any, ...]]:
    def count(jsonpath: str) -> ColumnElement[int]:
        return func.jsonb_array_length(GraphMerge.journal[jsonpath], type_=Integer)

    dropped = func.jsonb_path_query_array(
        GraphMerge.journal, cast("$.edges[*] ? (@.to == null)", JSONPATH)
    )
    columns = columns_of(
        GraphMerge,
        MergeResponse,
        type=GraphMerge.merged_node["type"].astext,
        kept_name=GraphNode.name,
        merged_name=GraphMerge.merged_node["name"].astext,
        names=count("names"),
        evidence=count("evidence"),
        edges=count("edges"),
        dropped_edges=func.jsonb_array_length(dropped, type_=Integer),
        left_out=func.coalesce(GraphMerge.journal["left_out"], cast("{}", JSONB), type_=JSONB),
        is_split=func.coalesce(GraphMerge.undone_at == GraphMerge.made_at, false()),
    )
    return (
        select(*columns)
        .join(GraphNode, GraphNode.id == GraphMerge.kept_id, isouter=True)
        .where(GraphMerge.agent_id == access.scope.owned_agent_id())
    )


MAX_REASON_CHARS: Final = 500
Reason = Annotated[
    str, trimmed(MAX_REASON_CHARS, is_line=True), length_in_schema(1, MAX_REASON_CHARS)
]


class NewMerge(BaseModel):
    """Two nodes that are one thing: what `merged` has becomes the other's.

    If their types differ, properties that the type of `kept` does not allow are left out, and listed in the answer.
    """

    model_config = ConfigDict(extra="forbid")

    kept: UUID
    merged: UUID
    reason: Reason


async def merge_nodes(access: AgentAccess, new_merge: NewMerge) -> MergeResponse:
    """Merges two nodes.

    Raises NotFoundError for an unknown node, and ConflictError where the two cannot be merged.
    """
    try:
        merge_id = await entity_resolution.merge_nodes(
            access.session,
            access.scope,
            kept_id=new_merge.kept,
            merged_id=new_merge.merged,
            reason=new_merge.reason,
            made_by=access.owner_id,
        )
    except MergeRefusedError as refusal:
        raise ConflictError("not-merged", f"Not merged: {refusal}.") from refusal
    if merge_id is None:
        is_there = await has_element(access, GraphNode, new_merge.kept)
        raise NotFoundError("node", new_merge.merged if is_there else new_merge.kept)
    return await get_merge(access, merge_id.id)


async def undo_merge(access: OwnedAgent, merge_id: UUID) -> MergeResponse:
    """Undoes a merge: both nodes exist again. Later evidence stays with the kept node. Repeated requests count once."""
    try:
        await entity_resolution.undo_merge(access.session, access.scope, merge_id)
    except MergeRefusedError as refusal:
        raise ConflictError("not-undone", f"Not undone: {refusal}.") from refusal
    return await get_merge(access, merge_id)


_PAIR: Final = (
    *(GraphDistinctPair.id, GraphDistinctPair.type, GraphDistinctPair.made_at),
    *(GraphDistinctPair.one_id, GraphDistinctPair.one_name),
    *(GraphDistinctPair.other_id, GraphDistinctPair.other_name),
)


def _pair(*row: Any) -> DistinctPairResponse:
    pair_id, type_name, made_at, one_id, one_name, other_id, other_name = row
    return DistinctPairResponse(
        id=pair_id,
        one=NodeRef(id=one_id, type=type_name, name=one_name),
        other=NodeRef(id=other_id, type=type_name, name=other_name),
        made_at=made_at,
    )


async def list_distinct_pairs(
    access: OwnedAgent, page_request: PageQuery
) -> Page[DistinctPairResponse]:
    """Lists pairs of nodes that were declared distinct, newest first."""
    statement: Select[*tuple[Any, ...]] = select(*_PAIR).where(
        GraphDistinctPair.agent_id == access.scope.owned_agent_id()
    )
    page_slice: PageSlice[*tuple[Any, ...]] = await paginate(
        access.session, statement, _DISTINCT_PAIRS, page_request
    )
    return page_slice.page(_pair)


async def get_distinct_pair(access: AgentAccess, pair_id: UUID) -> DistinctPairResponse:
    """Raises NotFoundError."""
    statement = select(*_PAIR).where(
        GraphDistinctPair.agent_id == access.scope.owned_agent_id(), GraphDistinctPair.id == pair_id
    )
    row = (await access.session.execute(statement)).one_or_none()
    if row is None:
        raise NotFoundError("distinct pair", pair_id)
    return _pair(*row)


MAX_SPLIT_EVIDENCE: Final = 1000
Qualifier = Annotated[str, trimmed(80, is_line=True), length_in_schema(1, 80)]


class NewSplit(BaseModel):
    """Evidence of a node, and of its edges, that is of another thing of the same name."""

    model_config = ConfigDict(extra="forbid")

    node: UUID
    evidence: Annotated[list[UUID], Field(min_length=1, max_length=MAX_SPLIT_EVIDENCE)]
    """At least one piece is of the node itself."""
    qualifier: Qualifier
    """A few words that distinguish the other thing, appended to its name in brackets."""
    reason: Reason


async def split_node(access: AgentAccess, new_split: NewSplit) -> MergeResponse:
    """Moves evidence to a new node.

    Raises NotFoundError for an unknown node, and ConflictError where it cannot be split so.
    """
    try:
        split = await entity_resolution.split_node(
            access.session,
            access.scope,
            node_id=new_split.node,
            evidence_ids=set(new_split.evidence),
            qualifier=new_split.qualifier,
            reason=new_split.reason,
            made_by=access.owner_id,
        )
    except MergeRefusedError as refusal:
        raise ConflictError("not-split", f"Not split: {refusal}.") from refusal
    if split is None:
        raise NotFoundError("node", new_split.node)
    return await get_merge(access, split.id)


class NewDistinctPair(BaseModel):
    """Two nodes of one type that are not the same thing."""

    model_config = ConfigDict(extra="forbid")

    one: UUID
    other: UUID


async def declare_distinct(access: AgentAccess, pair: NewDistinctPair) -> DistinctPairResponse:
    """Keeps the two from being listed as duplicates.

    Raises NotFoundError for an unknown node, and ConflictError where the two could be no duplicates.
    """
    try:
        pair_id = await distinct.declare_distinct(
            access.session, access.scope, (pair.one, pair.other), access.owner_id
        )
    except NotComparableError as error:
        raise ConflictError("not-comparable", f"Not saved: {error}.") from error
    if pair_id is None:
        is_there = await has_element(access, GraphNode, pair.one)
        raise NotFoundError("node", pair.other if is_there else pair.one)
    return await get_distinct_pair(access, pair_id)


async def forget_distinct(access: OwnedAgent, pair_id: UUID) -> None:
    """Forgets a pair: its nodes can be listed as duplicates again."""
    if not await distinct.forget_distinct(access.session, access.scope, pair_id):
        raise NotFoundError("distinct pair", pair_id)


MAX_COMPARED_EDGES: Final = 12
"""The newest edges of a node that a comparison shows, in each direction."""
_MAX_COMPARED_EVIDENCE: Final = 100


class ComparedEdge(NamedTuple):
    type: str
    is_outgoing: bool
    other_id: UUID
    other_name: str


class ComparedSource(NamedTuple):
    id: UUID
    url: str
    title: str | None


@dataclass(frozen=True)
class ComparedNode:
    """What is compared of a node that may be a duplicate."""

    id: UUID
    name: str
    properties: Json
    created_at: datetime
    names: Sequence[str]
    """Its other names."""
    edges: Sequence[ComparedEdge]
    sources: Sequence[ComparedSource]


async def load_compared_nodes(
    access: AgentAccess, ids: Collection[UUID]
) -> dict[UUID, ComparedNode]:
    """Loads nodes for a comparison, in four statements however many they are."""
    if not ids:
        return {}
    session, params = access.session, {**access.scope.sql_params, "ids": uuid_array(ids)}
    names: defaultdict[UUID, list[str]] = defaultdict(list)
    for node_id, name in await _COMPARED_NAMES.rows(session, params):
        names[node_id].append(name)
    edges: defaultdict[UUID, list[ComparedEdge]] = defaultdict(list)
    for node_id, *edge in await _COMPARED_EDGES.rows(
        session, {**params, "most": MAX_COMPARED_EDGES}
    ):
        edges[node_id].append(ComparedEdge(*edge))
    sources: defaultdict[UUID, list[ComparedSource]] = defaultdict(list)
    for node_id, *source in await _COMPARED_SOURCES.rows(
        session, {**params, "most": _MAX_COMPARED_EVIDENCE}
    ):
        sources[node_id].append(ComparedSource(*source))
    return {
        row.id: ComparedNode(
            row.id,
            row.name,
            row.properties,
            row.created_at,
            [name for name in names[row.id] if name != row.name],
            edges[row.id],
            sources[row.id],
        )
        for row in await _COMPARED_NODES.rows(session, params)
    }


_COMPARED_NODES: Final = CompiledStatement(
    "select id, name, properties, created_at from graph_nodes"
    f" where agent_id = {OWNED_AGENT_ID_SQL} and id = any(cast(:ids as uuid[]))"
)
_COMPARED_NAMES: Final = CompiledStatement(
    "select node_id, name from graph_names"
    f" where agent_id = {OWNED_AGENT_ID_SQL} and node_id = any(cast(:ids as uuid[])) order by name"
)


def _compared_edges_sql(end: str, other: str) -> str:
    # A range of one, for the reason given in `shared.graph.retrieval.query`.
    return (
        f"select given.id as node_id, near.type, {end == 'source'} as is_outgoing, near.{other}_id as other_id"
        " from given cross join lateral (select * from graph_edges"
        f" where {end}_id >= given.id and {end}_id <= given.id and {JOINS_TWO_NODES_SQL}"
        f" order by {end}_id desc, updated_at desc limit :most) near"
        f" where near.agent_id = {OWNED_AGENT_ID_SQL} and near.{IS_SUPPORTED_SQL}"
    )


_COMPARED_EDGES: Final = CompiledStatement(
    "with given as materialized (select unnest(cast(:ids as uuid[])) as id)"
    " select node_id, near.type, is_outgoing, other_id, graph_nodes.name from"
    f" ({_compared_edges_sql('source', 'target')} union all {_compared_edges_sql('target', 'source')}) near"
    " join graph_nodes on graph_nodes.id = other_id order by near.type, graph_nodes.name"
)
_COMPARED_SOURCES: Final = CompiledStatement(
    "with given as materialized (select unnest(cast(:ids as uuid[])) as id)"
    " select distinct given.id as node_id, sources.id, url, title from given cross join lateral"
    " (select source_id from evidence where node_id = given.id limit :most) quoted"
    f" join sources on sources.id = source_id and sources.agent_id = {OWNED_AGENT_ID_SQL}"
    " order by url"
)
