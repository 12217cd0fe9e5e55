"""PostgreSQL's disk is full for a while during iterations: nothing is lost, and no process busy-loops."""

import asyncio
import time
from collections.abc import Sequence
from typing import Final
from uuid import UUID

import psycopg
import pytest
from sqlalchemy import select

from cli.local.members import CONSUMER_SERVICES
from cli.local.ports import free_port
from shared.database.tables import Agent, Call
from shared.enums import StepKind
from shared.errors import TransientError
from tests.chaos.conftest import open_runner
from tests.support.chaos.contained import PostgresContainer, docker_is_available
from tests.support.chaos.figures import Figures
from tests.support.chaos.installation import Installation, running_installation
from tests.support.chaos.scenario_run import ScenarioRunner
from tests.support.chaos.scenarios import assert_all_like_baseline
from tests.support.waiting import wait_until

pytestmark = [
    pytest.mark.chaos,
    pytest.mark.slow,
    pytest.mark.skipif(not docker_is_available(), reason="no Docker Engine is available"),
]

AGENTS: Final = 6
FULL_SECONDS: Final = 15.0
"""Longer than a lease: a worker may lose its step before it can store a response."""
WAL_SEGMENT_BYTES: Final = 16 * 1024**2
"""The size of a WAL segment; with less free space the WAL cannot grow."""
SLOW_RESPONSE_SECONDS: Final = 1.0
POLL_SECONDS: Final = 0.2
RESTART_SECONDS: Final = 60.0
"""Docker backs off before each restart."""
LINES_PER_SECOND: Final = 10.0
"""Per process, with all its slots."""


@pytest.fixture
def postgres(tmp_path_factory: pytest.TempPathFactory) -> PostgresContainer:
    return PostgresContainer(free_port(), tmp_path_factory.mktemp("log") / "postgres.log")


@pytest.mark.parametrize("fills_wal", [False, True], ids=["tables", "tables-and-log"])
async def test_iterations_survive_a_full_disk(
    tmp_path_factory: pytest.TempPathFactory,
    sandbox_server: str,
    postgres: PostgresContainer,
    figures: Figures,
    seed: int,
    fills_wal: bool,
) -> None:
    """When the WAL cannot grow either, the server stops and cannot restart before there is space."""
    directory = tmp_path_factory.mktemp("full")
    async with open_runner(
        running_installation(directory, sandbox_server, settings={}, postgres=postgres)
    ) as runner:
        baseline = await runner.run(seed)
        since = await runner.next_sequence()
        agents = await start_agents(runner, seed)
        lines_before = log_lines(runner.installation)
        postgres.fill_disk()
        if fills_wal:
            await exhaust_wal(postgres)
        in_flight = await watch_calls(runner, FULL_SECONDS)
        assert postgres.free_bytes() < WAL_SEGMENT_BYTES
        written = {
            name: log_lines(runner.installation)[name] - lines_before[name] for name in lines_before
        }
        postgres.free_disk()
        in_flight |= await calls_after_restart(runner)
        repeated = await assert_all_like_baseline(
            runner, baseline, figures, agents, since, in_flight=len(in_flight)
        )
        figures.add("of these paid twice after a full disk", repeated)
        assert runner.installation.deaths == []
    postgres_log = postgres.log.read_text()
    assert "No space left on device" in postgres_log
    assert ("PANIC" in postgres_log) == fills_wal
    assert max(written.values()) / FULL_SECONDS < LINES_PER_SECOND
    figures.add("iterations over a full disk", len(agents))
    figures.add("calls in flight when the disk was full", len(in_flight))


async def start_agents(runner: ScenarioRunner, seed: int) -> Sequence[Agent]:
    """Start agents with slow model responses, so that all of them run at the same time."""
    runner.sandbox.reset()
    slow = {"kind": "latency", "latency_seconds": SLOW_RESPONSE_SECONDS, "always": True}
    runner.sandbox.faults(slow)
    agents = [await runner.begin_another(seed + number) for number in range(AGENTS)]
    await runner.wait_until_working(agents[0], StepKind.QUERY)
    return agents


async def exhaust_wal(postgres: PostgresContainer) -> None:
    """Write WAL until the server stops."""

    async def look() -> bool:
        try:
            with psycopg.connect(postgres.url("postgres"), autocommit=True) as connection:
                connection.execute(
                    "select pg_logical_emit_message(false, 'test', repeat('x', 1000))"
                )
                connection.execute("select pg_switch_wal()")
        except psycopg.OperationalError:
            return True
        return False

    await wait_until(look, what="PostgreSQL's WAL to run out of space")


async def watch_calls(runner: ScenarioRunner, seconds: float) -> set[UUID]:
    """Ids of the calls that had no response in the ledger at some moment of that time."""
    calls: set[UUID] = set()
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        calls |= await calls_without_response(runner) or set()
        await asyncio.sleep(POLL_SECONDS)
    return calls


async def calls_without_response(runner: ScenarioRunner) -> set[UUID] | None:
    """Ids of calls without a response; None while the ledger cannot be read."""
    try:
        async with runner.database.transaction() as session:
            return set(await session.scalars(select(Call.id).where(Call.answered_at.is_(None))))
    except TransientError:
        return None


async def calls_after_restart(runner: ScenarioRunner) -> set[UUID]:
    """The same as soon as the ledger can be read: calls in flight when the server stopped are still listed."""
    results: list[set[UUID]] = []

    async def look() -> bool:
        if (calls := await calls_without_response(runner)) is not None:
            results.append(calls)
        return bool(results)

    await wait_until(look, what="PostgreSQL to be back", seconds=RESTART_SECONDS)
    return results[0]


def log_lines(installation: Installation) -> dict[str, int]:
    return {name: installation.log(name).count("\n") for name in CONSUMER_SERVICES}
