"""The inbox and the notification destinations of an owner."""

from datetime import date
from functools import partial
from typing import Final
from uuid import UUID

from sqlalchemy import Select, bindparam, func, select, update
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased

from shared.database.pagination import Keyset, paginate
from shared.database.tables import Agent, Delivery, Destination, GraphNode, InboxItem
from shared.enums import DeliveryStatus
from shared.graph.conclusions.conclusions import database_date, forecast_fields
from shared.schemas.base import InboxItemResponse, Json, Page, PageRequest
from shared.schemas.notifications import DeliveryResponse, DestinationDetails, DestinationResponse

_NEWEST = Keyset("inbox", (InboxItem.created_at, InboxItem.id))
_UNREAD = (
    select(func.count())
    .select_from(InboxItem)
    .where(InboxItem.owner_id == bindparam("of_owner"), InboxItem.read_at.is_(None))
)


async def list_inbox_items(
    session: AsyncSession,
    owner_id: UUID,
    page_request: PageRequest,
    *,
    unread_only: bool = False,
    agent_id: UUID | None = None,
) -> Page[InboxItemResponse]:
    """Lists inbox items, newest first; with `agent_id`, those of one agent."""
    statement = _items(owner_id)
    if unread_only:
        statement = statement.where(InboxItem.read_at.is_(None))
    if agent_id is not None:
        statement = statement.where(InboxItem.agent_id == agent_id)
    page_slice = await paginate(session, statement, _NEWEST, page_request)
    return page_slice.page(partial(_inbox_view, await database_date(session)))


async def find_inbox_item(
    session: AsyncSession, owner_id: UUID, item_id: UUID
) -> InboxItemResponse | None:
    """Returns the item, or None where the owner has none of that id."""
    row = (await session.execute(_items(owner_id).where(InboxItem.id == item_id))).one_or_none()
    return None if row is None else _inbox_view(await database_date(session), *row)


async def mark_read(
    session: AsyncSession, owner_id: UUID, item_id: UUID
) -> InboxItemResponse | None:
    """Marks the item as read and returns it; None where the owner has none of that id.

    A second call keeps the first time.
    """
    await session.execute(
        update(InboxItem)
        .where(InboxItem.id == item_id, InboxItem.owner_id == owner_id, InboxItem.read_at.is_(None))
        .values(read_at=func.clock_timestamp())
        .execution_options(synchronize_session=False)
    )
    return await find_inbox_item(session, owner_id, item_id)


async def mark_unread(
    session: AsyncSession, owner_id: UUID, item_id: UUID
) -> InboxItemResponse | None:
    """Marks the item as unread and returns it; None where the owner has none of that id."""
    await session.execute(
        update(InboxItem)
        .where(InboxItem.id == item_id, InboxItem.owner_id == owner_id)
        .values(read_at=None)
        .execution_options(synchronize_session=False)
    )
    return await find_inbox_item(session, owner_id, item_id)


async def count_unread(session: AsyncSession, owner_id: UUID) -> int:
    count: int | None = await session.scalar(_UNREAD, {"of_owner": owner_id})
    return count or 0


async def mark_all_read(session: AsyncSession, owner_id: UUID) -> int:
    """Marks all items as read. Returns how many were unread."""
    result = await session.execute(
        update(InboxItem)
        .where(InboxItem.owner_id == owner_id, InboxItem.read_at.is_(None))
        .values(read_at=func.clock_timestamp())
        .returning(InboxItem.id)
        .execution_options(synchronize_session=False)
    )
    return len(result.all())


def _items(owner_id: UUID) -> Select[InboxItem, str, Json | None]:
    """Selects items with their agent's name and, for advice, the properties of its node."""
    return (
        select(InboxItem, Agent.name, GraphNode.properties)
        .join(Agent, Agent.id == InboxItem.agent_id)
        .outerjoin(GraphNode, GraphNode.id == InboxItem.node_id)
        .where(InboxItem.owner_id == owner_id)
        .execution_options(populate_existing=True)
    )


def _inbox_view(
    day: date, item: InboxItem, agent_name: str, advice: Json | None
) -> InboxItemResponse:
    return InboxItemResponse(
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
        **forecast_fields(advice, day),
    )


RECENT_DELIVERIES: Final = 10
BY_AGE: Final = Keyset("destinations", (Destination.created_at, Destination.id))
NEWEST_DELIVERIES: Final = Keyset("deliveries", (Delivery.created_at, Delivery.id))


async def list_destinations(
    session: AsyncSession, owner_id: UUID, page_request: PageRequest
) -> Page[DestinationResponse]:
    """Lists destinations, newest first. Raises InvalidCursorError."""
    page_slice = await paginate(session, _destinations(owner_id), BY_AGE, page_request)
    return page_slice.page(_view)


async def find_destination(
    session: AsyncSession, owner_id: UUID, destination_id: UUID
) -> DestinationDetails | None:
    row = (
        await session.execute(
            _destinations(owner_id)
            .where(Destination.id == destination_id)
            .execution_options(populate_existing=True)
        )
    ).one_or_none()
    if row is None:
        return None
    recent = await list_deliveries(session, destination_id, PageRequest(RECENT_DELIVERIES))
    return DestinationDetails(**dict(_view(*row)), deliveries=recent.items)


async def list_deliveries(
    session: AsyncSession,
    destination_id: UUID,
    page_request: PageRequest,
    *,
    status: str | None = None,
) -> Page[DeliveryResponse]:
    """Lists deliveries, newest first; with `status`, those only. Raises InvalidCursorError."""
    statement = _deliveries(destination_id)
    if status is not None:
        statement = statement.where(Delivery.status == status)
    page_slice = await paginate(session, statement, NEWEST_DELIVERIES, page_request)
    return page_slice.page(_delivery_view)


async def find_delivery(
    session: AsyncSession, destination_id: UUID, delivery_id: UUID
) -> DeliveryResponse | None:
    row = (
        await session.execute(
            _deliveries(destination_id)
            .where(Delivery.id == delivery_id)
            .execution_options(populate_existing=True)
        )
    ).one_or_none()
    return None if row is None else _delivery_view(*row)


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
) -> DestinationResponse:
    return DestinationResponse(
        id=destination.id,
        kind=destination.kind,
        address=destination.address,
        agent_id=destination.agent_id,
        agent_name=agent_name,
        active=destination.active,
        stop_reason=destination.stop_reason,
        created_at=destination.created_at,
        last_delivery=None if last is None else _delivery_view(last, title),
    )


def _delivery_view(delivery: Delivery, title: str | None) -> DeliveryResponse:
    is_waiting = delivery.status == DeliveryStatus.PENDING and delivery.lease_owner is None
    return DeliveryResponse(
        id=delivery.id,
        destination_id=delivery.destination_id,
        inbox_item_id=delivery.inbox_item_id,
        title=title,
        status=delivery.status,
        attempts=delivery.attempts,
        next_attempt_at=delivery.next_attempt_at if is_waiting else None,
        give_up_at=delivery.give_up_at,
        status_code=delivery.status_code,
        error=delivery.error,
        created_at=delivery.created_at,
        ended_at=delivery.ended_at,
        retry_requested_at=delivery.retry_requested_at,
    )
