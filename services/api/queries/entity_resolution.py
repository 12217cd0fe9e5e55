"""Duplicate candidates and merges."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple
from uuid import UUID

from sqlalchemy import ColumnElement, Integer, Select, cast, func, select
from sqlalchemy.dialects.postgresql import JSONPATH
from sqlalchemy.ext.asyncio import AsyncSession

from shared.database.pagination import Keyset, paginate
from shared.database.statements import CompiledStatement, json_text, uuid_array
from shared.database.tables import Agent, GraphDistinctPair, GraphMerge, GraphNode
from shared.graph.entity_resolution import normalization
from shared.graph.entity_resolution.candidates import (
    DUPLICATE_THRESHOLD,
    key_columns,
    most_similar,
    neighbour_keys_sql,
)
from shared.graph.entity_resolution.distinct import distinct_nodes
from shared.graph.scope import (
    IS_SUPPORTED_SQL,
    JOINS_TWO_NODES_SQL,
    OWNED_AGENT_ID_SQL,
    GraphScope,
)
from shared.graph.types import RESERVED_TYPES
from shared.schemas.base import Json, Page, PageRequest
from shared.schemas.graph import DistinctPairResponse, DuplicatePair, MergeResponse, NodeRef

_TOUCHED: Final = Keyset("duplicates", (GraphNode.updated_at, GraphNode.id))


class _Candidate(NamedTuple):
    """A node with its normalized name."""

    id: UUID
    type: str
    name: str
    key: str


async def list_duplicate_candidates(
    session: AsyncSession, scope: GraphScope, page_request: PageRequest
) -> Page[DuplicatePair]:
    """Lists each candidate pair once, from the most recently updated nodes, without those declared distinct.

    A page compares `limit` nodes, so it may be empty.
    """
    facts = select(GraphNode.id, GraphNode.type, GraphNode.name).where(
        GraphNode.agent_id == scope.owned_agent_id(), GraphNode.type.not_in(RESERVED_TYPES)
    )
    page_slice = await paginate(session, facts, _TOUCHED, page_request)
    candidates = [
        _Candidate(node_id, type_name, name, normalization.normalize(name, type_name).key)
        for node_id, type_name, name in page_slice.rows
    ]
    pairs = await _similar_pairs(session, scope, candidates)
    once = [(item, other_id, value) for item, other_id, value in pairs if other_id < item.id]
    return Page(items=await _views(session, scope, once), next=page_slice.next)


async def list_candidates_of_node(
    session: AsyncSession, scope: GraphScope, node_id: UUID
) -> list[DuplicatePair]:
    """Lists the nodes that may be the same as this one; empty if there is no such node."""
    facts = select(GraphNode.type, GraphNode.name).where(
        GraphNode.agent_id == scope.owned_agent_id(),
        GraphNode.id == node_id,
        GraphNode.type.not_in(RESERVED_TYPES),
    )
    row = (await session.execute(facts)).one_or_none()
    if row is None:
        return []
    key = normalization.normalize(row.name, row.type).key
    candidate = _Candidate(node_id, row.type, row.name, key)
    return await _views(session, scope, await _similar_pairs(session, scope, [candidate]))


_Similar = tuple[_Candidate, UUID, float]


async def _similar_pairs(
    session: AsyncSession, scope: GraphScope, candidates: Sequence[_Candidate]
) -> list[_Similar]:
    """Each candidate with the nodes that are most similar to it, but for those that a person declared distinct."""
    neighbours = await _neighbour_keys(session, scope, candidates)
    distinct = await distinct_nodes(session, scope, [item.id for item in candidates])
    return [
        (item, other_id, similarity)
        for item in candidates
        for other_id, similarity in _most_similar(
            item, neighbours[item.id], {item.id, *distinct[item.id]}
        )
    ]


async def _views(
    session: AsyncSession, scope: GraphScope, pairs: Sequence[_Similar]
) -> list[DuplicatePair]:
    names = await _names(session, scope, {other_id for _, other_id, _ in pairs})
    return [
        _view(row, other_id, names[other_id], similarity)
        for row, other_id, similarity in pairs
        if other_id in names
    ]


def _most_similar(
    candidate: _Candidate, owners_by_key: dict[str, UUID], excluded: Collection[UUID]
) -> Iterator[tuple[UUID, float]]:
    other_keys = {key: node_id for key, node_id in owners_by_key.items() if node_id not in excluded}
    yield from most_similar(candidate.key, other_keys, DUPLICATE_THRESHOLD).items()


def _view(candidate: _Candidate, other_id: UUID, name: str, similarity: float) -> DuplicatePair:
    return DuplicatePair(
        node=NodeRef(id=candidate.id, type=candidate.type, name=candidate.name),
        other=NodeRef(id=other_id, type=candidate.type, name=name),
        similarity=round(similarity, 2),
    )


async def _neighbour_keys(
    session: AsyncSession, scope: GraphScope, candidates: Sequence[_Candidate]
) -> defaultdict[UUID, dict[str, UUID]]:
    """Returns, for each node, the neighbour keys of its key in each sort order, with their nodes."""
    asking = [
        {"id": candidate.id, "type": candidate.type, **key_columns(candidate.key)}
        for candidate in candidates
    ]
    result: defaultdict[UUID, dict[str, UUID]] = defaultdict(dict)
    for asking_id, key, node_id in await _NEIGHBOUR_KEYS.rows(
        session, {**scope.sql_params, "asking": json_text(asking)}
    ):
        result[asking_id][key] = node_id
    return result


async def _names(
    session: AsyncSession, scope: GraphScope, ids: Collection[UUID]
) -> dict[UUID, str]:
    rows = await _NAMES.rows(session, {**scope.sql_params, "ids": list(ids)})
    return {row.id: row.name for row in rows}


_NEIGHBOUR_KEYS: Final = CompiledStatement(
    "select asked.id, near.key, near.node_id"
    " from jsonb_to_recordset(cast(:asking as jsonb))"
    " asked (id uuid, type text, key text, reversed_key text, sorted_words_key text)"
    f" cross join lateral ({neighbour_keys_sql('asked.{}')}) near"
)
_NAMES: Final = CompiledStatement(
    "select id, name from graph_nodes"
    f" where agent_id = {OWNED_AGENT_ID_SQL} and id = any(cast(:ids as uuid[]))"
)


_NEWEST = Keyset("merges", (GraphMerge.made_at, GraphMerge.id))
_DROPPED = "$.edges[*] ? (@.to == null)"


async def list_merges(
    session: AsyncSession, owner_id: UUID, agent_id: UUID, page_request: PageRequest
) -> Page[MergeResponse]:
    """Lists merges, newest first, including undone ones."""
    page_slice = await paginate(session, _merges(owner_id, agent_id), _NEWEST, page_request)
    return page_slice.page(_merge_view)


async def find_merge(
    session: AsyncSession, owner_id: UUID, agent_id: UUID, merge_id: UUID
) -> MergeResponse | None:
    """Returns the merge, or None where the agent has no such merge."""
    statement = _merges(owner_id, agent_id).where(GraphMerge.id == merge_id)
    row = (await session.execute(statement)).one_or_none()
    return None if row is None else _merge_view(*row)


def _merges(owner_id: UUID, agent_id: UUID) -> Select[Any]:
    agent = select(Agent.id).where(Agent.id == agent_id, Agent.owner_id == owner_id)
    return (
        select(
            GraphMerge.id,
            GraphMerge.merged_node["type"].astext,
            GraphMerge.kept_id,
            GraphNode.name,
            GraphMerge.merged_id,
            GraphMerge.merged_node["name"].astext,
            GraphMerge.reason,
            _count("names"),
            _count("evidence"),
            _count("edges"),
            func.jsonb_array_length(
                func.jsonb_path_query_array(GraphMerge.journal, cast(_DROPPED, JSONPATH)),
                type_=Integer,
            ),
            GraphMerge.made_at,
            GraphMerge.undone_at,
        )
        .join(GraphNode, GraphNode.id == GraphMerge.kept_id, isouter=True)
        .where(GraphMerge.agent_id == agent.scalar_subquery())
    )


def _count(jsonpath: str) -> ColumnElement[int]:
    return func.jsonb_array_length(GraphMerge.journal[jsonpath], type_=Integer)


def _merge_view(*row: Any) -> MergeResponse:
    return MergeResponse(**dict(zip(MergeResponse.model_fields, row, strict=True)))


_DISTINCT_PAIRS = Keyset("distinct pairs", (GraphDistinctPair.made_at, GraphDistinctPair.id))


async def list_distinct_pairs(
    session: AsyncSession, scope: GraphScope, page_request: PageRequest
) -> Page[DistinctPairResponse]:
    """Lists the pairs that a person declared distinct, newest first."""
    statement = select(GraphDistinctPair).where(
        GraphDistinctPair.agent_id == scope.owned_agent_id()
    )
    page_slice = await paginate(session, statement, _DISTINCT_PAIRS, page_request)
    return page_slice.page(_distinct_view)


async def find_distinct_pair(
    session: AsyncSession, scope: GraphScope, pair_id: UUID
) -> DistinctPairResponse | None:
    pair = await session.scalar(
        select(GraphDistinctPair)
        .where(
            GraphDistinctPair.agent_id == scope.owned_agent_id(), GraphDistinctPair.id == pair_id
        )
        .execution_options(populate_existing=True)
    )
    return None if pair is None else _distinct_view(pair)


def _distinct_view(pair: GraphDistinctPair) -> DistinctPairResponse:
    return DistinctPairResponse(
        id=pair.id,
        one=NodeRef(id=pair.one_id, type=pair.type, name=pair.one_name),
        other=NodeRef(id=pair.other_id, type=pair.type, name=pair.other_name),
        made_at=pair.made_at,
    )


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
    session: AsyncSession, scope: GraphScope, ids: Collection[UUID]
) -> dict[UUID, ComparedNode]:
    """Loads nodes for a comparison, in four statements however many they are."""
    if not ids:
        return {}
    params = {**scope.sql_params, "ids": uuid_array(ids)}
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
    # A range of one, for the reason given in `shared.graph.retrieval.traversal`.
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
