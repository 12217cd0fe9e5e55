"""What is measured of the loop, and of the floor beside it."""

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from uuid import UUID, uuid4

from bench.loop import ideal
from bench.loop.counters import Meter, Used
from bench.loop.driver import Driver
from bench.loop.fleet import Fleet, complaints
from bench.loop.floor import Floor
from cli.local.nats import EmbeddedNats
from cli.local.postgres import EmbeddedPostgres
from services.adviser.app import SLOTS as ADVISER_SLOTS
from services.analyzer.app import SLOTS as ANALYZER_SLOTS
from services.observer.app import SLOTS as OBSERVER_SLOTS
from services.researcher.app import SLOTS as RESEARCHER_SLOTS
from shared.runtime.settings import Settings

WARMING: Final = 8
"""Iterations that are not told: connections, statements and caches are made ready."""
ROUNDS: Final = 5
"""The loop and the floor by turns, so that both meet the same machine."""
AGENTS_UNDER_LOAD: Final = 32
CALL_SECONDS: Final = 0.2
MAKESPANS: Final = ((1, 1), (20, 1), (20, 2), (20, 4))
"""Agents and researchers."""


@dataclass(frozen=True)
class Place:
    """Where the measurement is made."""

    settings: Settings
    home: Path
    database: str
    postgres: EmbeddedPostgres
    nats: EmbeddedNats

    def meter(self, fleet: Fleet | None) -> Meter:
        nats_pid = self.nats.pid if fleet else None
        assert self.postgres.pid is not None
        return Meter(self.postgres.dsn, self.database, self.postgres.pid, nats_pid, fleet)


@dataclass(frozen=True)
class Side:
    """Of the loop or the floor. Times are seconds; `idle` is of one iteration at a time, `load` with many agents."""

    idle_p50: float
    idle_p95: float
    per_second: float
    idle: Used
    load: Used


@dataclass
class Makespan:
    agents: int
    researchers: int
    ideal: float
    measured: list[float] = field(default_factory=list)

    @property
    def efficiency(self) -> float:
        return self.ideal / statistics.median(self.measured)


@dataclass(frozen=True)
class Figures:
    loop: Side
    floor: Side
    hop_p50: float
    hop_p95: float
    rest_bytes: Mapping[str, int]
    load_bytes: Mapping[str, int]
    makespans: Sequence[Makespan]
    complaints: Sequence[str]


async def measure(place: Place, *, iterations: int, load_seconds: float) -> Figures:
    """`iterations` one after another, and as many agents as are for `load_seconds`; then with calls that take time."""
    fleet = Fleet(place.settings, place.home)
    async with Floor.of(place.settings.database_url) as floor, Driver.of(place.settings) as driver:
        with fleet.at_work():
            rest_bytes = fleet.resident_bytes
            agents = await driver.make_agents(AGENTS_UNDER_LOAD)
            sides, hops = await _sides(
                place, fleet, driver, floor, agents, iterations, load_seconds
            )
            load_bytes = fleet.resident_bytes
    makespans = [await _makespan(place, *each) for each in MAKESPANS]
    loop, base = sides
    return Figures(
        loop,
        base,
        statistics.median(hops),
        statistics.quantiles(hops, n=20)[-1],
        rest_bytes,
        load_bytes,
        makespans,
        complaints(place.home),
    )


async def _sides(
    place: Place,
    fleet: Fleet,
    driver: Driver,
    floor: Floor,
    agents: Sequence[UUID],
    iterations: int,
    load_seconds: float,
) -> tuple[tuple[Side, Side], list[float]]:
    ran: list[UUID] = []

    async def run_loop() -> float:
        done = await driver.run(agents[0])
        ran.append(done.iteration_id)
        return done.seconds

    async def run_floor() -> float:
        return await floor.run(own)

    own = uuid4()
    loop_turns = _Turns(place.meter(fleet), driver.messages, run_loop)
    floor_turns = _Turns(place.meter(None), driver.messages, run_floor)
    for turns in (loop_turns, floor_turns):
        await turns.warm()
    ran.clear()
    for _ in range(ROUNDS):
        for turns in (loop_turns, floor_turns):
            await turns.take(iterations // ROUNDS)
    hops = await driver.hops(ran)
    runs: list[tuple[_Turns, Callable[[UUID], Awaitable[object]]]] = [
        (loop_turns, driver.run),
        (floor_turns, floor.run),
    ]
    for turns, run in runs:
        await turns.take_load(agents, run, load_seconds)
    return (loop_turns.side(), floor_turns.side()), hops


class _Turns:
    """One side's measurements."""

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
        self._idle: list[Used] = []
        self._load: Used | None = None
        self._per_second = 0.0

    async def warm(self) -> None:
        for _ in range(WARMING):
            await self._run()

    async def take(self, iterations: int) -> None:
        before = self._meter.take(await self._messages())
        for _ in range(iterations):
            self._seconds.append(await self._run())
        await asyncio.to_thread(self._meter.settle)
        used = self._meter.between(before, self._meter.take(await self._messages()))
        self._idle.append(used.per(iterations))

    async def take_load(
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

        before = self._meter.take(await self._messages())
        began = time.monotonic()
        counts = await asyncio.gather(*map(run_again_and_again, agents))
        took = time.monotonic() - began
        after = self._meter.take(await self._messages())
        await asyncio.to_thread(self._meter.settle)
        self._load = self._meter.between(before, after).per(sum(counts))
        self._per_second = sum(counts) / took

    def side(self) -> Side:
        self._meter.close()
        assert self._load is not None
        return Side(
            statistics.median(self._seconds),
            statistics.quantiles(self._seconds, n=20)[-1],
            self._per_second,
            Used.mean(self._idle),
            self._load,
        )


async def _makespan(place: Place, agents: int, researchers: int) -> Makespan:
    slots = {
        "observer": OBSERVER_SLOTS,
        "researcher": RESEARCHER_SLOTS * researchers,
        "analyzer": ANALYZER_SLOTS,
        "adviser": ADVISER_SLOTS,
    }
    found = Makespan(agents, researchers, ideal.makespan(agents, slots, CALL_SECONDS))
    fleet = Fleet(place.settings, place.home, delay_seconds=CALL_SECONDS, researchers=researchers)
    async with Driver.of(place.settings) as driver:
        with fleet.at_work():
            made = await driver.make_agents(agents)
            for _ in range(4):
                began = time.perf_counter()
                await asyncio.gather(*(driver.run(each) for each in made))
                found.measured.append(time.perf_counter() - began)
    del found.measured[0]  # it has warmed what the others use
    return found
