"""Prometheus metrics of the API: of its process, of its requests, and gauges of the installation's open work.

The gauges have the names that the scheduler gives them, too: see `shared.telemetry.metrics`.
"""

from math import nan
from time import perf_counter
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from services.api.resources.operate import model as operate
from shared.database.engine import Database
from shared.enums import StepKind
from shared.telemetry import metrics
from shared.version import vigil_version

BUCKETS_SECONDS: Final = (0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
NO_ROUTE: Final = "none"
"""The route label of requests without a route.

The paths themselves would give a label for every typing error.
"""


class Metrics:
    """The metrics of one application, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        metrics.BUILD_INFO.labels(vigil_version()).set(1)
        labels = ("method", "route", "status")
        self.requests = Counter(
            "vigil_http_requests", "Requests answered.", labels, registry=self.registry
        )
        self.seconds = Histogram(
            "vigil_http_request_seconds",
            "Time from a request to the end of its answer.",
            ("method", "route"),
            buckets=BUCKETS_SECONDS,
            registry=self.registry,
        )
        self.open_steps = self._gauge("vigil_open_steps", "Requested and not ended.", "kind")
        self.dead_letters = self._gauge("vigil_dead_letters", "Kept.")
        self.running = self._gauge("vigil_running_iterations", "Of all agents.")
        for unknown in (self.dead_letters, self.running):
            unknown.set(nan)
        self.stream_bytes = self._gauge(
            "vigil_stream_bytes", "Size of the stream on each node; NaN if NATS did not answer."
        )
        self.stream_max_bytes = self._gauge(
            "vigil_stream_max_bytes", "Size at which the stream discards its oldest events."
        )

    def _gauge(self, name: str, documentation: str, *labels: str) -> Gauge:
        return Gauge(name, documentation, labels, registry=self.registry)

    def text(self) -> bytes:
        """Returns the metrics of the process and of the application in the Prometheus text format."""
        return metrics.exposition([metrics.REGISTRY, self.registry])

    async def look(self, database: Database) -> None:
        """Reads the gauges.

        Raises TransientError while PostgreSQL is unavailable; they then keep their values.
        """
        async with database.transaction() as session:
            installation_state = await operate.read_installation_state(session)
        for kind in StepKind:
            self.open_steps.labels(kind).set(installation_state.open_steps.get(kind, 0))
        self.dead_letters.set(installation_state.dead_letters)
        self.running.set(installation_state.running_iterations)

    def set_stream(self, size_bytes: float, max_bytes: float) -> None:
        """Sets the size of the stream and its limit."""
        self.stream_bytes.set(size_bytes)
        self.stream_max_bytes.set(max_bytes)


class MetricsMiddleware:
    """Middleware that counts and times requests by route template, never by path."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status = 500  # where nothing is sent, it broke

        async def look(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        began = perf_counter()
        try:
            await self._app(scope, receive, look)
        finally:
            # Clients can invent methods.
            method = scope["method"] if scope["method"] in METHODS else "other"
            route = getattr(scope.get("route"), "path", NO_ROUTE)
            self._metrics.requests.labels(method, route, status).inc()
            self._metrics.seconds.labels(method, route).observe(perf_counter() - began)
