"""The api's composition root."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final
from urllib.parse import urlsplit

from fastapi import FastAPI
from starlette.middleware import Middleware

from services.api.attempts import Attempts
from services.api.credential import cookie_name, documented
from services.api.door import Door
from services.api.guard import Guard
from services.api.invitation import Invitations
from services.api.owner import Owner
from services.api.problems import PROBLEM, handle_problems
from services.api.routes import (
    about,
    agents,
    dead_letters,
    graph,
    health,
    inbox,
    iterations,
    me,
    outside,
    sign_in,
    users,
)
from shared.mail.mailer import Mailer
from shared.runtime import process
from shared.runtime.reaching import database_of
from shared.runtime.rhythm import whatever_happens
from shared.runtime.settings import Settings
from shared.store.database import Database

PREFIX: Final = "/api/v1"
POOL_SIZE: Final = 5
OPEN_PATHS: Final = (
    "/health/live",
    "/health/ready",
    f"{PREFIX}/about",
    f"{PREFIX}/openapi.json",
    f"{PREFIX}/sign-in",
    f"{PREFIX}/sign-in/link",
)
"""All that is answered to whoever asks."""
REFUSALS: Final[tuple[int | str, ...]] = (400, 401, 403, 429, 503)
"""What any other route can answer, before or in place of its own answer."""
MOST_LINK_REQUESTS: Final = 10
MOST_BAD_LINKS: Final = 20
"""Both of one address, in a minute."""


def serve() -> None:
    """Runs the api until SIGTERM or SIGINT."""
    settings = process.begin("api")
    process.serve(build(settings), settings)


def build(settings: Settings) -> FastAPI:
    """The application. It starts without Postgres, answers 503 until that is there, and never gives up on it."""
    database = database_of(settings, "api", pool_size=POOL_SIZE)
    owner = Owner(database, settings.owner)
    invitations = Invitations(settings, database, owner, Mailer(settings))
    app = _application(settings, owner, database, invitations)
    app.state.settings = settings
    app.state.database = database
    app.state.owner = owner
    app.state.invitations = invitations
    app.state.link_requests = Attempts(MOST_LINK_REQUESTS)
    app.state.link_attempts = Attempts(MOST_BAD_LINKS)
    handle_problems(app)
    app.include_router(health.router)
    for unasked in (about, sign_in):
        app.include_router(
            unasked.router, prefix=PREFIX, responses=dict.fromkeys((400, 403), PROBLEM)
        )
    for topic in (outside, me, users, agents, iterations, graph, inbox, dead_letters):
        app.include_router(
            topic.router,
            prefix=PREFIX,
            dependencies=documented(settings),
            responses=dict.fromkeys(REFUSALS, PROBLEM),
        )
    return app


def _application(
    settings: Settings, owner: Owner, database: Database, invitations: Invitations
) -> FastAPI:
    """Without routes."""

    async def begin() -> None:
        await owner.wait()
        await whatever_happens(invitations.welcome, "the owner's sign-in link could not be made")

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        beginning = asyncio.create_task(begin())
        yield
        beginning.cancel()
        with suppress(asyncio.CancelledError):
            await beginning
        await database.close()

    hosts = [settings.host, *settings.allowed_hosts, urlsplit(settings.reached_at).hostname or ""]
    return FastAPI(
        title="Vigil",
        description="Agents that keep watch.",
        openapi_url=f"{PREFIX}/openapi.json",
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
        # A slash too many is another address, not one that a redirect leads on from.
        redirect_slashes=False,
        middleware=[
            Middleware(Guard, hosts=hosts),
            Middleware(
                Door,
                owner=owner,
                database=database,
                cookie=cookie_name(settings),
                open_paths=OPEN_PATHS,
            ),
        ],
    )
