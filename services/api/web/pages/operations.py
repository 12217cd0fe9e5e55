"""Pages for operators and of events: dead letters, health, the live event stream."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from http import HTTPStatus
from time import monotonic
from typing import Annotated, Final, Literal
from urllib.parse import urlencode
from uuid import UUID

from fastapi import APIRouter, Query, Request
from starlette.datastructures import State
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from services.api.auth.dependencies import OperatorAccess, OwnedAccess
from services.api.diagnostics import LoadSampler, Measurements, diagnose
from services.api.http.dependencies import PageQuery
from services.api.http.problem_details import NotFoundError
from services.api.paths import PREFIX
from services.api.queries import operations
from services.api.queries.agents import find_agent_ref, list_agent_names, names_by_id
from services.api.queries.operations import read_workforce
from services.api.routers import operations as operation_routes
from services.api.routers.operations import DeadLetterFromPath, show_providers
from services.api.streaming.event_hub import EventHub
from services.api.web.rendering import PAGE_HEADERS, Assets, PageResponse
from shared.database.engine import Database
from shared.errors import TransientError
from shared.events.models import EVENTS
from shared.events.stream_admin import Queue
from shared.events.stream_reader import StreamState, parse_subject_pattern
from shared.events.topology import CONSUMERS
from shared.runtime.settings import Settings
from shared.workflow.iterations import database_time

router = APIRouter()


DEAD_LETTERS: Final = "/dead-letters"


@router.get("/dead-letters")
async def list_dead_letters(
    access: OperatorAccess,
    page: PageResponse,
    page_request: PageQuery,
    service: Annotated[str, Query(max_length=40)] = "",
) -> HTMLResponse:
    dead_letters_page = await operation_routes.list_dead_letters(
        access, page_request, service or None
    )
    return await page.answer(
        "dead_letters/list.html",
        dead_letters=dead_letters_page.items,
        next=dead_letters_page.next,
        service=service,
        services=list(CONSUMERS),
    )


@router.get("/dead-letters/{dead_letter}")
async def show_dead_letter(
    _: OperatorAccess, page: PageResponse, dead_letter: DeadLetterFromPath
) -> HTMLResponse:
    return await page.answer("dead_letters/show.html", dead_letter=dead_letter)


@router.post("/dead-letters/{dead_letter}/retry")
async def retry_dead_letter(access: OperatorAccess, dead_letter: DeadLetterFromPath) -> Response:
    """Redirects to the list, since the dead letter may be gone already."""
    await operation_routes.retry_dead_letter(access, dead_letter)
    return RedirectResponse(DEAD_LETTERS, HTTPStatus.SEE_OTHER)


@router.post("/dead-letters/{dead_letter}/discard")
async def discard_dead_letter(access: OperatorAccess, dead_letter: DeadLetterFromPath) -> Response:
    await operation_routes.discard_dead_letter(access, dead_letter)
    return RedirectResponse(DEAD_LETTERS, HTTPStatus.SEE_OTHER)


@dataclass(frozen=True)
class _BusState:
    """The state of the event stream, or why it is unavailable."""

    queues: list[Queue]
    held: StreamState | None = None
    fault: str | None = None


@router.get("/health-of-all")
async def show_health(request: Request, access: OperatorAccess, page: PageResponse) -> HTMLResponse:
    state: State = request.app.state
    hub: EventHub = state.hub
    loads: LoadSampler = state.loads
    assets: Assets = state.assets
    database: Database = state.database
    settings: Settings = state.settings
    bus = await _bus_state(hub)
    at_work = await read_workforce(access.session)
    measurements = Measurements(
        loads=loads.look(monotonic(), bus.queues, at_work),
        bus_fault=bus.fault,
        state=await operations.read_installation_state(access.session),
        listeners=hub.listeners,
        max_listeners=hub.max_listeners,
        scripts_are_there=assets.are_complete,
    )
    return await page.answer(
        "health/all.html",
        seen=measurements,
        faults=diagnose(measurements),
        held=bus.held,
        providers=await show_providers(request),
        sandboxed=settings.sandboxed_providers,
        sends_mail=settings.smtp_url is not None,
        pool=database.pool_use(),
        postgres=await operations.postgres_version(access.session),
    )


async def _bus_state(hub: EventHub) -> _BusState:
    try:
        return _BusState(await hub.queues(), await hub.stream_state())
    except TransientError as error:
        return _BusState([], fault=str(error))


ReplayWindow = Literal["now", "10m", "1h", "1d"]
REPLAY_WINDOWS: Final[dict[ReplayWindow, tuple[str, timedelta | None]]] = {
    "now": ("from now on", None),
    "10m": ("from 10 minutes ago", timedelta(minutes=10)),
    "1h": ("from an hour ago", timedelta(hours=1)),
    "1d": ("from a day ago", timedelta(days=1)),
}

MAX_AGENT_NAMES: Final = 500
"""As many as the page shows events."""


@router.get("/events")
async def show_events(
    access: OwnedAccess,
    page: PageResponse,
    pattern: Annotated[str, Query(alias="type", max_length=100)] = "",
    agent: Annotated[str, Query(max_length=200)] = "",
    back: ReplayWindow = "10m",
) -> HTMLResponse:
    """Shows the live event stream, filtered by agent and event name, from `back` ago."""
    pattern = pattern.strip()
    wrong = _pattern_error(pattern)
    agent_ref = await find_agent_ref(access.session, access.owner_id, agent) if agent else None
    if agent and agent_ref is None:
        raise NotFoundError("agent", agent)
    ago = REPLAY_WINDOWS[back][1]
    since = None if ago is None else await database_time(access.session) - ago
    return await page.answer(
        "events/live.html",
        agents=await list_agent_names(access.session, access.owner_id),
        agent=agent_ref,
        pattern=pattern,
        back=back,
        backs={name: words for name, (words, _) in REPLAY_WINDOWS.items()},
        names=[event.subject for event in EVENTS],
        wrong=wrong,
        stream=_stream_url(
            "" if wrong else pattern, str(agent_ref.id) if agent_ref else None, since
        ),
    )


@router.get("/events/names")
async def show_agent_names(
    access: OwnedAccess, of: Annotated[tuple[UUID, ...], Query(max_length=MAX_AGENT_NAMES)] = ()
) -> Response:
    """Returns names by id, for the owner's agents that exist."""
    names = await names_by_id(access.session, access.owner_id, list(of))
    names_by_text = {str(agent_id): name for agent_id, name in names.items()}
    return JSONResponse(names_by_text, headers=PAGE_HEADERS)


def _pattern_error(pattern: str) -> str | None:
    """Returns why no event can match the pattern, or None."""
    if pattern:
        try:
            parse_subject_pattern(pattern)
        except ValueError:
            return f"No event is named like {pattern!r}: choose one of the list, or a pattern such as query.* or *.failed."
    return None


def _stream_url(pattern: str, agent_id: str | None, since: datetime | None) -> str:
    parameters = {"type": pattern, "agent": agent_id, "since": since and since.isoformat()}
    query = urlencode({name: value for name, value in parameters.items() if value})
    return f"{PREFIX}/events" + (f"?{query}" if query else "")
