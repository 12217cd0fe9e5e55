"""Who is at work and what is wrong, as the api sees it."""

from dataclasses import dataclass
from time import monotonic

from fastapi import APIRouter, Request
from starlette.datastructures import State
from starlette.responses import HTMLResponse

from services.api.auth.dependencies import Operated
from services.api.diagnostics import Loads, Seen, faults
from services.api.queries import operations
from services.api.queries.operations import crew
from services.api.routers.outside import outside
from services.api.streaming.event_hub import Hub
from services.api.web.rendering import Answering, Assets
from shared.database.engine import Database
from shared.errors import TransientError
from shared.events.stream_admin import Queue
from shared.events.stream_reader import Stored
from shared.runtime.settings import Settings

router = APIRouter(prefix="/health-of-all")


@dataclass(frozen=True)
class _Bus:
    """As it answers, or why it does not."""

    queues: list[Queue]
    held: Stored | None = None
    fault: str | None = None


@router.get("")
async def look(request: Request, access: Operated, page: Answering) -> HTMLResponse:
    kept: State = request.app.state
    hub: Hub = kept.hub
    loads: Loads = kept.loads
    assets: Assets = kept.assets
    database: Database = kept.database
    settings: Settings = kept.settings
    bus = await _bus(hub)
    at_work = await crew(access.session)
    seen = Seen(
        loads=loads.look(monotonic(), bus.queues, at_work),
        bus_fault=bus.fault,
        state=await operations.of_installation(access.session),
        listeners=hub.listeners,
        most_listeners=hub.most_listeners,
        scripts_are_there=assets.are_complete,
    )
    return await page.answer(
        "health/all.html",
        seen=seen,
        faults=faults(seen),
        held=bus.held,
        outside=await outside(request),
        sandboxed=settings.sandboxed,
        sends_mail=settings.smtp_url is not None,
        pool=database.pool_use(),
        postgres=await operations.version(access.session),
    )


async def _bus(hub: Hub) -> _Bus:
    try:
        return _Bus(await hub.queues(), await hub.held())
    except TransientError as error:
        return _Bus([], fault=str(error))
