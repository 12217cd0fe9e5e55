"""Makespans of calls that take time, against the ideal in which nothing else does."""

import asyncio
import heapq
import statistics
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Final

from bench.loop.driver import Driver
from bench.loop.environment import Environment
from bench.loop.scripted_model import INSIGHTS, QUERIES
from bench.loop.service_pool import ServicePool
from services.adviser.app import CONCURRENCY as ADVISER_CONCURRENCY
from services.analyzer.app import CONCURRENCY as ANALYZER_CONCURRENCY
from services.observer.app import CONCURRENCY as OBSERVER_CONCURRENCY
from services.researcher.app import CONCURRENCY as RESEARCHER_CONCURRENCY

CALL_SECONDS: Final = 0.2
MAKESPANS: Final = ((1, 1), (20, 1), (20, 2), (20, 4))
"""Numbers of agents and researchers."""
RUNS: Final = 3
CALLS: Final[Mapping[str, int]] = {"observer": 1, "researcher": 4, "analyzer": 1, "adviser": 1}
"""Sequential calls of each service's step, searches included."""
CRITICAL_CALLS: Final = sum(CALLS.values())


def ideal_makespan(agents: int, concurrency: Mapping[str, int], call_seconds: float) -> float:
    """Ideal seconds until each agent has completed an iteration, if only calls take time.

    All iterations start at once; `concurrency` counts all replicas of a service; first come, first served.

    """
    free = {service: [0.0] * concurrency[service] for service in CALLS}
    ended_steps = Counter[tuple[str, int]]()
    order = count()
    arriving = [(0.0, next(order), "observer", agent) for agent in range(agents)]
    ending: list[tuple[float, int, str, int]] = []
    last = 0.0
    while arriving or ending:
        if arriving and (not ending or arriving[0][0] < ending[0][0]):
            moment, _, service, agent = heapq.heappop(arriving)
            end = max(moment, heapq.heappop(free[service])) + CALLS[service] * call_seconds
            heapq.heappush(free[service], end)
            heapq.heappush(ending, (end, next(order), service, agent))
            continue
        last, _, service, agent = heapq.heappop(ending)
        ended_steps[service, agent] += 1
        for following in _next_steps(service, ended_steps[service, agent]):
            heapq.heappush(arriving, (last, next(order), following, agent))
    return last


def _next_steps(service: str, ended_steps: int) -> Iterator[str]:
    """Yield the steps that start when one more step of `service` ends; `ended_steps` is their number for the agent."""
    match service:
        case "observer":
            yield from ["researcher"] * QUERIES
        case "researcher" if ended_steps == QUERIES:
            yield from ["analyzer"] * INSIGHTS
        case "analyzer" if ended_steps == INSIGHTS:
            yield "adviser"


@dataclass
class Makespan:
    agents: int
    researchers: int
    ideal: float
    measured: list[float] = field(default_factory=list)

    @property
    def efficiency(self) -> float:
        return self.ideal / statistics.median(self.measured)


async def measure_makespan(place: Environment, agents: int, researchers: int) -> Makespan:
    concurrency = {
        "observer": OBSERVER_CONCURRENCY,
        "researcher": RESEARCHER_CONCURRENCY * researchers,
        "analyzer": ANALYZER_CONCURRENCY,
        "adviser": ADVISER_CONCURRENCY,
    }
    makespan = Makespan(agents, researchers, ideal_makespan(agents, concurrency, CALL_SECONDS))
    pool = ServicePool(
        place.settings, place.home, delay_seconds=CALL_SECONDS, researchers=researchers
    )
    async with Driver.open(place.settings) as driver:
        with pool.running():
            agent_ids = await driver.create_agents(agents)
            for _ in range(RUNS + 1):
                began = time.perf_counter()
                await asyncio.gather(*(driver.run(agent_id) for agent_id in agent_ids))
                makespan.measured.append(time.perf_counter() - began)
    del makespan.measured[0]  # warm-up
    return makespan
