"""Duplicate candidates and merges."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

from sqlalchemy import ColumnElement, Integer, Select, cast, func, select
from sqlalchemy.dialects.postgresql import JSONPATH
from sqlalchemy.ext.asyncio import AsyncSession

from shared.database.pagination import Keyset, slice_of
from shared.database.statements import Direct
from shared.database.tables import Agent, GraphMerge, GraphNode
from shared.graph.entity_resolution import normalization
from shared.graph.entity_resolution.candidates import (
    LIKENESS,
    backwards,
    best_of,
    by_length,
    windows,
)
from shared.graph.scope import OWNED_SQL, Scope
from shared.graph.types import RESERVED_TYPES
from shared.schemas.base import Page, Wanted
from shared.schemas.graph import DoubleView, MergeView, NodeRef

_TOUCHED: Final = Keyset("doubles", (GraphNode.updated_at, GraphNode.id))


class _Asked(NamedTuple):
    """A node, and what it is called."""

    id: UUID
    type: str
    name: str
    key: str


async def pairs_page(session: AsyncSession, scope: Scope, wanted: Wanted) -> Page[DoubleView]:
    """Each pair once, by looking at the nodes touched last first; a page looks at `limit` of them, and may find none."""
    facts = select(GraphNode.id, GraphNode.type, GraphNode.name).where(
        GraphNode.agent_id == scope.agent(), GraphNode.type.not_in(RESERVED_TYPES)
    )
    looked = await slice_of(session, facts, _TOUCHED, wanted)
    asked = [
        _Asked(node_id, type_name, name, normalization.read(name, type_name).key)
        for node_id, type_name, name in looked.rows
    ]
    beside = await _beside(session, scope, asked)
    found = [
        (each, other, likeness)
        for each in asked
        for other, likeness in _likest(each, beside[each.id])
        if other < each.id
    ]
    names = await _names(session, scope, {other for _, other, _ in found})
    views = [
        _view(each, other, names[other], likeness)
        for each, other, likeness in found
        if other in names
    ]
    return Page(items=views, next=looked.next)


def _likest(asked: _Asked, holders: dict[str, UUID]) -> Iterator[tuple[UUID, float]]:
    others = {key: node_id for key, node_id in holders.items() if node_id != asked.id}
    yield from best_of(asked.key, others, LIKENESS).items()


def _view(asked: _Asked, other: UUID, name: str, likeness: float) -> DoubleView:
    return DoubleView(
        node=NodeRef(id=asked.id, type=asked.type, name=asked.name),
        other=NodeRef(id=other, type=asked.type, name=name),
        likeness=round(likeness, 2),
    )


async def _beside(
    session: AsyncSession, scope: Scope, asked: Sequence[_Asked]
) -> defaultdict[UUID, dict[str, UUID]]:
    """Of each node the keys that stand beside its own, with the nodes that have them."""
    given: dict[str, Any] = {
        "nodes": [each.id for each in asked],
        "types": [each.type for each in asked],
        "keys": [each.key for each in asked],
        "backwards": [backwards(each.key) for each in asked],
        "by_length": [by_length(each.key) for each in asked],
    }
    found: defaultdict[UUID, dict[str, UUID]] = defaultdict(dict)
    for asking, key, node_id in await _BESIDE_EACH.rows(session, {**scope.bound, **given}):
        found[asking][key] = node_id
    return found


async def _names(session: AsyncSession, scope: Scope, ids: Collection[UUID]) -> dict[UUID, str]:
    rows = await _NAMES.rows(session, {**scope.bound, "ids": list(ids)})
    return {row.id: row.name for row in rows}


_BESIDE_EACH: Final = Direct(
    "select asked.id, near.key, near.node_id"
    " from unnest(cast(:nodes as uuid[]), cast(:types as text[]), cast(:keys as text[]),"
    " cast(:backwards as text[]), cast(:by_length as text[])) asked (id, type, key, backwards, by_length)"
    f" cross join lateral ({windows('asked.{}')}) near"
)
_NAMES: Final = Direct(
    "select id, name from graph_nodes"
    f" where agent_id = {OWNED_SQL} and id = any(cast(:ids as uuid[]))"
)


_NEWEST = Keyset("merges", (GraphMerge.made_at, GraphMerge.id))
_DROPPED = "$.edges[*] ? (@.to == null)"


async def merges_page(
    session: AsyncSession, owner_id: UUID, agent_id: UUID, wanted: Wanted
) -> Page[MergeView]:
    """The newest first, undone ones too."""
    found = await slice_of(session, _merges(owner_id, agent_id), _NEWEST, wanted)
    return found.page(_merge_view)


async def find(
    session: AsyncSession, owner_id: UUID, agent_id: UUID, merge_id: UUID
) -> MergeView | None:
    """None where the agent has no such merge."""
    statement = _merges(owner_id, agent_id).where(GraphMerge.id == merge_id)
    row = (await session.execute(statement)).one_or_none()
    return None if row is None else _merge_view(*row)


def _merges(owner_id: UUID, agent_id: UUID) -> Select[Any]:
    agent = select(Agent.id).where(Agent.id == agent_id, Agent.owner_id == owner_id)
    return (
        select(
            GraphMerge.id,
            GraphMerge.gone["type"].astext,
            GraphMerge.kept_id,
            GraphNode.name,
            GraphMerge.gone_id,
            GraphMerge.gone["name"].astext,
            GraphMerge.reason,
            _count("names"),
            _count("evidence"),
            _count("edges"),
            func.jsonb_array_length(
                func.jsonb_path_query_array(GraphMerge.moved, cast(_DROPPED, JSONPATH)),
                type_=Integer,
            ),
            GraphMerge.made_at,
            GraphMerge.undone_at,
        )
        .join(GraphNode, GraphNode.id == GraphMerge.kept_id, isouter=True)
        .where(GraphMerge.agent_id == agent.scalar_subquery())
    )


def _count(what: str) -> ColumnElement[int]:
    return func.jsonb_array_length(GraphMerge.moved[what], type_=Integer)


def _merge_view(*row: Any) -> MergeView:
    return MergeView(**dict(zip(MergeView.model_fields, row, strict=True)))
