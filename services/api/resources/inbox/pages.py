"""The page of the inbox."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from http import HTTPStatus
from typing import Annotated, Any, Final
from uuid import UUID

from fastapi import APIRouter, Form, Query, Request
from pydantic import ValidationError
from starlette.responses import HTMLResponse, RedirectResponse, Response

from services.api.auth.dependencies import Access, OwnedAccess
from services.api.http.dependencies import PageQuery
from services.api.resources.agents.model import list_agent_names
from services.api.resources.inbox import model
from services.api.resources.inbox.model import NewFeedback, NewSnooze
from services.api.web.forms import UNLESS_BLANK
from services.api.web.rendering import PageResponse, load_counts
from services.api.web.text import find_citations
from shared.agents.feedback import MAX_FEEDBACK_CHARS
from shared.enums import InboxView
from shared.graph.retraction import doubts
from shared.schemas.base import InboxItemResponse
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
        return _SNOOZE_TIMES[self]


_SNOOZE_TIMES: Final = {
    Snooze.HOUR: timedelta(hours=1),
    Snooze.DAY: timedelta(days=1),
    Snooze.WEEK: timedelta(days=7),
}


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
    chosen = None if item is None else await model.get_inbox_item(access, item)
    context = await _item_context(access, chosen)
    if page.part not in ITEM_PARTS:
        items = await model.list_inbox_items(access, page_request, view=view, agent_id=agent)
        context |= {
            "items": items.items,
            "next": items.next,
            "left": (await load_counts(access)).unread,
            "counts": await model.count_by_view(access, agent_id=agent),
        }
    names = [] if page.part else await list_agent_names(access)
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
    await model.mark_all_read(access)
    return _to_inbox(request)


def _add_action(
    name: str, act: Callable[[Access, UUID], Awaitable[object]], *, stays: bool
) -> None:
    """Adds the route of a button. `stays`: the item is shown again afterwards."""

    @router.post(f"/inbox/{{item_id}}/{name}")
    async def change_item(request: Request, access: OwnedAccess, item_id: UUID) -> Response:
        await act(access, item_id)
        return _to_inbox(request, item_id if stays else None)


_add_action("read", model.mark_read, stays=True)
_add_action("unread", model.mark_unread, stays=True)
_add_action("accept", model.accept, stays=False)
_add_action("dismiss", model.dismiss, stays=False)
_add_action("reopen", model.reopen, stays=True)


@router.post("/inbox/{item_id}/snooze")
async def snooze(
    request: Request, access: OwnedAccess, item_id: UUID, until: Annotated[Snooze, Form()]
) -> Response:
    await model.snooze(access, item_id, NewSnooze(until=datetime.now(UTC) + until.time))
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
        item = await model.get_inbox_item(access, item_id)
        item = item.model_copy(update={"useful": useful, "feedback": text})
    else:
        item = await model.give_feedback(access, item_id, feedback)
    if error is None and request.headers.get("hx-request") != "true":
        return _to_inbox(request, item_id)
    context = await _item_context(access, item)
    context |= {"feedback_error": error, "is_saved": error is None}
    return await page.answer("inbox/feedback.html", **context)


def _to_inbox(request: Request, item_id: UUID | None = None) -> Response:
    """Redirects to the list. With htmx, tells the page that the list has changed."""
    if request.headers.get("hx-request") == "true":
        return Response(status_code=HTTPStatus.NO_CONTENT, headers=INBOX_CHANGED_HEADERS)
    place = f"?item={item_id}" if item_id else ""
    return RedirectResponse(f"/inbox{place}", HTTPStatus.SEE_OTHER)
