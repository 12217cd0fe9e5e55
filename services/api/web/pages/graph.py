"""The graph explorer: what is drawn comes as JSON, all that is read beside it as pages."""

from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Annotated, Final
from uuid import UUID

from fastapi import APIRouter, Depends, Query
from starlette.responses import HTMLResponse, Response

from services.api.auth.dependencies import AgentAccess, OwnedAgent
from services.api.http.problem_details import NotFoundError
from services.api.queries import graph
from services.api.queries.graph import Drawn
from services.api.web.presenters.graph import drawn
from services.api.web.rendering import OF_PAGES, Answering
from shared.graph.entity_resolution.redirects import followed
from shared.schemas.graph import DrawingView

router = APIRouter(prefix="/agents/{agent}/graph")

LIMITS: Final = (100, 300, 1_000, 2_000)
COLOURS: Final = 10
"""Types that have a colour of their own; the rest share one. As many as the style sheet has."""
AGES: Final = {1: "day", 7: "week", 31: "month", 92: "quarter"}
"""In days."""


class Begin(StrEnum):
    """Where the graph is entered, if at no node and by no search."""

    NEWEST = "newest"
    CONNECTED = "connected"


class Entry:
    """Where the picture begins, and what of the graph may be in it: all of it stands in the address."""

    def __init__(
        self,
        node: UUID | None = None,
        depth: Annotated[int, Query(ge=1, le=graph.DEEPEST)] = 1,
        begin: Begin = Begin.NEWEST,
        types: Annotated[list[str] | None, Query(alias="type", max_length=100)] = None,
        days: Annotated[int, Query(ge=0, le=36_600, description="0 is any age")] = 0,
        search: Annotated[str, Query(max_length=200)] = "",
        limit: Annotated[int, Query(ge=1, le=graph.MOST_DRAWN_NODES)] = LIMITS[1],
    ) -> None:
        self.node = node
        self.depth = depth
        self.begin = begin
        self.types = types or []
        self.days = days
        self.search = search.strip()
        self.limit = limit

    @property
    def of(self) -> Drawn:
        since = None if self.days == 0 else datetime.now(UTC) - timedelta(days=self.days)
        return Drawn(self.types, since)


Entered = Annotated[Entry, Depends()]


@router.get("")
async def explore(access: OwnedAgent, page: Answering, entry: Entered) -> HTMLResponse:
    session, scope = access.session, access.scope
    counted = await graph.by_type(session, scope)
    found = None
    if entry.search:
        found = await graph.found(session, scope, entry.search, entry.of)
    return await page.answer(
        "graph/explorer.html",
        agent=access.agent,
        counts=graph.summed(counted),
        types=sorted(counted.nodes.items(), key=lambda each: (-each[1], each[0])),
        colours=COLOURS,
        most_counted=graph.MOST_COUNTED,
        entry=entry,
        found=found,
        limits=LIMITS,
        ages=AGES,
    )


@router.get("/data")
async def draw(access: OwnedAgent, entry: Entered) -> Response:
    """What the address of the same query shows first; of a node also what unfolds when it is asked to."""
    picture = await _drawn(access, entry)
    return Response(drawn(picture), headers=OF_PAGES, media_type="application/json")


async def _drawn(access: AgentAccess, entry: Entry) -> DrawingView:
    session, scope = access.session, access.scope
    if entry.node is not None:
        [node_id] = await followed(session, scope, [entry.node])
        limit = min(entry.limit, graph.MOST_NODES)
        at = await graph.at(session, scope, node_id, depth=entry.depth, limit=limit)
        if at is None:
            raise NotFoundError("node", entry.node)
        return at
    if entry.search:
        limit = min(entry.limit, graph.FOUND_AT_MOST)
        return await graph.found(session, scope, entry.search, entry.of, limit)
    if entry.begin is Begin.CONNECTED:
        return await graph.best_connected(session, scope, entry.of, entry.limit)
    return await graph.newest(session, scope, entry.of, entry.limit)
