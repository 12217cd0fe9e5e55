"""Tokens for programs: made, shown once, revoked."""

from http import HTTPStatus
from typing import Annotated, Final
from uuid import UUID

from fastapi import APIRouter, Form
from starlette.responses import HTMLResponse, RedirectResponse, Response

from services.api.auth.dependencies import Access, Owned
from services.api.http.dependencies import Paging
from services.api.http.idempotency import Once
from services.api.queries import accounts as reading
from services.api.routers import me
from services.api.routers.me import NewToken
from services.api.web.rendering import Answering, Page
from shared.accounts.credentials import OWN_TOKEN
from shared.enums import AccessScope
from shared.schemas.accounts import NewTokenView
from shared.schemas.base import Wanted

router = APIRouter(prefix="/settings/tokens")

LIFETIMES: Final = {
    "7": "7 days",
    "30": "30 days",
    "90": "90 days",
    "365": "a year",
    "never": "for ever",
}


@router.get("")
async def list_all(access: Owned, page: Answering, paging: Paging) -> HTMLResponse:
    return await _page(access, page, paging, made=None)


@router.post("")
async def make(access: Owned, page: Answering, wanted: Annotated[NewToken, Form()]) -> HTMLResponse:
    """The token stands on the page that answers, and nowhere else: no redirect could carry it."""
    answer = await me.make_token(access, Once(access, key=None, request_hash=""), wanted)
    made = NewTokenView.model_validate_json(bytes(answer.body))
    return await _page(access, page, Wanted(), made=made)


@router.post("/{token_id}/revoke")
async def revoke(access: Owned, token_id: UUID) -> Response:
    await me.revoke_token(access, token_id)
    return RedirectResponse("/settings/tokens", HTTPStatus.SEE_OTHER)


async def _page(
    access: Access, page: Page, wanted: Wanted, *, made: NewTokenView | None
) -> HTMLResponse:
    found = await reading.tokens_of(access.session, access.owner_id, wanted)
    return await page.answer(
        "settings/tokens.html",
        status=HTTPStatus.OK if made is None else HTTPStatus.CREATED,
        made=made,
        tokens=found.items,
        next=found.next,
        lifetimes=LIFETIMES,
        own=OWN_TOKEN,
        scopes=[scope.value for scope in AccessScope if scope in access.caller.scopes],
    )
