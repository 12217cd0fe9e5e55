"""The bus, live. The events themselves come by the page's stream; this page says which."""

from datetime import datetime, timedelta
from typing import Annotated, Final, Literal
from urllib.parse import urlencode
from uuid import UUID

from fastapi import APIRouter, Query
from starlette.responses import HTMLResponse, JSONResponse, Response

from services.api.auth.dependencies import Owned
from services.api.http.problem_details import NotFoundError
from services.api.paths import PREFIX
from services.api.queries.agents import agent_names, named, names_of
from services.api.web.rendering import OF_PAGES, Answering
from shared.events.models import EVENTS
from shared.events.stream_reader import pattern_of
from shared.workflow.iterations import clock

router = APIRouter(prefix="/events")

Back = Literal["now", "10m", "1h", "1d"]
BACK: Final[dict[Back, tuple[str, timedelta | None]]] = {
    "now": ("from now on", None),
    "10m": ("from 10 minutes ago", timedelta(minutes=10)),
    "1h": ("from an hour ago", timedelta(hours=1)),
    "1d": ("from a day ago", timedelta(days=1)),
}

MOST_NAMES: Final = 500
"""As many as the page has events."""


@router.get("")
async def follow(
    access: Owned,
    page: Answering,
    pattern: Annotated[str, Query(alias="type", max_length=100)] = "",
    agent: Annotated[str, Query(max_length=200)] = "",
    back: Back = "10m",
) -> HTMLResponse:
    """Of one agent, by a pattern, from so far back."""
    pattern = pattern.strip()
    wrong = _wrong(pattern)
    chosen = await named(access.session, access.owner_id, agent) if agent else None
    if agent and chosen is None:
        raise NotFoundError("agent", agent)
    ago = BACK[back][1]
    since = None if ago is None else await clock(access.session) - ago
    return await page.answer(
        "events/live.html",
        agents=await agent_names(access.session, access.owner_id),
        agent=chosen,
        pattern=pattern,
        back=back,
        backs={name: words for name, (words, _) in BACK.items()},
        names=[event.subject for event in EVENTS],
        wrong=wrong,
        stream=_stream("" if wrong else pattern, str(chosen.id) if chosen else None, since),
    )


@router.get("/names")
async def tell_names(
    access: Owned, of: Annotated[tuple[UUID, ...], Query(max_length=MOST_NAMES)] = ()
) -> Response:
    """What agents are called, of those that are the owner's, and still are."""
    names = await names_of(access.session, access.owner_id, list(of))
    told = {str(agent_id): name for agent_id, name in names.items()}
    return JSONResponse(told, headers=OF_PAGES)


def _wrong(pattern: str) -> str | None:
    """Why no event can match, in words."""
    if pattern:
        try:
            pattern_of(pattern)
        except ValueError:
            return f"No event is named like {pattern!r}: choose one of the list, or a pattern such as query.* or *.failed."
    return None


def _stream(pattern: str, agent_id: str | None, since: datetime | None) -> str:
    given = {"type": pattern, "agent": agent_id, "since": since and since.isoformat()}
    query = urlencode({name: value for name, value in given.items() if value})
    return f"{PREFIX}/events" + (f"?{query}" if query else "")
