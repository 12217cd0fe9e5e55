"""Simulates a fleet of agents: how many steps of each service wait or run, and what that takes.

Computed, not measured: the only inputs that are measured are the costs of an iteration, in `Costs`.
"""

import heapq
import random
from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import Final

SECONDS_A_DAY: Final = 24 * 3600
SLOTS: Final[Mapping[str, int]] = {"observer": 4, "researcher": 4, "analyzer": 4, "adviser": 2}
"""Messages that a process handles at the same time."""


@dataclass(frozen=True)
class Usage:
    """What an iteration takes, without checks of pages."""

    service_ms: Mapping[str, float]
    """Processor time by process, NATS and PostgreSQL included."""
    statements: float
    messages: float
    wal_bytes: float


@dataclass(frozen=True)
class Costs:
    """Costs of iterations, as measured."""

    working: Usage
    quiet: Usage
    page_ms: float
    """Processor time of the Observer for the check of a page that has not changed."""
    table_bytes: float
    """Of a working iteration; a quiet one adds next to nothing."""
    stream_bytes: float
    """Of a working iteration's messages."""
    calls: Mapping[str, tuple[int, int]]
    """Steps of each service in an iteration, and the calls of a step, one after another."""


@dataclass(frozen=True)
class Fleet:
    """Agents that run an iteration every `interval_seconds`, of which `working` is the share that is not quiet.

    Each iteration checks `pages`.
    """

    agents: int
    interval_seconds: float
    working: float
    call_seconds: float
    pages: int = 0


@dataclass(frozen=True)
class Size:
    """What a fleet needs."""

    working_per_second: float
    replicas: Mapping[str, int]
    cores: Mapping[str, float]
    statements_per_second: float
    messages_per_second: float
    wal_bytes_per_second: float
    table_bytes_per_day: float
    stream_bytes_per_day: float

    @property
    def all_cores(self) -> float:
        return sum(self.cores.values())


def size(fleet: Fleet, costs: Costs, *, seed: int = 0) -> Size:
    ticks = fleet.agents / fleet.interval_seconds
    working = ticks * fleet.working
    quiet = ticks - working
    cores = {
        name: (working * ms + quiet * costs.quiet.service_ms[name]) / 1000
        for name, ms in costs.working.service_ms.items()
    }
    cores["observer"] += ticks * fleet.pages * costs.page_ms / 1000
    replicas = {
        service: max(
            _replicas_for_slots(fleet, costs, service, seed),
            # A process uses one core; above 70 % of it, its steps would wait for each other.
            ceil(cores[service] / 0.7),
            2,
        )
        for service in costs.calls
    }
    messages = working * costs.working.messages + quiet * costs.quiet.messages
    return Size(
        working_per_second=working,
        replicas=replicas,
        cores=cores,
        statements_per_second=working * costs.working.statements + quiet * costs.quiet.statements,
        messages_per_second=messages,
        wal_bytes_per_second=working * costs.working.wal_bytes + quiet * costs.quiet.wal_bytes,
        table_bytes_per_day=working * costs.table_bytes * SECONDS_A_DAY,
        stream_bytes_per_day=messages * costs.stream_bytes / costs.working.messages * SECONDS_A_DAY,
    )


def peak_open_steps(
    fleet: Fleet, steps: int, step_seconds: float, *, seed: int, iterations: int = 20_000
) -> int:
    """The 99th percentile, over arrivals, of a service's open steps if none has to wait for a slot.

    The ticks of the agents are spread evenly; which of them work is random.
    """
    generator = random.Random(seed)
    rate = fleet.agents / fleet.interval_seconds * fleet.working
    moment, open_until, seen = 0.0, list[float](), list[int]()
    for _ in range(iterations):
        moment += generator.expovariate(rate)
        while open_until and open_until[0] <= moment:
            heapq.heappop(open_until)
        for _ in range(steps):
            heapq.heappush(open_until, moment + step_seconds)
        seen.append(len(open_until))
    # The first iterations find an empty fleet.
    settled = sorted(seen[len(seen) // 5 :])
    return settled[int(len(settled) * 0.99)]


def _replicas_for_slots(fleet: Fleet, costs: Costs, service: str, seed: int) -> int:
    steps, calls = costs.calls[service]
    duration = calls * fleet.call_seconds + costs.working.service_ms[service] / 1000 / steps
    # Enough arrivals that the simulated time is several times as long as a step.
    rate = fleet.agents / fleet.interval_seconds * fleet.working
    iterations = min(max(20_000, int(5 * duration * rate)), 200_000)
    peak = peak_open_steps(fleet, steps, duration, seed=seed, iterations=iterations)
    return ceil(peak / SLOTS[service])
