"""Pages for operators and of events: dead letters, health, the live event stream."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from http import HTTPStatus
from time import monotonic
from typing import Annotated, Final, Literal
from urllib.parse import urlencode
from uuid import UUID

from fastapi import APIRouter, Query, Request
from fastapi import Form as FormParameters
from pydantic import Field
from starlette.datastructures import State
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from services.api.auth.dependencies import OperatorAccess, OwnedAccess
from services.api.diagnostics import SERVICE_TASKS, LoadSampler, Measurements, diagnose
from services.api.http.dependencies import PageQuery
from services.api.http.problem_details import NotFoundError
from services.api.paths import PREFIX
from services.api.queries import operations
from services.api.queries.agents import find_agent_ref, list_agent_names, names_by_id
from services.api.queries.iterations import numbers_by_id
from services.api.queries.provider_outages import read_outages
from services.api.queries.retention import read_retention
from services.api.routers import operations as operation_routes
from services.api.routers.operations import DeadLetterFromPath, show_providers
from services.api.streaming.event_hub import EventHub
from services.api.web.filters import without_directions
from services.api.web.forms import Form
from services.api.web.presenters.dead_letters import explain
from services.api.web.rendering import PAGE_HEADERS, Assets, PageResponse
from shared.database.engine import Database
from shared.errors import TransientError
from shared.events.models import EVENTS
from shared.events.stream_admin import Queue
from shared.events.stream_reader import StreamState, parse_subject_pattern
from shared.events.topology import CONSUMERS
from shared.runtime.settings import Settings
from shared.schemas.base import LARGEST_PAGE
from shared.workflow import dead_letters as dead_letter_store
from shared.workflow.iterations import database_time

router = APIRouter()


DEAD_LETTERS: Final = "/dead-letters"

_Counted = Annotated[int | None, Query(ge=0, le=LARGEST_PAGE)]


@router.get("/dead-letters")
async def list_dead_letters(
    access: OperatorAccess,
    page: PageResponse,
    page_request: PageQuery,
    service: Annotated[str, Query(max_length=40)] = "",
    retried: _Counted = None,
    refused: _Counted = None,
    discarded: _Counted = None,
) -> HTMLResponse:
    """Shows dead letters; `retried`, `refused` and `discarded` say what was done with several before."""
    dead_letters_page = await operation_routes.list_dead_letters(
        access, page_request, service or None
    )
    return await page.answer(
        "dead_letters/list.html",
        dead_letters=[(each, explain(each)) for each in dead_letters_page.items],
        next=dead_letters_page.next,
        service=service,
        services=list(CONSUMERS),
        retried=retried,
        refused=refused,
        discarded=discarded,
    )


class DeadLettersForm(Form):
    letter: Annotated[list[UUID], Field(max_length=LARGEST_PAGE)] = Field(default_factory=list)
    """The ids of those that are checked; none is sent if none is."""


DeadLettersFromForm = Annotated[DeadLettersForm, FormParameters()]


@router.post("/dead-letters/retry")
async def retry_dead_letters(access: OperatorAccess, form: DeadLettersFromForm) -> Response:
    """Requests a retry of each that can be retried."""
    rows = await operations.get_dead_letters(access.session, access.caller, form.letter)
    retryable = [row for row, letter in rows if letter.refusal is None]
    for row in retryable:
        await dead_letter_store.request_retry(access.session, row)
    return _to_list(retried=len(retryable), refused=len(rows) - len(retryable))


@router.post("/dead-letters/discard")
async def discard_dead_letters(access: OperatorAccess, form: DeadLettersFromForm) -> Response:
    rows = await operations.get_dead_letters(access.session, access.caller, form.letter)
    for row, _ in rows:
        await dead_letter_store.discard(access.session, row)
    return _to_list(discarded=len(rows))


@router.get("/dead-letters/{dead_letter}")
async def show_dead_letter(
    _: OperatorAccess, page: PageResponse, dead_letter: DeadLetterFromPath
) -> HTMLResponse:
    return await page.answer(
        "dead_letters/show.html", dead_letter=dead_letter, explained=explain(dead_letter)
    )


@router.post("/dead-letters/{dead_letter}/retry")
async def retry_dead_letter(access: OperatorAccess, dead_letter: DeadLetterFromPath) -> Response:
    """Redirects to the list, since the dead letter may be gone already."""
    await operation_routes.retry_dead_letter(access, dead_letter)
    return _to_list(retried=1)


@router.post("/dead-letters/{dead_letter}/discard")
async def discard_dead_letter(access: OperatorAccess, dead_letter: DeadLetterFromPath) -> Response:
    await operation_routes.discard_dead_letter(access, dead_letter)
    return _to_list(discarded=1)


def _to_list(**counts: int) -> Response:
    return RedirectResponse(f"{DEAD_LETTERS}?{urlencode(counts)}", HTTPStatus.SEE_OTHER)


@dataclass(frozen=True)
class _BusState:
    """The state of the event stream, or why it is unavailable."""

    queues: list[Queue]
    held: StreamState | None = None
    version: str | None = None
    fault: str | None = None


@router.get("/outages")
async def show_outages(page: PageResponse) -> HTMLResponse:
    """The banner of pages that are open while a provider is unavailable."""
    return await page.answer("outages.html")


@router.get("/health-of-all")
async def show_health(request: Request, access: OperatorAccess, page: PageResponse) -> HTMLResponse:
    state: State = request.app.state
    hub: EventHub = state.hub
    loads: LoadSampler = state.loads
    assets: Assets = state.assets
    database: Database = state.database
    settings: Settings = state.settings
    bus = await _bus_state(hub)
    at_work = await operations.read_workforce(access.session)
    waiting = await operations.read_waiting(access.session)
    measurements = Measurements(
        loads=loads.look(monotonic(), bus.queues, at_work, waiting),
        bus_fault=bus.fault,
        state=await operations.read_installation_state(access.session),
        listeners=hub.listeners,
        max_listeners=hub.max_listeners,
        scripts_are_there=assets.are_complete,
        outages=await read_outages(access.session, None, settings),
    )
    return await page.answer(
        "health/all.html",
        seen=measurements,
        tasks=SERVICE_TASKS,
        faults=diagnose(measurements),
        bus=bus,
        providers=await show_providers(request, access),
        uses=await operations.read_provider_use(access.session),
        sends_mail=settings.smtp_url is not None,
        mail=await operations.read_mail_queue(access.session),
        pool=database.pool_use(),
        postgres=await operations.read_database_state(access.session),
        retention=await read_retention(access.session),
    )


async def _bus_state(hub: EventHub) -> _BusState:
    try:
        return _BusState(await hub.queues(), await hub.stream_state(), hub.server_version)
    except TransientError as error:
        return _BusState([], fault=str(error))


ReplayWindow = Literal["now", "10m", "1h", "1d"]
REPLAY_WINDOWS: Final[dict[ReplayWindow, tuple[str, timedelta | None]]] = {
    "now": ("From now on", None),
    "10m": ("Last 10 minutes", timedelta(minutes=10)),
    "1h": ("Last hour", timedelta(hours=1)),
    "1d": ("Last 24 hours", timedelta(days=1)),
}
EVENT_KINDS: Final = {
    "": "All events",
    "*.failed": "Failures",
    "iteration.*": "Iterations",
    "plan.*": "Plans",
    "query.*": "Queries",
    "insight.*": "Insights",
    "analysis.*": "Analyses",
    "advice.*": "Advice",
    "configuration.*": "Configuration",
    "answer.*": "Conversation",
}
"""Patterns of event names, in words."""

MAX_NAMES: Final = 500
"""As many as the page shows events."""


@router.get("/events")
async def show_events(
    access: OwnedAccess,
    page: PageResponse,
    pattern: Annotated[str, Query(alias="type", max_length=100)] = "",
    agent: Annotated[str, Query(max_length=200)] = "",
    back: ReplayWindow = "1h",
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
        kinds=EVENT_KINDS,
        names=[event.subject for event in EVENTS],
        wrong=wrong,
        stream=_stream_url(
            "" if wrong else pattern, str(agent_ref.id) if agent_ref else None, since
        ),
    )


_Ids = Annotated[tuple[UUID, ...], Query(max_length=MAX_NAMES)]


@router.get("/events/names")
async def show_names(access: OwnedAccess, of: _Ids = (), iteration: _Ids = ()) -> Response:
    """Returns names of the owner's agents and numbers of their iterations, by id, for those that exist."""
    session, owner_id = access.session, access.owner_id
    names = await names_by_id(session, owner_id, list(of)) if of else {}
    numbers = await numbers_by_id(session, owner_id, iteration) if iteration else {}
    content = {
        "agents": {str(agent_id): without_directions(name) for agent_id, name in names.items()},
        "iterations": {str(iteration_id): number for iteration_id, number in numbers.items()},
    }
    return JSONResponse(content, headers=PAGE_HEADERS)


def _pattern_error(pattern: str) -> str | None:
    """Returns why no event can match the pattern, or None."""
    if pattern:
        try:
            parse_subject_pattern(pattern)
        except ValueError:
            return f"No event matches {pattern!r}: choose a kind from the list."
    return None


def _stream_url(pattern: str, agent_id: str | None, since: datetime | None) -> str:
    parameters = {"type": pattern, "agent": agent_id, "since": since and since.isoformat()}
    query = urlencode({name: value for name, value in parameters.items() if value})
    return f"{PREFIX}/events" + (f"?{query}" if query else "")
