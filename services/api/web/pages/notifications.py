"""Pages of the inbox and of notification destinations."""

from http import HTTPStatus
from typing import Annotated, Final
from uuid import UUID

from fastapi import APIRouter, Form, Query, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from services.api.auth.dependencies import Access, OwnedAccess
from services.api.commands import destinations as destination_commands
from services.api.commands.destinations import DestinationChange, NewDestination
from services.api.http.dependencies import PageQuery
from services.api.http.problem_details import NotFoundError
from services.api.queries import agents as agent_queries
from services.api.queries import notifications
from services.api.queries.agents import list_agent_names
from services.api.routers import notifications as notification_routes
from services.api.routers.notifications import DestinationFromPath
from services.api.web.forms import UNLESS_BLANK
from services.api.web.rendering import Page, PageResponse
from services.api.web.text import find_citations
from shared.enums import DeliveryStatus
from shared.runtime.settings import Settings
from shared.schemas.base import LARGEST_PAGE, AgentResponse, InboxItemResponse, PageRequest
from shared.schemas.notifications import DestinationDetails, NewSecret

router = APIRouter()


INBOX_CHANGED_HEADERS: Final = {"HX-Trigger": "inbox-changed"}
"""Makes the page reload its list."""
AgentFilter = Annotated[UUID | None, UNLESS_BLANK, Query()]


@router.get("/inbox")
async def list_inbox_items(
    access: OwnedAccess,
    page: PageResponse,
    page_request: PageQuery,
    agent: AgentFilter = None,
    unread: bool = False,
) -> HTMLResponse:
    inbox_items_page = await notifications.list_inbox_items(
        access.session, access.owner_id, page_request, unread_only=unread, agent_id=agent
    )
    texts = [(row.agent_id, f"{row.summary}\n{row.content}") for row in inbox_items_page.items]
    all_agents: list[AgentResponse] = []
    if page.part is None:
        page_request = PageRequest(LARGEST_PAGE)
        all_agents = (
            await agent_queries.list_agents(access.session, access.owner_id, page_request)
        ).items
    return await page.answer(
        "inbox/list.html",
        items=inbox_items_page.items,
        next=inbox_items_page.next,
        citations=await find_citations(access.session, access.owner_id, texts),
        left=await notifications.count_unread(access.session, access.owner_id),
        agents=all_agents,
        agent=agent,
        unread_only=unread,
        is_part=page.part is not None,
    )


@router.post("/inbox/read")
async def mark_all_read(request: Request, access: OwnedAccess) -> Response:
    await notifications.mark_all_read(access.session, access.owner_id)
    return _to_inbox(request)


@router.post("/inbox/{item_id}/read")
async def mark_read(request: Request, access: OwnedAccess, item_id: UUID) -> Response:
    _require_item(await notifications.mark_read(access.session, access.owner_id, item_id), item_id)
    return _to_inbox(request, item_id)


@router.post("/inbox/{item_id}/unread")
async def mark_unread(request: Request, access: OwnedAccess, item_id: UUID) -> Response:
    _require_item(
        await notifications.mark_unread(access.session, access.owner_id, item_id), item_id
    )
    return _to_inbox(request, item_id)


def _require_item(item: InboxItemResponse | None, item_id: UUID) -> None:
    if item is None:
        raise NotFoundError("inbox item", item_id)


def _to_inbox(request: Request, item_id: UUID | None = None) -> Response:
    """Redirects to the list. With htmx, tells the page that the list has changed."""
    if request.headers.get("hx-request") == "true":
        return Response(status_code=HTTPStatus.NO_CONTENT, headers=INBOX_CHANGED_HEADERS)
    place = f"#item-{item_id}" if item_id else ""
    return RedirectResponse(f"/inbox{place}", HTTPStatus.SEE_OTHER)


DESTINATIONS: Final = "/settings/destinations"
FIRST_PAGE: Final = PageRequest()
StatusFilter = Annotated[DeliveryStatus | None, UNLESS_BLANK, Query()]


@router.get("/settings/destinations")
async def list_destinations(
    request: Request, access: OwnedAccess, page: PageResponse, page_request: PageQuery
) -> HTMLResponse:
    settings: Settings = request.app.state.settings
    destinations_page = await notifications.list_destinations(
        access.session, access.owner_id, page_request
    )
    return await page.answer(
        "settings/destinations.html",
        destinations=destinations_page.items,
        next=destinations_page.next,
        agents=await list_agent_names(access.session, access.owner_id),
        sends_mail=settings.smtp_url is not None,
    )


@router.post("/settings/destinations")
async def create_destination(
    request: Request,
    access: OwnedAccess,
    page: PageResponse,
    form: Annotated[NewDestination, Form()],
) -> Response:
    """Shows a webhook's secret on the response page only."""
    settings: Settings = request.app.state.settings
    created = await destination_commands.create_destination(
        access.session, access.owner_id, form, settings
    )
    if created.secret is None:
        return _to_destination(created.id)
    destination = await destination_commands.get_destination(
        access.session, access.owner_id, created.id
    )
    new_secret = NewSecret(secret=created.secret, previous_signs_until=None)
    return await _destination_page(access, page, destination, new_secret=new_secret)


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
    await notification_routes.change_destination(access, destination, form)
    return _to_destination(destination.id)


@router.post("/settings/destinations/{destination_id}/test")
async def test_destination(access: OwnedAccess, destination: DestinationFromPath) -> Response:
    await notification_routes.test_destination(access, destination)
    return _to_destination(destination.id)


@router.post("/settings/destinations/{destination_id}/rotate-secret")
async def rotate_secret(
    access: OwnedAccess, page: PageResponse, destination: DestinationFromPath
) -> HTMLResponse:
    new_secret = await notification_routes.rotate_secret(access, destination)
    return await _destination_page(access, page, destination, new_secret=new_secret)


@router.post("/settings/destinations/{destination_id}/delete")
async def delete_destination(access: OwnedAccess, destination: DestinationFromPath) -> Response:
    await notification_routes.delete_destination(access, destination)
    return RedirectResponse(DESTINATIONS, HTTPStatus.SEE_OTHER)


@router.post("/settings/destinations/{destination_id}/deliveries/{delivery_id}/retry")
async def retry_delivery(
    access: OwnedAccess, destination: DestinationFromPath, delivery_id: UUID
) -> Response:
    await notification_routes.retry_delivery(access, destination, delivery_id)
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
    deliveries = await notifications.list_deliveries(
        access.session, destination.id, page_request, status=status
    )
    return await page.answer(
        "settings/destination.html",
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
