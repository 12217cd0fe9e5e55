"""Schedulers: due runs start once, stalled steps are republished, slow steps are left alone."""

import asyncio
import json
import os
import random
import sys
from asyncio.subprocess import Process
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import func, select, text, update
from structlog.testing import capture_logs
from structlog.typing import EventDict

from cli.local.ports import free_ports, unreadiness
from services.aggregator.handler import Aggregate
from services.observer.prompts import MAX_QUERIES
from services.scheduler import scheduler as clock_module
from services.scheduler.dead_letter_retries import Retrier
from services.scheduler.reconciler import MAX_DOUBLINGS, Reconciler
from services.scheduler.scheduler import Clock, Ticker
from shared import derived_events
from shared.database.engine import Database
from shared.database.tables import Agent, Iteration, Step
from shared.enums import IterationStatus, StepKind, StepStatus
from shared.errors import TransientError
from shared.events.codec import decode, encode
from shared.events.envelope import Event
from shared.events.models import IterationStarted, QueryCompleted
from shared.events.topology import STREAM
from shared.failpoints import Failpoint
from shared.runtime.bus import Bus
from shared.runtime.settings import Settings
from shared.runtime.step_runner import StepResult
from shared.workflow import iterations, steps
from shared.workflow.iterations import StepRow
from shared.workflow.leases import Lease
from tests.support import claims, table_rows
from tests.support.claims import Claimed
from tests.support.factories import make_agent, make_iteration, make_node, wake
from tests.support.failpoints import arm
from tests.support.joins import end_events, plan_iteration
from tests.support.marks import slow
from tests.support.running_services import BUILDERS, ended_iteration, running_services
from tests.support.sandbox_control import Sandbox
from tests.support.scheduling import (
    GRACE_SECONDS,
    add_missed_step,
    ago,
    change,
    mark_missed,
    republished_events,
    republished_ids,
)
from tests.support.steps import observer, published_subjects, running_service
from tests.support.waiting import wait_until


def ticker(database: Database) -> Ticker:
    return Ticker(database, deadline_seconds=600)


async def fresh(database: Database, agent: Agent) -> Agent:
    async with database.transaction() as session:
        return await session.get_one(Agent, agent.id)


async def now(database: Database) -> datetime:
    async with database.transaction() as session:
        database_now: datetime = await iterations.database_time(session)
        return database_now


async def end_running(database: Database) -> None:
    async with database.transaction() as session:
        await session.execute(update(Iteration).values(status=IterationStatus.COMPLETED))


async def test_several_schedulers_start_a_due_agent_once(
    database: Database,
) -> None:
    await make_agent(database)
    event_lists = await asyncio.gather(*(ticker(database).tick() for _ in range(6)))
    [event] = [event for events in event_lists for event in events]
    assert isinstance(event, IterationStarted)
    assert (event.number, event.why) == (1, "due")
    assert await ticker(database).tick() == []


async def test_missed_ticks_start_one_run_and_the_schedule_is_kept(database: Database) -> None:
    agent = await make_agent(database, interval_seconds=100)
    await change(database, agent, next_run_at=ago(1050))
    due_at = (await fresh(database, agent)).next_run_at
    assert len(await ticker(database).tick()) == 1
    next_run = (await fresh(database, agent)).next_run_at
    assert (next_run - due_at) == timedelta(seconds=1100)
    await end_running(database)
    assert await ticker(database).tick() == []


async def test_an_agent_never_runs_two_iterations_at_once(database: Database) -> None:
    agent = await make_agent(database)
    await ticker(database).tick()
    await change(database, agent, next_run_at=ago(5), run_requested_at=ago(1))
    assert await ticker(database).tick() == []
    await end_running(database)
    [event] = await ticker(database).tick()
    assert isinstance(event, IterationStarted)
    assert (event.number, event.why) == (2, "run_now")


async def test_a_paused_agent_runs_only_on_request(database: Database) -> None:
    agent = await make_agent(database)
    await change(database, agent, active=False)
    assert await ticker(database).tick() == []
    before = (await fresh(database, agent)).next_run_at
    await change(database, agent, next_run_at=before + timedelta(days=1), run_requested_at=ago(1))
    assert len(await ticker(database).tick()) == 1
    after = await fresh(database, agent)
    assert after.run_requested_at is None
    assert after.next_run_at == before + timedelta(days=1), (
        "an extra run does not move the schedule"
    )


async def test_a_lost_request_is_republished_with_a_new_id_and_growing_delay(
    database: Database,
) -> None:
    started = await make_iteration(database, await make_agent(database))
    assert await republished_events(database) == []
    await change(database, started.observe, requested_at=ago(GRACE_SECONDS + 1))
    [(first, number)] = await republished_events(database)
    assert isinstance(first, IterationStarted)
    assert (first.step_id, number) == (started.observe.id, 1)
    assert await republished_events(database) == []
    await change(database, started.observe, requested_at=ago(GRACE_SECONDS + 1))
    assert await republished_events(database) == [], "the delay doubles"
    await change(database, started.observe, requested_at=ago(2 * GRACE_SECONDS + 1))
    assert await republished_events(database) == [(first, 2)]


async def test_only_a_step_with_a_lapsed_lease_is_republished(database: Database) -> None:
    started = await make_iteration(database, await make_agent(database))
    async with database.transaction() as session:
        assert isinstance(await claims.claim(session, started.observe.id, "worker"), Claimed)
    await change(database, started.observe, requested_at=ago(3600))
    assert await republished_events(database) == [], "its lease runs"
    await change(database, started.observe, lease_until=ago(1))
    assert len(await republished_events(database)) == 1


async def test_a_step_in_backoff_is_not_republished(database: Database) -> None:
    started = await make_iteration(database, await make_agent(database))
    await change(
        database,
        started.observe,
        requested_at=ago(3600),
        retry_at=func.clock_timestamp() + timedelta(seconds=60),
    )
    assert await republished_events(database) == []


async def test_the_last_end_event_is_republished_for_a_stalled_join(database: Database) -> None:
    agent = await make_agent(database)
    started = await make_iteration(database, agent)
    async with database.transaction() as session:
        query = {"objective": "a", "reasoning": "b", "search_hints": []}
        planning = iterations.plan_steps(started.iteration, queries=[query, query], insights=[])
        await planning.execute(session)
        queries = await steps.list_steps(session, started.iteration.id, StepKind.QUERY)
    result = {"nodes": 1, "edges": 0}
    for age, step in zip((40, 30), queries, strict=True):
        await change(database, step, status=StepStatus.COMPLETED, result=result, ended_at=ago(age))
    await change(database, started.observe, status=StepStatus.COMPLETED, ended_at=ago(50))
    for step in queries:
        await change(database, step, requested_at=ago(60))
    [(event, _)] = await republished_events(database)
    assert isinstance(event, QueryCompleted)
    assert event.step_id == queries[1].id
    assert await republished_events(database) == []


async def test_steps_of_an_ended_iteration_are_not_republished(database: Database) -> None:
    started = await make_iteration(database, await make_agent(database))
    await change(database, started.observe, requested_at=ago(3600))
    await end_running(database)
    assert await republished_events(database) == []


async def test_a_start_stores_the_iteration_and_its_observe_step(database: Database) -> None:
    await make_agent(database)
    await ticker(database).tick()
    async with database.transaction() as session:
        iteration = (await session.scalars(select(Iteration))).one()
        step = (await session.scalars(select(Step))).one()
    assert (iteration.deadline_at - iteration.started_at) == timedelta(seconds=600)
    assert (step.kind, step.status) == (StepKind.OBSERVE, StepStatus.PENDING)
    assert step.requested_at is not None
    assert step.requested_at <= await now(database)


REPLICAS = 3
CLOCK_SECONDS = (-60.0, 0.0, 60.0)
"""The offsets of their clocks."""
INTERVALS_SECONDS = (2, 2, 3, 3, 4)
"""The intervals of the agents, and how late each may start at most."""
KILL_POINTS = (None, Failpoint.STATE_WRITTEN, Failpoint.STATE_COMMITTED, Failpoint.EVENTS_PUBLISHED)
"""Where a scheduler is killed: at once (None), or at the next failpoint of this name."""


@pytest.fixture(scope="session")
def seed() -> int:
    """Reads the variable before the tests hide the environment."""
    return int(os.environ.get("VIGIL_TEST_SEED") or random.SystemRandom().randrange(10**6))


class Replica:
    """One scheduler, restarted whenever it dies."""

    def __init__(self, settings: Settings, home: Path, port: int, clock_seconds: float) -> None:
        self.log = home / f"{port}.log"
        self.clock_seconds = clock_seconds
        self.deaths = 0
        self._port = port
        self._process: Process | None = None
        self._first_start = datetime.now(UTC)
        self._environment = {
            **os.environ,
            "VIGIL_DATABASE_URL": settings.database_url,
            "VIGIL_NATS_URL": settings.nats_url,
            "VIGIL_PORT": str(port),
            "VIGIL_SCHEDULER_TICK_SECONDS": "0.1",
            "VIGIL_RESEND_AFTER_SECONDS": "1",
            "VIGIL_CRASH_DIR": str(home),
        }

    async def supervise(self) -> None:
        command = ["-m", "tests.support.shifted_clock", str(self.clock_seconds), "scheduler"]
        while True:
            with self.log.open("ab") as log:
                self._process = await asyncio.create_subprocess_exec(
                    sys.executable, *command, env=self._environment, stdout=log, stderr=log
                )
            await self._process.wait()
            self.deaths += 1

    def is_running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    def kill(self) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.kill()

    async def is_ready(self) -> bool:
        return await asyncio.to_thread(unreadiness, self._port) is None

    def clock_offset_seconds(self) -> float:
        """The offset of its clock, from the first line of its log."""
        lines = self.log.read_text().splitlines()
        first = json.loads(next(line for line in lines if line.startswith("{")))
        logged_at = datetime.fromisoformat(first["timestamp"])
        return (logged_at - self._first_start).total_seconds()


@asynccontextmanager
async def supervising(replicas: Sequence[Replica]) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(replica.supervise()) for replica in replicas]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        for replica in replicas:
            replica.kill()


async def two_are_ready(replicas: Sequence[Replica]) -> bool:
    """Whether one may be killed while another keeps running."""
    return sum([await replica.is_ready() for replica in replicas]) >= 2


async def kill_at_random(
    replicas: Sequence[Replica], home: Path, kills: int, chance: random.Random
) -> None:
    for number in range(1, kills + 1):
        await wait_until(
            lambda: two_are_ready(replicas), what="two schedulers to be ready", seconds=60
        )
        kill_point = chance.choice(KILL_POINTS)
        if kill_point is None:
            # One that died at the last kill may not have been started again yet.
            chance.choice([replica for replica in replicas if replica.is_running()]).kill()
        else:
            arm(home, kill_point)

        async def has_died(number: int = number) -> bool:
            return sum(replica.deaths for replica in replicas) >= number

        await wait_until(has_died, what=f"a scheduler to die at {kill_point or 'once'}")


WAITING = text(
    """
    select agents.name, agents.interval_seconds, extract(epoch from clock_timestamp() - greatest(
        next_run_at, (select max(ended_at) from iterations where agent_id = agents.id)))
    from agents
    where not exists (select from iterations where agent_id = agents.id and status = 'running')
    """
)
OVERLAPPING = text(
    """
    select count(*) from (
        select started_at, lag(coalesce(ended_at, 'infinity')) over (
            partition by agent_id order by number) as ended_before
        from iterations) as turns
    where ended_before > started_at
    """
)

EARLY = text(
    """
    select count(*) - count(distinct (agents.id, floor(
        extract(epoch from started_at - next_run_at) / interval_seconds)))
    from iterations join agents on agents.id = agent_id
    """
)
"""Starts that are not the first since their tick."""


async def watch_lateness(database: Database, latest: dict[str, float]) -> None:
    """Records the maximum lateness of each agent, as a fraction of its interval."""
    while True:
        async with database.transaction() as session:
            for name, interval, late_seconds in await session.execute(WAITING):
                latest[name] = max(latest.get(name, 0.0), float(late_seconds) / interval)
        await asyncio.sleep(0.05)


async def quiet(lease: Lease, step: StepRow) -> StepResult:
    """Finds nothing to do, which is no reason for attention."""
    return StepResult({"queries": 0, "insights": 0, "quiet": True})


@pytest.mark.parametrize("kills", [4, *slow(12)])
async def test_no_run_is_missed_and_no_agent_runs_twice_at_once(
    settings: Settings, database: Database, bus: Bus, tmp_path: Path, seed: int, kills: int
) -> None:
    print(f"VIGIL_TEST_SEED={seed} kills={kills}")
    ports = free_ports(REPLICAS)
    replicas = [
        Replica(settings, tmp_path, port, seconds)
        for port, seconds in zip(ports, CLOCK_SECONDS, strict=True)
    ]
    latest: dict[str, float] = {}
    async with (
        running_service(observer(settings, quiet)),
        running_services(settings, ("aggregator",)),
        supervising(replicas),
    ):
        await wait_until(lambda: two_are_ready(replicas), what="two schedulers to be ready")
        for number, interval in enumerate(INTERVALS_SECONDS):
            await make_agent(database, name=f"Watch {number}", interval_seconds=interval)
        watching = asyncio.create_task(watch_lateness(database, latest))
        await kill_at_random(replicas, tmp_path, kills, random.Random(seed))
        await wait_until(
            lambda: all_starts_published(database, bus), what="every start to be published"
        )
        watching.cancel()
    for replica in replicas:
        assert replica.clock_offset_seconds() == pytest.approx(replica.clock_seconds, abs=29)
    assert len(latest) == len(INTERVALS_SECONDS)
    assert max(latest.values()) < 1, f"lateness as a fraction of the interval: {latest}"
    async with database.transaction() as session:
        assert await session.scalar(OVERLAPPING) == 0
        assert await session.scalar(EARLY) == 0
        numbers = await session.execute(
            text("select max(number), count(*) from iterations group by agent_id")
        )
        assert all(highest == count for highest, count in numbers)


async def all_starts_published(database: Database, bus: Bus) -> bool:
    """Whether exactly the stored iterations have a published start event."""
    last = (await bus.jetstream.stream_info(STREAM)).state.last_seq
    events = [
        decode((await bus.jetstream.get_msg(STREAM, number)).data or b"")
        for number in range(1, last + 1)
    ]
    published = Counter(
        event.iteration_id for event in events if isinstance(event, IterationStarted)
    )
    async with database.transaction() as session:
        stored_ids = set(await session.scalars(text("select id from iterations")))
    return set(published) == stored_ids


REPUBLISH_SECONDS = 0.5
LEASE_SECONDS = 3.0
EMPTY: dict[str, object] = {"queries": [], "insights": []}


@pytest.fixture
def impatient(sandbox_settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setattr(clock_module, "RECONCILE_SECONDS", 0.1)
    return sandbox_settings.model_copy(update={"resend_after_seconds": REPUBLISH_SECONDS})


async def steps_of(database: Database, kind: StepKind) -> list[Step]:
    async with database.transaction() as session:
        return list(await session.scalars(select(Step).where(Step.kind == kind)))


async def test_a_call_longer_than_the_lease_and_the_republish_delay_is_left_alone(
    impatient: Settings, database: Database, bus: Bus, sandbox_control: Sandbox
) -> None:
    sandbox_control.script({"phase": "observer", "content": EMPTY})
    sandbox_control.faults({"kind": "latency", "latency_seconds": 2 * LEASE_SECONDS})
    agent = await make_agent(database, active=False)
    await make_node(database, agent)
    short = impatient.model_copy(update={"lease_seconds": LEASE_SECONDS})
    async with running_services(short, ("scheduler", "aggregator", *["observer"] * 3)):
        # Only now: the reconciler's delay is shorter than the start of five services on a loaded machine.
        await wake(database, agent)
        iteration = await ended_iteration(database, agent, 1)
    assert (iteration.status, iteration.errors) == (IterationStatus.COMPLETED, [])
    [observe] = await steps_of(database, StepKind.OBSERVE)
    assert (observe.epoch, observe.republish_count, observe.attempts) == (1, 0, 0)
    assert await published_subjects(bus) == [
        "iteration.started",
        "plan.produced",
        "iteration.completed",
    ]
    assert sandbox_control.billed()["llm"] == 1


def max_republishes(waited_seconds: float) -> int:
    """How often a step may be republished in that time: the delay doubles each time, up to a maximum."""
    republishes = 0
    while (waited_seconds := waited_seconds - _wait_seconds(republishes)) >= 0:
        republishes += 1
    return republishes


def _wait_seconds(republishes: int) -> float:
    return float(REPUBLISH_SECONDS * 2 ** min(republishes, MAX_DOUBLINGS))


@pytest.mark.slow
async def test_steps_in_a_long_queue_are_republished_a_few_times_and_run_once(
    impatient: Settings, database: Database, bus: Bus, sandbox_control: Sandbox
) -> None:
    queries = [
        {"objective": f"lithium {n}", "reasoning": "why not", "searchHints": []}
        for n in range(MAX_QUERIES)
    ]
    sandbox_control.script({"phase": "observer", "content": EMPTY | {"queries": queries}})
    sandbox_control.script(
        {"phase": "knowledge_acquisition", "content": "Nothing found.", "times": None}
    )
    sandbox_control.script(
        {"phase": "graph_construction", "content": "Nothing to add.", "times": None}
    )
    sandbox_control.faults({"kind": "latency", "latency_seconds": 0.15, "always": True})
    agent = await make_agent(database)
    settings_by_service = dict.fromkeys(BUILDERS, impatient)
    settings_by_service["researcher"] = impatient.model_copy(
        update={"concurrency": 1, "model_tool_choice": "never"}
    )
    async with running_services(settings_by_service):
        iteration = await ended_iteration(database, agent, 1)
    assert (iteration.status, iteration.errors) == (IterationStatus.COMPLETED, [])
    query_steps = await steps_of(database, StepKind.QUERY)
    assert {step.epoch for step in query_steps} == {1}
    # Acquisition did nothing and was asked once more; for construction code chooses no facts, because there are no types.
    assert (sandbox_control.billed()["llm"], sandbox_control.repeated()) == (1 + 3 * MAX_QUERIES, 0)
    assert max(step.republish_count for step in query_steps) > 1, "the queue was long"
    for step in query_steps:
        assert step.started_at is not None
        assert step.first_requested_at is not None
        seconds = (step.started_at - step.first_requested_at).total_seconds()
        assert step.republish_count <= max_republishes(seconds)
    assert len(await republished_ids(bus)) == sum(step.republish_count for step in query_steps)


@asynccontextmanager
async def reconciling(
    database: Database, bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[None]:
    """Runs a scheduler's reconciler loop with a short interval."""
    monkeypatch.setattr(clock_module, "RECONCILE_SECONDS", 0.02)
    clock = Clock(
        Ticker(database, 600), Reconciler(database, GRACE_SECONDS), Retrier(database, bus), bus, 1.0
    )
    task = asyncio.create_task(clock.run_reconciler())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def list_steps_of_kind(
    database: Database, iteration: Iteration, kind: StepKind
) -> list[StepRow]:
    async with database.transaction() as session:
        return await steps.list_steps(session, iteration.id, kind)


async def republish_counts(database: Database, iteration: Iteration) -> list[int]:
    counts = select(Step.republish_count).where(
        Step.iteration_id == iteration.id, Step.kind == StepKind.QUERY
    )
    async with database.transaction() as session:
        return list(await session.scalars(counts.order_by(Step.index)))


async def test_an_unreadable_row_is_logged_once_and_does_not_block_others(
    database: Database, bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    iteration = await plan_iteration(database, queries=3)
    unreadable, second, third = await list_steps_of_kind(database, iteration, StepKind.QUERY)
    await mark_missed(database, unreadable, input={"objective": {"no": "text"}})
    await mark_missed(database, second)
    with capture_logs() as lines:
        async with reconciling(database, bus, monkeypatch):
            await wait_until(lambda: republished_ids(bus), what="the second to be republished")
            await mark_missed(database, third)
            await wait_until(
                lambda: is_counted(database, third), what="the third to be republished"
            )
    errors = [line for line in lines if line["log_level"] == "error"]
    assert [(line["event"], line["row_id"]) for line in errors] == [
        ("cannot republish an event", str(unreadable.id))
    ]
    assert len(await republished_ids(bus)) == 2


async def is_counted(database: Database, step: StepRow) -> bool:
    async with database.transaction() as session:
        return (await session.get_one(Step, step.id)).republish_count == 1


@pytest.mark.parametrize("row_kind", ["a step's end", "an iteration's end"])
async def test_an_unreadable_end_does_not_block_others(
    database: Database, bus: Bus, monkeypatch: pytest.MonkeyPatch, row_kind: str
) -> None:
    iteration = await plan_iteration(database)
    [observe] = await list_steps_of_kind(database, iteration, StepKind.OBSERVE)
    if row_kind == "a step's end":
        await change(database, observe, requested_at=ago(60), ended_at=ago(60), kind="query")
    else:
        [plan] = await end_events(database, iteration, StepKind.OBSERVE)
        await Aggregate(database)(plan)
        await change(database, observe, result=["not what a result is"])
        await change(database, table_rows.as_iteration(iteration), ended_at=ago(60))
    with capture_logs() as lines:
        async with reconciling(database, bus, monkeypatch):
            await wait_until(lambda: logged_errors(lines), what="an error to be logged")
            await add_missed_step(database)
            await wait_until(lambda: republished_ids(bus), what="the other to be republished")
    assert await logged_errors(lines) == ["cannot republish an event"]


async def logged_errors(lines: list[EventDict]) -> list[str]:
    return [line["event"] for line in lines if line["log_level"] == "error"]


async def test_only_events_stored_by_the_bus_are_counted(
    database: Database, bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    iteration = await plan_iteration(database, queries=3)
    queries = await list_steps_of_kind(database, iteration, StepKind.QUERY)
    for age, step in zip((9, 8, 7), queries, strict=True):
        await change(database, step, requested_at=ago(GRACE_SECONDS + age))
    published_ids: list[str] = []
    publish = Bus.publish

    async def fail_second_publish(self: Bus, event: Event, *, resend: int = 0) -> None:
        published_ids.append(str(event.event_id))
        if len(published_ids) == 2:
            counts_at_failure.extend(await republish_counts(database, iteration))
            raise TransientError("NATS did not store it", counts=False)
        await publish(self, event, resend=resend)

    counts_at_failure: list[int] = []
    monkeypatch.setattr(Bus, "publish", fail_second_publish)
    async with reconciling(database, bus, monkeypatch):
        await wait_until(lambda: all_republished(bus, 3), what="all three to be republished")
        await wait_until(lambda: all_counted(database, iteration), what="all three to be counted")
    assert counts_at_failure == [1, 0, 0]
    assert len(published_ids) == 4, "the first is not published twice"
    assert {number.partition(":")[2] for number in await republished_ids(bus)} == {"r1"}
    assert await republish_counts(database, iteration) == [1, 1, 1]


async def all_counted(database: Database, iteration: Iteration) -> bool:
    return all(await republish_counts(database, iteration))


async def all_republished(bus: Bus, number: int) -> bool:
    return len(await republished_ids(bus)) == number


async def test_an_uncounted_event_is_republished_under_the_same_id(
    database: Database, bus: Bus
) -> None:
    """As with two concurrent schedulers, or one that is killed before it counts."""
    iteration = await plan_iteration(database, queries=1)
    [query] = await list_steps_of_kind(database, iteration, StepKind.QUERY)
    await mark_missed(database, query)
    reconciler = Reconciler(database, GRACE_SECONDS)
    rows = [(await reconciler.find_missed())[0] for _ in range(2)]
    for row in rows:
        for event in await reconciler.events(row):
            await bus.publish(event, resend=row.number)
    for row in rows:
        await reconciler.count(row)
    assert len(await republished_ids(bus)) == 1
    assert await republish_counts(database, iteration) == [1]


@pytest.mark.parametrize("kind", [StepKind.OBSERVE, StepKind.QUERY, StepKind.INSIGHT])
async def test_a_republished_request_has_the_same_bytes(database: Database, kind: StepKind) -> None:
    queries = 2 if kind == StepKind.QUERY else 0
    iteration = await plan_iteration(database, queries=queries, insights=2)
    async with database.transaction() as session:
        [observe] = await steps.list_steps(session, iteration.id, StepKind.OBSERVE)
        first = await derived_events.events_after_step(session, observe)
    joined = await Aggregate(database)(first[0])
    first = joined if kind == StepKind.INSIGHT else first[1:]
    if kind == StepKind.OBSERVE:
        first = [derived_events.iteration_step_event(table_rows.as_iteration(iteration), observe)]
        await change(database, observe, status=StepStatus.PENDING)
    for step in await list_steps_of_kind(database, iteration, kind):
        await mark_missed(database, step)
    again = [event for event, _ in await republished_events(database)]
    assert {encode(event) for event in again} == {encode(event) for event in first}
    assert again
