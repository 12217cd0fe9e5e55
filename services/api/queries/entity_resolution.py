"""Duplicate candidates and merges."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

from sqlalchemy import ColumnElement, Integer, Select, cast, func, select
from sqlalchemy.dialects.postgresql import JSONPATH
from sqlalchemy.ext.asyncio import AsyncSession

from shared.database.pagination import Keyset, paginate
from shared.database.statements import CompiledStatement, json_text
from shared.database.tables import Agent, GraphMerge, GraphNode
from shared.graph.entity_resolution import normalization
from shared.graph.entity_resolution.candidates import (
    DUPLICATE_THRESHOLD,
    key_columns,
    most_similar,
    neighbour_keys_sql,
)
from shared.graph.scope import OWNED_AGENT_ID_SQL, GraphScope
from shared.graph.types import RESERVED_TYPES
from shared.schemas.base import Page, PageRequest
from shared.schemas.graph import DuplicatePair, MergeResponse, NodeRef

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
    """Lists each candidate pair once, from the most recently updated nodes.

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
    neighbours = await _neighbour_keys(session, scope, candidates)
    pairs = [
        (item, other_id, similarity)
        for item in candidates
        for other_id, similarity in _most_similar(item, neighbours[item.id])
        if other_id < item.id
    ]
    names = await _names(session, scope, {other_id for _, other_id, _ in pairs})
    views = [
        _view(row, other_id, names[other_id], similarity)
        for row, other_id, similarity in pairs
        if other_id in names
    ]
    return Page(items=views, next=page_slice.next)


def _most_similar(
    candidate: _Candidate, owners_by_key: dict[str, UUID]
) -> Iterator[tuple[UUID, float]]:
    other_keys = {key: node_id for key, node_id in owners_by_key.items() if node_id != candidate.id}
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
