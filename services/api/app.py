"""The api's composition root."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

from fastapi import FastAPI
from starlette.middleware import Middleware

from services.api.access import Owner
from services.api.answers import Answers
from services.api.guard import Guard
from services.api.hints import Hints
from services.api.problems import handle_problems
from services.api.routes import (
    about,
    agents,
    conversation,
    dead_letters,
    graph,
    health,
    inbox,
    iterations,
    memories,
)
from shared.errors import PermanentError
from shared.runtime import process
from shared.runtime.bus import Bus
from shared.runtime.logs import logger
from shared.runtime.reaching import bus_of, database_of
from shared.runtime.settings import Settings

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
    answers = Answers(database)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        waiting = [asyncio.create_task(owner.wait()), asyncio.create_task(_reach(bus))]
        yield
        for each in waiting:
            each.cancel()
            with suppress(asyncio.CancelledError):
                await each
        await answers.close()
        await bus.close()
        await database.close()

    app = FastAPI(
        title="Vigil",
        description="Agents that keep watch.",
        openapi_url=f"{PREFIX}/openapi.json",
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
        middleware=[Middleware(Guard, hosts=[settings.host, *settings.allowed_hosts])],
    )
    app.state.settings = settings
    app.state.database = database
    app.state.owner = owner
    app.state.hints = Hints(bus)
    app.state.answers = answers
    handle_problems(app)
    app.include_router(health.router)
    for topic in (about, agents, iterations, graph, inbox, dead_letters, conversation, memories):
        app.include_router(topic.router, prefix=PREFIX)
    return app


async def _reach(bus: Bus) -> None:
    """Connects to NATS whenever it is there. The api answers without it; what is ordered then begins a little later."""
    try:
        await bus.connect()
    except PermanentError as error:
        log.error("orders begin only when the reconciler looks", reason=str(error))
