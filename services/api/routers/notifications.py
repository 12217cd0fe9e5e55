"""The inbox, and the destinations that its items are sent to."""

from http import HTTPStatus
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Body, Depends, Query, Request
from starlette.responses import Response

from services.api.auth.dependencies import OwnedAccess
from services.api.commands import destinations as destination_commands
from services.api.commands import inbox as inbox_commands
from services.api.commands.destinations import DestinationChange, NewDestination
from services.api.commands.inbox import NewFeedback, NewSnooze
from services.api.http.dependencies import Page, PageQuery
from services.api.http.idempotency import Idempotent
from services.api.http.problem_details import ConflictError, NotFoundError, problems
from services.api.queries import notifications
from shared.enums import DeliveryStatus, DestinationKind, InboxView
from shared.notifications import deliveries, destinations
from shared.runtime.settings import Settings
from shared.schemas.base import InboxItemResponse
from shared.schemas.iterations import Marked
from shared.schemas.notifications import (
    CreatedDestination,
    DeliveryResponse,
    DestinationDetails,
    DestinationResponse,
    NewSecret,
)

inbox_router = APIRouter(prefix="/inbox", tags=["inbox"])
destinations_router = APIRouter(prefix="/destinations", tags=["destinations"])


@inbox_router.get("", name="list_all")
async def list_inbox_items(
    access: OwnedAccess,
    page_request: PageQuery,
    unread: bool = False,
    agent_id: UUID | None = None,
    view: Annotated[
        InboxView,
        Query(description="Open, unread, snoozed, done or all items"),
    ] = InboxView.ALL,
) -> Page[InboxItemResponse]:
    """Lists inbox items, newest first; optionally of one agent. `unread` is the same as the view of unread items."""
    return await notifications.list_inbox_items(
        access.session,
        access.owner_id,
        page_request,
        view=InboxView.UNREAD if unread else view,
        agent_id=agent_id,
    )


@inbox_router.post("/read")
async def mark_all_read(access: OwnedAccess) -> Marked:
    """Marks every present inbox item as read."""
    return Marked(marked=await notifications.mark_all_read(access.session, access.owner_id))


@inbox_router.get("/{item_id}", name="show")
async def show_inbox_item(access: OwnedAccess, item_id: UUID) -> InboxItemResponse:
    """An inbox item; it is not marked as read."""
    return _item_or_404(
        await notifications.find_inbox_item(access.session, access.owner_id, item_id), item_id
    )


@inbox_router.post("/{item_id}/read")
async def mark_read(access: OwnedAccess, item_id: UUID) -> InboxItemResponse:
    """Marks an inbox item as read; a second call keeps the first time."""
    return _item_or_404(
        await notifications.mark_read(access.session, access.owner_id, item_id), item_id
    )


@inbox_router.post("/{item_id}/unread")
async def mark_unread(access: OwnedAccess, item_id: UUID) -> InboxItemResponse:
    return _item_or_404(
        await notifications.mark_unread(access.session, access.owner_id, item_id), item_id
    )


@inbox_router.post("/{item_id}/accept", responses=problems(HTTPStatus.CONFLICT))
async def accept(access: OwnedAccess, item_id: UUID) -> InboxItemResponse:
    """Accepts an advice. The agent's next phases see the decision. A notice cannot be accepted."""
    return await inbox_commands.accept(access, item_id)


@inbox_router.post("/{item_id}/dismiss")
async def dismiss(access: OwnedAccess, item_id: UUID) -> InboxItemResponse:
    """Dismisses an inbox item. If it is an advice, the agent's next phases see the decision."""
    return await inbox_commands.dismiss(access, item_id)


@inbox_router.post("/{item_id}/reopen")
async def reopen(access: OwnedAccess, item_id: UUID) -> InboxItemResponse:
    """Takes a decision or a snooze back."""
    return await inbox_commands.reopen(access, item_id)


@inbox_router.post("/{item_id}/snooze")
async def snooze(
    access: OwnedAccess, item_id: UUID, body: Annotated[NewSnooze, Body()]
) -> InboxItemResponse:
    """Hides an inbox item until a time, at which it returns as unread."""
    return await inbox_commands.snooze(access, item_id, body.until)


@inbox_router.post("/{item_id}/feedback")
async def give_feedback(
    access: OwnedAccess, item_id: UUID, body: Annotated[NewFeedback, Body()]
) -> InboxItemResponse:
    """Replaces your feedback on an inbox item. If it is an advice, the agent's next phases see it."""
    return await inbox_commands.give_feedback(access, item_id, body)


def _item_or_404(item: InboxItemResponse | None, item_id: UUID) -> InboxItemResponse:
    if item is None:
        raise NotFoundError("inbox item", item_id)
    return item


async def _find_destination(access: OwnedAccess, destination_id: UUID) -> DestinationDetails:
    return await destination_commands.get_destination(
        access.session, access.owner_id, destination_id
    )


DestinationFromPath = Annotated[DestinationDetails, Depends(_find_destination, scope="function")]


@destinations_router.get("", name="list_all")
async def list_destinations(
    access: OwnedAccess, page_request: PageQuery
) -> Page[DestinationResponse]:
    """Lists destinations, newest first, with their last delivery."""
    return await notifications.list_destinations(access.session, access.owner_id, page_request)


@destinations_router.post(
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

    async def make() -> CreatedDestination:
        return await destination_commands.create_destination(
            access.session, access.owner_id, body, settings
        )

    return await once.answer(make, holds_secret=body.kind is DestinationKind.WEBHOOK)


@destinations_router.get("/{destination_id}", name="show")
async def show_destination(destination: DestinationFromPath) -> DestinationDetails:
    """A destination with its newest deliveries."""
    return destination


@destinations_router.patch("/{destination_id}", name="change")
async def change_destination(
    access: OwnedAccess,
    destination: DestinationFromPath,
    body: Annotated[DestinationChange, Body()],
) -> DestinationDetails:
    """Changes a destination. An inactive one receives nothing, now or later."""
    await destinations.set_active(access.session, destination.id, active=body.active)
    return await destination_commands.get_destination(
        access.session, access.owner_id, destination.id
    )


@destinations_router.delete("/{destination_id}", name="delete", status_code=HTTPStatus.NO_CONTENT)
async def delete_destination(access: OwnedAccess, destination: DestinationFromPath) -> None:
    """Deletes a destination and its deliveries. A delivery in progress may still arrive."""
    await destinations.delete(access.session, destination.id)


@destinations_router.post(
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
    return await _find_delivery(access, destination, delivery_id)


@destinations_router.post(
    "/{destination_id}/rotate-secret", responses=problems(HTTPStatus.CONFLICT)
)
async def rotate_secret(access: OwnedAccess, destination: DestinationFromPath) -> NewSecret:
    """Creates a new secret, shown only here. For a day deliveries are signed with the old one too."""
    return await destination_commands.rotate_secret(access.session, destination)


@destinations_router.get("/{destination_id}/deliveries")
async def list_deliveries(
    access: OwnedAccess,
    destination: DestinationFromPath,
    page_request: PageQuery,
    status: Annotated[
        DeliveryStatus | None, Query(description="Only deliveries with this status")
    ] = None,
) -> Page[DeliveryResponse]:
    """Lists deliveries, newest first."""
    return await notifications.list_deliveries(
        access.session, destination.id, page_request, status=status
    )


@destinations_router.get("/{destination_id}/deliveries/{delivery_id}")
async def show_delivery(
    access: OwnedAccess, destination: DestinationFromPath, delivery_id: UUID
) -> DeliveryResponse:
    return await _find_delivery(access, destination, delivery_id)


@destinations_router.post(
    "/{destination_id}/deliveries/{delivery_id}/retry",
    name="retry",
    status_code=HTTPStatus.ACCEPTED,
    responses=problems(HTTPStatus.CONFLICT),
)
async def retry_delivery(
    access: OwnedAccess, destination: DestinationFromPath, delivery_id: UUID
) -> DeliveryResponse:
    """Retries a failed delivery from the beginning, under the same id."""
    delivery = await _find_delivery(access, destination, delivery_id)
    if not await deliveries.request_retry(access.session, delivery.id):
        raise ConflictError(
            "not-failed",
            f"This delivery is {delivery.status}: only failed deliveries can be retried.",
        )
    return await _find_delivery(access, destination, delivery_id)


async def _find_delivery(
    access: OwnedAccess, destination: DestinationDetails, delivery_id: UUID
) -> DeliveryResponse:
    delivery = await notifications.find_delivery(access.session, destination.id, delivery_id)
    if delivery is None:
        raise NotFoundError("delivery", delivery_id)
    return delivery
