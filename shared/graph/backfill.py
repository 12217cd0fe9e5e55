"""Names of nodes that were written before names were kept."""

from typing import Final
from uuid import UUID

from sqlalchemy import exists, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from shared.database.engine import Database
from shared.database.tables import GraphName, GraphNode
from shared.graph.entity_resolution import normalization
from shared.graph.entity_resolution.candidates import backwards, by_length
from shared.graph.types import RESERVED_TYPES

BATCH: Final = 1_000
_BEFORE_ALL: Final = UUID(int=0)


async def take_names(database: Database) -> int:
    """How many were taken. Where two nodes have one name, the one of the lesser id has it; the other is told as a double.

    May be done beside writers, and again: what is taken stays. Costs a look at each node that has no name.
    """
    taken, last = 0, _BEFORE_ALL
    while True:
        async with database.transaction() as session:
            nodes = await _nameless(session, last)
            taken += await _take(session, nodes)
        if len(nodes) < BATCH:
            return taken
        last = nodes[-1].id


async def _nameless(session: AsyncSession, last: UUID) -> list[GraphNode]:
    has_name = exists().where(GraphName.node_id == GraphNode.id)
    found = await session.scalars(
        select(GraphNode)
        .where(GraphNode.id > last, GraphNode.type.not_in(RESERVED_TYPES), ~has_name)
        .order_by(GraphNode.id)
        .limit(BATCH)
    )
    return list(found)


async def _take(session: AsyncSession, nodes: list[GraphNode]) -> int:
    rows = [_name_of(node) for node in nodes]
    if not rows:
        return 0
    # In the order in which everybody takes names.
    rows.sort(key=lambda row: (str(row["agent_id"]), str(row["type"]), str(row["key"])))
    taken = await session.scalars(
        insert(GraphName).on_conflict_do_nothing().returning(GraphName.key), rows
    )
    return len(taken.all())


def _name_of(node: GraphNode) -> dict[str, object]:
    key = normalization.read(node.name, node.type).key
    return {
        "agent_id": node.agent_id,
        "type": node.type,
        "key": key,
        "backwards": backwards(key),
        "by_length": by_length(key),
        "name": node.name,
        "node_id": node.id,
        "created_at": node.created_at,
    }
