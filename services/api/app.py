"""The api's composition root."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

from fastapi import FastAPI
from starlette.middleware import Middleware

from services.api.access import Owner
from services.api.events.hub import Hub
from services.api.events.owners import Owners
from services.api.events.window import Window
from services.api.guard import Guard
from services.api.problems import handle_problems
from services.api.routes import (
    about,
    agents,
    dead_letters,
    events,
    graph,
    health,
    inbox,
    iterations,
)
from shared.runtime import process
from shared.runtime.credentials import credentials_of
from shared.runtime.reaching import database_of
from shared.runtime.settings import Settings
from shared.store.database import Database

PREFIX: Final = "/api/v1"
POOL_SIZE: Final = 5


def serve() -> None:
    """Runs the api until SIGTERM or SIGINT."""
    settings = process.begin("api")
    app = build(settings)
    process.serve(app, settings, at_stop=app.state.hub.stop)


def build(settings: Settings) -> FastAPI:
    """The application. It starts without Postgres, answers 503 until that is there, and never gives up on it.

    Without NATS it does without events until that is there.
    """
    database = database_of(settings, "api", pool_size=POOL_SIZE)
    owner = Owner(database, settings.owner)
    hub = hub_of(settings, database)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(owner.wait()), asyncio.create_task(hub.run())]
        yield
        hub.stop()
        for task in tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
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
    app.state.hub = hub
    handle_problems(app)
    app.include_router(health.router)
    for topic in (about, agents, iterations, graph, inbox, dead_letters, events):
        app.include_router(topic.router, prefix=PREFIX)
    return app


def hub_of(settings: Settings, database: Database) -> Hub:
    return Hub(
        settings.nats_url,
        credentials_of(settings, "api"),
        Owners(database),
        Window(settings.event_window, settings.event_window_bytes),
        settings.event_listeners,
    )
