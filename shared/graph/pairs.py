"""Nodes that may be one thing, for people: found as `shared.graph.doubles` finds those of one name, for many at once."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from shared.graph import naming
from shared.graph.doubles import LIKENESS, best_of, windows
from shared.graph.likeness import backwards, by_length
from shared.graph.scope import OWNED_SQL, Scope
from shared.graph.type_names import RESERVED_TYPES
from shared.store.direct import Direct
from shared.store.reading.keyset import Keyset, slice_of
from shared.store.reading.merge_shapes import DoubleView, NodeRef
from shared.store.reading.page import Page, Wanted
from shared.store.tables import GraphNode

_TOUCHED: Final = Keyset("doubles", (GraphNode.updated_at, GraphNode.id))


class _Asked(NamedTuple):
    """A node, and what it is called."""

    id: UUID
    type: str
    name: str
    key: str


async def page(session: AsyncSession, scope: Scope, wanted: Wanted) -> Page[DoubleView]:
    """Each pair once, by looking at the nodes touched last first; a page looks at `limit` of them, and may find none."""
    facts = select(GraphNode.id, GraphNode.type, GraphNode.name).where(
        GraphNode.agent_id == scope.agent(), GraphNode.type.not_in(RESERVED_TYPES)
    )
    looked = await slice_of(session, facts, _TOUCHED, wanted)
    asked = [
        _Asked(node_id, type_name, name, naming.read(name, type_name).key)
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
