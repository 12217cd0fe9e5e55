"""JSON routes of the destinations that inbox items are sent to."""

from http import HTTPStatus
from typing import Annotated, Final

from fastapi import APIRouter, Body, Request
from starlette.responses import Response

from services.api.auth.dependencies import OwnedAccess
from services.api.http.idempotency import Idempotent
from services.api.http.problem_details import problems
from services.api.resources.destinations import model
from services.api.resources.destinations.model import DestinationFromPath, NewDestination
from shared.enums import DestinationKind
from shared.schemas.notifications import CreatedDestination, DestinationDetails

router: Final = APIRouter(prefix="/destinations", tags=["destinations"])
_CONFLICT: Final = problems(HTTPStatus.CONFLICT)

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
    return await once.answer(
        lambda: model.create_destination(access, body, request.app.state.settings),
        holds_secret=body.kind is DestinationKind.WEBHOOK,
    )


@router.get("/{destination_id}", name="show")
async def show_destination(destination: DestinationFromPath) -> DestinationDetails:
    """A destination with its newest deliveries."""
    return destination


router.patch("/{destination_id}", name="change")(model.change_destination)
router.delete("/{destination_id}", name="delete", status_code=HTTPStatus.NO_CONTENT)(
    model.delete_destination
)
router.post(
    "/{destination_id}/test", name="test", status_code=HTTPStatus.ACCEPTED, responses=_CONFLICT
)(model.test_destination)
router.post("/{destination_id}/rotate-secret", responses=_CONFLICT)(model.rotate_secret)
router.get("/{destination_id}/deliveries")(model.list_deliveries)
router.get("/{destination_id}/deliveries/{delivery_id}")(model.show_delivery)
router.post(
    "/{destination_id}/deliveries/{delivery_id}/retry",
    name="retry",
    status_code=HTTPStatus.ACCEPTED,
    responses=_CONFLICT,
)(model.retry_delivery)
