"""Destinations and their deliveries, as their owner sees them."""

from typing import Final
from uuid import UUID

from sqlalchemy import Select, select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased

from shared.store.reading.destination_shapes import (
    DeliveryView,
    DestinationDetails,
    DestinationView,
)
from shared.store.reading.keyset import Keyset, slice_of
from shared.store.reading.page import Page, Wanted
from shared.store.tables import Agent, Delivery, Destination, InboxItem
from shared.store.words import DeliveryStatus

RECENT: Final = 10
BY_AGE: Final = Keyset("destinations", (Destination.created_at, Destination.id))
NEWEST_DELIVERIES: Final = Keyset("deliveries", (Delivery.created_at, Delivery.id))


async def of_owner(session: AsyncSession, owner_id: UUID, wanted: Wanted) -> Page[DestinationView]:
    """The newest first. Raises BadCursorError."""
    found = await slice_of(session, _destinations(owner_id), BY_AGE, wanted)
    return found.page(_view)


async def find(
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
