"""Messages that could not be handled, for who looks after the installation."""

from http import HTTPStatus
from typing import Annotated, Final

from fastapi import APIRouter, Query
from starlette.responses import HTMLResponse, RedirectResponse, Response

from services.api.auth.dependencies import Operated
from services.api.http.dependencies import Paging
from services.api.routers import dead_letters as letters
from services.api.routers.dead_letters import Found
from services.api.web.rendering import Answering
from shared.events.topology import CONSUMERS

router = APIRouter(prefix="/dead-letters")

LIST: Final = "/dead-letters"


@router.get("")
async def list_all(
    access: Operated,
    page: Answering,
    paging: Paging,
    actor: Annotated[str, Query(max_length=40)] = "",
) -> HTMLResponse:
    found = await letters.list_all(access, paging, actor or None)
    return await page.answer(
        "dead_letters/list.html",
        letters=found.items,
        next=found.next,
        actor=actor,
        actors=list(CONSUMERS),
    )


@router.get("/{letter}")
async def show(_: Operated, page: Answering, found: Found) -> HTMLResponse:
    return await page.answer("dead_letters/show.html", letter=found)


@router.post("/{letter}/retry")
async def retry(access: Operated, found: Found) -> Response:
    """Leads to the list: the letter itself may be gone before it is looked at."""
    await letters.retry(access, found)
    return RedirectResponse(LIST, HTTPStatus.SEE_OTHER)


@router.post("/{letter}/discard")
async def discard(access: Operated, found: Found) -> Response:
    await letters.discard(access, found)
    return RedirectResponse(LIST, HTTPStatus.SEE_OTHER)
