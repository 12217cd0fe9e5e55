"""Prometheus metrics: the registry of this process, and every metric that a service reports.

Services that are forked from one process each have a copy of the registry: nothing is counted before the fork. A metric has
no label without a bound: neither ids nor paths nor texts. The label `consumer` is a durable consumer, and so the name of a
service.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from math import nan
from typing import Final

import prometheus_client
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST
OTHER: Final = "other"
"""The label of what exceeds the limit of a `BoundedLabel`."""

# They would double the number of series of counters.
prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]  # it has no annotations

REGISTRY: Final = CollectorRegistry()
"""The metrics of this process."""
# Of the process that reads it, after a fork too.
ProcessCollector(registry=REGISTRY, pid=lambda: "self")


def exposition(registries: Sequence[CollectorRegistry]) -> bytes:
    """All metrics of `registries` in the Prometheus text format."""
    return b"".join(map(generate_latest, registries))


class BoundedLabel:
    """Values of a label that come from users: the first `limit` distinct ones as they are, all others as OTHER."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._known: set[str] = set()

    def __call__(self, value: str) -> str:
        if value in self._known:
            return value
        if len(self._known) >= self._limit:
            return OTHER
        self._known.add(value)
        return value


BUILD_INFO: Final = Gauge(
    "vigil_build_info", "Always 1; the labels name the version.", ("version",), registry=REGISTRY
)

# Messages and steps

CONSUMER_PENDING: Final = Gauge(
    "vigil_consumer_pending_messages",
    "Messages of the durable consumer that no replica has received yet; NaN while NATS does not answer.",
    ("consumer",),
    registry=REGISTRY,
)
CONSUMER_UNACKNOWLEDGED: Final = Gauge(
    "vigil_consumer_unacknowledged_messages",
    "Messages of the durable consumer that replicas have received and not acknowledged yet; NaN likewise.",
    ("consumer",),
    registry=REGISTRY,
)
MESSAGE_RETRIES: Final = Counter(
    "vigil_message_retries",
    "Messages handed back for redelivery: after an `error` that counts as an attempt of a step, or while something is"
    " `unavailable`: a provider, PostgreSQL, NATS, or a step that another worker has.",
    ("consumer", "reason"),
    registry=REGISTRY,
)
DEAD_LETTERS_STORED: Final = Counter(
    "vigil_dead_letters_stored",
    "Dead letters stored by this process, by error code.",
    ("consumer", "code"),
    registry=REGISTRY,
)
CODES: Final = BoundedLabel(60)
"""Error codes are literals of the program, fewer than this."""
STEP_SECONDS: Final = Histogram(
    "vigil_step_seconds",
    "Time from the claim of a step to its end in this process. The outcome is `completed`, `failed` (for good), `retried`"
    " (an attempt failed), `waiting` (for a provider), `released` (handed over), or `lease_lost`.",
    ("kind", "outcome"),
    buckets=(0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600),
    registry=REGISTRY,
)
ITERATION_SECONDS: Final = Histogram(
    "vigil_iteration_seconds",
    "Time from the start of an iteration to its end. The outcome is `completed`, `quiet` (nothing was new or due), or"
    " `failed`. Its count is the number of iterations that ended.",
    ("outcome",),
    buckets=(0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200),
    registry=REGISTRY,
)

# Providers and money

MODEL_CALLS: Final = Counter(
    "vigil_model_calls",
    "Attempts of model calls that ended. The outcome is `answered`, `unavailable` (also: rate-limited), `refused` (the key,"
    " the model or the request), or why an answer that may be billed was not usable: `unusable`, `no_answer`, `cut_off`,"
    " `timeout`.",
    ("phase", "outcome"),
    registry=REGISTRY,
)
SEARCH_CALLS: Final = Counter(
    "vigil_search_calls",
    "Attempts of calls of the search service that ended; outcomes as for model calls.",
    ("outcome",),
    registry=REGISTRY,
)
for _outcome in (
    "answered",
    "unavailable",
    "refused",
    "unusable",
    "no_answer",
    "cut_off",
    "timeout",
):
    SEARCH_CALLS.labels(_outcome)  # from zero on, so that the first increase is seen
TOKENS: Final = Counter(
    "vigil_tokens",
    "Tokens of recorded model calls. `cached_input` is part of `input`, and `reasoning` of `output`.",
    ("kind", "model"),
    registry=REGISTRY,
)
SPENT_USD: Final = Counter(
    "vigil_spent_usd",
    "Cost in USD that this process has booked, by model; `search` is the search service. A cost that is unknown counts with"
    " its maximum. What an abandoned step had reserved is booked in PostgreSQL only.",
    ("model",),
    registry=REGISTRY,
)
MODELS: Final = BoundedLabel(20)
"""Users choose the names of models."""
PROVIDERS: Final = ("model", "search")
RATE_LIMITED_RESPONSES: Final = Counter(
    "vigil_rate_limited_responses",
    "Responses of a provider with status 429.",
    ("provider",),
    registry=REGISTRY,
)
PROVIDER_UNAVAILABLE: Final = Gauge(
    "vigil_provider_unavailable",
    "1 if the provider, or one of several model servers, was unavailable when this process used it last, within the last 15"
    " minutes; else 0. A response with status 429 does not count.",
    ("provider",),
    registry=REGISTRY,
)
UNAVAILABLE_SECONDS: Final = 900.0
"""How long a failure counts if the process does not use the provider again, as it does while a step waits for it.

Alerts use `vigil_provider_outage_seconds`, which processes agree on.
"""


class ProviderHealth:
    """When each server of a provider was unavailable last, unless it has answered since."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failed_at: dict[tuple[str, str], float] = {}

    def answered(self, provider: str, server: str = "") -> None:
        self._failed_at.pop((provider, server), None)

    def failed(self, provider: str, server: str = "") -> None:
        self._failed_at[provider, server] = self._clock()

    def rate_limited(self, provider: str, server: str = "") -> None:
        """The server answered 429: it is available, but to fewer requests."""
        self.answered(provider, server)
        RATE_LIMITED_RESPONSES.labels(provider).inc()

    def is_unavailable(self, provider: str) -> bool:
        """Whether a server of the provider is."""
        oldest = self._clock() - UNAVAILABLE_SECONDS
        return any(
            of == provider and failed_at > oldest for (of, _), failed_at in self._failed_at.items()
        )


PROVIDER_HEALTH: Final = ProviderHealth()
for _provider in PROVIDERS:
    # From zero on, so that the first increase is seen.
    RATE_LIMITED_RESPONSES.labels(_provider)
    PROVIDER_UNAVAILABLE.labels(_provider).set_function(
        partial(PROVIDER_HEALTH.is_unavailable, _provider)
    )


def count_call(phase: str, model: str | None, outcome: str) -> None:
    """Counts an attempt of a call of the model, or of the search service if there is no `model`."""
    if model is None:
        SEARCH_CALLS.labels(outcome).inc()
    else:
        MODEL_CALLS.labels(phase, outcome).inc()


def count_answer(
    model: str | None,
    *,
    input_tokens: int = 0,
    cached_tokens: int = 0,
    output_tokens: int = 0,
    reasoning_tokens: int = 0,
    usd: float = 0.0,
) -> None:
    """Counts what a recorded call has used. Without a `model` it was a search."""
    label = "search" if model is None else MODELS(model)
    if usd:
        SPENT_USD.labels(label).inc(usd)
    for kind, tokens in (
        ("input", input_tokens),
        ("cached_input", cached_tokens),
        ("output", output_tokens),
        ("reasoning", reasoning_tokens),
    ):
        if tokens:
            TOKENS.labels(kind, label).inc(tokens)


# Notifications

DELIVERIES: Final = Counter(
    "vigil_deliveries",
    "Attempts of deliveries to webhooks and mail. The outcome is `delivered`, `retried` or `failed` (for good).",
    ("outcome",),
    registry=REGISTRY,
)
for _outcome in ("delivered", "retried", "failed"):
    DELIVERIES.labels(_outcome)  # from zero on, likewise

# PostgreSQL, as this process sees it

DATABASE_UP: Final = Gauge(
    "vigil_database_up",
    "1 if PostgreSQL answered this process at this scrape, else 0.",
    registry=REGISTRY,
)
DATABASE_CONNECTIONS: Final = Gauge(
    "vigil_database_connections",
    "Connections of this process's pools that are `busy` or `idle`, and tasks `waiting` for one.",
    ("use",),
    registry=REGISTRY,
)
DATABASE_CONNECTIONS_MAX: Final = Gauge(
    "vigil_database_connections_max",
    "Maximum number of connections of this process's pools.",
    registry=REGISTRY,
)
CLOCK_SKEW: Final = Gauge(
    "vigil_clock_skew_seconds",
    "The clock of PostgreSQL minus that of this process; NaN if PostgreSQL did not answer.",
    registry=REGISTRY,
)


@contextmanager
def step_timer(kind: str) -> Iterator["StepTimer"]:
    """Observes how long the block took, with the outcome that it sets."""
    timer = StepTimer()
    began = time.perf_counter()
    try:
        yield timer
    finally:
        STEP_SECONDS.labels(kind, timer.outcome).observe(time.perf_counter() - began)


@dataclass
class StepTimer:
    outcome: str = "released"


def set_pool_use(use: Mapping[str, int], maximum: int) -> None:
    for state, count in use.items():
        DATABASE_CONNECTIONS.labels(state).set(count)
    DATABASE_CONNECTIONS_MAX.set(maximum)


# The installation, as its scheduler sees it


STATE_GAUGES: Final[Mapping[str, str]] = {
    "dead_letters": "Dead letters that are kept.",
    "running_iterations": "Iterations of all agents that run.",
    "leases_held": "Running steps whose lease is valid.",
    "leases_expired": "Running steps whose lease was not renewed in time: the worker died, or PostgreSQL was unavailable.",
    "oldest_running_step_seconds": "Time since the oldest running step was first claimed.",
    "oldest_waiting_step_seconds": "Time since the request of the step that waits longest for a worker.",
    "steps_waiting_for_provider": "Open steps that wait for a provider that is unavailable or limits requests.",
    "oldest_provider_wait_seconds": "Time since the first of these steps began to wait.",
    "active_agents": "Agents that are active.",
    "late_agents": "Active agents without a completed iteration for more than two intervals, of a minute each at least.",
    "agents_near_budget": "Active agents that have spent 80 % or more of their daily budget.",
    "budget_spent_usd": "USD that the installation has spent today (UTC).",
    "budget_reserved_usd": "USD that are reserved for calls in progress.",
    "budget_left_usd": "USD of the installation's daily cap that can still be reserved; NaN without a cap.",
    "budget_left_calls": "Calls of the installation's daily cap that can still be reserved; NaN without a cap.",
    "budget_used_ratio": "Spent share of the installation's daily cap, in USD or calls; NaN without a cap.",
    "pending_deliveries": "Deliveries to webhooks and mail that are not sent yet, or wait for another attempt.",
    "oldest_pending_delivery_seconds": "Age of the oldest pending delivery.",
    "database_size_bytes": "Size of the database.",
}
"""Gauges that are read from PostgreSQL, without their prefix, and what they mean."""


class InstallationGauges:
    """The state of the whole installation. One service reads it, so it has a registry of its own."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.registry: Final = CollectorRegistry()
        self._clock = clock
        self._read_at = clock()
        self._gauges = {
            name: Gauge(f"vigil_{name}", text, registry=self.registry)
            for name, text in STATE_GAUGES.items()
        }
        self._open_steps = Gauge(
            "vigil_open_steps", "Steps requested and not ended.", ("kind",), registry=self.registry
        )
        self._outages = Gauge(
            "vigil_provider_outage_seconds",
            "Time since the provider, or one of several model servers, became unavailable to all processes; 0 while no step"
            " waits for it.",
            ("provider",),
            registry=self.registry,
        )
        self._data_free = Gauge(
            "vigil_data_free_bytes",
            "Free bytes of the file system that VIGIL_DATA_DIRECTORY is on; NaN if it is not set.",
            registry=self.registry,
        )
        self._data_size = Gauge(
            "vigil_data_size_bytes",
            "Size of that file system; NaN likewise.",
            registry=self.registry,
        )
        # Until PostgreSQL is read for the first time, zero would resolve alerts.
        for gauge in (*self._gauges.values(), self._data_free, self._data_size):
            gauge.set(nan)
        Gauge(
            "vigil_installation_state_age_seconds",
            "Time since the state of the installation was last read from PostgreSQL.",
            registry=self.registry,
        ).set_function(lambda: self._clock() - self._read_at)

    def set_state(
        self,
        values: Mapping[str, float | None],
        open_steps: Mapping[str, int],
        outages: Mapping[str, float],
    ) -> None:
        """Sets all gauges of STATE_GAUGES (None: NaN), the open steps of every kind, and outages of providers in seconds."""
        for name, gauge in self._gauges.items():
            value = values[name]
            gauge.set(nan if value is None else float(value))
        for kind, count in open_steps.items():
            self._open_steps.labels(kind).set(count)
        for provider, seconds in outages.items():
            self._outages.labels(provider).set(seconds)
        self._read_at = self._clock()

    def set_disk(self, free_bytes: float, size_bytes: float) -> None:
        self._data_free.set(free_bytes)
        self._data_size.set(size_bytes)
