"""The composition root: from settings to a server."""

import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware

from sandbox.corpus import CorpusError
from sandbox.http.about import SandboxHeader, about_routes
from sandbox.http.access import KeyRequired
from sandbox.http.control import control_routes
from sandbox.http.embeddings import embedding_routes
from sandbox.http.endpoint import Levers
from sandbox.http.openai import openai_routes
from sandbox.http.responses import responses_routes
from sandbox.http.shelf import CorpusShelf
from sandbox.http.tavily import tavily_routes
from sandbox.search import open_index
from sandbox.settings import SandboxSettings

SHUTDOWN_SECONDS = 2


def build_app(
    settings: SandboxSettings, on_failure: Callable[[CorpusError], None] = lambda _: None
) -> Starlette:
    """The application; it listens at once and loads its corpus behind. `on_failure` hears why that could not be done."""
    levers = Levers()
    load = partial(open_index, settings.corpus, settings.cache_directory)
    shelf = CorpusShelf(load, on_failure)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        shelf.start()
        yield
        await shelf.stop()

    routes = [
        *about_routes(settings, shelf),
        *openai_routes(shelf, levers, settings.latency_seconds, settings.pace_seconds),
        *embedding_routes(levers, settings.latency_seconds),
        *responses_routes(shelf, levers, settings.latency_seconds),
        *tavily_routes(shelf, levers, settings.latency_seconds),
        *(control_routes(levers) if settings.control else []),
    ]
    layers = [Middleware(SandboxHeader)]
    if settings.key is not None:
        layers.append(Middleware(KeyRequired, key=settings.key))
    return Starlette(routes=routes, middleware=layers, lifespan=lifespan)


def serve(settings: SandboxSettings) -> None:
    """Serve until told to stop (SIGINT, SIGTERM). Raises CorpusError where the corpus cannot be loaded."""
    # A client that hangs up must not end the process, whatever action the parent has set for the signal.
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    failures: list[CorpusError] = []

    def fail(error: CorpusError) -> None:
        failures.append(error)
        server.should_exit = True

    config = uvicorn.Config(
        build_app(settings, fail),
        host=settings.host,
        port=settings.port,
        access_log=False,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
    )
    server = uvicorn.Server(config)
    server.run()
    if failures:
        raise failures[0]
