"""How busy each actor is, as far as the api can see it: by the bus, and by what stands in Postgres."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from shared.events.queues import Queue
from shared.events.topology import CONSUMERS
from shared.store.reading.crew import Crew, Leases

REMEMBERED_SECONDS: Final = 60.0
SHORTEST_SECONDS: Final = 1.0
"""Between two looks that tell a rate: in less, one message would look like a storm."""
MOST_LOOKS: Final = 60
ACTORS: Final = (*CONSUMERS, "courier", "api")
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
