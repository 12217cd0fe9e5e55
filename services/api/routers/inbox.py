"""What the owner should see."""

from uuid import UUID

from fastapi import APIRouter

from services.api.auth.dependencies import Owned
from services.api.http.dependencies import Page, Paging
from services.api.http.problem_details import NotFoundError
from services.api.queries import notifications
from shared.schemas.base import InboxItemView
from shared.schemas.iterations import Marked

router = APIRouter(prefix="/inbox", tags=["inbox"])


@router.get("")
async def list_all(
    access: Owned, paging: Paging, unread: bool = False, agent_id: UUID | None = None
) -> Page[InboxItemView]:
    """The newest first; of one agent, where its id is given."""
    return await notifications.inbox_of_owner(
        access.session, access.owner_id, paging, unread_only=unread, agent_id=agent_id
    )


@router.post("/read")
async def mark_all_read(access: Owned) -> Marked:
    """Everything that is in the inbox now."""
    return Marked(marked=await notifications.mark_all_read(access.session, access.owner_id))


@router.get("/{item_id}")
async def show(access: Owned, item_id: UUID) -> InboxItemView:
    """Looking at it does not mark it."""
    return _there(
        await notifications.find_inbox_item(access.session, access.owner_id, item_id), item_id
    )


@router.post("/{item_id}/read")
async def mark_read(access: Owned, item_id: UUID) -> InboxItemView:
    """The first reading counts."""
    return _there(await notifications.mark_read(access.session, access.owner_id, item_id), item_id)


@router.post("/{item_id}/unread")
async def mark_unread(access: Owned, item_id: UUID) -> InboxItemView:
    return _there(
        await notifications.mark_unread(access.session, access.owner_id, item_id), item_id
    )


def _there(found: InboxItemView | None, item_id: UUID) -> InboxItemView:
    if found is None:
        raise NotFoundError("inbox item", item_id)
    return found
