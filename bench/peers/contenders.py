"""Vigil and its peers as processes that run reference iterations."""

import asyncio
import json
import os
import subprocess
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Final, Protocol
from uuid import UUID

import psutil
import psycopg

from bench.loop.driver import Driver
from bench.loop.environment import Environment
from bench.loop.service_pool import STOP_SECONDS, ServicePool

PROCESSES: Final = os.cpu_count() or 1
"""Processes of a peer, one for each core. Vigil has one for each service."""
TIMEOUT_SECONDS: Final = 600.0
"""Longest duration of an iteration: the machine may be busy with other work."""
_ROOT: Final = Path(__file__).parents[2]


class Running(Protocol):
    """A running contender."""

    @property
    def seconds(self) -> Mapping[str, float]:
        """Processor seconds of its processes so far."""

    async def run(
        self, agents: int, *, iterations: int | None = None, seconds: float | None = None
    ) -> Sequence[float]:
        """Let each agent run so many iterations one after another, or go on for so long; returns all durations."""


class Contender(Protocol):
    @property
    def name(self) -> str: ...

    def running(self) -> AbstractAsyncContextManager[Running]: ...


@dataclass(frozen=True)
class Vigil:
    place: Environment
    providers_url: str
    agents: int
    name: str = "Vigil"

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Running]:
        pool = ServicePool(self.place.settings, self.place.home, providers_url=self.providers_url)
        async with Driver.open(self.place.settings) as driver:
            agent_ids = await driver.create_agents(self.agents)
            with pool.running():
                yield _RunningVigil(driver, pool, agent_ids)


class _RunningVigil:
    def __init__(self, driver: Driver, pool: ServicePool, agent_ids: Sequence[UUID]) -> None:
        self._driver = driver
        self._pool = pool
        self._agent_ids = agent_ids

    @property
    def seconds(self) -> Mapping[str, float]:
        return self._pool.seconds

    async def run(
        self, agents: int, *, iterations: int | None = None, seconds: float | None = None
    ) -> Sequence[float]:
        loop = asyncio.get_running_loop()
        began = loop.time()

        async def run_agent(agent_id: UUID) -> list[float]:
            durations: list[float] = []
            while (iterations is None or len(durations) < iterations) and (
                seconds is None or loop.time() < began + seconds
            ):
                run = await self._driver.run(agent_id, timeout_seconds=TIMEOUT_SECONDS)
                durations.append(run.seconds)
            return durations

        runs = await asyncio.gather(*map(run_agent, self._agent_ids[:agents]))
        return [*chain.from_iterable(runs)]


@dataclass(frozen=True)
class Peer:
    """A program of `bench.peers`, in the environment of `python`, with a database of its own."""

    name: str
    place: Environment
    providers_url: str
    python: Path
    module: str
    options: Sequence[str] = ()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Running]:
        database_url = self.create_database()
        with ExitStack() as stack:
            processes = [stack.enter_context(self.process(database_url)) for _ in range(PROCESSES)]
            yield _RunningPeer(processes)

    def create_database(self) -> str:
        """Create the peer's database anew; returns its URL."""
        name = self.module + "".join(self.options).replace("--", "_")
        with psycopg.connect(self.place.postgres.dsn, autocommit=True) as connection:
            connection.execute(f"drop database if exists {name} with (force)".encode())
            connection.execute(f"create database {name}".encode())
        return self.place.postgres.url(name)

    @contextmanager
    def process(self, database_url: str) -> "Iterator[PeerProcess]":
        """Run one process of the peer; the block starts when it is ready."""
        arguments = [f"bench.peers.{self.module}", database_url, self.providers_url]
        with (self.place.home / f"{self.module}.log").open("ab") as log:
            process = psutil.Popen(
                [self.python, "-m", *arguments, *self.options],
                cwd=_ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        running = PeerProcess(process)
        try:
            running.read()
            yield running
        finally:
            running.end()


class PeerProcess:
    """A process that answers orders; see `program`."""

    def __init__(self, process: psutil.Popen) -> None:
        self._process = process

    @property
    def seconds(self) -> float:
        times = self._process.cpu_times()
        return float(times.user + times.system)

    async def run(self, **order: float | str | None) -> list[float]:
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return await asyncio.to_thread(self.read)

    def read(self) -> list[float]:
        """The next answer. Raises RuntimeError if the process has ended."""
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self._process.args} has ended: see its log")
        answer: list[float] = json.loads(line)
        return answer

    def kill(self) -> None:
        self._process.kill()

    def end(self) -> None:
        """End the process: it stops at the end of its input."""
        self._process.stdin.close()
        try:
            self._process.wait(STOP_SECONDS)
        except (psutil.TimeoutExpired, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()


class _RunningPeer:
    def __init__(self, processes: Sequence[PeerProcess]) -> None:
        self._processes = processes

    @property
    def seconds(self) -> Mapping[str, float]:
        return {"peer": sum(process.seconds for process in self._processes)}

    async def run(
        self, agents: int, *, iterations: int | None = None, seconds: float | None = None
    ) -> Sequence[float]:
        shares = [len(range(index, agents, PROCESSES)) for index in range(PROCESSES)]
        runs = [
            process.run(agents=share, iterations=iterations, seconds=seconds)
            for process, share in zip(self._processes, shares, strict=True)
            if share
        ]
        return [*chain.from_iterable(await asyncio.gather(*runs))]
