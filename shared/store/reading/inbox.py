"""The inbox of an owner."""

from datetime import date
from functools import partial
from uuid import UUID

from sqlalchemy import Select, bindparam, func, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from shared.store.reading.committed import committed, today
from shared.store.reading.keyset import Keyset, slice_of
from shared.store.reading.page import Page, Wanted
from shared.store.reading.shapes import InboxItemView, Json
from shared.store.tables import Agent, GraphNode, InboxItem

_NEWEST = Keyset("inbox", (InboxItem.created_at, InboxItem.id))
_UNREAD = (
    select(func.count())
    .select_from(InboxItem)
    .where(InboxItem.owner_id == bindparam("of_owner"), InboxItem.read_at.is_(None))
)


async def of_owner(
    session: AsyncSession,
    owner_id: UUID,
    wanted: Wanted,
    *,
    unread_only: bool = False,
    agent_id: UUID | None = None,
) -> Page[InboxItemView]:
    """The newest first; of one agent where it is given."""
    statement = _items(owner_id)
    if unread_only:
        statement = statement.where(InboxItem.read_at.is_(None))
    if agent_id is not None:
        statement = statement.where(InboxItem.agent_id == agent_id)
    found = await slice_of(session, statement, _NEWEST, wanted)
    return found.page(partial(_view, await today(session)))


async def find(session: AsyncSession, owner_id: UUID, item_id: UUID) -> InboxItemView | None:
    """None where the owner has no item of that id."""
    found = (await session.execute(_items(owner_id).where(InboxItem.id == item_id))).one_or_none()
    return None if found is None else _view(await today(session), *found)


async def mark_read(session: AsyncSession, owner_id: UUID, item_id: UUID) -> InboxItemView | None:
    """The item as it is then; None where the owner has none of that id. The first reading counts."""
    await session.execute(
        update(InboxItem)
        .where(InboxItem.id == item_id, InboxItem.owner_id == owner_id, InboxItem.read_at.is_(None))
        .values(read_at=func.clock_timestamp())
        .execution_options(synchronize_session=False)
    )
    return await find(session, owner_id, item_id)


async def mark_unread(session: AsyncSession, owner_id: UUID, item_id: UUID) -> InboxItemView | None:
    """The item as it is then; None where the owner has none of that id."""
    await session.execute(
        update(InboxItem)
        .where(InboxItem.id == item_id, InboxItem.owner_id == owner_id)
        .values(read_at=None)
        .execution_options(synchronize_session=False)
    )
    return await find(session, owner_id, item_id)


async def count_unread(session: AsyncSession, owner_id: UUID) -> int:
    found: int | None = await session.scalar(_UNREAD, {"of_owner": owner_id})
    return found or 0


async def mark_all_read(session: AsyncSession, owner_id: UUID) -> int:
    """How many were unread."""
    marked = await session.execute(
        update(InboxItem)
        .where(InboxItem.owner_id == owner_id, InboxItem.read_at.is_(None))
        .values(read_at=func.clock_timestamp())
        .returning(InboxItem.id)
        .execution_options(synchronize_session=False)
    )
    return len(marked.all())


def _items(owner_id: UUID) -> Select[InboxItem, str, Json | None]:
    """Each with its agent's name and, where it is advice, the properties of that."""
    return (
        select(InboxItem, Agent.name, GraphNode.properties)
        .join(Agent, Agent.id == InboxItem.agent_id)
        .outerjoin(GraphNode, GraphNode.id == InboxItem.node_id)
        .where(InboxItem.owner_id == owner_id)
        .execution_options(populate_existing=True)
    )


def _view(day: date, item: InboxItem, agent_name: str, advice: Json | None) -> InboxItemView:
    return InboxItemView(
        id=item.id,
        kind=item.kind,
        agent_id=item.agent_id,
        agent_name=agent_name,
        node_id=item.node_id,
        action=None if advice is None else advice["action"],
        title=item.title,
        summary=item.summary,
        content="" if advice is None else advice["content"],
        read_at=item.read_at,
        created_at=item.created_at,
        **committed(advice, day),
    )
