"""The inbox of an owner."""

from uuid import UUID

from sqlalchemy import func, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from shared.store.reading.shapes import InboxItemView
from shared.store.tables import Agent, GraphNode, InboxItem

MAX_LIMIT = 200


async def of_owner(
    session: AsyncSession,
    owner_id: UUID,
    *,
    unread_only: bool = False,
    item_id: UUID | None = None,
    limit: int = 50,
) -> list[InboxItemView]:
    """The newest first; the one item where `item_id` is given."""
    statement = (
        select(InboxItem, Agent.name, GraphNode.properties)
        .join(Agent, Agent.id == InboxItem.agent_id)
        .outerjoin(GraphNode, GraphNode.id == InboxItem.node_id)
        .where(InboxItem.owner_id == owner_id)
        .order_by(InboxItem.created_at.desc(), InboxItem.id)
        .limit(max(0, min(limit, MAX_LIMIT)))
        .execution_options(populate_existing=True)
    )
    if unread_only:
        statement = statement.where(InboxItem.read_at.is_(None))
    if item_id is not None:
        statement = statement.where(InboxItem.id == item_id)
    rows = await session.execute(statement)
    return [
        InboxItemView(
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
        )
        for item, agent_name, advice in rows
    ]


async def mark_read(session: AsyncSession, owner_id: UUID, item_id: UUID) -> InboxItemView | None:
    """The item as it is then; None where the owner has none of that id. The first reading counts."""
    await session.execute(
        update(InboxItem)
        .where(InboxItem.id == item_id, InboxItem.owner_id == owner_id, InboxItem.read_at.is_(None))
        .values(read_at=func.clock_timestamp())
        .execution_options(synchronize_session=False)
    )
    found = await of_owner(session, owner_id, item_id=item_id)
    return found[0] if found else None
