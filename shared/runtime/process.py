"""Runs one service as a process: logging, signals, health endpoints, shutdown."""

import asyncio
import gc
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from email.utils import formatdate
from types import FrameType
from typing import Protocol

import setproctitle
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from uvicorn.server import ServerState

from shared.database.engine import Database
from shared.errors import PermanentError
from shared.runtime import connection_limits, database_probe, logging
from shared.runtime.database_probe import MetricsSource
from shared.runtime.settings import InvalidSettingError, Settings, load_settings
from shared.telemetry import metrics, tracing
from shared.version import vigil_version

READY_CHECK_SECONDS = 3.0
INVALID_SETTING = 2
"""The exit status if a restart would not help."""
_COLLECTION_THRESHOLD = 10_000
"""Allocations, less deallocations, between two runs of the garbage collector. With Python's 700, it uses 5 % of a service's
processor time.
"""

log = logging.logger(__name__)


class Service(Protocol):
    """What a composition root builds."""

    name: str

    async def run(self) -> None:
        """Works until cancelled, then drains."""

    async def fault(self) -> str | None:
        """Why the service is not ready, or None."""

    @property
    def store_fault(self) -> str | None:
        """Why NATS, although connected, does not store this service's messages; None if it does."""

    @property
    def databases(self) -> Sequence[Database]:
        """The pools of connections that are measured before a scrape."""

    @property
    def further_metrics(self) -> Sequence[MetricsSource]:
        """Metrics that are not those of the process."""

    async def measure_queue(self) -> None:
        """Measures how many messages wait, before a scrape. Raises nothing."""


def run(name: str, build: Callable[[Settings], Service]) -> None:
    """Runs the service that `build` creates until SIGTERM or SIGINT (exit status 0); exits with 1 if it failed."""
    settings = begin(name)
    with exiting_if_unusable(name):
        service = build(settings)
    serve(health_app(service), settings)


def run_together(
    name: str,
    builds: Mapping[str, Callable[[Settings], Service]],
    environments: Mapping[str, Mapping[str, str]],
) -> None:
    """Like `run`, for several services in this process; each has its own environment variables in addition."""
    settings = begin(name)
    services = []
    with exiting_if_unusable(name):
        for service, build in builds.items():
            os.environ.update(environments[service])
            services.append(build(load_settings()))
    serve(health_app(ServiceGroup(name, services)), settings)


class ServiceGroup:
    """Several services as one: ready if all are. If one fails, the others are stopped in order."""

    def __init__(self, name: str, services: Sequence[Service]) -> None:
        self.name = name
        self._services = services

    async def run(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                for service in self._services:
                    group.create_task(_run_named(service), name=service.name)
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from errors.exceptions[0].__cause__

    async def fault(self) -> str | None:
        faults = await asyncio.gather(*(service.fault() for service in self._services))
        named = (
            f"{service.name}: {fault}"
            for service, fault in zip(self._services, faults, strict=True)
            if fault is not None
        )
        return next(named, None)

    @property
    def store_fault(self) -> str | None:
        return next(filter(None, (service.store_fault for service in self._services)), None)

    @property
    def databases(self) -> Sequence[Database]:
        return [database for service in self._services for database in service.databases]

    @property
    def further_metrics(self) -> Sequence[MetricsSource]:
        return [source for service in self._services for source in service.further_metrics]

    async def measure_queue(self) -> None:
        await asyncio.gather(*(service.measure_queue() for service in self._services))


async def _run_named(service: Service) -> None:
    """Runs it with its name in the lines that it logs."""
    logging.name_service(service.name)
    await service.run()


@contextmanager
def exiting_if_unusable(name: str) -> Iterator[None]:
    """Exits with status 2 if something that the settings name cannot be used: a restart would not help."""
    try:
        yield
    except PermanentError as error:
        print(f"vigil {name}: {error}", file=sys.stderr)
        sys.exit(INVALID_SETTING)
    except OSError as error:  # of a certificate; errors of TLS are OSErrors too
        place = error.filename or "a file that VIGIL_NATS_CA_FILE or another setting names"
        print(f"vigil {name}: {place} cannot be used: {error}", file=sys.stderr)
        sys.exit(INVALID_SETTING)


def begin(name: str) -> Settings:
    """Sets up this process: title, signals, logging. Returns its settings.

    Exits with status 2 if a setting is invalid: a restart would not help.
    """
    ignore_sigpipe()
    try:
        settings = load_settings()
    except InvalidSettingError as error:
        print(f"vigil {name}: {error}", file=sys.stderr)
        sys.exit(INVALID_SETTING)
    setproctitle.setproctitle(f"vigil {name}")
    logging.configure(service=name, log_format=settings.log_format, level=settings.log_level)
    _start_tracing(name, settings)
    return settings


def _start_tracing(name: str, settings: Settings) -> None:
    """Traces if the standard variables of OpenTelemetry say so. Exits with status 2 if Vigil cannot do what they say."""
    try:
        if not tracing.is_requested(os.environ):
            return
        # Only here, because the import takes 0.1 s.
        from shared.telemetry.otlp import OtlpExporter

        exporter = OtlpExporter(name, settings.worker_name)
    except ValueError as error:
        print(f"vigil {name}: tracing: {error}", file=sys.stderr)
        sys.exit(INVALID_SETTING)
    tracing.start(exporter)


def ignore_sigpipe() -> None:
    """Turns a write to a closed connection into BrokenPipeError; by default the signal ends the process.

    Python does this at start, but a parent can restore the default action in a child that it forks.
    """
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)


def health_app(service: Service) -> Starlette:
    """`/health/live` reports that the process runs, `/health/ready` that it can work, `/metrics` what it measures.

    `/health/store` reports that NATS stores messages, as far as this process has noticed: it sends nothing to find out.
    """
    metrics.BUILD_INFO.labels(vigil_version()).set(1)
    return Starlette(
        routes=[
            Route("/health/live", _live),
            Route("/health/ready", ready_check(service.fault)),
            Route("/health/store", ready_check(_store_check(service))),
            Route("/metrics", _metrics_of(service)),
        ],
        lifespan=lifespan_of(service),
    )


def ready_check(
    find_fault: Callable[[], Awaitable[str | None]],
) -> Callable[[Request], Awaitable[Response]]:
    async def ready(_: Request) -> Response:
        check = asyncio.ensure_future(find_fault())
        # Not asyncio.timeout: cancelling a query of a server that does not respond takes long too.
        finished, _pending = await asyncio.wait({check}, timeout=READY_CHECK_SECONDS)
        if not finished:
            check.cancel()
        timeout = f"no response from PostgreSQL or NATS within {READY_CHECK_SECONDS:g} s"
        fault = check.result() if finished else timeout
        if fault is None:
            return JSONResponse({"status": "ready"})
        return JSONResponse({"status": "not ready", "reason": fault}, status_code=503)

    return ready


def _store_check(service: Service) -> Callable[[], Awaitable[str | None]]:
    async def find_fault() -> str | None:
        return service.store_fault

    return find_fault


def lifespan_of(
    service: Service,
) -> Callable[[object], AbstractAsyncContextManager[None]]:
    """Runs the service from the server's start to its end; if the service fails, the process ends."""

    @asynccontextmanager
    async def lifespan(_: object) -> AsyncIterator[None]:
        task = asyncio.create_task(service.run(), name=service.name)
        task.add_done_callback(_end_process_if_broken)
        yield
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    return lifespan


def serve(app: object, settings: Settings, *, at_stop: Callable[[], None] | None = None) -> None:
    """Serves `app` until SIGTERM or SIGINT. `at_stop` is called then, before running responses are awaited."""
    files = connection_limits.raise_file_limit()
    limits = connection_limits.ConnectionLimits.within(
        files, settings.connections, settings.connections_per_address, settings.proxies
    )
    config = uvicorn.Config(
        app,  # type: ignore[arg-type]  # any ASGI application
        host=settings.host,
        port=settings.port,
        http=connection_limits.protocol_of(limits),
        ws="none",
        backlog=connection_limits.ACCEPTED_AT_ONCE,
        timeout_keep_alive=connection_limits.IDLE_SECONDS,
        log_config=None,
        access_log=False,
        proxy_headers=bool(settings.proxies),
        forwarded_allow_ips=list(settings.proxies),
        timeout_graceful_shutdown=2,
    )
    server = _Server(config, at_stop)
    # After its shutdown, uvicorn raises the signal again that stopped it.
    for stop in (signal.SIGTERM, signal.SIGINT):
        signal.signal(stop, _exit)
    gc.collect()
    # Objects created during startup are never garbage. Without this, a full collection would delay
    # a response by a tenth of a second.
    gc.freeze()
    gc.set_threshold(_COLLECTION_THRESHOLD)
    try:
        server.run()
    except SystemExit:
        if server.started and server.lifespan.shutdown_failed:
            raise SystemExit(1) from None
        raise
    finally:
        tracing.stop()


class _DatedState(ServerState):
    """Dates responses when they are sent."""

    def __init__(self, config: uvicorn.Config) -> None:
        self._config = config
        super().__init__()

    @property
    def default_headers(self) -> list[tuple[bytes, bytes]]:
        return [(b"date", formatdate(usegmt=True).encode()), *self._config.encoded_headers]

    @default_headers.setter
    def default_headers(self, _: list[tuple[bytes, bytes]]) -> None:
        """uvicorn clears it."""


class _Server(uvicorn.Server):
    """Calls `at_stop` before uvicorn waits for open responses; the application's shutdown comes only after that.

    uvicorn's own main loop wakes ten times a second, to look whether it should stop, and for the date.
    """

    def __init__(self, config: uvicorn.Config, at_stop: Callable[[], None] | None) -> None:
        super().__init__(config)
        self.server_state = _DatedState(config)
        self._at_stop = at_stop
        self._stopping = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets)
        for server in self.servers:
            connection_limits.lengthen_queues(server.sockets)

    async def main_loop(self) -> None:
        while not self.should_exit:
            await self._stopping.wait()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._stopping.set)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self._at_stop is not None:
            self._at_stop()
        await super().shutdown(sockets)


def _metrics_of(service: Service) -> Callable[[Request], Awaitable[Response]]:
    async def show(_: Request) -> Response:
        sources = service.further_metrics
        await asyncio.gather(
            database_probe.probe(service.databases, [source.refresh for source in sources]),
            service.measure_queue(),
        )
        registries = [metrics.REGISTRY, *(source.registry for source in sources)]
        return Response(metrics.exposition(registries), media_type=metrics.CONTENT_TYPE)

    return show


async def _live(_: Request) -> Response:
    return JSONResponse({"status": "alive"})


def _exit(_: int, __: FrameType | None) -> None:
    raise SystemExit(0)


def _end_process_if_broken(task: asyncio.Task[None]) -> None:
    if task.cancelled() or task.exception() is None:
        return
    log.error("the service failed; its process is stopping", error=repr(task.exception()))
    os.kill(os.getpid(), signal.SIGTERM)
