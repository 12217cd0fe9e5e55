"""Notification destinations of an owner, with their deliveries."""

from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Select, and_, case, select
from sqlalchemy.orm import aliased

from services.api.auth.dependencies import OwnedAccess
from services.api.http.dependencies import Page, PageQuery
from services.api.http.problem_details import NotFoundError
from services.api.reading import columns_of, paginate_rows, read_all, read_one
from shared.database.pagination import Keyset
from shared.database.tables import Agent, Delivery, Destination, InboxItem
from shared.database.transaction import Transaction
from shared.enums import DeliveryStatus
from shared.schemas.notifications import DeliveryResponse, DestinationDetails, DestinationResponse

RECENT_DELIVERIES: Final = 10
_BY_AGE: Final = Keyset("destinations", (Destination.created_at, Destination.id))
NEWEST_DELIVERIES: Final = Keyset("deliveries", (Delivery.created_at, Delivery.id))
_IS_WAITING: Final = and_(Delivery.status == DeliveryStatus.PENDING, Delivery.lease_owner.is_(None))
_DELIVERY: Final = columns_of(
    Delivery,
    DeliveryResponse,
    title=InboxItem.title,
    next_attempt_at=case((_IS_WAITING, Delivery.next_attempt_at)),
)


async def list_destinations(
    access: OwnedAccess, page_request: PageQuery
) -> Page[DestinationResponse]:
    """Lists destinations, newest first, with their last delivery."""
    statement = _select_destinations(access.owner_id)
    rows, following = await paginate_rows(access.session, statement, _BY_AGE, page_request)
    return Page(items=[_destination(row) for row in rows], next=following)


async def find_destination(
    session: Transaction, owner_id: UUID, destination_id: UUID
) -> DestinationDetails | None:
    statement = _select_destinations(owner_id).where(Destination.id == destination_id)
    row = (await session.execute(statement)).mappings().one_or_none()
    if row is None:
        return None
    newest = (
        select_deliveries(destination_id)
        .order_by(Delivery.created_at.desc(), Delivery.id.desc())
        .limit(RECENT_DELIVERIES)
    )
    deliveries = await read_all(session, DeliveryResponse, newest)
    return DestinationDetails(**dict(_destination(dict(row))), deliveries=deliveries)


async def get_delivery(
    session: Transaction, destination_id: UUID, delivery_id: UUID
) -> DeliveryResponse:
    """Raises NotFoundError."""
    statement = select_deliveries(destination_id).where(Delivery.id == delivery_id)
    delivery = await read_one(session, DeliveryResponse, statement)
    if delivery is None:
        raise NotFoundError("delivery", delivery_id)
    return delivery


def select_deliveries(destination_id: UUID) -> Select[*tuple[Any, ...]]:
    return (
        select(*_DELIVERY)
        .outerjoin(InboxItem, InboxItem.id == Delivery.inbox_item_id)
        .where(Delivery.destination_id == destination_id)
    )


def _select_destinations(owner_id: UUID) -> Select[*tuple[Any, ...]]:
    """Selects destinations, each with its newest delivery or nulls."""
    own = aliased(Delivery)
    last = (
        select(own.id)
        .where(own.destination_id == Destination.id)
        .order_by(own.created_at.desc(), own.id.desc())
        .limit(1)
        .correlate(Destination)
        .scalar_subquery()
    )
    columns = columns_of(Destination, DestinationResponse, agent_name=Agent.name)
    return (
        select(*columns, *(column.label(f"last_{column.key}") for column in _DELIVERY))
        .outerjoin(Agent, Agent.id == Destination.agent_id)
        .outerjoin(Delivery, Delivery.id == last)
        .outerjoin(InboxItem, InboxItem.id == Delivery.inbox_item_id)
        .where(Destination.owner_id == owner_id)
    )


def _destination(row: Mapping[str, Any]) -> DestinationResponse:
    last = {name: row[f"last_{name}"] for name in DeliveryResponse.model_fields}
    return DestinationResponse.model_validate(
        {**row, "last_delivery": None if last["id"] is None else last}
    )
