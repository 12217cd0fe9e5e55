"""What an iteration wrote first: the nodes and edges that were not there before."""

from typing import Any, Final
from uuid import UUID

from sqlalchemy import Select, literal, select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased

from shared.store.reading.iteration_shapes import Written
from shared.store.tables import GraphEdge, GraphNode
from shared.store.words import ADVICE_TYPE, ANALYSIS_TYPE

MOST: Final = 200
"""Of nodes and of edges each: people read no more of them in a row."""


async def of_iteration(session: AsyncSession, iteration_id: UUID) -> list[Written]:
    """Conclusions first, then nodes, then edges. The caller has seen to it that the iteration is the owner's."""
    found: list[Written] = []
    for statement in (_nodes(iteration_id), _edges(iteration_id)):
        rows = (await session.execute(statement.limit(MOST))).mappings()
        found += [Written.model_validate(dict(row)) for row in rows]
    return found


def _nodes(iteration_id: UUID) -> Select[*tuple[Any, ...]]:
    concludes = GraphNode.type.in_((ADVICE_TYPE, ANALYSIS_TYPE))
    return (
        select(
            literal("node").label("kind"),
            GraphNode.id,
            GraphNode.type,
            GraphNode.name,
            GraphNode.step_id,
        )
        .where(GraphNode.iteration_id == iteration_id)
        .order_by(concludes.desc(), GraphNode.type, GraphNode.name)
    )


def _edges(iteration_id: UUID) -> Select[*tuple[Any, ...]]:
    source, target = aliased(GraphNode), aliased(GraphNode)
    return (
        select(
            literal("edge").label("kind"),
            GraphEdge.id,
            GraphEdge.type,
            (source.name + " → " + target.name).label("name"),
            GraphEdge.step_id,
        )
        .join(source, source.id == GraphEdge.source_id)
        .join(target, target.id == GraphEdge.target_id)
        .where(GraphEdge.iteration_id == iteration_id)
        .order_by(GraphEdge.type, source.name, target.name)
    )
