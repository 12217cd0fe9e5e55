"""How a browser comes in: it asks for a link, and opens it."""

from http import HTTPStatus
from typing import Annotated, Any, Final

from fastapi import APIRouter, BackgroundTasks, Body, Query, Request
from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from starlette.responses import HTMLResponse, RedirectResponse, Response

from services.api.auth.middleware import (
    Attempts,
    ValidityCheck,
    address_of,
    cookie_name,
    refuse_other_pages,
)
from services.api.auth.owner import Owner
from services.api.auth.sign_in_links import Invitations
from services.api.http.problem_details import TooManyError
from services.api.paths import HOME
from services.api.web.rendering import OF_SECRET_PAGES, Pages
from shared.accounts import credentials
from shared.accounts.secrets import digest_of, is_secret
from shared.database.engine import Database
from shared.runtime.settings import Settings

router = APIRouter(tags=["sign-in"])

HTML: Final[dict[str, Any]] = {"content": {"text/html": {"schema": {"type": "string"}}}}
Secret = Annotated[str, Query(max_length=200, description="As the link has it")]


def _printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("a name or mail address is one line of text")
    return text


class SignIn(BaseModel):
    model_config = ConfigDict(extra="forbid")

    user: Annotated[str, Field(min_length=1, max_length=320), AfterValidator(_printable)]
    """Name or mail address."""


@router.post("/sign-in", status_code=HTTPStatus.ACCEPTED)
async def ask(
    request: Request, wanted: Annotated[SignIn, Body()], after: BackgroundTasks
) -> dict[str, str]:
    """Sends that user a sign-in link by mail; without a mail server it is printed to the api's log.

    The answer is the same, as soon, whether there is such a user or not.
    """
    refuse_other_pages(request.headers)
    _count(request, wanted.user)
    invitations: Invitations = request.app.state.invitations
    after.add_task(invitations.bring, wanted.user, address_of(request))
    return {"detail": "If there is such a user, a sign-in link is on its way."}


@router.get("/sign-in/link", response_class=HTMLResponse, responses={200: HTML})
async def look(request: Request, secret: Secret) -> HTMLResponse:
    """A page with a button. To open it uses nothing up, and tells nothing of the link.

    Mail scanners open what they find in mails, but they press no buttons.
    """
    return _page(request, HTTPStatus.OK, used=False)


@router.post(
    "/sign-in/link",
    status_code=HTTPStatus.SEE_OTHER,
    response_class=RedirectResponse,
    responses={303: {"description": "Signed in; on to the agents."}, 410: HTML},
)
async def enter(request: Request, secret: Secret) -> Response:
    """Uses the link up, signs this browser in, and leads it to the first page."""
    refuse_other_pages(request.headers)
    session_secret = await _opened(request, secret) if is_secret(secret) else None
    if session_secret is None:
        attempts: Attempts = request.app.state.link_attempts
        wait_seconds = attempts.wait_seconds(address_of(request))
        attempts.add(address_of(request))
        if wait_seconds > 0:
            raise TooManyError("Too many bad sign-in links came from this address.", wait_seconds)
        return _page(request, HTTPStatus.GONE, used=True)
    page = RedirectResponse(HOME, HTTPStatus.SEE_OTHER)
    settings: Settings = request.app.state.settings
    owner: Owner = request.app.state.owner
    page.set_cookie(
        cookie_name(settings, await owner.id()),
        session_secret,
        max_age=int(credentials.LONGEST_LIFETIME.total_seconds()),
        httponly=True,
        samesite="lax",
        secure=settings.is_public_over_tls,
    )
    return page


def _page(request: Request, status: HTTPStatus, *, used: bool) -> HTMLResponse:
    pages: Pages = request.app.state.pages
    return pages.answer(
        "sign_in/enter.html", {"used": used}, status=status, headers=OF_SECRET_PAGES
    )


def _count(request: Request, user: str) -> None:
    """Raises TooManyError where that address has asked for many links of that user, whether there is one or not."""
    asked: Attempts = request.app.state.link_requests
    key = digest_of(f"{address_of(request)} {user.lower()}").hex()
    if (wait := asked.wait_seconds(key)) > 0:
        raise TooManyError(
            "Too many sign-in links of this user were asked for from this address.", wait
        )
    asked.add(key)


async def _opened(request: Request, secret: str) -> str | None:
    owner: Owner = request.app.state.owner
    database: Database = request.app.state.database
    check: ValidityCheck[bytes] = request.app.state.link_check
    await owner.id()
    if not await check.is_valid(digest_of(secret)):
        return None
    async with database.transaction() as session:
        return await credentials.open_session(
            session, secret, request.headers.get("user-agent", "unknown")
        )
