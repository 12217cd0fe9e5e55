"""What the simulated PostgreSQL does with requests that wait for a lock, and with a simulation that fails."""

import asyncio
from collections.abc import Coroutine
from contextvars import copy_context
from typing import Any

import pytest

from shared.database.engine import Database
from tests.support.simulation import play
from tests.support.simulation.clock import PROCESS, Process
from tests.support.simulation.play import simulate
from tests.support.simulation.postgres import SimulatedPostgres
from tests.support.simulation.world import World

SEED = 7
LOCK = b"select pg_advisory_xact_lock(1)"
WAITING = "select pid from pg_locks where locktype = 'advisory' and not granted"
OTHER_BACKENDS = """
select count(*) from pg_stat_activity
where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid()
"""


def calm_world(postgres: SimulatedPostgres) -> World:
    world = World(postgres, SEED)
    world.faults.is_calm = True
    return world


class TwoProcesses:
    """One process holds a lock, and another one waits for it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.database = Database(world.postgres.url, name="test")
        self.release = asyncio.Event()

    def start(self, name: str, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        process = self.world.processes[name] = Process(name)
        context = copy_context()
        context.run(PROCESS.set, process)
        return asyncio.get_running_loop().create_task(coroutine, context=context)

    async def hold(self) -> None:
        async with self.database.begin() as transaction:
            await transaction.connection.execute("begin")
            await transaction.connection.execute(LOCK)
            await self.release.wait()
            await transaction.connection.commit()

    async def lock(self) -> None:
        async with self.database.connection() as connection:
            await connection.execute(LOCK)

    async def block(self) -> tuple[asyncio.Task[None], asyncio.Task[None]]:
        holder = self.start("holder", self.hold())
        await asyncio.sleep(1)
        waiter = self.start("waiter", self.lock())
        await asyncio.sleep(1)
        assert any(line.endswith("waiter: waits for a lock") for line in self.world.trace.lines)
        return holder, waiter


def test_a_cancelled_request_stops_waiting_for_its_lock(
    simulated_postgres: SimulatedPostgres,
) -> None:
    """Its connection can be closed, and the requests of others go on."""
    world = calm_world(simulated_postgres)

    async def run() -> None:
        processes = TwoProcesses(world)
        holder, waiter = await processes.block()
        waiter.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiter
        assert simulated_postgres.monitor.execute(WAITING).fetchall() == []
        processes.release.set()
        await holder
        await processes.start("third", processes.lock())

    world.run(run)


def test_a_failed_simulation_leaves_no_server_process(
    simulated_postgres: SimulatedPostgres,
) -> None:
    """Also none that was stopped while it waited for a lock."""
    world = calm_world(simulated_postgres)

    async def run() -> None:
        await TwoProcesses(world).block()
        raise OSError("failed")

    with pytest.raises(OSError, match="failed"):
        world.run(run)
    assert simulated_postgres.monitor.execute(OTHER_BACKENDS).fetchall() == [(0,)]


def test_a_failure_names_its_seed_and_shows_its_trace(
    simulated_postgres: SimulatedPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(self: play._Play) -> list[str]:
        self._world.trace.add("the last line")
        raise OSError("failed")

    monkeypatch.setattr(play._Play, "run", fail)
    with pytest.raises(OSError, match="failed") as failure:
        simulate(simulated_postgres, SEED)
    [note] = failure.value.__notes__
    assert note.startswith(f"seed {SEED}, the end of its trace:")
    assert note.endswith("the last line")
