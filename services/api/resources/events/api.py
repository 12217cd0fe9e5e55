"""Server-Sent Events of the event stream."""

from http import HTTPStatus
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Header, Query, Request
from pydantic import AfterValidator
from starlette.responses import Response

from services.api.auth.dependencies import (
    OwnedAccess,
    OwnedAgent,
    SessionCheck,
    SessionRevalidation,
    find_agent_ref,
)
from services.api.http.dependencies import COUNTED_STREAM
from services.api.http.problem_details import ProblemError, problems
from services.api.streaming.event_hub import EventHub
from services.api.streaming.event_stream import EventFilter, EventStream, Listener, StartAt
from shared.events.envelope import Utc
from shared.events.stream_reader import StreamPosition, parse_subject_pattern

router: Final = APIRouter(tags=["events"])

MAX_PATTERNS: Final = 20
USER_OF_PAGE: Final = "vigil-user"
"""Header with the id of the user whom a page of the web UI was made for."""
STREAM: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "An endless stream of Server-Sent Events: `id` is the position after the event, `event` its name, "
        "`data` the event as JSON. In addition: `gap`, where requested events are no longer kept, and `end`, with the "
        "reason, before the stream is closed.",
        "content": {EventStream.media_type: {"schema": {"type": "string"}}},
    },
    **problems(HTTPStatus.NOT_FOUND, HTTPStatus.TOO_MANY_REQUESTS),
}

_Position = Annotated[str, AfterValidator(StreamPosition.parse)]
After = Annotated[
    _Position | None, Query(description="Like the header Last-Event-ID, which takes precedence.")
]
LastEventId = Annotated[_Position | None, Header()]
Patterns = Annotated[
    tuple[Annotated[str, AfterValidator(parse_subject_pattern)], ...],
    Query(
        alias="type",
        max_length=MAX_PATTERNS,
        description="Names of events: `analysis`, `query.*`, `*.failed`.",
    ),
]


def _stream_start(
    last_event_id: LastEventId = None,
    after: After = None,
    since: Annotated[
        Utc | None, Query(description="Used if neither is given: events since this time.")
    ] = None,
) -> StartAt:
    values: tuple[Any, ...] = (last_event_id, after, since)
    return next((item for item in values if item is not None), None)


StreamStart = Annotated[StartAt, Depends(_stream_start)]


@router.get(
    "/events",
    status_code=HTTPStatus.OK,
    response_class=EventStream,
    responses=STREAM,
    dependencies=[COUNTED_STREAM],
)
async def follow_all(
    request: Request,
    access: OwnedAccess,
    session_check: SessionRevalidation,
    begin: StreamStart,
    patterns: Patterns = (),
    agent: Annotated[
        str | None, Query(description="Only events of this agent (id or name).")
    ] = None,
) -> Response:
    """Streams the events of all agents, from now on or from any stored position, without end."""
    agent_id = None if agent is None else (await find_agent_ref(access, agent)).id
    return _stream(request, EventFilter(access.owner_id, agent_id, patterns), begin, session_check)


@router.get(
    "/agents/{agent}/events",
    status_code=HTTPStatus.OK,
    response_class=EventStream,
    responses=STREAM,
    dependencies=[COUNTED_STREAM],
)
async def follow_agent(
    request: Request,
    access: OwnedAgent,
    session_check: SessionRevalidation,
    begin: StreamStart,
    patterns: Patterns = (),
) -> Response:
    """Streams the events of one agent."""
    return _stream(
        request, EventFilter(access.owner_id, access.agent.id, patterns), begin, session_check
    )


def _stream(
    request: Request, event_filter: EventFilter, begin: StartAt, session_check: SessionCheck
) -> Response:
    """Opens the stream. It starts after the request's transaction, and holds none.

    Raises ProblemError if the request is of a page of another user, who was signed in before in the same browser.
    """
    if request.headers.get(USER_OF_PAGE, str(event_filter.owner_id)) != str(event_filter.owner_id):
        raise ProblemError(
            HTTPStatus.FORBIDDEN, "other-user", "Another user has signed in: reload the page."
        )
    hub: EventHub = request.app.state.hub
    return EventStream(Listener(hub, event_filter, begin, session_check))
