"""The api's composition root."""

import gc
from functools import partial
from typing import Final
from urllib.parse import urlsplit

from fastapi import Depends, FastAPI
from starlette.middleware import Middleware
from starlette.types import Scope

from services.api.auth.middleware import CALLER, Door, cookie_name, told_in_document
from services.api.http.host_guard import Guard
from services.api.http.limits import BodyLimit, Rates, by_address, readable
from services.api.http.metrics import Measured
from services.api.http.openapi import documented, operation_id, put_document_on
from services.api.http.problem_details import handle_problems
from services.api.lifespan import Parts
from services.api.paths import PREFIX, is_open
from services.api.routers import (
    about,
    agents,
    budgets,
    calls,
    conclusions,
    configuring,
    conversation,
    costs,
    dead_letters,
    destinations,
    edges,
    events,
    exports,
    graph,
    health,
    inbox,
    interactions,
    investigations,
    iterations,
    me,
    memories,
    merges,
    metrics,
    nodes,
    outside,
    retractions,
    sign_in,
    sources,
    types,
    users,
    verification,
)
from services.api.web.app import Window
from services.api.web.compression import Smaller
from services.api.web.errors import ForPeople
from shared.accounts.authentication import Caller
from shared.runtime import process
from shared.runtime.settings import Settings
from shared.version import vigil_version


def layers(parts: Parts, window: Window) -> list[Middleware]:
    """The first is the outermost."""
    settings = parts.settings
    hosts = [settings.host, *settings.allowed_hosts, urlsplit(settings.reached_at).hostname or ""]
    return [
        Middleware(Measured, metrics=parts.metrics),
        Middleware(Smaller),
        Middleware(ForPeople, pages=window.pages),
        Middleware(Guard, hosts=hosts),
        Middleware(
            Door,
            owner=parts.owner,
            database=parts.database,
            settings=settings,
            places=parts.places,
            is_open=is_open,
        ),
        Middleware(
            Rates,
            per_second=settings.requests_per_second,
            burst=settings.requests_burst,
            caller_of=_by_user,
        ),
        Middleware(BodyLimit, max_bytes=settings.max_body_bytes),
    ]


def _by_user(scope: Scope) -> str:
    """Whom the door has let in, whatever they came in by; where it asked nobody, the address."""
    caller: Caller | None = scope.get(CALLER)
    return by_address(scope) if caller is None else str(caller.user_id)


ANSWERED_TO_ALL: Final = (about, sign_in)
TOPICS: Final = (
    outside,
    me,
    users,
    agents,
    configuring,
    iterations,
    interactions,
    graph,
    nodes,
    edges,
    merges,
    types,
    conclusions,
    verification,
    exports,
    sources,
    retractions,
    inbox,
    conversation,
    investigations,
    memories,
    destinations,
    calls,
    budgets,
    costs,
    events,
    dead_letters,
)
"""All that the door lets in who is known."""


def serve() -> None:
    """Runs the api until SIGTERM or SIGINT."""
    settings = process.begin("api")
    app = build(settings)
    gc.collect()
    # What is made by now is no garbage: a collector that looks through it all holds up an answer by a tenth of a second.
    gc.freeze()
    process.serve(app, settings, at_stop=app.state.stop)


def build(settings: Settings) -> FastAPI:
    """The application. It starts without Postgres, answers 503 until that is there, and never gives up on it.

    Without NATS it does without events until that is there.
    """
    parts = Parts.of(settings)
    window = Window()
    app = FastAPI(
        title="Vigil",
        description="Agents that keep watch.",
        version=vigil_version(),
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        lifespan=parts.lifespan,
        # A slash too many is another address, not one that a redirect leads on from.
        redirect_slashes=False,
        middleware=layers(parts, window),
        generate_unique_id_function=operation_id,
    )
    parts.put_on(app.state)
    handle_problems(app)
    asks = told_in_document(settings)
    app.include_router(health.router)
    app.include_router(metrics.router, dependencies=asks)
    for topic in ANSWERED_TO_ALL:
        app.include_router(topic.router, prefix=PREFIX, dependencies=[Depends(readable)])
    for topic in TOPICS:
        app.include_router(topic.router, prefix=PREFIX, dependencies=[*asks, Depends(readable)])
    window.put_on(app)
    name = partial(_session_cookie, parts)
    put_document_on(app, f"{PREFIX}/openapi.json", name)
    app.openapi = documented(app, name)  # type: ignore[method-assign]  # FastAPI's own way to complete it
    return app


def _session_cookie(parts: Parts) -> str:
    return cookie_name(parts.settings, parts.owner.known_id)
