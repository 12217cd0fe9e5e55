"""Who one is, in which browsers one is signed in, and what the installation allows and asks."""

from http import HTTPStatus
from typing import Annotated, Final
from uuid import UUID

from fastapi import APIRouter, Form, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from services.api.auth.dependencies import Access, Operated, Owned
from services.api.queries import accounts as reading
from services.api.queries import costs
from services.api.routers import budgets as budget_routes
from services.api.routers import me
from services.api.routers.budgets import NewBudget
from services.api.web.rendering import Answering
from shared.accounts import credentials
from shared.errors import PermanentError
from shared.llm.pricing import Prices
from shared.runtime.providers import prices_of
from shared.runtime.settings import Settings
from shared.schemas.accounts import SessionView
from shared.schemas.base import LARGEST_PAGE, Wanted

router = APIRouter(prefix="/settings")

HERE: Final = "/settings"


@router.get("")
async def show(request: Request, access: Owned, page: Answering) -> HTMLResponse:
    settings: Settings = request.app.state.settings
    allowance = None
    if access.caller.is_operator:
        allowance = await costs.allowance_of_installation(access.session)
    prices, fault = _prices(settings)
    return await page.answer(
        "settings/general.html",
        user=await reading.user(access.session, access.owner_id),
        sessions=await _sessions(access),
        allowance=allowance,
        model=settings.model,
        prices=prices,
        prices_fault=fault,
    )


@router.post("/budget")
async def set_budget(access: Operated, wanted: Annotated[NewBudget, Form()]) -> Response:
    await budget_routes.set_of_installation(access, wanted)
    return RedirectResponse(f"{HERE}#budget", HTTPStatus.SEE_OTHER)


@router.post("/sessions/{session_id}/end")
async def end_session(access: Owned, session_id: UUID) -> Response:
    await me.end_session(access, session_id)
    return RedirectResponse(f"{HERE}#browsers", HTTPStatus.SEE_OTHER)


@router.post("/sign-out-others")
async def end_others(access: Owned) -> Response:
    """Every browser but the one that asks."""
    for each in await _sessions(access):
        if not each.current:
            await credentials.end_session(access.session, access.owner_id, each.id)
    return RedirectResponse(f"{HERE}#browsers", HTTPStatus.SEE_OTHER)


async def _sessions(access: Access) -> list[SessionView]:
    credential = access.caller.credential_id
    wanted = Wanted(LARGEST_PAGE)
    return (await reading.sessions_of(access.session, access.owner_id, credential, wanted)).items


def _prices(settings: Settings) -> tuple[Prices | None, str | None]:
    """What calls are counted at, or why that cannot be told."""
    try:
        return prices_of(settings), None
    except PermanentError as error:
        return None, str(error)
