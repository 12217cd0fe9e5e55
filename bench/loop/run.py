"""Runs iterations and measures them: the loop, and the floors to compare it with."""

import asyncio
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from uuid import UUID, uuid4

from bench.loop.ageing import Age, measure_ageing
from bench.loop.counters import Meter, Usage
from bench.loop.counting import Counted, count
from bench.loop.driver import Driver
from bench.loop.environment import Environment
from bench.loop.floor import Floor
from bench.loop.makespan import MAKESPANS, Makespan, measure_makespan
from bench.loop.service_pool import ServicePool, log_warnings
from cli.local.ports import free_port

WARM_UP_ITERATIONS: Final = 8
"""Iterations before the measurement, for connections, statements and caches."""
ROUNDS: Final = 5
"""Rounds of loop and floor in turn, so that both run under the same conditions."""
AGENTS_UNDER_LOAD: Final = 32


@dataclass(frozen=True)
class Side:
    """Figures of the loop or the floor. Times are seconds; `idle` is one iteration at a time, `load` many agents."""

    idle_p50: float
    idle_p95: float
    per_second: float
    idle: Usage
    load: Usage


@dataclass(frozen=True)
class Figures:
    """All figures of a run. The second pair uses model and search over HTTP, through the shipped clients."""

    loop: Side
    floor: Side
    loop_over_http: Side
    floor_over_http: Side
    hop_p50: float
    hop_p95: float
    rest_bytes: Mapping[str, int]
    load_bytes: Mapping[str, int]
    counted: Counted
    ages: Sequence[Age]
    makespans: Sequence[Makespan]
    complaints: Sequence[str]


async def measure(place: Environment, *, iterations: int, load_seconds: float) -> Figures:
    """Measure `iterations` one after another, then a load for `load_seconds`; the same over HTTP; then all else."""
    async with Driver.open(place.settings) as driver:
        agents = await driver.create_agents(AGENTS_UNDER_LOAD)
        pool = ServicePool(place.settings, place.home)
        with pool.running():
            rest_bytes = pool.resident_bytes
            async with Floor.open(place.settings.database_url) as floor:
                (loop, base), hops = await _measure_sides(
                    place, pool, driver, floor, agents, iterations, load_seconds
                )
            load_bytes = pool.resident_bytes
        _report_progress("model and search over HTTP")
        with providers() as url:
            pool = ServicePool(place.settings, place.home, providers_url=url)
            with pool.running():
                async with Floor.open(place.settings.database_url, url) as floor:
                    (http_loop, http_base), _ = await _measure_sides(
                        place, pool, driver, floor, agents, iterations, load_seconds
                    )
    _report_progress("makespans")
    makespans = [await measure_makespan(place, *case) for case in MAKESPANS]
    _report_progress("an agent of 500 iterations")
    ages = await measure_ageing(place)
    _report_progress("what PostgreSQL does")
    counted = await count(place, agents)
    return Figures(
        loop,
        base,
        http_loop,
        http_base,
        statistics.median(hops),
        statistics.quantiles(hops, n=20)[-1],
        rest_bytes,
        load_bytes,
        counted,
        ages,
        makespans,
        log_warnings(place.home),
    )


async def count_only(place: Environment) -> Counted:
    """Count what PostgreSQL does for an iteration, without the other measurements."""
    async with Driver.open(place.settings) as driver:
        agents = await driver.create_agents(AGENTS_UNDER_LOAD)
    return await count(place, agents)


def _report_progress(what: str) -> None:
    print(f"measuring: {what}", file=sys.stderr, flush=True)


@contextmanager
def providers(delay_seconds: float = 0.0, log: Path | None = None) -> Iterator[str]:
    """Run the server of model and search; yields its URL. For `log`, see `providers_server.CallLog`."""
    port = free_port()
    arguments = [str(port), str(delay_seconds), *([] if log is None else [str(log)])]
    command = [sys.executable, "-m", "bench.loop.providers_server", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        server.stdout.readline()
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            server.kill()


async def _measure_sides(
    place: Environment,
    pool: ServicePool,
    driver: Driver,
    floor: Floor,
    agents: Sequence[UUID],
    iterations: int,
    load_seconds: float,
) -> tuple[tuple[Side, Side], list[float]]:
    iteration_ids: list[UUID] = []

    async def run_loop() -> float:
        iteration = await driver.run(agents[0])
        iteration_ids.append(iteration.iteration_id)
        return iteration.seconds

    async def run_floor() -> float:
        return await floor.run(own)

    own = uuid4()
    loop_turns = _SideMeasurement(place.meter(pool), driver.messages, run_loop)
    floor_turns = _SideMeasurement(place.meter(None), driver.messages, run_floor)
    for turns in (loop_turns, floor_turns):
        await turns.warm()
    iteration_ids.clear()
    for _ in range(ROUNDS):
        for turns in (loop_turns, floor_turns):
            await turns.measure(iterations // ROUNDS)
    hops = await driver.hop_seconds(iteration_ids)
    runs: list[tuple[_SideMeasurement, Callable[[UUID], Awaitable[object]]]] = [
        (loop_turns, driver.run),
        (floor_turns, floor.run),
    ]
    for turns, run in runs:
        await turns.measure_load(agents, run, load_seconds)
    return (loop_turns.side(), floor_turns.side()), hops


class _SideMeasurement:
    """Measures the loop or the floor."""

    def __init__(
        self,
        meter: Meter,
        messages: Callable[[], Awaitable[int]],
        run: Callable[[], Awaitable[float]],
    ) -> None:
        self._meter = meter
        self._messages = messages
        self._run = run
        self._seconds: list[float] = []
        self._idle: list[Usage] = []
        self._load: Usage | None = None
        self._per_second = 0.0

    async def warm(self) -> None:
        for _ in range(WARM_UP_ITERATIONS):
            await self._run()

    async def measure(self, iterations: int) -> None:
        start = self._meter.snapshot(await self._messages())
        for _ in range(iterations):
            self._seconds.append(await self._run())
        usage = self._meter.usage_between(start, self._meter.snapshot(await self._messages()))
        self._idle.append(usage.per(iterations))

    async def measure_load(
        self,
        agents: Sequence[UUID],
        run: Callable[[UUID], Awaitable[object]],
        seconds: float,
    ) -> None:
        async def run_again_and_again(agent_id: UUID) -> int:
            count = 0
            while time.monotonic() < began + seconds:
                await run(agent_id)
                count += 1
            return count

        start = self._meter.snapshot(await self._messages())
        began = time.monotonic()
        counts = await asyncio.gather(*map(run_again_and_again, agents))
        took = time.monotonic() - began
        end = self._meter.snapshot(await self._messages())
        self._load = self._meter.usage_between(start, end).per(sum(counts))
        self._per_second = sum(counts) / took

    def side(self) -> Side:
        self._meter.close()
        assert self._load is not None
        return Side(
            statistics.median(self._seconds),
            statistics.quantiles(self._seconds, n=20)[-1],
            self._per_second,
            Usage.mean(self._idle),
            self._load,
        )
