"""Inbox and destinations of an owner."""

from datetime import date
from functools import partial
from typing import Final
from uuid import UUID

from sqlalchemy import Select, bindparam, func, select, update
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased

from shared.database.pagination import Keyset, slice_of
from shared.database.tables import Agent, Delivery, Destination, GraphNode, InboxItem
from shared.enums import DeliveryStatus
from shared.graph.conclusions.conclusions import committed, today
from shared.schemas.base import InboxItemView, Json, Page, Wanted
from shared.schemas.notifications import DeliveryView, DestinationDetails, DestinationView

_NEWEST = Keyset("inbox", (InboxItem.created_at, InboxItem.id))
_UNREAD = (
    select(func.count())
    .select_from(InboxItem)
    .where(InboxItem.owner_id == bindparam("of_owner"), InboxItem.read_at.is_(None))
)


async def inbox_of_owner(
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
    return found.page(partial(_inbox_view, await today(session)))


async def find_inbox_item(
    session: AsyncSession, owner_id: UUID, item_id: UUID
) -> InboxItemView | None:
    """None where the owner has no item of that id."""
    found = (await session.execute(_items(owner_id).where(InboxItem.id == item_id))).one_or_none()
    return None if found is None else _inbox_view(await today(session), *found)


async def mark_read(session: AsyncSession, owner_id: UUID, item_id: UUID) -> InboxItemView | None:
    """The item as it is then; None where the owner has none of that id. The first reading counts."""
    await session.execute(
        update(InboxItem)
        .where(InboxItem.id == item_id, InboxItem.owner_id == owner_id, InboxItem.read_at.is_(None))
        .values(read_at=func.clock_timestamp())
        .execution_options(synchronize_session=False)
    )
    return await find_inbox_item(session, owner_id, item_id)


async def mark_unread(session: AsyncSession, owner_id: UUID, item_id: UUID) -> InboxItemView | None:
    """The item as it is then; None where the owner has none of that id."""
    await session.execute(
        update(InboxItem)
        .where(InboxItem.id == item_id, InboxItem.owner_id == owner_id)
        .values(read_at=None)
        .execution_options(synchronize_session=False)
    )
    return await find_inbox_item(session, owner_id, item_id)


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


def _inbox_view(day: date, item: InboxItem, agent_name: str, advice: Json | None) -> InboxItemView:
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


RECENT: Final = 10
BY_AGE: Final = Keyset("destinations", (Destination.created_at, Destination.id))
NEWEST_DELIVERIES: Final = Keyset("deliveries", (Delivery.created_at, Delivery.id))


async def destinations_of_owner(
    session: AsyncSession, owner_id: UUID, wanted: Wanted
) -> Page[DestinationView]:
    """The newest first. Raises BadCursorError."""
    found = await slice_of(session, _destinations(owner_id), BY_AGE, wanted)
    return found.page(_view)


async def find_destination(
    session: AsyncSession, owner_id: UUID, destination_id: UUID
) -> DestinationDetails | None:
    found = (
        await session.execute(
            _destinations(owner_id)
            .where(Destination.id == destination_id)
            .execution_options(populate_existing=True)
        )
    ).one_or_none()
    if found is None:
        return None
    recent = await deliveries(session, destination_id, Wanted(RECENT))
    return DestinationDetails(**dict(_view(*found)), deliveries=recent.items)


async def deliveries(
    session: AsyncSession, destination_id: UUID, wanted: Wanted, *, status: str | None = None
) -> Page[DeliveryView]:
    """The newest first; of one status, where that is given. Raises BadCursorError."""
    statement = _deliveries(destination_id)
    if status is not None:
        statement = statement.where(Delivery.status == status)
    found = await slice_of(session, statement, NEWEST_DELIVERIES, wanted)
    return found.page(_delivery)


async def delivery(
    session: AsyncSession, destination_id: UUID, delivery_id: UUID
) -> DeliveryView | None:
    found = (
        await session.execute(
            _deliveries(destination_id)
            .where(Delivery.id == delivery_id)
            .execution_options(populate_existing=True)
        )
    ).one_or_none()
    return None if found is None else _delivery(*found)


def _destinations(
    owner_id: UUID,
) -> Select[Destination, str, Delivery, str]:
    own = aliased(Delivery)
    last = (
        select(own.id)
        .where(own.destination_id == Destination.id)
        .order_by(own.created_at.desc(), own.id.desc())
        .limit(1)
        .correlate(Destination)
        .scalar_subquery()
    )
    return (
        select(Destination, Agent.name, Delivery, InboxItem.title)
        .outerjoin(Agent, Agent.id == Destination.agent_id)
        .outerjoin(Delivery, Delivery.id == last)
        .outerjoin(InboxItem, InboxItem.id == Delivery.inbox_item_id)
        .where(Destination.owner_id == owner_id)
    )


def _deliveries(destination_id: UUID) -> Select[Delivery, str]:
    return (
        select(Delivery, InboxItem.title)
        .outerjoin(InboxItem, InboxItem.id == Delivery.inbox_item_id)
        .where(Delivery.destination_id == destination_id)
    )


def _view(
    destination: Destination, agent_name: str | None, last: Delivery | None, title: str | None
) -> DestinationView:
    return DestinationView(
        id=destination.id,
        kind=destination.kind,
        address=destination.address,
        agent_id=destination.agent_id,
        agent_name=agent_name,
        active=destination.active,
        stopped_because=destination.stopped_because,
        created_at=destination.created_at,
        last_delivery=None if last is None else _delivery(last, title),
    )


def _delivery(delivery: Delivery, title: str | None) -> DeliveryView:
    rests = delivery.status == DeliveryStatus.PENDING and delivery.lease_owner is None
    return DeliveryView(
        id=delivery.id,
        destination_id=delivery.destination_id,
        inbox_item_id=delivery.inbox_item_id,
        title=title,
        status=delivery.status,
        attempts=delivery.attempts,
        next_attempt_at=delivery.next_attempt_at if rests else None,
        give_up_at=delivery.give_up_at,
        status_code=delivery.status_code,
        error=delivery.error,
        created_at=delivery.created_at,
        ended_at=delivery.ended_at,
        retry_requested_at=delivery.retry_requested_at,
    )
