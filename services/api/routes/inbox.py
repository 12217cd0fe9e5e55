"""What the owner should see."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query

from services.api.access import Owned
from services.api.problems import NotFoundError
from shared.store.reading import inbox
from shared.store.reading.shapes import InboxItemView

router = APIRouter(prefix="/inbox", tags=["inbox"])


@router.get("")
async def list_all(
    access: Owned,
    unread: bool = False,
    limit: Annotated[int, Query(ge=1, le=inbox.MAX_LIMIT)] = 50,
) -> list[InboxItemView]:
    """The newest first."""
    return await inbox.of_owner(access.session, access.owner_id, unread_only=unread, limit=limit)


@router.post("/{item_id}/read")
async def mark_read(access: Owned, item_id: UUID) -> InboxItemView:
    found = await inbox.mark_read(access.session, access.owner_id, item_id)
    if found is None:
        raise NotFoundError("inbox item", item_id)
    return found
