"""PostgreSQL's disk is full while agents work, until somebody makes room: nothing is lost, and nobody spins."""

import asyncio
import time
from collections.abc import Sequence
from typing import Final
from uuid import UUID

import psycopg
import pytest
from sqlalchemy import select

from cli.local.members import ACTORS
from cli.local.ports import free_port
from shared.database.tables import Agent, Call
from shared.enums import StepKind
from shared.errors import TransientError
from tests.chaos.conftest import visited
from tests.support.chaos.contained import ContainedPostgres, docker_answers
from tests.support.chaos.figures import Figures
from tests.support.chaos.house import House, lived_in
from tests.support.chaos.scenarios import Trial, unharmed
from tests.support.chaos.visit import Visit, Visitor
from tests.support.waiting import until

pytestmark = [
    pytest.mark.chaos,
    pytest.mark.slow,
    pytest.mark.skipif(not docker_answers(), reason="no Docker Engine answers here"),
]

AGENTS: Final = 6
FULL_SECONDS: Final = 15.0
"""Longer than a lease: who has an answer in hand may have lost its step by the time that it can be written."""
LOG_SEGMENT_BYTES: Final = 16 * 1024**2
"""What PostgreSQL's log grows by; with less there is no room for it."""
SLOW_ANSWER_SECONDS: Final = 1.0
LOOK_SECONDS: Final = 0.2
BACK_SECONDS: Final = 60.0
"""Docker waits longer before each further start."""
LINES_PER_SECOND: Final = 10.0
"""Of one process with all its slots."""


@pytest.fixture
def postgres(tmp_path_factory: pytest.TempPathFactory) -> ContainedPostgres:
    return ContainedPostgres(free_port(), tmp_path_factory.mktemp("log") / "postgres.log")


@pytest.mark.parametrize("log_too", [False, True], ids=["tables", "tables-and-log"])
async def test_a_full_disk_is_waited_out(
    tmp_path_factory: pytest.TempPathFactory,
    sandbox_server: str,
    postgres: ContainedPostgres,
    figures: Figures,
    seed: int,
    log_too: bool,
) -> None:
    """Where its log cannot grow either, the server itself goes down, and cannot come back before there is room."""
    home = tmp_path_factory.mktemp("full")
    async with visited(lived_in(home, sandbox_server, settings={}, postgres=postgres)) as visitor:
        undisturbed = await visitor.whole(seed)
        since = await visitor.next_sequence()
        agents = await at_work(visitor, seed)
        lines = log_lines(visitor.house)
        postgres.fill_disk()
        if log_too:
            await use_up_log(postgres)
        in_flight = await look_on(visitor, FULL_SECONDS)
        assert postgres.free_bytes() < LOG_SEGMENT_BYTES
        written = {name: log_lines(visitor.house)[name] - lines[name] for name in lines}
        postgres.free_disk()
        in_flight |= await unanswered_at_last(visitor)
        await all_unharmed(visitor, undisturbed, figures, agents, since, len(in_flight))
        assert visitor.house.deaths == []
    said = postgres.log.read_text()
    assert "No space left on device" in said
    assert ("PANIC" in said) == log_too
    assert max(written.values()) / FULL_SECONDS < LINES_PER_SECOND
    figures.add("iterations over a full disk", len(agents))
    figures.add("calls in flight when the disk was full", len(in_flight))


async def at_work(visitor: Visitor, seed: int) -> Sequence[Agent]:
    """Agents whose answers take so long that all of them are at work at the same time."""
    visitor.sandbox.reset()
    slow = {"kind": "latency", "latency_seconds": SLOW_ANSWER_SECONDS, "always": True}
    visitor.sandbox.faults(slow)
    agents = [await visitor.begin_another(seed + number) for number in range(AGENTS)]
    await visitor.working(agents[0], StepKind.QUERY)
    return agents


async def use_up_log(postgres: ContainedPostgres) -> None:
    """Until the server ends of it."""

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

    await until(look, what="PostgreSQL's log to need room")


async def look_on(visitor: Visitor, seconds: float) -> set[UUID]:
    """The calls that had no answer in the ledger at some moment of that time."""
    found: set[UUID] = set()
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found |= await unanswered(visitor) or set()
        await asyncio.sleep(LOOK_SECONDS)
    return found


async def unanswered(visitor: Visitor) -> set[UUID] | None:
    """None while the ledger cannot be read."""
    try:
        async with visitor.database.transaction() as session:
            return set(await session.scalars(select(Call.id).where(Call.answered_at.is_(None))))
    except TransientError:
        return None


async def unanswered_at_last(visitor: Visitor) -> set[UUID]:
    """As soon as the ledger can be read: what was under way when the server went down is under way still."""
    found: list[set[UUID]] = []

    async def look() -> bool:
        if (read := await unanswered(visitor)) is not None:
            found.append(read)
        return bool(found)

    await until(look, what="PostgreSQL to be back", seconds=BACK_SECONDS)
    return found[0]


def log_lines(house: House) -> dict[str, int]:
    return {name: house.log(name).count("\n") for name in ACTORS}


async def all_unharmed(
    visitor: Visitor,
    undisturbed: Visit,
    figures: Figures,
    agents: Sequence[Agent],
    since: int,
    in_flight: int,
) -> None:
    for agent in agents:
        visit = await visitor.end(agent, since)
        own = Visit(visit.result, visit.faults, undisturbed.billed, 0)
        unharmed(figures, undisturbed, Trial(own, 0))
    repeated = visitor.sandbox.repeated()
    wanted = sum(undisturbed.billed.values()) * len(agents)
    assert sum(visitor.sandbox.billed().values()) == wanted + repeated
    assert repeated <= in_flight
    figures.add("of these paid twice after a full disk", repeated)
