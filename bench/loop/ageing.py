"""What an iteration costs as the agent's graph and history grow."""

import statistics
from dataclasses import dataclass
from typing import Final

from bench.loop.driver import Driver
from bench.loop.environment import Environment
from bench.loop.service_pool import ServicePool

ITERATIONS: Final = 500
WINDOW: Final = 20
"""Iterations that are measured together, ending at a multiple of EVERY, and at WINDOW."""
EVERY: Final = 50
WARM_UP_ITERATIONS: Final = 8
"""Of another agent."""


@dataclass(frozen=True)
class Age:
    """The cost of an iteration when the agent has had so many."""

    iterations: int
    cpu_seconds: float
    seconds: float
    """Median duration."""


async def measure_ageing(place: Environment) -> list[Age]:
    pool = ServicePool(place.settings, place.home)
    ages: list[Age] = []
    async with Driver.open(place.settings) as driver:
        with pool.running():
            agent, other = await driver.create_agents(2)
            for _ in range(WARM_UP_ITERATIONS):
                await driver.run(other)
            meter = place.meter(pool)
            ends = [WINDOW, *range(EVERY, ITERATIONS + 1, EVERY)]
            done = 0
            for end in ends:
                while done < end - WINDOW:
                    await driver.run(agent)
                    done += 1
                before = meter.snapshot(0)
                runs = [await driver.run(agent) for _ in range(end - done)]
                usage = meter.usage_between(before, meter.snapshot(0)).per(len(runs))
                done = end
                seconds = statistics.median(run.seconds for run in runs)
                ages.append(Age(end, usage.all_seconds, seconds))
            meter.close()
    return ages
