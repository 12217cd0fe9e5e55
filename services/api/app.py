"""The api's composition root."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

from fastapi import Depends, FastAPI
from starlette.middleware import Middleware

from services.api.access import Owner
from services.api.bodies import BodyLimit, readable
from services.api.document import documented, operation_id
from services.api.guard import Guard
from services.api.hints import Hints
from services.api.metrics import Measured, Metrics
from services.api.problems import handle_problems
from services.api.rates import Rates
from services.api.routes import (
    about,
    agents,
    calls,
    conclusions,
    dead_letters,
    edges,
    graph,
    health,
    inbox,
    interactions,
    iterations,
    metrics,
    nodes,
    types,
)
from shared.errors import PermanentError
from shared.runtime import process
from shared.runtime.bus import Bus
from shared.runtime.logs import logger
from shared.runtime.reaching import bus_of, database_of
from shared.runtime.settings import Settings
from shared.version import vigil_version

TOPICS: Final = (
    about,
    agents,
    iterations,
    interactions,
    graph,
    nodes,
    edges,
    types,
    conclusions,
    inbox,
    calls,
    dead_letters,
)
PREFIX: Final = "/api/v1"
POOL_SIZE: Final = 5

log = logger(__name__)


def serve() -> None:
    """Runs the api until SIGTERM or SIGINT."""
    settings = process.begin("api")
    process.serve(build(settings), settings)


def build(settings: Settings) -> FastAPI:
    """The application. It starts without Postgres, answers 503 until that is there, and never gives up on it."""
    database = database_of(settings, "api", pool_size=POOL_SIZE)
    owner = Owner(database, settings.owner)
    bus = bus_of(settings, "api")
    measured = Metrics()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        waiting = [asyncio.create_task(owner.wait()), asyncio.create_task(_reach(bus))]
        yield
        for each in waiting:
            each.cancel()
            with suppress(asyncio.CancelledError):
                await each
        await bus.close()
        await database.close()

    app = FastAPI(
        title="Vigil",
        description="Agents that keep watch.",
        version=vigil_version(),
        openapi_url=f"{PREFIX}/openapi.json",
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
        middleware=_middleware(settings, measured),
        generate_unique_id_function=operation_id,
    )
    app.state.metrics = measured
    app.state.settings = settings
    app.state.database = database
    app.state.owner = owner
    app.state.hints = Hints(bus)
    handle_problems(app)
    app.include_router(health.router)
    app.include_router(metrics.router)
    for topic in TOPICS:
        app.include_router(topic.router, prefix=PREFIX, dependencies=[Depends(readable)])
    app.openapi = documented(app)  # type: ignore[method-assign]  # FastAPI's own way to complete it
    return app


async def _reach(bus: Bus) -> None:
    """Connects to NATS whenever it is there. The api answers without it; what is ordered then begins a little later."""
    try:
        await bus.connect()
    except PermanentError as error:
        log.error("orders begin only when the reconciler looks", reason=str(error))


def _middleware(settings: Settings, measured: Metrics) -> list[Middleware]:
    """The first is the outermost."""
    return [
        Middleware(Measured, metrics=measured),
        Middleware(Guard, hosts=[settings.host, *settings.allowed_hosts]),
        Middleware(Rates, per_second=settings.requests_per_second, burst=settings.requests_burst),
        Middleware(BodyLimit, max_bytes=settings.max_body_bytes),
    ]
