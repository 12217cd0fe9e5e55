"""What iterations would take if nothing but their calls took time: the same slots, first come, first served."""

import heapq
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import count
from typing import Final

from bench.loop.script import INSIGHTS, QUERIES

CALLS: Final[Mapping[str, int]] = {"observer": 1, "researcher": 5, "analyzer": 2, "adviser": 1}
"""Of each actor's step, one after another; the search is one of them."""
CRITICAL_CALLS: Final = sum(CALLS.values())


def makespan(agents: int, slots: Mapping[str, int], call_seconds: float) -> float:
    """Seconds until every agent has had one iteration, all begun at once. `slots` are those of all replicas of an actor."""
    free = {actor: [0.0] * slots[actor] for actor in CALLS}
    ended = Counter[tuple[str, int]]()
    order = count()
    arriving = [(0.0, next(order), "observer", agent) for agent in range(agents)]
    ending: list[tuple[float, int, str, int]] = []
    last = 0.0
    while arriving or ending:
        if arriving and (not ending or arriving[0][0] < ending[0][0]):
            moment, _, actor, agent = heapq.heappop(arriving)
            end = max(moment, heapq.heappop(free[actor])) + CALLS[actor] * call_seconds
            heapq.heappush(free[actor], end)
            heapq.heappush(ending, (end, next(order), actor, agent))
            continue
        last, _, actor, agent = heapq.heappop(ending)
        ended[actor, agent] += 1
        for following in _following(actor, ended[actor, agent]):
            heapq.heappush(arriving, (last, next(order), following, agent))
    return last


def _following(actor: str, ended: int) -> Iterator[str]:
    """What the end of one more step of `actor` leads to; `ended` counts the agent's so far."""
    match actor:
        case "observer":
            yield from ["researcher"] * QUERIES
        case "researcher" if ended == QUERIES:
            yield from ["analyzer"] * INSIGHTS
        case "analyzer" if ended == INSIGHTS:
            yield "adviser"
