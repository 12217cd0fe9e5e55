"""The composition root: from settings to a server."""

import asyncio
import logging
import signal
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from types import FrameType

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware

from sandbox.corpus import CorpusError, fingerprint
from sandbox.corpus.registry import read_registry
from sandbox.http.about import KeyRequired, SandboxHeader, about_routes
from sandbox.http.corpus_loader import Corpora, CorpusLoader
from sandbox.http.endpoint import CallHandler
from sandbox.http.openai import openai_routes
from sandbox.http.pages import page_routes
from sandbox.http.tavily import tavily_routes
from sandbox.search import SearchIndex, open_index
from sandbox.settings import SandboxSettings

SHUTDOWN_SECONDS = 2

log = logging.getLogger(__name__)


def build_app(
    settings: SandboxSettings,
    on_failure: Callable[[CorpusError], None] = lambda _: None,
    handler_type: type[CallHandler] = CallHandler,
) -> Starlette:
    """The application. It accepts requests at once and loads the corpus in the background.

    `on_failure` is called with the error if the corpus cannot be loaded.

    """
    handler = handler_type(settings.latency_seconds, settings.pace_seconds)
    load = partial(_open_corpus, cache=settings.cache_directory)
    corpus = CorpusLoader(partial(load, settings.corpus), partial(fingerprint, settings.corpus))
    added = partial(read_registry, settings.registry) if settings.registry else dict
    corpora = Corpora(corpus, added, load)

    async def load_own() -> None:
        try:
            await corpus.index()
        except CorpusError as error:
            on_failure(error)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        loading = asyncio.create_task(load_own())
        yield
        await loading
        corpora.close()

    routes = [
        *about_routes(settings, corpora),
        *openai_routes(handler),
        *tavily_routes(corpora, handler),
        *page_routes(corpora),
        *handler.more_routes(),
    ]
    layers = [Middleware(SandboxHeader)]
    if settings.key is not None:
        layers.append(Middleware(KeyRequired, key=settings.key))
    return Starlette(routes=routes, middleware=layers, lifespan=lifespan)


def _open_corpus(corpus: str | Path, cache: Path | None) -> SearchIndex:
    """Open the index, and log what of the corpus is left out."""
    index = open_index(corpus, cache)
    if skipped := index.report().describe_skipped():
        log.warning("The corpus %s has %d documents; skipped: %s", corpus, len(index), skipped)
    return index


class _Server(uvicorn.Server):
    """Waits until it is stopped; uvicorn's own main loop wakes ten times a second."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._stopping = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    def stop(self) -> None:
        self.should_exit = True
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._stopping.set)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets)

    async def main_loop(self) -> None:
        while not self.should_exit:
            await self._stopping.wait()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        self.stop()


def serve(settings: SandboxSettings, handler_type: type[CallHandler] = CallHandler) -> None:
    """Serve until SIGINT or SIGTERM. Raises CorpusError if the corpus cannot be loaded."""
    # A client that disconnects must not end the process, whatever signal action the parent has set.
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    failures: list[CorpusError] = []

    def fail(error: CorpusError) -> None:
        failures.append(error)
        server.stop()

    config = uvicorn.Config(
        build_app(settings, fail, handler_type),
        host=settings.host,
        port=settings.port,
        access_log=False,
        date_header=False,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
    )
    server = _Server(config)
    server.run()
    if failures:
        raise failures[0]
