"""The merges of an agent's graph."""

from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, Integer, Select, cast, func, select
from sqlalchemy.dialects.postgresql import JSONPATH
from sqlalchemy.ext.asyncio import AsyncSession

from shared.store.reading.keyset import Keyset, slice_of
from shared.store.reading.merge_shapes import MergeView
from shared.store.reading.page import Page, Wanted
from shared.store.tables import Agent, GraphMerge, GraphNode

_NEWEST = Keyset("merges", (GraphMerge.made_at, GraphMerge.id))
_DROPPED = "$.edges[*] ? (@.to == null)"


async def page(
    session: AsyncSession, owner_id: UUID, agent_id: UUID, wanted: Wanted
) -> Page[MergeView]:
    """The newest first, undone ones too."""
    found = await slice_of(session, _merges(owner_id, agent_id), _NEWEST, wanted)
    return found.page(_view)


async def find(
    session: AsyncSession, owner_id: UUID, agent_id: UUID, merge_id: UUID
) -> MergeView | None:
    """None where the agent has no such merge."""
    statement = _merges(owner_id, agent_id).where(GraphMerge.id == merge_id)
    row = (await session.execute(statement)).one_or_none()
    return None if row is None else _view(*row)


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


def _view(*row: Any) -> MergeView:
    return MergeView(**dict(zip(MergeView.model_fields, row, strict=True)))
