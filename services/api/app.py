"""The api's composition root."""

import gc
from functools import partial
from typing import Final

from fastapi import Depends, FastAPI

from services.api.bodies import readable
from services.api.credential import cookie_name, told_in_document
from services.api.document import documented, operation_id, put_document_on
from services.api.layers import layers
from services.api.parts import Parts
from services.api.paths import PREFIX
from services.api.problems import handle_problems
from services.api.routes import (
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
from services.api.window.app import Window
from shared.runtime import process
from shared.runtime.settings import Settings
from shared.version import vigil_version

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
