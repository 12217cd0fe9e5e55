"""Diagnostics: what is wrong with an installation, and what to do about it.

Pure: it evaluates measurements.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from services.api.resources.operate.model import InstallationState, Leases, Waiting, Workforce
from services.api.web import libraries
from shared.events.stream_admin import Queue
from shared.events.topology import CONSUMERS
from shared.schemas.base import ProviderOutage
from shared.wording import duration, plural

SAMPLE_SECONDS: Final = 60.0
MIN_RATE_SECONDS: Final = 1.0
"""The minimum time between two samples for a rate; over less, a single message would look like a burst."""
MAX_SAMPLES: Final = 60
SERVICES: Final = (*CONSUMERS, "api")
"""Services that should have at least one replica."""


@dataclass(frozen=True)
class ServiceLoad:
    service: str
    replicas: int
    queue: Queue | None
    """None for services that consume no messages, and for all while the bus is unavailable."""
    per_second: float | None
    """Messages delivered per second since a sample of at most a minute ago; None without one."""
    leases: Leases
    waiting: Waiting = field(default_factory=Waiting)
    seen_seconds_ago: float | None = None
    """Since when no replica was seen: 0 with one; None if none was seen since this process started."""

    @property
    def active(self) -> int:
        """What is worked on: messages, or steps of services that a message only starts."""
        in_flight = self.queue.in_flight or 0 if self.queue else 0
        return max(in_flight, self.leases.held)


_NOTHING_WAITS: Final[Mapping[str, Waiting]] = {}


class LoadSampler:
    """Computes the load of each service from the samples of the last minute.

    One instance per process.
    """

    def __init__(self) -> None:
        self._looks: deque[tuple[float, Mapping[str, int]]] = deque(maxlen=MAX_SAMPLES)
        self._seen: dict[str, float] = {}
        """When each service had a replica last."""

    def look(
        self,
        now: float,
        queues: Sequence[Queue],
        workforce: Workforce,
        waiting: Mapping[str, Waiting] = _NOTHING_WAITS,
    ) -> list[ServiceLoad]:
        """`now` is in seconds of a monotonic clock. Without queues the bus is unavailable."""
        delivered = {
            queue.service: queue.delivered for queue in queues if queue.delivered is not None
        }
        rates = self._rates(now, delivered)
        if delivered and (not self._looks or now - self._looks[-1][0] >= MIN_RATE_SECONDS):
            self._looks.append((now, delivered))
        of_service = {queue.service: queue for queue in queues}
        self._seen |= {service: now for service, replicas in workforce.replicas.items() if replicas}
        return [
            ServiceLoad(
                service,
                workforce.replicas.get(service, 0),
                of_service.get(service),
                rates.get(service),
                workforce.leases.get(service, Leases()),
                waiting.get(service, Waiting()),
                now - self._seen[service] if service in self._seen else None,
            )
            for service in SERVICES
        ]

    def _rates(self, now: float, delivered: Mapping[str, int]) -> dict[str, float]:
        while self._looks and now - self._looks[0][0] > SAMPLE_SECONDS:
            self._looks.popleft()
        if not self._looks or now - self._looks[0][0] < MIN_RATE_SECONDS:
            return {}
        previous_at, previous = self._looks[0]
        return {
            # The count of a recreated consumer starts at zero.
            service: max(0, count - previous[service]) / (now - previous_at)
            for service, count in delivered.items()
            if service in previous
        }


SERVICE_TASKS: Final = {
    "scheduler": "Starts iterations when they are due",
    "observer": "Plans queries and insights",
    "researcher": "Searches and extends the graph",
    "aggregator": "Moves iterations from stage to stage",
    "analyzer": "Draws conclusions from the graph",
    "adviser": "Turns analyses into advice",
    "assistant": "Configures agents and answers messages",
    "notifier": "Sends inbox items to destinations",
    "api": "Serves these pages and the API",
}
LONG_QUEUE_MESSAGES: Final = 50
"""Waiting messages of a service from which on more replicas would help."""
LONG_WAIT_SECONDS: Final = 300.0
"""How long a step may wait for a worker before a warning is shown."""
MANY_LISTENERS_SHARE: Final = 0.9
"""The share of the allowed event streams from which on a warning is shown."""
_WITHOUT: Final = {
    "scheduler": "no iteration starts",
    "observer": "iterations wait for their plan",
    "researcher": "queries wait",
    "aggregator": "iterations do not reach their next stage",
    "analyzer": "insights wait",
    "adviser": "no advice is written",
    "assistant": "agents are not configured and messages are not answered",
    "notifier": "nothing is sent to destinations",
}


@dataclass(frozen=True)
class Fault:
    tone: Literal["bad", "warn"]
    message: str
    """What is wrong, and what follows from it."""
    fix: str
    """What to do."""
    link: tuple[str, str] | None = None
    """Where to do it: address and text."""


@dataclass(frozen=True)
class Measurements:
    """The measurements of one moment."""

    loads: Sequence[ServiceLoad]
    bus_fault: str | None
    """Why the bus is unavailable; None where it is available."""
    state: InstallationState
    listeners: int
    max_listeners: int
    scripts_are_there: bool
    """Whether the libraries of the web pages are installed."""
    outages: Sequence[ProviderOutage] = ()
    """Providers that are unavailable or limit requests."""


def diagnose(measurements: Measurements) -> list[Fault]:
    """Returns the faults, most severe first."""
    result = [
        *_bus_faults(measurements),
        *map(_outage_fault, measurements.outages),
        *_service_faults(measurements),
        *_other_faults(measurements),
    ]
    return sorted(result, key=lambda fault: fault.tone == "warn")


def _bus_faults(measurements: Measurements) -> Iterator[Fault]:
    if measurements.bus_fault is not None:
        yield Fault(
            "bad",
            f"NATS does not answer, so no messages are delivered: {measurements.bus_fault}.",
            "Nothing is lost, and work continues when NATS is back. Check that NATS is running, and check VIGIL_NATS_URL.",
        )


def _outage_fault(outage: ProviderOutage) -> Fault:
    """One for each provider, not one for each service whose steps wait for it."""
    name = outage.name[:1].upper() + outage.name[1:]
    waiting = (
        f"{plural(outage.waiting_steps, 'step')} {'waits' if outage.waiting_steps == 1 else 'wait'}"
    )
    if outage.is_quota:
        return Fault(
            "bad",
            f"{name} {outage.state} (since {outage.since:%H:%M} UTC); {waiting}. Last answer: {outage.error}",
            "Nothing is planned or paid for meanwhile. It is tried again every hour, and all steps continue when it answers."
            " Raise the limit of the account's plan, or wait until it is renewed.",
        )
    if outage.is_unavailable:
        return Fault(
            "bad",
            f"{name} has been unavailable since {outage.since:%H:%M} UTC; {waiting}. Last error: {outage.error}",
            "Nothing is lost: it is tried again every few seconds, and all steps continue within a minute of its return."
            " If this persists, check its address and status page.",
        )
    return Fault(
        "warn",
        f"{name} limits requests; {waiting}. Last answer: {outage.error}",
        "Steps continue in turn, as fast as it permits. A higher limit of its account makes them faster.",
    )


def _service_faults(measurements: Measurements) -> Iterator[Fault]:
    for load in measurements.loads:
        if load.service in _WITHOUT and not load.replicas:
            yield Fault(
                "bad",
                f"The {load.service} is not running: {_WITHOUT[load.service]}.",
                "Start it. If it stops again, check its log.",
            )
        if load.queue is not None:
            yield from _queue_faults(load, load.queue.lag)
        yield from _step_faults(load, measurements.outages)


def _queue_faults(load: ServiceLoad, lag: int | None) -> Iterator[Fault]:
    if lag is None:
        yield Fault(
            "bad",
            f"The {load.service} receives no messages: its queue is missing on NATS.",
            "Run `vigil migrate`, which creates it.",
        )
    elif lag >= LONG_QUEUE_MESSAGES:
        yield Fault(
            "warn",
            f"{lag:,} messages are waiting for the {load.service}.",
            "Start another replica, or raise its VIGIL_CONCURRENCY. It may also be waiting for a slow model.",
        )


def _step_faults(load: ServiceLoad, outages: Sequence[ProviderOutage]) -> Iterator[Fault]:
    if load.leases.lapsed:
        whose = "its" if load.leases.lapsed == 1 else "their"
        yield Fault(
            "warn",
            f"{plural(load.leases.lapsed, 'step')} of the {load.service} lost {whose} worker.",
            f"Another worker takes over within a minute. If this persists, check the log of the {load.service}.",
        )
    provider_error = load.waiting.provider_error or "no answer"
    is_explained = any(outage.explains(provider_error) for outage in outages)
    if load.waiting.for_provider and not is_explained:
        steps = plural(load.waiting.for_provider, "step")
        verb = "is" if load.waiting.for_provider == 1 else "are"
        yield Fault(
            "warn",
            f"{steps} of the {load.service} {verb} waiting for a provider: {provider_error}.",
            "They continue when the provider answers. If this persists, check its key, quota and status page.",
        )
    oldest_seconds = load.waiting.oldest_seconds
    if oldest_seconds is not None and oldest_seconds >= LONG_WAIT_SECONDS:
        yield Fault(
            "warn",
            f"A step has waited {duration(round(oldest_seconds))} for the {load.service}.",
            "All of its slots may be busy: start another replica, or raise its VIGIL_CONCURRENCY.",
        )


def _other_faults(measurements: Measurements) -> Iterator[Fault]:
    if measurements.state.dead_letters:
        yield Fault(
            "warn",
            f"{plural(measurements.state.dead_letters, 'message')} failed permanently.",
            "The dead letters say why. Retry or discard them.",
            ("#dead-letters", "Open dead letters"),
        )
    if measurements.listeners >= MANY_LISTENERS_SHARE * measurements.max_listeners:
        yield Fault(
            "warn",
            f"{measurements.listeners:,} of {measurements.max_listeners:,} live connections are open; more are refused.",
            "Close pages that are not needed, start another API replica, or raise VIGIL_EVENT_LISTENERS.",
        )
    if not measurements.scripts_are_there:
        yield Fault(
            "warn",
            libraries.MISSING,
            libraries.INSTALL,
        )
