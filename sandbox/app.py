"""The composition root: from settings to a server."""

import logging
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware

from sandbox.corpus import CorpusError, fingerprint
from sandbox.corpus.registry import read_registry
from sandbox.http.about import KeyRequired, SandboxHeader, about_routes
from sandbox.http.controls import Controls, control_routes
from sandbox.http.corpus_loader import Corpora, CorpusLoader
from sandbox.http.embeddings import embedding_routes
from sandbox.http.openai import openai_routes
from sandbox.http.pages import page_routes
from sandbox.http.responses import responses_routes
from sandbox.http.tavily import tavily_routes
from sandbox.search import SearchIndex, open_index
from sandbox.settings import DEFAULT_CORPUS, SandboxSettings

SHUTDOWN_SECONDS = 2

log = logging.getLogger(__name__)


def build_app(
    settings: SandboxSettings, on_failure: Callable[[CorpusError], None] = lambda _: None
) -> Starlette:
    """The application. It accepts requests at once and loads the corpus in the background.

    `on_failure` is called with the error if the corpus cannot be loaded.

    """
    controls = Controls()
    changes = None if settings.corpus == DEFAULT_CORPUS else partial(fingerprint, settings.corpus)
    load = partial(_open_corpus, cache=settings.cache_directory)
    corpus = CorpusLoader(partial(load, settings.corpus), on_failure, changes)
    added = partial(read_registry, settings.registry) if settings.registry else dict
    corpora = Corpora(corpus, added, load)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        corpus.start()
        yield
        await corpora.stop()

    routes = [
        *about_routes(settings, corpora),
        *openai_routes(corpora, controls, settings.latency_seconds, settings.pace_seconds),
        *embedding_routes(controls, settings.latency_seconds),
        *responses_routes(corpora, controls, settings.latency_seconds),
        *tavily_routes(corpora, controls, settings.latency_seconds),
        *page_routes(corpora),
        *(control_routes(controls) if settings.control else []),
    ]
    layers = [Middleware(SandboxHeader)]
    if settings.key is not None:
        layers.append(Middleware(KeyRequired, key=settings.key))
    return Starlette(routes=routes, middleware=layers, lifespan=lifespan)


def _open_corpus(corpus: str | Path, cache: Path | None) -> SearchIndex:
    """Open the index, and log what of the corpus is left out."""
    index = open_index(corpus, cache)
    report = index.report()
    skipped, foreign = report.describe_skipped(), report.describe_foreign()
    for left_out in (skipped and f"skipped: {skipped}", foreign and f"not in English: {foreign}"):
        if left_out:
            log.warning("The corpus %s has %d documents; %s", corpus, len(index), left_out)
    return index


def serve(settings: SandboxSettings) -> None:
    """Serve until SIGINT or SIGTERM. Raises CorpusError if the corpus cannot be loaded."""
    # A client that disconnects must not end the process, whatever signal action the parent has set.
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
