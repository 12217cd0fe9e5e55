"""Measures contenders in turn, for several rounds, so that all run under the same conditions."""

import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Final

from bench.loop.counters import Meter, Usage
from bench.loop.environment import Environment
from bench.peers.contenders import Contender, Running

WARM_UP_ITERATIONS: Final = 5
AGENTS_UNDER_LOAD: Final = 32


@dataclass(frozen=True)
class Figures:
    """What one iteration of a contender costs. Times are in seconds; `alone` is one agent, `load` many."""

    program_seconds_alone: float
    """Processor time of the contender's processes and, with Vigil, of NATS."""
    postgres_seconds_alone: float
    program_seconds_load: float
    postgres_seconds_load: float
    per_second: float
    """Iterations of all agents."""
    p50_alone: float
    commits: float
    wal_bytes: float

    @property
    def seconds_alone(self) -> float:
        return self.program_seconds_alone + self.postgres_seconds_alone

    @property
    def seconds_load(self) -> float:
        return self.program_seconds_load + self.postgres_seconds_load


Rounds = Mapping[str, Sequence[Figures]]
"""The figures of each round, by the contender's name."""


async def measure(
    place: Environment,
    contenders: Sequence[Contender],
    *,
    rounds: int,
    iterations: int,
    load_seconds: float,
) -> Rounds:
    """Each round starts with another contender."""
    measured: dict[str, list[Figures]] = {contender.name: [] for contender in contenders}
    for number in range(rounds):
        for place_in_round in range(len(contenders)):
            contender = contenders[(number + place_in_round) % len(contenders)]
            print(f"round {number + 1} of {rounds}: {contender.name}", file=sys.stderr, flush=True)
            async with contender.running() as running:
                figures = await _measure(place, running, iterations, load_seconds)
            measured[contender.name].append(figures)
    return measured


def median(rounds: Sequence[Figures]) -> Figures:
    values = [asdict(figures) for figures in rounds]
    return Figures(
        **{
            field.name: statistics.median(each[field.name] for each in values)
            for field in fields(Figures)
        }
    )


def median_ratio(
    mine: Sequence[Figures], theirs: Sequence[Figures], value: Callable[[Figures], float]
) -> float:
    """The median of the ratios of each round."""
    return statistics.median(
        value(one) / value(other) for one, other in zip(mine, theirs, strict=True)
    )


async def _measure(
    place: Environment, running: Running, iterations: int, load_seconds: float
) -> Figures:
    await running.run(1, iterations=WARM_UP_ITERATIONS)
    await running.run(AGENTS_UNDER_LOAD, iterations=1)
    assert place.postgres.pid is not None
    meter = Meter(place.postgres.dsn, place.postgres.pid, place.nats.pid, running)
    try:
        start = meter.snapshot(0)
        durations = await running.run(1, iterations=iterations)
        alone = meter.usage_between(start, meter.snapshot(0)).per(len(durations))
        start, began = meter.snapshot(0), time.monotonic()
        count = len(await running.run(AGENTS_UNDER_LOAD, seconds=load_seconds))
        took = time.monotonic() - began
        load = meter.usage_between(start, meter.snapshot(0)).per(count)
    finally:
        meter.close()
    return Figures(
        _program_seconds(alone),
        alone.seconds["postgres"],
        _program_seconds(load),
        load.seconds["postgres"],
        count / took,
        statistics.median(durations),
        alone.commits,
        alone.wal_bytes,
    )


def _program_seconds(usage: Usage) -> float:
    return usage.all_seconds - usage.seconds["postgres"]
