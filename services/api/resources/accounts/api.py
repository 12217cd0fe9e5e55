"""Accounts: the caller, tokens and sessions, users, and the sign-in of browsers."""

import re
from datetime import timedelta
from http import HTTPStatus
from typing import Annotated, Any, Final, Literal
from uuid import UUID

from fastapi import APIRouter, BackgroundTasks, Body, Depends, Path, Query, Request, Response
from psycopg.errors import IntegrityError
from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from starlette.responses import HTMLResponse, RedirectResponse

from services.api.auth.dependencies import Access, OperatorAccess, OwnedAccess, parse_id
from services.api.auth.middleware import (
    AttemptLimiter,
    ValidityCheck,
    address_of,
    cookie_name,
    former_cookie_name,
    refuse_cross_site,
    require_scope,
    set_session_cookie,
)
from services.api.auth.owner import BootstrapOwner
from services.api.auth.sign_in_links import SignInLinks
from services.api.http.idempotency import Idempotent
from services.api.http.problem_details import (
    ConflictError,
    ForbiddenError,
    NotFoundError,
    TooManyError,
    problems,
)
from services.api.paths import HOME
from services.api.resources.accounts import model
from services.api.web.rendering import SECRET_PAGE_HEADERS, Pages
from shared.accounts import credentials
from shared.accounts.authentication import allowed_scopes
from shared.accounts.secrets import hash_secret, is_secret
from shared.database.engine import Database
from shared.database.tables import User
from shared.enums import AccessScope, CredentialKind
from shared.errors import PermanentError
from shared.notifications.smtp import parse_address
from shared.runtime.settings import Settings
from shared.schemas.accounts import (
    CredentialResponse,
    MeResponse,
    NewTokenResponse,
    SignInLinkResponse,
    TokenResponse,
    UserResponse,
)

access_router: Final = APIRouter(tags=["access"])
users_router: Final = APIRouter(prefix="/users", tags=["users"])
sign_in_router: Final = APIRouter(tags=["sign-in"])


MAX_TOKEN_DAYS: Final = 3650


def _token_name(text: str) -> str:
    text = text.strip()
    if not text or not text.isprintable():
        raise ValueError("enter one line of text that says what the token is for")
    return text


class NewToken(BaseModel):
    """The name, scopes and lifetime of a token."""

    model_config = ConfigDict(extra="forbid")

    name: Annotated[str, Field(min_length=1, max_length=80), AfterValidator(_token_name)]
    """What the token is for, so that it can be recognized later."""
    scopes: Annotated[frozenset[AccessScope], Field(min_length=1)] = credentials.DEFAULT_SCOPES
    expires_in_days: Annotated[int, Field(ge=1, le=MAX_TOKEN_DAYS)] | Literal["never"] = (
        credentials.TOKEN_LIFETIME.days
    )

    @property
    def lifetime(self) -> timedelta | None:
        days = self.expires_in_days
        return None if days == "never" else timedelta(days=days)


@access_router.get("/me", name="me")
async def show_me(access: OwnedAccess) -> MeResponse:
    """The user and credential of this request."""
    caller = access.caller
    return MeResponse(
        user=await model.get_user(access.session, caller.user_id),
        credential=CredentialResponse(
            kind=caller.kind,
            id=caller.credential_id,
            scopes=[scope for scope in AccessScope if scope in caller.scopes],
            expires_at=caller.expires_at,
        ),
    )


@access_router.post("/me/sign-in-links", name="make_link", status_code=HTTPStatus.CREATED)
async def make_own_sign_in_link(
    request: Request, response: Response, access: OwnedAccess
) -> SignInLinkResponse:
    """Creates a single-use link that signs in a browser.

    A session has all scopes of its user, so this credential must have them too.
    """
    user = await model.get_user(access.session, access.owner_id)
    for scope in sorted(allowed_scopes(operator=user.operator)):
        require_scope(access.caller, scope)
    invitations: SignInLinks = request.app.state.invitations
    response.headers["Cache-Control"] = "no-store"
    return await invitations.make(access.session, access.owner_id)


access_router.get("/tokens")(model.list_tokens)
access_router.get("/sessions")(model.list_sessions)
users_router.get("", name="list_all")(model.list_users)


@access_router.post(
    "/tokens",
    status_code=HTTPStatus.CREATED,
    response_model=NewTokenResponse,
    responses=problems(HTTPStatus.CONFLICT),
)
async def make_token(
    access: OwnedAccess, once: Idempotent, body: Annotated[NewToken, Body()]
) -> Response:
    """Creates a token for a program; its value is shown only once. It has at most the scopes of this credential."""
    return await once.answer(lambda: create_token(access, body), holds_secret=True)


async def create_token(access: Access, new_token: NewToken) -> NewTokenResponse:
    """Raises ForbiddenError where the caller's credential lacks a scope of the token."""
    if beyond := new_token.scopes - access.caller.scopes:
        raise ForbiddenError(
            "insufficient-scope",
            f"Your credential does not have the scope {', '.join(sorted(beyond))}, so its tokens cannot have it either.",
        )
    row, token = await credentials.create_token(
        access.session,
        access.owner_id,
        name=new_token.name,
        scopes=new_token.scopes,
        lifetime=new_token.lifetime,
    )
    return NewTokenResponse(**dict(TokenResponse.model_validate(row)), token=token)


@access_router.delete("/tokens/{token_id}", status_code=HTTPStatus.NO_CONTENT)
async def revoke_token(access: OwnedAccess, token_id: UUID) -> None:
    """Revokes a token at once and permanently; it may be the token of this request."""
    if not await credentials.revoke_token(access.session, access.owner_id, token_id):
        raise NotFoundError("token", token_id)


@access_router.delete("/sessions/{session_id}", status_code=HTTPStatus.NO_CONTENT)
async def end_session(access: OwnedAccess, session_id: UUID) -> None:
    """Signs that browser out."""
    if not await credentials.end_session(access.session, access.owner_id, session_id):
        raise NotFoundError("session", session_id)


@access_router.post(
    "/sign-out",
    name="leave",
    status_code=HTTPStatus.NO_CONTENT,
    responses=problems(HTTPStatus.CONFLICT),
)
async def sign_out(request: Request, response: Response, access: OwnedAccess) -> None:
    """Ends the session of this browser."""
    if access.caller.kind is not CredentialKind.SESSION:
        raise ConflictError(
            "no-session",
            "This request was sent with a token, not a session. Revoke the token with DELETE /tokens/{id}.",
        )
    await credentials.end_session(access.session, access.owner_id, access.caller.credential_id)
    settings: Settings = request.app.state.settings
    owner: BootstrapOwner = request.app.state.owner
    owner_id = await owner.id()
    for name in (cookie_name(settings, owner_id), former_cookie_name(settings, owner_id)):
        response.delete_cookie(
            name, httponly=True, samesite="lax", secure=settings.is_public_over_tls
        )


_USER_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
MAX_ADDRESS_CHARS: Final = 254


def _user_name(text: str) -> str:
    # An id would be ambiguous in paths.
    if _USER_NAME.fullmatch(text) is None or parse_id(text) is not None:
        raise ValueError(
            "use 1 to 64 lowercase letters, digits, dots, dashes and underscores, and begin with a letter or digit"
        )
    return text


def _email(text: str) -> str:
    """Validates a mail address without a display name."""
    try:
        plain = parse_address(text).addr_spec
    except PermanentError as error:
        raise ValueError(str(error)) from error
    if plain != text or len(text) > MAX_ADDRESS_CHARS:
        raise ValueError(f"{text!r} is not an email address: write name@host")
    return text


class NewUser(BaseModel):
    model_config = ConfigDict(extra="forbid")

    # For the OpenAPI document only: the validators word the error.
    name: Annotated[
        str,
        AfterValidator(_user_name),
        Field(json_schema_extra={"pattern": f"^{_USER_NAME.pattern}$"}),
    ]
    email: (
        Annotated[str, AfterValidator(_email), Field(json_schema_extra={"format": "email"})] | None
    ) = None
    operator: bool = False


async def _find_user(
    access: OperatorAccess,
    user: Annotated[str, Path(description="The user's name, id or email address")],
) -> User:
    row = await credentials.find_user(access.session, user)
    if row is None:
        raise NotFoundError("user", user)
    return row


UserFromPath = Annotated[User, Depends(_find_user, scope="function")]


@users_router.post(
    "",
    name="create",
    status_code=HTTPStatus.CREATED,
    response_model=UserResponse,
    responses=problems(HTTPStatus.CONFLICT),
)
async def create_user(
    access: OperatorAccess, once: Idempotent, body: Annotated[NewUser, Body()]
) -> Response:
    """Creates a user, who signs in with a link requested at `/sign-in` or created by an operator."""
    return await once.answer(lambda: add_user(access, body))


async def add_user(access: Access, new_user: NewUser) -> UserResponse:
    """Raises ConflictError where the name or the mail address is taken."""
    try:
        row = await credentials.create_user(
            access.session,
            name=new_user.name,
            email=new_user.email,
            operator=new_user.operator,
        )
    except IntegrityError as error:
        raise ConflictError(
            "user-taken", "A user with this name or email address already exists."
        ) from error
    return UserResponse.model_validate(row)


@users_router.get("/{user}", name="show")
async def show_user(user: UserFromPath) -> UserResponse:
    return UserResponse.model_validate(user)


@users_router.delete(
    "/{user}",
    name="remove",
    status_code=HTTPStatus.NO_CONTENT,
    responses=problems(HTTPStatus.CONFLICT),
)
async def remove_user(request: Request, access: OperatorAccess, user: UserFromPath) -> None:
    """Deletes a user with all agents and their data. The user's credentials stop working."""
    await _refuse_owner(request, user, "removed")
    await credentials.delete_user(access.session, user.id)


@users_router.post("/{user}/disable", name="disable", responses=problems(HTTPStatus.CONFLICT))
async def disable_user(
    request: Request, access: OperatorAccess, user: UserFromPath
) -> UserResponse:
    """Disables a user: every credential is refused from now on. The user's agents continue."""
    await _refuse_owner(request, user, "disabled")
    await credentials.set_disabled(access.session, user.id, disabled=True)
    return await model.get_user(access.session, user.id)


@users_router.post("/{user}/enable", name="enable")
async def enable_user(access: OperatorAccess, user: UserFromPath) -> UserResponse:
    """Enables a user: tokens work again, and browsers have to sign in again."""
    await credentials.set_disabled(access.session, user.id, disabled=False)
    return await model.get_user(access.session, user.id)


@users_router.post(
    "/{user}/sign-in-links",
    name="make_link",
    status_code=HTTPStatus.CREATED,
    responses=problems(HTTPStatus.CONFLICT),
)
async def make_sign_in_link(
    request: Request, response: Response, access: OperatorAccess, user: UserFromPath
) -> SignInLinkResponse:
    """Creates a sign-in link to pass to the user if no mail server is configured.

    A session has all scopes of its user, so this credential must have them too.
    """
    for scope in AccessScope:
        require_scope(access.caller, scope)
    if user.disabled_at is not None:
        raise ConflictError("disabled", f"{user.name} is disabled: enable that user first.")
    invitations: SignInLinks = request.app.state.invitations
    response.headers["Cache-Control"] = "no-store"
    return await invitations.make(access.session, user.id)


async def _refuse_owner(request: Request, user: User, action: str) -> None:
    """Raises ConflictError for the owner: the installation needs a user who can manage users."""
    owner: BootstrapOwner = request.app.state.owner
    if user.id == await owner.id():
        raise ConflictError("owner", f"{user.name} owns this installation and cannot be {action}.")


HTML: Final[dict[str, Any]] = {"content": {"text/html": {"schema": {"type": "string"}}}}
Secret = Annotated[str, Query(max_length=200, description="The secret of the link")]


def _printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("enter a name or email address, on one line")
    return text


class SignIn(BaseModel):
    model_config = ConfigDict(extra="forbid")

    user: Annotated[str, Field(min_length=1, max_length=320), AfterValidator(_printable)]
    """A name or mail address."""


@sign_in_router.post("/sign-in", name="ask", status_code=HTTPStatus.ACCEPTED)
async def request_sign_in_link(
    request: Request, body: Annotated[SignIn, Body()], after: BackgroundTasks
) -> dict[str, str]:
    """Sends the user a sign-in link by mail; without a mail server it is printed to the API's log.

    The response and its timing do not reveal whether the user exists.
    """
    refuse_cross_site(request.headers)
    _limit_link_requests(request, body.user)
    invitations: SignInLinks = request.app.state.invitations
    after.add_task(invitations.send_link, body.user, address_of(request))
    return {"detail": "If this user exists, a sign-in link is on its way."}


@sign_in_router.get(
    "/sign-in/link", name="look", response_class=HTMLResponse, responses={200: HTML}
)
async def show_link_page(request: Request, secret: Secret) -> HTMLResponse:
    """Shows a page with a button. Opening it neither uses the link nor reveals whether it is valid.

    Mail scanners open links in mails, but do not press buttons.
    """
    return _link_page(request, HTTPStatus.OK, is_used=False)


@sign_in_router.post(
    "/sign-in/link",
    name="enter",
    status_code=HTTPStatus.SEE_OTHER,
    response_class=RedirectResponse,
    responses={303: {"description": "Signed in; redirects to the agents."}, 410: HTML},
)
async def open_link(request: Request, secret: Secret) -> Response:
    """Uses the link, signs this browser in, and redirects to the first page."""
    refuse_cross_site(request.headers)
    session_secret = await _open_session(request, secret) if is_secret(secret) else None
    if session_secret is None:
        attempts: AttemptLimiter = request.app.state.link_attempts
        wait_seconds = attempts.wait_seconds(address_of(request))
        attempts.add(address_of(request))
        if wait_seconds > 0:
            raise TooManyError(
                "There were too many attempts with invalid sign-in links from this address.",
                wait_seconds,
            )
        return _link_page(request, HTTPStatus.GONE, is_used=True)
    page = RedirectResponse(HOME, HTTPStatus.SEE_OTHER)
    settings: Settings = request.app.state.settings
    owner: BootstrapOwner = request.app.state.owner
    lifetime = credentials.MAX_SESSION_LIFETIME
    set_session_cookie(page, settings, await owner.id(), session_secret, lifetime)
    return page


def _link_page(request: Request, status: HTTPStatus, *, is_used: bool) -> HTMLResponse:
    pages: Pages = request.app.state.pages
    return pages.answer(
        "accounts/open_link.html", {"used": is_used}, status=status, headers=SECRET_PAGE_HEADERS
    )


def _limit_link_requests(request: Request, user: str) -> None:
    """Raises TooManyError where this address has requested too many links for that user, existing or not."""
    limiter: AttemptLimiter = request.app.state.link_requests
    key = hash_secret(f"{address_of(request)} {user.lower()}").hex()
    if (wait := limiter.wait_seconds(key)) > 0:
        raise TooManyError(
            "Too many sign-in links for this user were requested from this address.", wait
        )
    limiter.add(key)


async def _open_session(request: Request, secret: str) -> str | None:
    owner: BootstrapOwner = request.app.state.owner
    database: Database = request.app.state.database
    check: ValidityCheck[bytes] = request.app.state.link_check
    await owner.id()
    if not await check.is_valid(hash_secret(secret)):
        return None
    async with database.transaction() as session:
        return await credentials.open_session(
            session, secret, request.headers.get("user-agent", "unknown")
        )
