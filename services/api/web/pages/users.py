"""Users, for operators."""

from http import HTTPStatus
from typing import Annotated, Final

from fastapi import APIRouter, Form, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from services.api.auth.dependencies import Access, Operated
from services.api.auth.owner import Owner
from services.api.http.dependencies import Paging
from services.api.http.idempotency import Once
from services.api.queries import accounts as reading
from services.api.routers import users as routes
from services.api.routers.users import Found, NewUser
from services.api.web.rendering import Answering, Page
from shared.schemas.accounts import SignInLinkView
from shared.schemas.base import Wanted

router = APIRouter(prefix="/settings/users")

LIST: Final = "/settings/users"


@router.get("")
async def list_all(
    request: Request, access: Operated, page: Answering, paging: Paging
) -> HTMLResponse:
    return await _page(request, access, page, paging)


@router.post("")
async def add(access: Operated, wanted: Annotated[NewUser, Form()]) -> Response:
    await routes.create(access, Once(access, key=None, request_hash=""), wanted)
    return _back()


@router.post("/{user}/disable")
async def disable(request: Request, access: Operated, found: Found) -> Response:
    await routes.disable(request, access, found)
    return _back()


@router.post("/{user}/enable")
async def enable(access: Operated, found: Found) -> Response:
    await routes.enable(access, found)
    return _back()


@router.post("/{user}/delete")
async def remove(request: Request, access: Operated, found: Found) -> Response:
    await routes.remove(request, access, found)
    return _back()


@router.post("/{user}/sign-in-link")
async def make_link(
    request: Request, access: Operated, page: Answering, found: Found
) -> HTMLResponse:
    """The link stands on the page that answers, and nowhere else."""
    link = await routes.make_link(request, Response(), access, found)
    return await _page(request, access, page, Wanted(), link=link, link_of=found.name)


async def _page(
    request: Request,
    access: Access,
    page: Page,
    wanted: Wanted,
    *,
    link: SignInLinkView | None = None,
    link_of: str | None = None,
) -> HTMLResponse:
    owner: Owner = request.app.state.owner
    found = await reading.users(access.session, wanted)
    return await page.answer(
        "settings/users.html",
        status=HTTPStatus.OK if link is None else HTTPStatus.CREATED,
        users=found.items,
        next=found.next,
        owner_id=await owner.id(),
        link=link,
        link_of=link_of,
    )


def _back() -> Response:
    return RedirectResponse(LIST, HTTPStatus.SEE_OTHER)
