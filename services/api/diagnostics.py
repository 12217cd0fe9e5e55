"""Diagnostics: what is wrong with an installation, and what to do about it.

Pure: it evaluates measurements.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from services.api.queries.operations import InstallationState, Leases, Workforce
from services.api.web.filters import plural
from shared.events.stream_admin import Queue
from shared.events.topology import CONSUMERS

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


class LoadSampler:
    """Computes the load of each service from the samples of the last minute.

    One instance per process.
    """

    def __init__(self) -> None:
        self._looks: deque[tuple[float, Mapping[str, int]]] = deque(maxlen=MAX_SAMPLES)

    def look(self, now: float, queues: Sequence[Queue], workforce: Workforce) -> list[ServiceLoad]:
        """`now` is in seconds of a monotonic clock. Without queues the bus is unavailable."""
        delivered = {
            queue.service: queue.delivered for queue in queues if queue.delivered is not None
        }
        rates = self._rates(now, delivered)
        if delivered and (not self._looks or now - self._looks[-1][0] >= MIN_RATE_SECONDS):
            self._looks.append((now, delivered))
        of_service = {queue.service: queue for queue in queues}
        return [
            ServiceLoad(
                service,
                workforce.replicas.get(service, 0),
                of_service.get(service),
                rates.get(service),
                workforce.leases.get(service, Leases()),
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


LONG_QUEUE_MESSAGES: Final = 50
"""Waiting messages of a service from which on more replicas would help."""
MANY_LISTENERS_SHARE: Final = 0.9
"""The share of the allowed event streams from which on a warning is shown."""
_SERVICE_WORK: Final = {
    "scheduler": "no iteration begins",
    "observer": "iterations stop before their plan",
    "researcher": "queries wait",
    "aggregator": "iterations stop between their steps",
    "analyzer": "insights wait",
    "adviser": "analyses wait to be weighed",
    "assistant": "agents are not configured and messages are not answered",
    "notifier": "nothing is sent to destinations",
}


@dataclass(frozen=True)
class Fault:
    tone: Literal["bad", "warn"]
    message: str
    fix: str


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


def diagnose(measurements: Measurements) -> list[Fault]:
    """Returns the faults, most severe first."""
    result = [
        *_bus_faults(measurements),
        *_service_faults(measurements),
        *_other_faults(measurements),
    ]
    return sorted(result, key=lambda fault: fault.tone == "warn")


def _bus_faults(measurements: Measurements) -> Iterator[Fault]:
    if measurements.bus_fault is not None:
        yield Fault(
            "bad",
            f"The bus does not answer: {measurements.bus_fault}.",
            "Nothing is lost: what waits goes on when NATS is back. Look into the log of NATS, or at VIGIL_NATS_URL.",
        )


def _service_faults(measurements: Measurements) -> Iterator[Fault]:
    for load in measurements.loads:
        if load.service in _SERVICE_WORK and not load.replicas:
            yield Fault(
                "bad",
                f"No {load.service} is connected to PostgreSQL: {_SERVICE_WORK[load.service]}.",
                "Start one, or look into its log for why it does not stay; `vigil top` shows when it is back.",
            )
        if load.queue is not None:
            yield from _queue_faults(load, load.queue.lag)
        if load.leases.lapsed:
            yield Fault(
                "warn",
                f"{plural(load.leases.lapsed, 'step')} of the {load.service} held by workers that have not renewed in time.",
                "Others take them over by themselves. Where it stays so, look into that service's log.",
            )


def _queue_faults(load: ServiceLoad, lag: int | None) -> Iterator[Fault]:
    if lag is None:
        yield Fault(
            "bad",
            f"The consumer of the {load.service} is not on the bus: it receives nothing.",
            "Run `vigil migrate`, which makes it anew.",
        )
    elif lag >= LONG_QUEUE_MESSAGES:
        yield Fault(
            "warn",
            f"{lag:,} messages wait for the {load.service}.",
            "Start more of it, or raise its VIGIL_CONCURRENCY; it may also wait for the model: look at its calls.",
        )


def _other_faults(measurements: Measurements) -> Iterator[Fault]:
    if measurements.state.dead_letters:
        yield Fault(
            "warn",
            f"{plural(measurements.state.dead_letters, 'message')} could not be handled.",
            "Look at them under Dead letters: each says why, and can be retried or discarded.",
        )
    if measurements.listeners >= MANY_LISTENERS_SHARE * measurements.max_listeners:
        yield Fault(
            "warn",
            f"{measurements.listeners:,} of {measurements.max_listeners:,} event streams are open; "
            "no more are let in beyond.",
            "Close unused pages, start another api, or raise VIGIL_EVENT_LISTENERS.",
        )
    if not measurements.scripts_are_there:
        yield Fault(
            "warn",
            "The libraries of these pages are missing, so they do not update.",
            "Run `make setup`.",
        )
