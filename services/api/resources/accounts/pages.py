"""Pages of accounts: sign-in, settings, API tokens, users."""

from collections.abc import Mapping
from datetime import UTC, datetime
from http import HTTPStatus
from types import MappingProxyType
from typing import Annotated, Final
from uuid import UUID

from fastapi import APIRouter, BackgroundTasks, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from services.api.auth.dependencies import Access, OperatorAccess, OwnedAccess
from services.api.auth.owner import BootstrapOwner
from services.api.auth.sign_in_links import LIFETIME_MINUTES
from services.api.http.dependencies import PageQuery
from services.api.http.problem_details import ConflictError, ForbiddenError, TooManyError
from services.api.paths import SIGN_IN
from services.api.resources.accounts import api, model
from services.api.resources.accounts.api import NewUser, SignIn, UserFromPath
from services.api.resources.costs import api as cost_routes
from services.api.resources.costs.api import NewBudget
from services.api.resources.costs.model import budget_usage
from services.api.web.forms import FormState, NewTokenForm, Submitted, submitted
from services.api.web.rendering import PAGE_HEADERS, Page, PageResponse, Pages
from shared.accounts import credentials
from shared.accounts.credentials import OWN_TOKEN_NAME
from shared.enums import AccessScope
from shared.errors import PermanentError
from shared.llm.pricing import Prices
from shared.runtime.prices import load_prices
from shared.runtime.settings import Settings
from shared.schemas.accounts import NewTokenResponse, SignInLinkResponse
from shared.schemas.base import LARGEST_PAGE, PageRequest

router = APIRouter()


_EMPTY: Final = FormState()
"""A form that was not sent."""


@router.get(SIGN_IN)
async def show_sign_in(request: Request) -> HTMLResponse:
    return _sign_in_page(request, _EMPTY, is_requested=False)


@router.post(SIGN_IN)
async def request_sign_in_link(
    request: Request,
    form: Annotated[Submitted[SignIn], submitted(SignIn)],
    after: BackgroundTasks,
) -> HTMLResponse:
    """Answers the same for every name, so that it does not reveal who is a user."""
    if form.model is None:
        return _sign_in_page(request, form, is_requested=False)
    try:
        await api.request_sign_in_link(request, form.model, after)
    except TooManyError as error:
        refused = form.refused(error, {"too-many-attempts": "user"})
        return _sign_in_page(request, refused, is_requested=False, headers=error.headers)
    return _sign_in_page(request, form, is_requested=True)


@router.post("/sign-out")
async def sign_out(request: Request, access: OwnedAccess) -> Response:
    response = RedirectResponse(SIGN_IN, HTTPStatus.SEE_OTHER)
    await api.sign_out(request, response, access)
    return response


def _sign_in_page(
    request: Request,
    form: FormState,
    *,
    is_requested: bool,
    headers: Mapping[str, str] = MappingProxyType({}),
) -> HTMLResponse:
    pages: Pages = request.app.state.pages
    settings: Settings = request.app.state.settings
    context = {
        "asked": is_requested,
        "form": form,
        "sends_mail": settings.smtp_url is not None,
        "minutes": LIFETIME_MINUTES,
    }
    return pages.answer(
        "accounts/sign_in.html", context, status=form.status, headers={**PAGE_HEADERS, **headers}
    )


TOKEN_LIFETIMES: Final = {
    "7": "7 days",
    "30": "30 days",
    "90": "90 days",
    "365": "1 year",
    "never": "Never",
}


@router.get("/settings/tokens")
async def list_tokens(
    access: OwnedAccess, page: PageResponse, page_request: PageQuery
) -> HTMLResponse:
    return await _tokens_page(access, page, page_request)


@router.post("/settings/tokens")
async def make_token(
    access: OwnedAccess,
    page: PageResponse,
    form: Annotated[Submitted[NewTokenForm], submitted(NewTokenForm)],
) -> HTMLResponse:
    """Shows the token on the response page only: a redirect could not carry it."""
    if form.model is None:
        return await _tokens_page(access, page, PageRequest(), form=form)
    try:
        token = await api.create_token(access, form.model)
    except ForbiddenError as error:
        refused = form.refused(error, {"insufficient-scope": "scopes"})
        return await _tokens_page(access, page, PageRequest(), form=refused)
    return await _tokens_page(access, page, PageRequest(), new_token=token)


@router.post("/settings/tokens/{token_id}/revoke")
async def revoke_token(access: OwnedAccess, token_id: UUID) -> Response:
    await api.revoke_token(access, token_id)
    return RedirectResponse("/settings/tokens", HTTPStatus.SEE_OTHER)


async def _tokens_page(
    access: Access,
    page: Page,
    page_request: PageRequest,
    *,
    new_token: NewTokenResponse | None = None,
    form: FormState | None = None,
) -> HTMLResponse:
    tokens_page = await model.list_tokens(access, page_request)
    form = form or FormState.filled(
        scopes=[scope.value for scope in credentials.DEFAULT_SCOPES],
        expires_in_days=credentials.TOKEN_LIFETIME.days,
    )
    return await page.answer(
        "accounts/tokens.html",
        status=form.status if new_token is None else HTTPStatus.CREATED,
        form=form,
        new_token=new_token,
        tokens=tokens_page.items,
        next=tokens_page.next,
        lifetimes=TOKEN_LIFETIMES,
        own=OWN_TOKEN_NAME,
        now=datetime.now(UTC),
        scopes=[scope.value for scope in AccessScope if scope in access.caller.scopes],
    )


USERS: Final = "/settings/users"


@router.get("/settings/users")
async def list_users(
    request: Request, access: OperatorAccess, page: PageResponse, page_request: PageQuery
) -> HTMLResponse:
    return await _users_page(request, access, page, page_request)


@router.post("/settings/users")
async def create_user(
    request: Request,
    access: OperatorAccess,
    page: PageResponse,
    form: Annotated[Submitted[NewUser], submitted(NewUser)],
) -> Response:
    if form.model is None:
        return await _users_page(request, access, page, PageRequest(), form=form)
    try:
        async with access.session.savepoint():
            await api.add_user(access, form.model)
    except ConflictError as error:
        refused = form.refused(error, {"user-taken": "name"})
        return await _users_page(request, access, page, PageRequest(), form=refused)
    return _to_users()


@router.post("/settings/users/{user}/disable")
async def disable_user(request: Request, access: OperatorAccess, user: UserFromPath) -> Response:
    await api.disable_user(request, access, user)
    return _to_users()


@router.post("/settings/users/{user}/enable")
async def enable_user(access: OperatorAccess, user: UserFromPath) -> Response:
    await api.enable_user(access, user)
    return _to_users()


@router.post("/settings/users/{user}/delete")
async def remove_user(request: Request, access: OperatorAccess, user: UserFromPath) -> Response:
    await api.remove_user(request, access, user)
    return _to_users()


@router.post("/settings/users/{user}/sign-in-link")
async def make_sign_in_link(
    request: Request, access: OperatorAccess, page: PageResponse, user: UserFromPath
) -> HTMLResponse:
    """Shows the link on the response page only."""
    link = await api.make_sign_in_link(request, Response(), access, user)
    return await _users_page(request, access, page, PageRequest(), link=link, link_of=user.name)


async def _users_page(
    request: Request,
    access: Access,
    page: Page,
    page_request: PageRequest,
    *,
    link: SignInLinkResponse | None = None,
    link_of: str | None = None,
    form: FormState = _EMPTY,
) -> HTMLResponse:
    owner: BootstrapOwner = request.app.state.owner
    users_page = await model.list_users(access, page_request)
    return await page.answer(
        "accounts/users.html",
        status=form.status if link is None else HTTPStatus.CREATED,
        form=form,
        users=users_page.items,
        next=users_page.next,
        owner_id=await owner.id(),
        link=link,
        link_of=link_of,
    )


def _to_users() -> Response:
    return RedirectResponse(USERS, HTTPStatus.SEE_OTHER)


SETTINGS: Final = "/settings"


@router.get("/settings")
async def show_settings(
    access: OwnedAccess, page: PageResponse, saved: bool = False
) -> HTMLResponse:
    return await _general_page(access, page, saved=saved)


@router.post("/settings/budget")
async def set_installation_budget(
    access: OperatorAccess,
    page: PageResponse,
    form: Annotated[Submitted[NewBudget], submitted(NewBudget)],
) -> Response:
    if form.model is None:
        return await _general_page(access, page, form=form)
    await cost_routes.set_installation_budget(access, form.model)
    return RedirectResponse(f"{SETTINGS}?saved=true#budget", HTTPStatus.SEE_OTHER)


async def _general_page(
    access: Access,
    page: Page,
    *,
    saved: bool = False,
    form: FormState | None = None,
) -> HTMLResponse:
    """`form` is that of the installation's budget, which only operators see."""
    settings = page.settings
    usage = None
    if access.caller.is_operator:
        usage = await budget_usage(access.session)
        form = form or FormState.filled(
            usd_per_day=None if usage.usd_per_day is None else f"{usage.usd_per_day:.10g}",
            calls_per_day=usage.calls_per_day,
        )
    prices, fault = _prices_or_fault(settings)
    return await page.answer(
        "accounts/general.html",
        status=HTTPStatus.OK if form is None else form.status,
        form=form or _EMPTY,
        saved=saved,
        user=await model.get_user(access.session, access.owner_id),
        sessions=(await model.list_sessions(access, PageRequest(LARGEST_PAGE))).items,
        usage=usage,
        model=settings.model,
        prices=prices,
        prices_fault=fault,
    )


@router.post("/settings/sessions/{session_id}/end")
async def end_session(access: OwnedAccess, session_id: UUID) -> Response:
    await api.end_session(access, session_id)
    return RedirectResponse(f"{SETTINGS}#browsers", HTTPStatus.SEE_OTHER)


@router.post("/settings/sign-out-others")
async def end_other_sessions(access: OwnedAccess) -> Response:
    """Ends all sessions except the current one."""
    for session in (await model.list_sessions(access, PageRequest(LARGEST_PAGE))).items:
        if not session.current:
            await credentials.end_session(access.session, access.owner_id, session.id)
    return RedirectResponse(f"{SETTINGS}#browsers", HTTPStatus.SEE_OTHER)


def _prices_or_fault(settings: Settings) -> tuple[Prices | None, str | None]:
    """Returns the prices of calls, or why they are unknown."""
    try:
        return load_prices(settings), None
    except PermanentError as error:
        return None, str(error)
