"""What happens, while it happens: the bus as Server-Sent Events."""

from datetime import datetime
from http import HTTPStatus
from typing import Annotated, Any, Final
from uuid import UUID

from fastapi import APIRouter, Depends, Header, Query, Request
from pydantic import AfterValidator
from starlette.responses import Response

from services.api.auth.dependencies import Owned, OwnedAgent, Standing, StillAllowed
from services.api.http.problem_details import NotFoundError, problems
from services.api.queries import agents
from services.api.streaming.event_hub import Hub
from services.api.streaming.event_stream import EventStream, From, Listener, Wanted
from shared.errors import TransientError
from shared.events.envelope import Utc
from shared.events.stream_reader import pattern_of

router = APIRouter(tags=["events"])

HIGHEST_SEQUENCE: Final = 2**63 - 1
MOST_PATTERNS: Final = 20
STREAM: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "Server-Sent Events without end: `id` is the event's place in the stream, `event` its name, `data` "
        "the event as JSON. Besides: `gap`, where events that were asked for are no longer kept, and `end`, with the "
        "reason, before the stream is cut off.",
        "content": {EventStream.media_type: {"schema": {"type": "string"}}},
    },
    **problems(HTTPStatus.NOT_FOUND),
}

Sequence = Annotated[int | None, Query(ge=0, le=HIGHEST_SEQUENCE)]
LastEventId = Annotated[int | None, Header(ge=0, le=HIGHEST_SEQUENCE)]
Patterns = Annotated[
    tuple[Annotated[str, AfterValidator(pattern_of)], ...],
    Query(
        alias="type",
        max_length=MOST_PATTERNS,
        description="Names of events: `analysis`, `query.*`, `*.failed`.",
    ),
]


def _begin(
    last_event_id: LastEventId = None,
    after: Annotated[
        Sequence, Query(description="As the header Last-Event-ID, which comes before it.")
    ] = None,
    since: Annotated[
        Utc | None, Query(description="Where neither is given: from that moment on.")
    ] = None,
) -> From:
    given: tuple[int | datetime | None, ...] = (last_event_id, after, since)
    return next((each for each in given if each is not None), None)


Begin = Annotated[From, Depends(_begin)]


@router.get("/events", status_code=HTTPStatus.OK, response_class=EventStream, responses=STREAM)
async def follow_all(
    request: Request,
    access: Owned,
    standing: Standing,
    begin: Begin,
    patterns: Patterns = (),
    agent: Annotated[str | None, Query(description="Of one agent, by id or name.")] = None,
) -> Response:
    """The events of all agents, from now on or from any point that is still kept; never ends by itself."""
    agent_id: UUID | None = None
    if agent is not None:
        found = await agents.find(access.session, access.owner_id, agent)
        if found is None:
            raise NotFoundError("agent", agent)
        agent_id = found.id
    return _stream(request, Wanted(access.owner_id, agent_id, patterns), begin, standing)


@router.get(
    "/agents/{agent}/events",
    status_code=HTTPStatus.OK,
    response_class=EventStream,
    responses=STREAM,
)
async def follow_agent(
    request: Request,
    access: OwnedAgent,
    standing: Standing,
    begin: Begin,
    patterns: Patterns = (),
) -> Response:
    """The events of one agent."""
    return _stream(request, Wanted(access.owner_id, access.agent.id, patterns), begin, standing)


def _stream(request: Request, wanted: Wanted, begin: From, standing: StillAllowed) -> Response:
    """It begins once the request's transaction has ended, and holds none."""
    hub: Hub = request.app.state.hub
    if hub.listeners >= hub.most_listeners:
        raise TransientError(f"{hub.listeners} listen to events already, which is as many as may")
    return EventStream(hub, Listener(hub, wanted, begin, standing))
