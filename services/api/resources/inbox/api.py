"""JSON routes of the inbox."""

from http import HTTPStatus
from typing import Annotated, Final
from uuid import UUID

from fastapi import APIRouter, Body, Query

from services.api.auth.dependencies import OwnedAccess
from services.api.commands import inbox as commands
from services.api.commands.inbox import NewFeedback, NewSnooze
from services.api.http.dependencies import Page, PageQuery
from services.api.http.problem_details import NotFoundError, problems
from services.api.resources.inbox import model
from shared.enums import InboxView
from shared.schemas.base import InboxItemResponse
from shared.schemas.iterations import Marked

router: Final = APIRouter(prefix="/inbox", tags=["inbox"])


@router.get("", name="list_all")
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
    return await model.list_inbox_items(
        access.session,
        access.owner_id,
        page_request,
        view=InboxView.UNREAD if unread else view,
        agent_id=agent_id,
    )


@router.post("/read")
async def mark_all_read(access: OwnedAccess) -> Marked:
    """Marks every present inbox item as read."""
    return Marked(marked=await model.mark_all_read(access.session, access.owner_id))


@router.get("/{item_id}", name="show")
async def show_inbox_item(access: OwnedAccess, item_id: UUID) -> InboxItemResponse:
    """An inbox item; it is not marked as read."""
    return await commands.find(access, item_id)


@router.post("/{item_id}/read")
async def mark_read(access: OwnedAccess, item_id: UUID) -> InboxItemResponse:
    """Marks an inbox item as read; a second call keeps the first time."""
    item = await model.mark_read(access.session, access.owner_id, item_id)
    return _existing(item, item_id)


@router.post("/{item_id}/unread")
async def mark_unread(access: OwnedAccess, item_id: UUID) -> InboxItemResponse:
    item = await model.mark_unread(access.session, access.owner_id, item_id)
    return _existing(item, item_id)


@router.post("/{item_id}/accept", responses=problems(HTTPStatus.CONFLICT))
async def accept(access: OwnedAccess, item_id: UUID) -> InboxItemResponse:
    """Accepts an advice. The agent's next phases see the decision. A notice cannot be accepted."""
    return await commands.accept(access, item_id)


@router.post("/{item_id}/dismiss")
async def dismiss(access: OwnedAccess, item_id: UUID) -> InboxItemResponse:
    """Dismisses an inbox item. If it is an advice, the agent's next phases see the decision."""
    return await commands.dismiss(access, item_id)


@router.post("/{item_id}/reopen")
async def reopen(access: OwnedAccess, item_id: UUID) -> InboxItemResponse:
    """Takes a decision or a snooze back."""
    return await commands.reopen(access, item_id)


@router.post("/{item_id}/snooze")
async def snooze(
    access: OwnedAccess, item_id: UUID, body: Annotated[NewSnooze, Body()]
) -> InboxItemResponse:
    """Hides an inbox item until a time, at which it returns as unread."""
    return await commands.snooze(access, item_id, body.until)


@router.post("/{item_id}/feedback")
async def give_feedback(
    access: OwnedAccess, item_id: UUID, body: Annotated[NewFeedback, Body()]
) -> InboxItemResponse:
    """Replaces your feedback on an inbox item. If it is an advice, the agent's next phases see it."""
    return await commands.give_feedback(access, item_id, body)


def _existing(item: InboxItemResponse | None, item_id: UUID) -> InboxItemResponse:
    if item is None:
        raise NotFoundError("inbox item", item_id)
    return item
