"""Three schedulers with clocks that differ by minutes, killed at random: no run is missed, no agent runs twice at once.

$VIGIL_TEST_SEED repeats a run's choices; $VIGIL_TEST_KILLS makes it longer.
"""

import asyncio
import json
import os
import random
import sys
from asyncio.subprocess import Process
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import text

from cli.local.ports import free_ports, unreadiness
from shared.database.engine import Database
from shared.events.codec import decode
from shared.events.models import IterationStarted
from shared.events.topology import STREAM
from shared.failpoints import Failpoint
from shared.runtime.bus import Bus
from shared.runtime.settings import Settings
from shared.runtime.step_runner import StepResult
from shared.workflow.iterations import StepRow
from shared.workflow.leases import Lease
from tests.support.factories import make_agent
from tests.support.failpoints import arm
from tests.support.running_services import running_services
from tests.support.steps import observer, running_service
from tests.support.waiting import wait_until

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


@pytest.fixture(scope="session")
def kills() -> int:
    return int(os.environ.get("VIGIL_TEST_KILLS") or 6)


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


async def test_no_run_is_missed_and_no_agent_runs_twice_at_once(
    settings: Settings, database: Database, bus: Bus, tmp_path: Path, seed: int, kills: int
) -> None:
    print(f"VIGIL_TEST_SEED={seed} VIGIL_TEST_KILLS={kills}")
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
