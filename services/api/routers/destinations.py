"""Where inbox items are sent besides the page, and how far each has come there."""

from http import HTTPStatus
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Body, Depends, Query, Request
from starlette.responses import Response

from services.api.auth.dependencies import Owned
from services.api.commands import destinations as destination_commands
from services.api.commands.destinations import DestinationChange, NewDestination
from services.api.http.dependencies import Page, Paging
from services.api.http.idempotency import AskedOnce
from services.api.http.problem_details import ConflictError, NotFoundError, problems
from services.api.queries import notifications as reading
from shared.enums import DeliveryStatus, DestinationKind
from shared.notifications import deliveries, destinations
from shared.runtime.settings import Settings
from shared.schemas.notifications import (
    CreatedDestination,
    DeliveryView,
    DestinationDetails,
    DestinationView,
    NewSecret,
)

router = APIRouter(prefix="/destinations", tags=["destinations"])


async def _found(access: Owned, destination_id: UUID) -> DestinationDetails:
    return await destination_commands.find(access.session, access.owner_id, destination_id)


Found = Annotated[DestinationDetails, Depends(_found, scope="function")]


@router.get("")
async def list_all(access: Owned, paging: Paging) -> Page[DestinationView]:
    """The newest first, each with its last delivery."""
    return await reading.destinations_of_owner(access.session, access.owner_id, paging)


@router.post(
    "",
    status_code=HTTPStatus.CREATED,
    response_model=CreatedDestination,
    responses=problems(HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT),
)
async def create(
    request: Request, access: Owned, once: AskedOnce, wanted: Annotated[NewDestination, Body()]
) -> Response:
    """A webhook's secret is told here, and never again. What is in the inbox already is not sent there."""
    settings: Settings = request.app.state.settings

    async def make() -> CreatedDestination:
        return await destination_commands.create(access.session, access.owner_id, wanted, settings)

    return await once.answer(make, holds_secret=wanted.kind is DestinationKind.WEBHOOK)


@router.get("/{destination_id}")
async def show(found: Found) -> DestinationDetails:
    """With its newest deliveries."""
    return found


@router.patch("/{destination_id}")
async def change(
    access: Owned, found: Found, wanted: Annotated[DestinationChange, Body()]
) -> DestinationDetails:
    """While it is not active nothing is sent there, or put aside for it."""
    await destinations.activate(access.session, found.id, active=wanted.active)
    return await destination_commands.find(access.session, access.owner_id, found.id)


@router.delete("/{destination_id}", status_code=HTTPStatus.NO_CONTENT)
async def delete(access: Owned, found: Found) -> None:
    """With the record of its deliveries. What is being sent just now may still arrive."""
    await destinations.delete(access.session, found.id)


@router.post(
    "/{destination_id}/test",
    status_code=HTTPStatus.ACCEPTED,
    responses=problems(HTTPStatus.CONFLICT),
)
async def test(access: Owned, found: Found) -> DeliveryView:
    """Asks for a delivery that says it is a test. It is tried once, as any other; read it again to see what became of it."""
    if not found.active:
        raise ConflictError(
            "not-active", "It is not active, so nothing is sent there: activate it."
        )
    made = await deliveries.make_test(access.session, found.id)
    return await _delivery(access, found, made)


@router.post("/{destination_id}/rotate-secret", responses=problems(HTTPStatus.CONFLICT))
async def rotate_secret(access: Owned, found: Found) -> NewSecret:
    """A new secret, told here once. For a day deliveries carry a signature by the old one too."""
    return await destination_commands.rotate_secret(access.session, found)


@router.get("/{destination_id}/deliveries")
async def list_deliveries(
    access: Owned,
    found: Found,
    paging: Paging,
    status: Annotated[DeliveryStatus | None, Query(description="Of this status only")] = None,
) -> Page[DeliveryView]:
    """The newest first."""
    return await reading.deliveries(access.session, found.id, paging, status=status)


@router.get("/{destination_id}/deliveries/{delivery_id}")
async def show_delivery(access: Owned, found: Found, delivery_id: UUID) -> DeliveryView:
    return await _delivery(access, found, delivery_id)


@router.post(
    "/{destination_id}/deliveries/{delivery_id}/retry",
    status_code=HTTPStatus.ACCEPTED,
    responses=problems(HTTPStatus.CONFLICT),
)
async def retry(access: Owned, found: Found, delivery_id: UUID) -> DeliveryView:
    """Asks that one which failed be tried again from the beginning, under the same id."""
    there = await _delivery(access, found, delivery_id)
    if not await deliveries.ask_for_retry(access.session, there.id):
        raise ConflictError("not-failed", f"It has not failed, it is {there.status}.")
    return await _delivery(access, found, delivery_id)


async def _delivery(
    access: Owned, destination: DestinationDetails, delivery_id: UUID
) -> DeliveryView:
    found = await reading.delivery(access.session, destination.id, delivery_id)
    if found is None:
        raise NotFoundError("delivery", delivery_id)
    return found
