"""What is wrong with an installation, in plain words, and what to do about it. Pure: it judges what others have seen."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from services.api.loads import Load
from services.api.window.formats import plural
from shared.store.reading.state import State

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
    "concierge": "agents are not configured and nobody answers in conversations",
    "courier": "nothing is sent to destinations",
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
