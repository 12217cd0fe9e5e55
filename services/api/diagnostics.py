"""What is wrong with an installation and what to do about it. Pure: it judges what others have measured."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from services.api.queries.operations import Crew, Leases, State
from services.api.web.filters import plural
from shared.events.stream_admin import Queue
from shared.events.topology import CONSUMERS

REMEMBERED_SECONDS: Final = 60.0
SHORTEST_SECONDS: Final = 1.0
"""Between two looks that tell a rate: in less, one message would look like a storm."""
MOST_LOOKS: Final = 60
ACTORS: Final = (*CONSUMERS, "api")
"""Whoever there should be at least one of."""


@dataclass(frozen=True)
class Load:
    actor: str
    replicas: int
    queue: Queue | None
    """None for who takes no messages, and of everybody while the bus is away."""
    per_second: float | None
    """Messages taken, since a look up to a minute ago; None where there was none."""
    leases: Leases


class Loads:
    """Remembers the looks of the last minute, which anybody may have taken. Give one to each process."""

    def __init__(self) -> None:
        self._looks: deque[tuple[float, Mapping[str, int]]] = deque(maxlen=MOST_LOOKS)

    def look(self, now: float, queues: Sequence[Queue], crew: Crew) -> list[Load]:
        """`now` in seconds of a clock that never goes back. No queues: the bus is away."""
        delivered = {each.actor: each.delivered for each in queues if each.delivered is not None}
        rates = self._rates(now, delivered)
        if delivered and (not self._looks or now - self._looks[-1][0] >= SHORTEST_SECONDS):
            self._looks.append((now, delivered))
        of_actor = {each.actor: each for each in queues}
        return [
            Load(
                actor,
                crew.replicas.get(actor, 0),
                of_actor.get(actor),
                rates.get(actor),
                crew.leases.get(actor, Leases()),
            )
            for actor in ACTORS
        ]

    def _rates(self, now: float, delivered: Mapping[str, int]) -> dict[str, float]:
        while self._looks and now - self._looks[0][0] > REMEMBERED_SECONDS:
            self._looks.popleft()
        if not self._looks or now - self._looks[0][0] < SHORTEST_SECONDS:
            return {}
        then, before = self._looks[0]
        return {
            # A consumer that was made anew counts from nothing.
            actor: max(0, count - before[actor]) / (now - then)
            for actor, count in delivered.items()
            if actor in before
        }


LONG_QUEUE: Final = 50
"""Messages that wait for one actor, from which on more of it would help."""
MANY_LISTENERS: Final = 0.9
"""The part of the streams that may be open, from which on it is worth knowing."""
_WORK: Final = {
    "scheduler": "no iteration begins",
    "observer": "iterations stop before their plan",
    "researcher": "queries wait",
    "aggregator": "iterations stop between their steps",
    "analyzer": "insights wait",
    "adviser": "analyses wait to be weighed",
    "assistant": "agents are not configured and nobody answers in conversations",
    "notifier": "nothing is sent to destinations",
}


@dataclass(frozen=True)
class Fault:
    tone: Literal["bad", "warn"]
    told: str
    mend: str


@dataclass(frozen=True)
class Seen:
    """What the api has just seen."""

    loads: Sequence[Load]
    bus_fault: str | None
    """Why the bus cannot be asked; None: it answers."""
    state: State
    listeners: int
    most_listeners: int
    scripts_are_there: bool
    """Whether the pages' libraries are."""


def faults(seen: Seen) -> list[Fault]:
    """The worst first."""
    found = [*_of_bus(seen), *_of_actors(seen), *_of_rest(seen)]
    return sorted(found, key=lambda fault: fault.tone == "warn")


def _of_bus(seen: Seen) -> Iterator[Fault]:
    if seen.bus_fault is not None:
        yield Fault(
            "bad",
            f"The bus does not answer: {seen.bus_fault}.",
            "Nothing is lost: what waits goes on when NATS is back. Look into the log of NATS, or at VIGIL_NATS_URL.",
        )


def _of_actors(seen: Seen) -> Iterator[Fault]:
    for load in seen.loads:
        if load.actor in _WORK and not load.replicas:
            yield Fault(
                "bad",
                f"No {load.actor} is connected to PostgreSQL: {_WORK[load.actor]}.",
                "Start one, or look into its log for why it does not stay; `vigil top` shows when it is back.",
            )
        if load.queue is not None:
            yield from _of_queue(load, load.queue.lag)
        if load.leases.lapsed:
            yield Fault(
                "warn",
                f"{plural(load.leases.lapsed, 'step')} of the {load.actor} held by workers that have not renewed in time.",
                "Others take them over by themselves. Where it stays so, look into that actor's log.",
            )


def _of_queue(load: Load, lag: int | None) -> Iterator[Fault]:
    if lag is None:
        yield Fault(
            "bad",
            f"The consumer of the {load.actor} is not on the bus: it hears nothing.",
            "Run `vigil migrate`, which makes it anew.",
        )
    elif lag >= LONG_QUEUE:
        yield Fault(
            "warn",
            f"{lag:,} messages wait for the {load.actor}.",
            "Start more of it, or give it more slots; it may also wait for the model: look at its calls.",
        )


def _of_rest(seen: Seen) -> Iterator[Fault]:
    if seen.state.dead_letters:
        yield Fault(
            "warn",
            f"{plural(seen.state.dead_letters, 'message')} could not be handled.",
            "Look at them under Dead letters: each says why, and can be retried or discarded.",
        )
    if seen.listeners >= MANY_LISTENERS * seen.most_listeners:
        yield Fault(
            "warn",
            f"{seen.listeners:,} of {seen.most_listeners:,} event streams are open; no more are let in beyond.",
            "Close pages that nobody looks at, start another api, or raise VIGIL_EVENT_LISTENERS.",
        )
    if not seen.scripts_are_there:
        yield Fault(
            "warn",
            "The libraries of these pages are not there: they stand still.",
            "Run `make setup`.",
        )
