"""Pages of the inbox and of notification destinations."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from http import HTTPStatus
from typing import Annotated, Any, Final
from uuid import UUID

from fastapi import APIRouter, Form, Query, Request
from pydantic import ValidationError
from starlette.responses import HTMLResponse, RedirectResponse, Response

from services.api.auth.dependencies import Access, OwnedAccess
from services.api.commands import destinations as destination_commands
from services.api.commands import inbox as inbox_commands
from services.api.commands.destinations import DestinationChange, NewDestination
from services.api.commands.inbox import NewFeedback
from services.api.http.dependencies import PageQuery
from services.api.http.problem_details import NotFoundError, ProblemError
from services.api.queries import notifications
from services.api.queries.agents import list_agent_names
from services.api.routers import notifications as notification_routes
from services.api.routers.notifications import DestinationFromPath
from services.api.web.forms import UNLESS_BLANK, FormState, Submitted, submitted
from services.api.web.rendering import Page, PageResponse
from services.api.web.text import find_citations
from shared.agents.feedback import MAX_FEEDBACK_CHARS
from shared.enums import DeliveryStatus, DestinationKind, InboxView
from shared.graph.retraction import doubts
from shared.runtime.settings import Settings
from shared.schemas.base import InboxItemResponse, PageRequest
from shared.schemas.notifications import DestinationDetails, NewSecret
from shared.schemas.provenance import DoubtResponse

router = APIRouter()


INBOX_CHANGED_HEADERS: Final = {"HX-Trigger": "inbox-changed"}
"""Makes the page reload its list."""
AgentFilter = Annotated[UUID | None, UNLESS_BLANK, Query()]
ITEM_PARTS: Final = ("item", "state")
"""Parts of the page about the chosen item alone."""


class Snooze(StrEnum):
    """For how long an item is snoozed."""

    HOUR = "1 hour"
    DAY = "tomorrow"
    WEEK = "next week"

    @property
    def time(self) -> timedelta:
        return {
            Snooze.HOUR: timedelta(hours=1),
            Snooze.DAY: timedelta(days=1),
            Snooze.WEEK: timedelta(days=7),
        }[self]


@router.get("/inbox")
async def list_inbox_items(
    access: OwnedAccess,
    page: PageResponse,
    page_request: PageQuery,
    agent: AgentFilter = None,
    view: InboxView = InboxView.OPEN,
    item: Annotated[UUID | None, UNLESS_BLANK, Query()] = None,
    opened: bool = False,
) -> HTMLResponse:
    """The list and the chosen item. `opened`: the item is shown because it was chosen just now, and marked as read."""
    chosen = None if item is None else await inbox_commands.find(access, item)
    context = await _item_context(access, chosen)
    if page.part not in ITEM_PARTS:
        items = await notifications.list_inbox_items(
            access.session, access.owner_id, page_request, view=view, agent_id=agent
        )
        context |= {
            "items": items.items,
            "next": items.next,
            "left": await notifications.count_unread(access.session, access.owner_id),
            "counts": await notifications.count_by_view(
                access.session, access.owner_id, agent_id=agent
            ),
        }
    names = [] if page.part else await list_agent_names(access.session, access.owner_id)
    return await page.answer(
        "inbox/list.html",
        **context,
        agents=names,
        agent=agent,
        view=view,
        views=list(InboxView),
        opened=opened or page.part is None,
        is_part=page.part is not None,
    )


async def _item_context(access: Access, item: InboxItemResponse | None) -> dict[str, Any]:
    if item is None:
        return {"item": None}
    texts = [(item.agent_id, f"{item.summary}\n{item.content}\n{item.invalidation or ''}")]
    citations = await find_citations(access.session, access.owner_id, texts)
    reasons: Sequence[DoubtResponse] = ()
    if item.node_id is not None and item.doubted_since is not None:
        by_node = await doubts.list_doubts(access.session, [item.node_id])
        reasons = by_node.get(item.node_id, ())
    return {
        "item": item,
        "citations": citations[item.agent_id],
        "doubts": reasons,
        "snoozes": list(Snooze),
        "now": datetime.now(UTC),
        "feedback_characters": MAX_FEEDBACK_CHARS,
        "feedback_error": None,
        "is_saved": False,
    }


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


@router.post("/inbox/{item_id}/accept")
async def accept(request: Request, access: OwnedAccess, item_id: UUID) -> Response:
    await inbox_commands.accept(access, item_id)
    return _to_inbox(request)


@router.post("/inbox/{item_id}/dismiss")
async def dismiss(request: Request, access: OwnedAccess, item_id: UUID) -> Response:
    await inbox_commands.dismiss(access, item_id)
    return _to_inbox(request)


@router.post("/inbox/{item_id}/reopen")
async def reopen(request: Request, access: OwnedAccess, item_id: UUID) -> Response:
    await inbox_commands.reopen(access, item_id)
    return _to_inbox(request, item_id)


@router.post("/inbox/{item_id}/snooze")
async def snooze(
    request: Request, access: OwnedAccess, item_id: UUID, until: Annotated[Snooze, Form()]
) -> Response:
    await inbox_commands.snooze(access, item_id, datetime.now(UTC) + until.time)
    return _to_inbox(request)


@router.post("/inbox/{item_id}/feedback")
async def give_feedback(
    request: Request,
    access: OwnedAccess,
    page: PageResponse,
    item_id: UUID,
    text: Annotated[str, Form()] = "",
    useful: Annotated[bool | None, UNLESS_BLANK, Form()] = None,
) -> Response:
    """Stores the feedback, or shows the form again with what is wrong."""
    error: str | None = None
    try:
        feedback = NewFeedback(useful=useful, text=text)
    except ValidationError as invalid:
        error = f"This feedback cannot be saved: {invalid.errors()[0]['ctx']['error']}."
        item = await inbox_commands.find(access, item_id)
        item = item.model_copy(update={"useful": useful, "feedback": text})
    else:
        item = await inbox_commands.give_feedback(access, item_id, feedback)
    if error is None and request.headers.get("hx-request") != "true":
        return _to_inbox(request, item_id)
    context = await _item_context(access, item)
    context |= {"feedback_error": error, "is_saved": error is None}
    return await page.answer("inbox/feedback.html", **context)


def _require_item(item: InboxItemResponse | None, item_id: UUID) -> None:
    if item is None:
        raise NotFoundError("inbox item", item_id)


def _to_inbox(request: Request, item_id: UUID | None = None) -> Response:
    """Redirects to the list. With htmx, tells the page that the list has changed."""
    if request.headers.get("hx-request") == "true":
        return Response(status_code=HTTPStatus.NO_CONTENT, headers=INBOX_CHANGED_HEADERS)
    place = f"?item={item_id}" if item_id else ""
    return RedirectResponse(f"/inbox{place}", HTTPStatus.SEE_OTHER)


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
    request: Request, access: OwnedAccess, page: PageResponse, page_request: PageQuery
) -> HTMLResponse:
    return await _destinations_page(request, access, page, page_request)


@router.post("/settings/destinations")
async def create_destination(
    request: Request,
    access: OwnedAccess,
    page: PageResponse,
    form: Annotated[Submitted[NewDestination], submitted(NewDestination)],
) -> Response:
    """Shows a webhook's secret on the response page only."""
    if form.model is None:
        return await _destinations_page(request, access, page, PageRequest(), form=form)
    settings: Settings = request.app.state.settings
    try:
        created = await destination_commands.create_destination(
            access.session, access.owner_id, form.model, settings
        )
    except ProblemError as error:
        refused = form.refused(error, _FIELD_OF_PROBLEM)
        return await _destinations_page(request, access, page, PageRequest(), form=refused)
    if created.secret is None:
        return _to_destination(created.id)
    destination = await destination_commands.get_destination(
        access.session, access.owner_id, created.id
    )
    new_secret = NewSecret(secret=created.secret, previous_signs_until=None)
    return await _destination_page(access, page, destination, new_secret=new_secret)


async def _destinations_page(
    request: Request,
    access: Access,
    page: Page,
    page_request: PageRequest,
    *,
    form: FormState | None = None,
) -> HTMLResponse:
    settings: Settings = request.app.state.settings
    destinations_page = await notifications.list_destinations(
        access.session, access.owner_id, page_request
    )
    form = form or FormState.filled(kind=DestinationKind.WEBHOOK.value)
    return await page.answer(
        "settings/destinations.html",
        status=form.status,
        form=form,
        destinations=destinations_page.items,
        next=destinations_page.next,
        agents=await list_agent_names(access.session, access.owner_id),
        sends_mail=settings.smtp_url is not None,
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
