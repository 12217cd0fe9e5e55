"""The page Operate, for operators: health, dead letters, the live event stream, providers, storage."""

from datetime import timedelta
from http import HTTPStatus
from typing import Annotated, Any, Final
from urllib.parse import urlencode
from uuid import UUID

from fastapi import APIRouter, Query, Request
from fastapi import Form as FormParameters
from pydantic import Field
from starlette.responses import HTMLResponse, RedirectResponse, Response

from services.api.auth.dependencies import Access, OperatorAccess
from services.api.http.dependencies import PageQuery
from services.api.paths import PREFIX
from services.api.resources.agents.model import list_agent_names
from services.api.resources.operate import model
from services.api.resources.operate.api import show_providers
from services.api.resources.operate.diagnostics import SERVICE_TASKS, diagnose
from services.api.resources.operate.measurements import measure, read_bus
from services.api.resources.operate.retention import read_retention
from services.api.web.forms import Form
from services.api.web.rendering import PageResponse
from shared.database.engine import Database
from shared.runtime.settings import Settings
from shared.schemas.base import LARGEST_PAGE
from shared.workflow import dead_letters as dead_letter_store
from shared.workflow.iterations import database_time

router = APIRouter()

EVENTS_FROM: Final = timedelta(hours=1)
"""How far back the live events begin."""

_Counted = Annotated[int | None, Query(ge=0, le=LARGEST_PAGE)]


@router.get("/operate")
async def show_operations(
    request: Request,
    access: OperatorAccess,
    page: PageResponse,
    page_request: PageQuery,
    retried: _Counted = None,
    refused: _Counted = None,
    discarded: _Counted = None,
) -> HTMLResponse:
    """Shows the page; `retried`, `refused` and `discarded` say what was done with dead letters before."""
    context: dict[str, Any] = {"retried": retried, "refused": refused, "discarded": discarded}
    if page.part in (None, "health", "installation"):
        bus = await read_bus(request.app.state.hub)
        measurements = await measure(request.app.state, access, bus)
        context |= {"seen": measurements, "bus": bus}
        context |= {"tasks": SERVICE_TASKS, "faults": diagnose(measurements)}
    if page.part in (None, "installation"):
        context |= await _installation(request, access)
    if page.part in (None, "letters"):
        letters = await model.list_dead_letters(access, page_request)
        context |= {"dead_letters": letters.items, "next": letters.next}
    if page.part is None:
        context["agents"] = await list_agent_names(access)
        since = await database_time(access.session) - EVENTS_FROM
        context["stream"] = f"{PREFIX}/events?{urlencode({'since': since.isoformat()})}"
    return await page.answer("operate/page.html", **context)


class DeadLettersForm(Form):
    letter: Annotated[list[UUID], Field(max_length=LARGEST_PAGE)] = Field(default_factory=list)
    """The ids of those that are checked; none is sent if none is."""


DeadLettersFromForm = Annotated[DeadLettersForm, FormParameters()]


@router.post("/operate/dead-letters/retry")
async def retry_dead_letters(access: OperatorAccess, form: DeadLettersFromForm) -> Response:
    """Requests a retry of each that can be retried."""
    letters = await model.get_dead_letters(access, form.letter)
    retryable = [letter for letter in letters if letter.refusal is None]
    await dead_letter_store.request_retries(access.session, [letter.id for letter in retryable])
    return _to_list(retried=len(retryable), refused=len(letters) - len(retryable))


@router.post("/operate/dead-letters/discard")
async def discard_dead_letters(access: OperatorAccess, form: DeadLettersFromForm) -> Response:
    letters = await model.get_dead_letters(access, form.letter)
    await dead_letter_store.discard(access.session, [letter.id for letter in letters])
    return _to_list(discarded=len(letters))


def _to_list(**counts: int) -> Response:
    return RedirectResponse(f"/operate?{urlencode(counts)}#dead-letters", HTTPStatus.SEE_OTHER)


@router.get("/outages")
async def show_outages(page: PageResponse) -> HTMLResponse:
    """The banner of pages that are open while a provider is unavailable."""
    return await page.answer("operate/outages.html")


async def _installation(request: Request, access: Access) -> dict[str, Any]:
    """Returns the state of providers, storage and retention."""
    settings: Settings = request.app.state.settings
    database: Database = request.app.state.database
    return {
        "providers": await show_providers(request, access),
        "uses": await model.read_provider_use(access.session),
        "sends_mail": settings.smtp_url is not None,
        "mail": await model.read_mail_queue(access.session),
        "pool": database.pool_use(),
        "postgres": await model.read_database_state(access.session),
        "retention": await read_retention(access.session),
    }
