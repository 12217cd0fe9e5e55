"""Runs iterations and measures them: the loop, the floor beside it, and makespans against their ideal."""

import asyncio
import heapq
import statistics
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Final
from uuid import UUID, uuid4

from nats.aio.msg import Msg
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from bench.loop import scripted_model
from bench.loop.counters import Meter, Usage
from bench.loop.floor import Floor
from bench.loop.scripted_model import INSIGHTS, QUERIES, Reference
from bench.loop.service_pool import ServicePool, log_warnings
from cli.local.nats import EmbeddedNats
from cli.local.postgres import EmbeddedPostgres
from services.adviser.app import CONCURRENCY as ADVISER_CONCURRENCY
from services.analyzer.app import CONCURRENCY as ANALYZER_CONCURRENCY
from services.observer.app import CONCURRENCY as OBSERVER_CONCURRENCY
from services.researcher.app import CONCURRENCY as RESEARCHER_CONCURRENCY
from shared import derived_events
from shared.agents import agents, configuration
from shared.database import ids
from shared.database.engine import Database
from shared.database.tables import GraphNode, Step
from shared.enums import PROMPTED_PHASES, AgentStatus, Phase, PromptMaker, StepKind
from shared.events.codec import decode
from shared.events.envelope import Event
from shared.events.models import IterationCompleted, IterationFailed
from shared.events.topology import STREAM
from shared.graph import system_types, types
from shared.graph.scope import GraphScope
from shared.graph.validation import Validators
from shared.runtime.bus import Bus
from shared.runtime.connections import create_bus, create_database
from shared.runtime.settings import Settings
from shared.workflow import iterations

CALLS: Final[Mapping[str, int]] = {"observer": 1, "researcher": 5, "analyzer": 2, "adviser": 1}
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


ITERATION_SECONDS: Final = 60.0
"""Timeout of an iteration."""
DEADLINE_SECONDS: Final = 600.0
PROMPT: Final = "You work for an agent that knows who supplies whom. " * 20
"""As long as a real prompt."""


@dataclass(frozen=True)
class IterationRun:
    """An iteration; its duration is by the database's clock."""

    iteration_id: UUID
    seconds: float


class Driver:
    def __init__(self, database: Database, bus: Bus) -> None:
        self._database = database
        self._bus = bus
        self._ends: dict[UUID, asyncio.Future[Event]] = {}

    @classmethod
    @asynccontextmanager
    async def open(cls, settings: Settings) -> "AsyncIterator[Driver]":
        database = create_database(settings, "bench", pool_size=5)
        bus = create_bus(settings, "bench")
        driver = cls(database, bus)
        await bus.connect()
        for event_type in (IterationCompleted, IterationFailed):
            await bus.client.subscribe(event_type.subject, cb=driver._on_iteration_end)
        try:
            yield driver
        finally:
            await bus.close()
            await database.close()

    async def create_agents(self, count: int) -> list[UUID]:
        return [await self._create_agent() for _ in range(count)]

    async def activate(self, agent_ids: Sequence[UUID], period_seconds: int) -> None:
        """Let the scheduler start each agent once per period, spread evenly."""
        async with self._database.transaction() as session:
            now = await iterations.database_time(session)
            for place, agent_id in enumerate(agent_ids):
                agent = await agents.lock_agent(session, agent_id)
                agent.interval_seconds = period_seconds
                agent.next_run_at = now + timedelta(seconds=period_seconds * place / len(agent_ids))
                agent.active = True

    async def deactivate(self, agent_ids: Sequence[UUID]) -> None:
        """Stop the scheduler from starting the agents; running iterations continue."""
        async with self._database.transaction() as session:
            for agent_id in agent_ids:
                (await agents.lock_agent(session, agent_id)).active = False

    async def messages(self) -> int:
        """Number of messages in the stream so far."""
        return (await self._bus.jetstream.stream_info(STREAM)).state.last_seq

    async def run(self, agent_id: UUID) -> IterationRun:
        """Run one iteration. Raises RuntimeError if it fails or differs from the script."""
        async with self._database.transaction() as session:
            agent = await agents.lock_agent(session, agent_id)
            start = await iterations.start_iteration(
                session, agent, why="run_now", deadline_seconds=DEADLINE_SECONDS
            )
            event = derived_events.iteration_step_event(start.iteration, start.observe)
        iteration_id = start.iteration.id
        end = self._ends[iteration_id] = asyncio.get_running_loop().create_future()
        await self._bus.publish(event)
        async with asyncio.timeout(ITERATION_SECONDS):
            end_event = await end
        del self._ends[iteration_id]
        _check_completed(end_event)
        return IterationRun(
            iteration_id, (end_event.occurred_at - start.iteration.started_at).total_seconds()
        )

    async def hop_seconds(self, iteration_ids: Sequence[UUID]) -> list[float]:
        """Seconds from the commit that requests a step to its start, for each step.

        Raises RuntimeError if a query has not written what the script says.
        """
        async with self._database.transaction() as session:
            steps = list(
                await session.scalars(select(Step).where(Step.iteration_id.in_(iteration_ids)))
            )
        expected = {
            "nodes": scripted_model.NODES_PER_QUERY,
            "edges": scripted_model.NODES_PER_QUERY - 1,
        }
        for step in steps:
            if step.kind == StepKind.QUERY and step.result != expected:
                raise RuntimeError(f"a query did not what the script says: {step.result}")
        return [
            (step.started_at - step.requested_at).total_seconds()
            for step in steps
            if step.started_at is not None and step.requested_at is not None
        ]

    async def _on_iteration_end(self, message: Msg) -> None:
        event = decode(message.data)
        end = self._ends.get(event.correlation_id)
        if end is not None and not end.done():
            end.set_result(event)

    async def _create_agent(self) -> UUID:
        async with self._database.transaction() as session:
            owner_id = await agents.ensure_user(session, "bench")
            agent = await agents.create_agent(
                session, owner_id, name=f"Bench {uuid4()}", mission="", interval_seconds=3600
            )
            anchors = {
                ids.node_id(agent.id, scripted_model.NODE_TYPE, name): name
                for name in ("Anchor one", "Anchor two")
            }
            first, second = anchors
            agent.mission = Reference(agent.id, (first, second)).mission
            agent.status = AgentStatus.READY
            agent.active = False
            prompts: dict[Phase, str] = dict.fromkeys(PROMPTED_PHASES, PROMPT)
            await configuration.store_prompts(session, agent, prompts, PromptMaker.OWNER)
            await _create_types(session, GraphScope(owner_id, agent.id))
            for node_id, name in anchors.items():
                properties = {"summary": "It was there before.", "countries": 1}
                session.add(
                    GraphNode(
                        id=node_id,
                        agent_id=agent.id,
                        type=scripted_model.NODE_TYPE,
                        name=name,
                        properties=properties,
                    )
                )
            return agent.id


async def _create_types(session: AsyncSession, scope: GraphScope) -> None:
    await system_types.ensure_system_types(session, scope.agent_id)
    await types.create_node_type(
        session,
        scope,
        Validators(),
        name=scripted_model.NODE_TYPE,
        description="A company.",
        properties_schema={
            "type": "object",
            "properties": {"summary": {"type": "string"}, "countries": {"type": "integer"}},
            "required": ["summary"],
        },
        example_properties={"summary": "It makes parts.", "countries": 2},
        created_by="bench",
    )
    await types.create_edge_type(
        session,
        scope,
        name=scripted_model.EDGE_TYPE,
        description="The one supplies the other.",
        source_types=[scripted_model.NODE_TYPE],
        target_types=[scripted_model.NODE_TYPE],
        created_by="bench",
    )


def _check_completed(event: Event) -> None:
    """Raise RuntimeError if the iteration differs from the script."""
    if not isinstance(event, IterationCompleted) or event.errors:
        raise RuntimeError(f"an iteration failed: {event.model_dump_json()}")
    counts = (event.queries, event.insights, event.analyses, event.advice)
    if counts != (scripted_model.QUERIES, scripted_model.INSIGHTS, scripted_model.INSIGHTS, 0):
        raise RuntimeError(f"an iteration did not what the script says: {event.model_dump_json()}")


DATABASE: Final = "vigil"
WARM_UP_ITERATIONS: Final = 8
"""Iterations before the measurement, for connections, statements and caches."""
ROUNDS: Final = 5
"""Rounds of loop and floor in turn, so that both run under the same conditions."""
AGENTS_UNDER_LOAD: Final = 32
CALL_SECONDS: Final = 0.2
MAKESPANS: Final = ((1, 1), (20, 1), (20, 2), (20, 4))
"""Numbers of agents and researchers."""


@dataclass(frozen=True)
class Environment:
    """The engines, settings and directory of a measurement."""

    settings: Settings
    home: Path
    database: str
    postgres: EmbeddedPostgres
    nats: EmbeddedNats

    def meter(self, pool: ServicePool | None) -> Meter:
        nats_pid = self.nats.pid if pool else None
        assert self.postgres.pid is not None
        return Meter(self.postgres.dsn, self.database, self.postgres.pid, nats_pid, pool)


@dataclass(frozen=True)
class Side:
    """Figures of the loop or the floor. Times are seconds; `idle` is one iteration at a time, `load` many agents."""

    idle_p50: float
    idle_p95: float
    per_second: float
    idle: Usage
    load: Usage


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


async def measure(place: Environment, *, iterations: int, load_seconds: float) -> Figures:
    """Measure `iterations` one after another, then a load for `load_seconds`, then makespans."""
    pool = ServicePool(place.settings, place.home)
    async with (
        Floor.open(place.settings.database_url) as floor,
        Driver.open(place.settings) as driver,
    ):
        with pool.running():
            rest_bytes = pool.resident_bytes
            agents = await driver.create_agents(AGENTS_UNDER_LOAD)
            sides, hops = await _measure_sides(
                place, pool, driver, floor, agents, iterations, load_seconds
            )
            load_bytes = pool.resident_bytes
    makespans = [await _measure_makespan(place, *case) for case in MAKESPANS]
    loop, base = sides
    return Figures(
        loop,
        base,
        statistics.median(hops),
        statistics.quantiles(hops, n=20)[-1],
        rest_bytes,
        load_bytes,
        makespans,
        log_warnings(place.home),
    )


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
        await asyncio.to_thread(self._meter.wait_for_counts)
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
        await asyncio.to_thread(self._meter.wait_for_counts)
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


async def _measure_makespan(place: Environment, agents: int, researchers: int) -> Makespan:
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
            for _ in range(4):
                began = time.perf_counter()
                await asyncio.gather(*(driver.run(agent_id) for agent_id in agent_ids))
                makespan.measured.append(time.perf_counter() - began)
    del makespan.measured[0]  # warm-up
    return makespan
