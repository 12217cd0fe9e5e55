"""Prometheus metrics: measurements of the API, and gauges of the installation that are read at each scrape."""

from collections.abc import Mapping
from time import perf_counter
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from services.api.queries import operations
from shared.database.engine import Database
from shared.enums import StepKind

BUCKETS_SECONDS: Final = (0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
NO_ROUTE: Final = "none"
"""The route label of requests without a route.

The paths themselves would give a label for every typing error.
"""


class Metrics:
    """The metrics of one application, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
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
        self.connections = self._gauge(
            "vigil_database_connections", "Connections of the API's pool.", "use"
        )
        self.open_steps = self._gauge("vigil_open_steps", "Requested and not ended.", "kind")
        self.dead_letters = self._gauge("vigil_dead_letters", "Kept.")
        self.running = self._gauge("vigil_running_iterations", "Of all agents.")
        self.database_up = self._gauge(
            "vigil_database_up", "Whether PostgreSQL answered this request."
        )

    def _gauge(self, name: str, documentation: str, *labels: str) -> Gauge:
        return Gauge(name, documentation, labels, registry=self.registry)

    def text(self) -> bytes:
        """Returns the metrics in the Prometheus text format."""
        return generate_latest(self.registry)

    async def look(self, database: Database) -> None:
        """Reads the gauges.

        Raises TransientError while PostgreSQL is unavailable; they then keep their values.
        """
        self.database_up.set(0)
        async with database.transaction() as session:
            installation_state = await operations.read_installation_state(session)
        self.database_up.set(1)
        for kind in StepKind:
            self.open_steps.labels(kind).set(installation_state.open_steps.get(kind, 0))
        self.dead_letters.set(installation_state.dead_letters)
        self.running.set(installation_state.running_iterations)

    def set_pool_use(self, use: Mapping[str, int]) -> None:
        for state, count in use.items():
            self.connections.labels(state).set(count)


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
            method, route = _method_label(scope), getattr(scope.get("route"), "path", NO_ROUTE)
            self._metrics.requests.labels(method, route, status).inc()
            self._metrics.seconds.labels(method, route).observe(perf_counter() - began)


def _method_label(scope: Scope) -> str:
    """Returns a known method or "other": clients can invent methods."""
    methods = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
    return scope["method"] if scope["method"] in methods else "other"
