"""Nodes that a new name may mean: looked for where names that read alike stand beside each other.

To search all names for trigrams takes hundreds of milliseconds among a million. So only those are compared that stand
next to the new one in one of three orders: by the key, which finds names that begin alike; by the key read backwards,
for those that end alike; by its words, the longest first, for the same words in another order. What that costs does
not depend on how many there are.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from shared.graph import naming
from shared.graph.likeness import alike, backwards, by_length
from shared.graph.lines import quoted
from shared.graph.scope import OWNED_SQL, Scope
from shared.graph.spelled import spelled
from shared.graph.type_names import RESERVED_TYPES
from shared.store.direct import Direct
from shared.store.reading.keyset import Keyset, slice_of
from shared.store.reading.merge_shapes import DoubleView, NodeRef
from shared.store.reading.page import Page, Wanted
from shared.store.tables import GraphNode
from shared.tools import ToolRefusalError

LIKENESS: Final = 0.55
"""From which on two names may mean the same thing, unless settings say otherwise."""
MOST: Final = 5
_BESIDE: Final = 12
"""Names compared before and behind the new one, in each order."""
_NAMES: Final = (
    f"select id, name from graph_nodes where agent_id = {OWNED_SQL} and id in ({{values}})"
)
_TOUCHED: Final = Keyset("doubles", (GraphNode.updated_at, GraphNode.id))


@dataclass(frozen=True)
class Double:
    """A node that may be the one that is meant."""

    node_id: UUID
    name: str
    likeness: float


async def likely(
    session: AsyncSession,
    scope: Scope,
    type_name: str,
    key: str,
    least: float,
    *,
    but: UUID | None = None,
) -> list[Double]:
    """At most MOST nodes of the type that are called like `key`, the likest first; `but` the one that is asked for."""
    found = await _BESIDE_IT.rows(session, beside(scope, type_name, key))
    holders = {key: node_id for key, node_id in found if node_id != but}
    return await likest(session, scope, key, holders, least)


async def likest(
    session: AsyncSession, scope: Scope, key: str, holders: Mapping[str, UUID], least: float
) -> list[Double]:
    """As `likely`, of those that stand beside it: by their keys the nodes that have them."""
    best: dict[UUID, float] = {}
    for each in alike(key, holders, least):
        holder = holders[each.key]
        best[holder] = max(each.likeness, best.get(holder, 0.0))
    order = sorted(best, key=lambda node_id: (-best[node_id], node_id))[:MOST]
    names = await _names(session, scope, order)
    return [Double(each, names[each], best[each]) for each in order if each in names]


def refuse_undecided(doubles: Sequence[Double], distinct_from: Collection[UUID]) -> None:
    """Raises ToolRefusalError unless the model has said of every one of `doubles` that it is another thing."""
    if all(each.node_id in distinct_from for each in doubles):
        return
    told = ", ".join(
        f"[node:{each.node_id}] {quoted(each.name)} ({each.likeness:.2f})" for each in doubles
    )
    ids = ", ".join(f'"{each.node_id}"' for each in doubles)
    raise ToolRefusalError(
        f"There is {told}, which may be the same thing. If one of them is, add it under that name; "
        f"if none is, call again with distinctFrom: [{ids}]."
    )


async def _names(session: AsyncSession, scope: Scope, ids: Sequence[UUID]) -> dict[UUID, str]:
    if not ids:
        return {}
    statement, given = spelled(_NAMES, "id", ids)
    return {row.id: row.name for row in await statement.rows(session, {**scope.bound, **given})}


async def page(session: AsyncSession, scope: Scope, wanted: Wanted) -> Page[DoubleView]:
    """Each pair once, by looking at the nodes touched last first; a page looks at `limit` of them, and may find none."""
    facts = select(GraphNode.id, GraphNode.type, GraphNode.name).where(
        GraphNode.agent_id == scope.agent(), GraphNode.type.not_in(RESERVED_TYPES)
    )
    looked = await slice_of(session, facts, _TOUCHED, wanted)
    found = [
        DoubleView(
            node=NodeRef(id=node_id, type=type_name, name=name),
            other=NodeRef(id=other.node_id, type=type_name, name=other.name),
            likeness=round(other.likeness, 2),
        )
        for node_id, type_name, name in looked.rows
        for other in await _of_node(session, scope, node_id, type_name, name)
        if other.node_id < node_id
    ]
    return Page(items=found, next=looked.next)


async def _of_node(
    session: AsyncSession, scope: Scope, node_id: UUID, type_name: str, name: str
) -> list[Double]:
    key = naming.read(name, type_name).key
    return await likely(session, scope, type_name, key, LIKENESS, but=node_id)


def beside(scope: Scope, type_name: str, key: str) -> dict[str, Any]:
    """What `BESIDE_SQL` is given."""
    of_key = {"key": key, "backwards": backwards(key), "by_length": by_length(key)}
    return {**scope.bound, "type": type_name, **of_key}


def _windows() -> Iterator[str]:
    for column in ("key", "backwards", "by_length"):
        for comes, order in ((">=", "asc"), ("<", "desc")):
            yield (
                f"(select key, node_id from graph_names where agent_id = {OWNED_SQL}"
                f" and type = :type and {column} {comes} :{column}"
                f" order by {column} {order} limit {_BESIDE})"
            )


BESIDE_SQL: Final = " union ".join(_windows())
"""Keys, and whose they are, beside one."""
_BESIDE_IT: Final = Direct(BESIDE_SQL)
