"""Notification destinations of an owner, with their deliveries, and what the owner does with them."""

from collections.abc import Mapping
from datetime import timedelta
from http import HTTPStatus
from typing import Annotated, Any, Final
from uuid import UUID

from fastapi import Body, Depends, Query
from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from sqlalchemy import Select, and_, case, select
from sqlalchemy.orm import aliased

from services.api.auth.dependencies import Access, OwnedAccess, find_agent_ref
from services.api.http.dependencies import Page, PageQuery
from services.api.http.problem_details import ConflictError, NotFoundError, ProblemError
from services.api.reading import columns_of, paginate_rows, read_all, read_one, read_page
from shared.database.pagination import Keyset
from shared.database.tables import Agent, Delivery, Destination, InboxItem
from shared.enums import DeliveryStatus, DestinationKind
from shared.errors import PermanentError
from shared.notifications import deliveries, webhooks
from shared.notifications import destinations as store
from shared.notifications.smtp import parse_address
from shared.notifications.webhooks import new_secret
from shared.runtime.settings import Settings
from shared.schemas.notifications import (
    CreatedDestination,
    DeliveryResponse,
    DestinationDetails,
    DestinationResponse,
    NewSecret,
)
from shared.workflow.iterations import database_time

RECENT_DELIVERIES: Final = 10
SECRET_OVERLAP: Final = timedelta(hours=24)
"""How long a replaced secret still signs deliveries too, so that receivers have time to change it."""
_BY_AGE: Final = Keyset("destinations", (Destination.created_at, Destination.id))
_NEWEST_DELIVERIES: Final = Keyset("deliveries", (Delivery.created_at, Delivery.id))
_IS_WAITING: Final = and_(Delivery.status == DeliveryStatus.PENDING, Delivery.lease_owner.is_(None))
_DELIVERY: Final = columns_of(
    Delivery,
    DeliveryResponse,
    title=InboxItem.title,
    next_attempt_at=case((_IS_WAITING, Delivery.next_attempt_at)),
)


class NewDestination(BaseModel):
    """Where inbox items are sent from now on: of one agent (its id or name), or of all."""

    model_config = ConfigDict(extra="forbid")

    kind: DestinationKind
    address: Annotated[str, StringConstraints(min_length=1, max_length=2000)]
    """An http or https URL, or a mail address."""
    agent: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = None


class DestinationChange(BaseModel):
    model_config = ConfigDict(extra="forbid")

    active: Annotated[bool, Field(description="Whether inbox items are sent to it")]


async def list_destinations(
    access: OwnedAccess, page_request: PageQuery
) -> Page[DestinationResponse]:
    """Lists destinations, newest first, with their last delivery."""
    statement = _select_destinations(access.owner_id)
    rows, following = await paginate_rows(access.session, statement, _BY_AGE, page_request)
    return Page(items=[_destination(row) for row in rows], next=following)


async def get_destination(access: OwnedAccess, destination_id: UUID) -> DestinationDetails:
    """Returns the destination with its newest deliveries. Raises NotFoundError."""
    statement = _select_destinations(access.owner_id).where(Destination.id == destination_id)
    row = (await access.session.execute(statement)).mappings().one_or_none()
    if row is None:
        raise NotFoundError("destination", destination_id)
    newest = (
        _select_deliveries(destination_id)
        .order_by(Delivery.created_at.desc(), Delivery.id.desc())
        .limit(RECENT_DELIVERIES)
    )
    return DestinationDetails(
        **dict(_destination(dict(row))),
        deliveries=await read_all(access.session, DeliveryResponse, newest),
    )


DestinationFromPath = Annotated[DestinationDetails, Depends(get_destination, scope="function")]


async def create_destination(
    access: Access, new_destination: NewDestination, settings: Settings
) -> CreatedDestination:
    """Raises ProblemError."""
    session, owner_id, agent_id = access.session, access.owner_id, None
    if new_destination.agent is not None:
        agent_id = (await find_agent_ref(access, new_destination.agent)).id
    checked_address = _validated_address(new_destination, settings)
    if await store.lock_and_count(session, owner_id) >= store.MAX_DESTINATIONS:
        raise ConflictError(
            "too-many-destinations",
            f"You have {store.MAX_DESTINATIONS} destinations, the maximum: delete one first.",
        )
    destination_id = await store.create(
        session, owner_id, kind=new_destination.kind, address=checked_address, agent_id=agent_id
    )
    if destination_id is None:
        raise ConflictError(
            "destination-exists",
            "This destination already exists, for the same agent or for all agents.",
        )
    secret = None
    if new_destination.kind is DestinationKind.WEBHOOK:
        secret = new_secret()
        await store.rotate_secret(session, destination_id, secret, overlap=timedelta())
    destination = await get_destination(access, destination_id)
    return CreatedDestination(**destination.model_dump(exclude={"deliveries"}), secret=secret)


def _validated_address(new_destination: NewDestination, settings: Settings) -> str:
    try:
        if new_destination.kind is DestinationKind.WEBHOOK:
            return webhooks.validate_url(new_destination.address, private=settings.webhook_private)
        plain_address = parse_address(new_destination.address.strip()).addr_spec
    except PermanentError as error:
        reason = str(error)
        detail = f"{reason[:1].upper()}{reason[1:]}."
        raise ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, "bad-address", detail) from error
    if settings.smtp_url is None:
        raise ConflictError(
            "mail-off",
            "This installation has no mail server: ask its operator to set VIGIL_SMTP_URL and VIGIL_MAIL_FROM.",
        )
    return plain_address


async def change_destination(
    access: OwnedAccess,
    destination: DestinationFromPath,
    body: Annotated[DestinationChange, Body()],
) -> DestinationDetails:
    """Changes a destination. An inactive one receives nothing, now or later."""
    await store.set_active(access.session, destination.id, active=body.active)
    return await get_destination(access, destination.id)


async def delete_destination(access: OwnedAccess, destination: DestinationFromPath) -> None:
    """Deletes a destination and its deliveries. A delivery in progress may still arrive."""
    await store.delete(access.session, destination.id)


async def test_destination(
    access: OwnedAccess, destination: DestinationFromPath
) -> DeliveryResponse:
    """Requests a test delivery. It is tried once; read the delivery again for its result."""
    if not destination.active:
        raise ConflictError(
            "not-active",
            "This destination is not active, so nothing is sent to it. Activate it first.",
        )
    delivery_id = await deliveries.create_test(access.session, destination.id)
    return await show_delivery(access, destination, delivery_id)


async def rotate_secret(access: OwnedAccess, destination: DestinationFromPath) -> NewSecret:
    """Creates a new secret, shown only here. For a day deliveries are signed with the old one too."""
    if destination.kind != DestinationKind.WEBHOOK:
        raise ConflictError("no-secret", "Emails are not signed: only webhooks have a secret.")
    secret = new_secret()
    await store.rotate_secret(access.session, destination.id, secret, overlap=SECRET_OVERLAP)
    signs_until = await database_time(access.session) + SECRET_OVERLAP
    return NewSecret(secret=secret, previous_signs_until=signs_until)


async def list_deliveries(
    access: OwnedAccess,
    destination: DestinationFromPath,
    page_request: PageQuery,
    status: Annotated[
        DeliveryStatus | None, Query(description="Only deliveries with this status")
    ] = None,
) -> Page[DeliveryResponse]:
    """Lists deliveries, newest first."""
    statement = _select_deliveries(destination.id)
    if status is not None:
        statement = statement.where(Delivery.status == status)
    return await read_page(
        access.session, DeliveryResponse, statement, _NEWEST_DELIVERIES, page_request
    )


async def show_delivery(
    access: OwnedAccess, destination: DestinationFromPath, delivery_id: UUID
) -> DeliveryResponse:
    statement = _select_deliveries(destination.id).where(Delivery.id == delivery_id)
    delivery = await read_one(access.session, DeliveryResponse, statement)
    if delivery is None:
        raise NotFoundError("delivery", delivery_id)
    return delivery


async def retry_delivery(
    access: OwnedAccess, destination: DestinationFromPath, delivery_id: UUID
) -> DeliveryResponse:
    """Retries a failed delivery from the beginning, under the same id."""
    delivery = await show_delivery(access, destination, delivery_id)
    if not await deliveries.request_retry(access.session, delivery.id):
        raise ConflictError(
            "not-failed",
            f"This delivery is {delivery.status}: only failed deliveries can be retried.",
        )
    return await show_delivery(access, destination, delivery_id)


def _select_deliveries(destination_id: UUID) -> Select[*tuple[Any, ...]]:
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
