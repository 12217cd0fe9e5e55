"""JSON routes of the destinations that inbox items are sent to."""

from http import HTTPStatus
from typing import Annotated, Final
from uuid import UUID

from fastapi import APIRouter, Body, Depends, Query, Request
from starlette.responses import Response

from services.api.auth.dependencies import OwnedAccess
from services.api.commands import destinations as commands
from services.api.commands.destinations import DestinationChange, NewDestination
from services.api.http.dependencies import Page, PageQuery
from services.api.http.idempotency import Idempotent
from services.api.http.problem_details import ConflictError, problems
from services.api.reading import read_page
from services.api.resources.destinations import model
from shared.database.tables import Delivery
from shared.enums import DeliveryStatus, DestinationKind
from shared.notifications import deliveries, destinations
from shared.runtime.settings import Settings
from shared.schemas.notifications import (
    CreatedDestination,
    DeliveryResponse,
    DestinationDetails,
    NewSecret,
)

router: Final = APIRouter(prefix="/destinations", tags=["destinations"])


async def _find_destination(access: OwnedAccess, destination_id: UUID) -> DestinationDetails:
    return await commands.get_destination(access.session, access.owner_id, destination_id)


DestinationFromPath = Annotated[DestinationDetails, Depends(_find_destination, scope="function")]


router.get("", name="list_all")(model.list_destinations)


@router.post(
    "",
    name="create",
    status_code=HTTPStatus.CREATED,
    response_model=CreatedDestination,
    responses=problems(HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT),
)
async def create_destination(
    request: Request,
    access: OwnedAccess,
    once: Idempotent,
    body: Annotated[NewDestination, Body()],
) -> Response:
    """Creates a destination. A webhook's secret is shown only here. Existing inbox items are not sent."""
    settings: Settings = request.app.state.settings
    return await once.answer(
        lambda: commands.create_destination(access.session, access.owner_id, body, settings),
        holds_secret=body.kind is DestinationKind.WEBHOOK,
    )


@router.get("/{destination_id}", name="show")
async def show_destination(destination: DestinationFromPath) -> DestinationDetails:
    """A destination with its newest deliveries."""
    return destination


@router.patch("/{destination_id}", name="change")
async def change_destination(
    access: OwnedAccess,
    destination: DestinationFromPath,
    body: Annotated[DestinationChange, Body()],
) -> DestinationDetails:
    """Changes a destination. An inactive one receives nothing, now or later."""
    await destinations.set_active(access.session, destination.id, active=body.active)
    return await _find_destination(access, destination.id)


@router.delete("/{destination_id}", name="delete", status_code=HTTPStatus.NO_CONTENT)
async def delete_destination(access: OwnedAccess, destination: DestinationFromPath) -> None:
    """Deletes a destination and its deliveries. A delivery in progress may still arrive."""
    await destinations.delete(access.session, destination.id)


@router.post(
    "/{destination_id}/test",
    name="test",
    status_code=HTTPStatus.ACCEPTED,
    responses=problems(HTTPStatus.CONFLICT),
)
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
    return await model.get_delivery(access.session, destination.id, delivery_id)


@router.post("/{destination_id}/rotate-secret", responses=problems(HTTPStatus.CONFLICT))
async def rotate_secret(access: OwnedAccess, destination: DestinationFromPath) -> NewSecret:
    """Creates a new secret, shown only here. For a day deliveries are signed with the old one too."""
    return await commands.rotate_secret(access.session, destination)


@router.get("/{destination_id}/deliveries")
async def list_deliveries(
    access: OwnedAccess,
    destination: DestinationFromPath,
    page_request: PageQuery,
    status: Annotated[
        DeliveryStatus | None, Query(description="Only deliveries with this status")
    ] = None,
) -> Page[DeliveryResponse]:
    """Lists deliveries, newest first."""
    statement = model.select_deliveries(destination.id)
    if status is not None:
        statement = statement.where(Delivery.status == status)
    return await read_page(
        access.session, DeliveryResponse, statement, model.NEWEST_DELIVERIES, page_request
    )


@router.get("/{destination_id}/deliveries/{delivery_id}")
async def show_delivery(
    access: OwnedAccess, destination: DestinationFromPath, delivery_id: UUID
) -> DeliveryResponse:
    return await model.get_delivery(access.session, destination.id, delivery_id)


@router.post(
    "/{destination_id}/deliveries/{delivery_id}/retry",
    name="retry",
    status_code=HTTPStatus.ACCEPTED,
    responses=problems(HTTPStatus.CONFLICT),
)
async def retry_delivery(
    access: OwnedAccess, destination: DestinationFromPath, delivery_id: UUID
) -> DeliveryResponse:
    """Retries a failed delivery from the beginning, under the same id."""
    delivery = await model.get_delivery(access.session, destination.id, delivery_id)
    if not await deliveries.request_retry(access.session, delivery.id):
        raise ConflictError(
            "not-failed",
            f"This delivery is {delivery.status}: only failed deliveries can be retried.",
        )
    return await model.get_delivery(access.session, destination.id, delivery_id)
