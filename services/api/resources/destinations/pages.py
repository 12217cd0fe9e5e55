"""Pages of notification destinations."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Annotated, Final
from uuid import UUID

from fastapi import APIRouter, Form, Query
from starlette.responses import HTMLResponse, RedirectResponse, Response

from services.api.auth.dependencies import Access, OwnedAccess
from services.api.http.dependencies import PageQuery
from services.api.http.problem_details import ProblemError
from services.api.resources.agents.model import list_agent_names
from services.api.resources.destinations import model
from services.api.resources.destinations.model import (
    DestinationChange,
    DestinationFromPath,
    NewDestination,
)
from services.api.web.forms import UNLESS_BLANK, FormState, Submitted, submitted
from services.api.web.rendering import Page, PageResponse
from shared.enums import DeliveryStatus, DestinationKind
from shared.schemas.base import PageRequest
from shared.schemas.notifications import DestinationDetails, NewSecret

router = APIRouter()

DESTINATIONS: Final = "/settings/destinations"
FIRST_PAGE: Final = PageRequest()
_FIELD_OF_PROBLEM: Final[Mapping[str, str]] = {
    "bad-address": "address",
    "destination-exists": "address",
    "mail-off": "kind",
    "no-such-agent": "agent",
}
StatusFilter = Annotated[DeliveryStatus | None, UNLESS_BLANK, Query()]


@router.get("/settings/destinations")
async def list_destinations(
    access: OwnedAccess, page: PageResponse, page_request: PageQuery
) -> HTMLResponse:
    return await _destinations_page(access, page, page_request)


@router.post("/settings/destinations")
async def create_destination(
    access: OwnedAccess,
    page: PageResponse,
    form: Annotated[Submitted[NewDestination], submitted(NewDestination)],
) -> Response:
    """Shows a webhook's secret on the response page only."""
    if form.model is None:
        return await _destinations_page(access, page, PageRequest(), form=form)
    try:
        created = await model.create_destination(access, form.model, page.settings)
    except ProblemError as error:
        refused = form.refused(error, _FIELD_OF_PROBLEM)
        return await _destinations_page(access, page, PageRequest(), form=refused)
    if created.secret is None:
        return _to_destination(created.id)
    destination = await model.get_destination(access, created.id)
    new_secret = NewSecret(secret=created.secret, previous_signs_until=None)
    return await _destination_page(access, page, destination, new_secret=new_secret)


async def _destinations_page(
    access: Access,
    page: Page,
    page_request: PageRequest,
    *,
    form: FormState | None = None,
) -> HTMLResponse:
    destinations_page = await model.list_destinations(access, page_request)
    form = form or FormState.filled(kind=DestinationKind.WEBHOOK.value)
    return await page.answer(
        "destinations/destinations.html",
        status=form.status,
        form=form,
        destinations=destinations_page.items,
        next=destinations_page.next,
        agents=await list_agent_names(access),
        sends_mail=page.settings.smtp_url is not None,
    )


@router.get("/settings/destinations/{destination_id}")
async def show_destination(
    access: OwnedAccess,
    page: PageResponse,
    destination: DestinationFromPath,
    page_request: PageQuery,
    status: StatusFilter = None,
) -> HTMLResponse:
    return await _destination_page(
        access, page, destination, page_request=page_request, status=status
    )


@router.post("/settings/destinations/{destination_id}/active")
async def change_destination(
    access: OwnedAccess,
    destination: DestinationFromPath,
    form: Annotated[DestinationChange, Form()],
) -> Response:
    await model.change_destination(access, destination, form)
    return _to_destination(destination.id)


@router.post("/settings/destinations/{destination_id}/test")
async def test_destination(access: OwnedAccess, destination: DestinationFromPath) -> Response:
    await model.test_destination(access, destination)
    return _to_destination(destination.id)


@router.post("/settings/destinations/{destination_id}/rotate-secret")
async def rotate_secret(
    access: OwnedAccess, page: PageResponse, destination: DestinationFromPath
) -> HTMLResponse:
    new_secret = await model.rotate_secret(access, destination)
    return await _destination_page(access, page, destination, new_secret=new_secret)


@router.post("/settings/destinations/{destination_id}/delete")
async def delete_destination(access: OwnedAccess, destination: DestinationFromPath) -> Response:
    await model.delete_destination(access, destination)
    return RedirectResponse(DESTINATIONS, HTTPStatus.SEE_OTHER)


@router.post("/settings/destinations/{destination_id}/deliveries/{delivery_id}/retry")
async def retry_delivery(
    access: OwnedAccess, destination: DestinationFromPath, delivery_id: UUID
) -> Response:
    await model.retry_delivery(access, destination, delivery_id)
    return _to_destination(destination.id)


async def _destination_page(
    access: Access,
    page: Page,
    destination: DestinationDetails,
    *,
    new_secret: NewSecret | None = None,
    page_request: PageRequest = FIRST_PAGE,
    status: DeliveryStatus | None = None,
) -> HTMLResponse:
    """`new_secret` is shown once."""
    deliveries = await model.list_deliveries(access, destination, page_request, status)
    return await page.answer(
        "destinations/destination.html",
        status=HTTPStatus.OK if new_secret is None else HTTPStatus.CREATED,
        destination=destination,
        deliveries=deliveries.items,
        next=deliveries.next,
        of_status=status,
        statuses=list(DeliveryStatus),
        new_secret=new_secret,
    )


def _to_destination(destination_id: UUID) -> Response:
    return RedirectResponse(f"{DESTINATIONS}/{destination_id}", HTTPStatus.SEE_OTHER)
