"""Where inbox items are sent besides the page: made, tried, paused, given another secret."""

from http import HTTPStatus
from typing import Annotated, Final
from uuid import UUID

from fastapi import APIRouter, Form, Query, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from services.api.auth.dependencies import Access, Owned
from services.api.commands import destinations as destination_commands
from services.api.commands.destinations import DestinationChange, NewDestination
from services.api.http.dependencies import Paging
from services.api.queries import notifications as reading
from services.api.queries.agents import agent_names
from services.api.routers import destinations as routes
from services.api.routers.destinations import Found
from services.api.web.forms import UNLESS_BLANK
from services.api.web.rendering import Answering, Page
from shared.enums import DeliveryStatus
from shared.runtime.settings import Settings
from shared.schemas.base import Wanted
from shared.schemas.notifications import DestinationDetails, NewSecret

router = APIRouter(prefix="/settings/destinations")

LIST: Final = "/settings/destinations"
FIRST: Final = Wanted()
OfStatus = Annotated[DeliveryStatus | None, UNLESS_BLANK, Query()]


@router.get("")
async def list_all(
    request: Request, access: Owned, page: Answering, paging: Paging
) -> HTMLResponse:
    settings: Settings = request.app.state.settings
    found = await reading.destinations_of_owner(access.session, access.owner_id, paging)
    return await page.answer(
        "settings/destinations.html",
        destinations=found.items,
        next=found.next,
        agents=await agent_names(access.session, access.owner_id),
        sends_mail=settings.smtp_url is not None,
    )


@router.post("")
async def create(
    request: Request,
    access: Owned,
    page: Answering,
    wanted: Annotated[NewDestination, Form()],
) -> Response:
    """A webhook's secret stands on the page that answers, and nowhere else."""
    settings: Settings = request.app.state.settings
    made = await destination_commands.create(access.session, access.owner_id, wanted, settings)
    if made.secret is None:
        return _to(made.id)
    found = await destination_commands.find(access.session, access.owner_id, made.id)
    told = NewSecret(secret=made.secret, previous_signs_until=None)
    return await _page(access, page, found, told=told)


@router.get("/{destination_id}")
async def show(
    access: Owned,
    page: Answering,
    found: Found,
    paging: Paging,
    status: OfStatus = None,
) -> HTMLResponse:
    return await _page(access, page, found, paging=paging, status=status)


@router.post("/{destination_id}/active")
async def change(
    access: Owned, found: Found, wanted: Annotated[DestinationChange, Form()]
) -> Response:
    await routes.change(access, found, wanted)
    return _to(found.id)


@router.post("/{destination_id}/test")
async def test(access: Owned, found: Found) -> Response:
    await routes.test(access, found)
    return _to(found.id)


@router.post("/{destination_id}/rotate-secret")
async def rotate_secret(access: Owned, page: Answering, found: Found) -> HTMLResponse:
    told = await routes.rotate_secret(access, found)
    return await _page(access, page, found, told=told)


@router.post("/{destination_id}/delete")
async def delete(access: Owned, found: Found) -> Response:
    await routes.delete(access, found)
    return RedirectResponse(LIST, HTTPStatus.SEE_OTHER)


@router.post("/{destination_id}/deliveries/{delivery_id}/retry")
async def retry(access: Owned, found: Found, delivery_id: UUID) -> Response:
    await routes.retry(access, found, delivery_id)
    return _to(found.id)


async def _page(
    access: Access,
    page: Page,
    found: DestinationDetails,
    *,
    told: NewSecret | None = None,
    paging: Wanted = FIRST,
    status: DeliveryStatus | None = None,
) -> HTMLResponse:
    """`told` is shown this once."""
    deliveries = await reading.deliveries(access.session, found.id, paging, status=status)
    return await page.answer(
        "settings/destination.html",
        status=HTTPStatus.OK if told is None else HTTPStatus.CREATED,
        destination=found,
        deliveries=deliveries.items,
        next=deliveries.next,
        of_status=status,
        statuses=list(DeliveryStatus),
        told=told,
    )


def _to(destination_id: UUID) -> Response:
    return RedirectResponse(f"{LIST}/{destination_id}", HTTPStatus.SEE_OTHER)
