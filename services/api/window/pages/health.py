"""Who is at work and what is wrong, as the api sees it."""

from dataclasses import dataclass
from time import monotonic

from fastapi import APIRouter, Request
from starlette.datastructures import State
from starlette.responses import HTMLResponse

from services.api.access import Operated
from services.api.events.hub import Hub
from services.api.faults import Seen, faults
from services.api.loads import Loads
from services.api.routes.outside import outside
from services.api.window.assets import Assets
from services.api.window.rendering import Answering
from shared.errors import TransientError
from shared.events.queues import Queue
from shared.events.tail import Stored
from shared.runtime.settings import Settings
from shared.store.database import Database
from shared.store.reading import server, state
from shared.store.reading.crew import crew

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
        state=await state.of_installation(access.session),
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
        postgres=await server.version(access.session),
    )


async def _bus(hub: Hub) -> _Bus:
    try:
        return _Bus(await hub.queues(), await hub.held())
    except TransientError as error:
        return _Bus([], fault=str(error))
