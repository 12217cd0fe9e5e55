"""How many nodes and edges there are of each type, counted no further than is quickly done."""

from dataclasses import dataclass
from typing import Final

from sqlalchemy.ext.asyncio import AsyncSession

from shared.graph.scope import OWNED_SQL, Scope
from shared.store.direct import Direct

MOST_COUNTED: Final = 5_000
"""Of one type."""


@dataclass(frozen=True)
class TypeCounts:
    """By type; a figure of MOST_COUNTED means that many or more."""

    nodes: dict[str, int]
    edges: dict[str, int]

    @property
    def has_more(self) -> bool:
        return any(count >= MOST_COUNTED for count in (*self.nodes.values(), *self.edges.values()))


async def by_type(session: AsyncSession, scope: Scope) -> TypeCounts:
    return TypeCounts(
        await _counted(session, scope, _NODES), await _counted(session, scope, _EDGES)
    )


async def _counted(session: AsyncSession, scope: Scope, statement: Direct) -> dict[str, int]:
    rows = await statement.rows(session, {**scope.bound, "most": MOST_COUNTED})
    return {row[0]: row[1] for row in rows}


def _of(types: str, things: str) -> Direct:
    return Direct(
        f"select name, (select count(*) from (select from {things}"
        f" where agent_id = {types}.agent_id and type = {types}.name limit :most) counted) as count"
        f" from {types} where agent_id = {OWNED_SQL} order by name"
    )


_NODES: Final = _of("graph_node_types", "graph_nodes")
_EDGES: Final = _of("graph_edge_types", "graph_edges")
