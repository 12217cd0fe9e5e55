"""Coming in and going: the page for who is not signed in asks for a link."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, BackgroundTasks, Form, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from services.api.auth.dependencies import Owned
from services.api.paths import SIGN_IN
from services.api.routers import me, sign_in
from services.api.routers.sign_in import SignIn
from services.api.web.rendering import Pages

router = APIRouter()
"""Of what is answered to all."""
leaving = APIRouter()


@router.get(SIGN_IN)
async def look(request: Request) -> HTMLResponse:
    return _page(request, asked=False)


@router.post(SIGN_IN)
async def ask(
    request: Request, wanted: Annotated[SignIn, Form()], after: BackgroundTasks
) -> HTMLResponse:
    """The same page for whatever name: who is a user here is nobody's business."""
    await sign_in.ask(request, wanted, after)
    return _page(request, asked=True)


@leaving.post("/sign-out")
async def leave(request: Request, access: Owned) -> Response:
    gone = RedirectResponse(SIGN_IN, HTTPStatus.SEE_OTHER)
    await me.leave(request, gone, access)
    return gone


def _page(request: Request, *, asked: bool) -> HTMLResponse:
    pages: Pages = request.app.state.pages
    return pages.answer("sign_in/ask.html", {"asked": asked}, status=HTTPStatus.OK)
