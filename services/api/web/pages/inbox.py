"""What an owner should see: read in place, and marked as read by reading."""

from http import HTTPStatus
from typing import Annotated, Final
from uuid import UUID

from fastapi import APIRouter, Query, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from services.api.auth.dependencies import Owned
from services.api.http.dependencies import Paging
from services.api.http.problem_details import NotFoundError
from services.api.queries import agents, notifications
from services.api.web.forms import UNLESS_BLANK
from services.api.web.rendering import Answering
from services.api.web.text import citations_of
from shared.schemas.base import LARGEST_PAGE, AgentView, InboxItemView, Wanted

router = APIRouter(prefix="/inbox")

CHANGED: Final = {"HX-Trigger": "inbox-changed"}
"""Has the page bring its list up to date."""
OfAgent = Annotated[UUID | None, UNLESS_BLANK, Query()]


@router.get("")
async def list_all(
    access: Owned, page: Answering, paging: Paging, agent: OfAgent = None, unread: bool = False
) -> HTMLResponse:
    found = await notifications.inbox_of_owner(
        access.session, access.owner_id, paging, unread_only=unread, agent_id=agent
    )
    texts = [(each.agent_id, f"{each.summary}\n{each.content}") for each in found.items]
    everyone: list[AgentView] = []
    if page.part is None:
        wanted = Wanted(LARGEST_PAGE)
        everyone = (await agents.of_owner(access.session, access.owner_id, wanted)).items
    return await page.answer(
        "inbox/list.html",
        items=found.items,
        next=found.next,
        citations=await citations_of(access.session, access.owner_id, texts),
        left=await notifications.count_unread(access.session, access.owner_id),
        agents=everyone,
        agent=agent,
        unread_only=unread,
        is_part=page.part is not None,
    )


@router.post("/read")
async def mark_all_read(request: Request, access: Owned) -> Response:
    await notifications.mark_all_read(access.session, access.owner_id)
    return _back(request)


@router.post("/{item_id}/read")
async def mark_read(request: Request, access: Owned, item_id: UUID) -> Response:
    _demand(await notifications.mark_read(access.session, access.owner_id, item_id), item_id)
    return _back(request, item_id)


@router.post("/{item_id}/unread")
async def mark_unread(request: Request, access: Owned, item_id: UUID) -> Response:
    _demand(await notifications.mark_unread(access.session, access.owner_id, item_id), item_id)
    return _back(request, item_id)


def _demand(found: InboxItemView | None, item_id: UUID) -> None:
    if found is None:
        raise NotFoundError("inbox item", item_id)


def _back(request: Request, item_id: UUID | None = None) -> Response:
    """To the list; a page with scripts is there already, and is told that it has changed."""
    if request.headers.get("hx-request") == "true":
        return Response(status_code=HTTPStatus.NO_CONTENT, headers=CHANGED)
    place = f"#item-{item_id}" if item_id else ""
    return RedirectResponse(f"/inbox{place}", HTTPStatus.SEE_OTHER)
