"""A whole installation in one process: two replicas of each service, killed, frozen and stopped by a seed."""

import asyncio
import gc
import hashlib
import logging
import sys
import traceback
import warnings
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import Context, copy_context
from random import Random
from typing import Any, Final, TypeVar
from uuid import UUID

import nats
import pytest
import structlog
from structlog.typing import EventDict

from services.adviser import app as adviser
from services.aggregator import app as aggregator
from services.analyzer import app as analyzer
from services.notifier import app as notifier
from services.observer import app as observer
from services.researcher import app as researcher
from services.scheduler import app as scheduler
from services.scheduler.stream_keeper import StreamKeeper
from shared import failpoints
from shared.failpoints import DIRECTORY, Failpoint
from shared.runtime import consumer
from shared.runtime.consumer import MessageConsumer
from shared.runtime.settings import Settings
from tests.support.simulation.bus import JetStream, SimulatedClient
from tests.support.simulation.clock import (
    PROCESS,
    Killed,
    Process,
    ProcessState,
    VirtualLoop,
    virtual_time,
)
from tests.support.simulation.faults import Faults
from tests.support.simulation.postgres import SimulatedPostgres
from tests.support.simulation.script import (
    MAX_OUTPUT_TOKENS,
    MODEL,
    PRICE,
    Script,
    ScriptedProvider,
    ScriptedSearch,
)

T = TypeVar("T")

REPLICAS: Final = 2
IDLE_IN_TRANSACTION_SECONDS: Final = 15.0
LONG_FREEZE_SECONDS: Final = (12.0, 40.0)
"""Longer than a lease."""
TRACE_LINES: Final = 40000

Build = Callable[[Settings, Script], MessageConsumer]
BUILDS: Final[Mapping[str, Build]] = {
    "scheduler": lambda settings, _: scheduler.build(settings),
    "observer": lambda settings, script: observer.build(settings, ScriptedProvider(script)),
    "researcher": lambda settings, script: researcher.build(
        settings, ScriptedProvider(script), ScriptedSearch(script)
    ),
    "aggregator": lambda settings, _: aggregator.build(settings),
    "analyzer": lambda settings, script: analyzer.build(settings, ScriptedProvider(script)),
    "adviser": lambda settings, script: adviser.build(settings, ScriptedProvider(script)),
    "notifier": lambda settings, _: notifier.build(settings),
}


class Trace:
    """What has happened, in order: the last lines, and a hash of all."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._hash = hashlib.sha256()
        self.count = 0
        self.lines: deque[str] = deque(maxlen=TRACE_LINES)

    def add(self, line: str) -> None:
        process = PROCESS.get()
        text = f"{self._clock():.6f} {process.name if process else '-'}: {line}"
        self.count += 1
        self.lines.append(text)
        self._hash.update(text.encode())

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()


class World:
    """Everything that one seed determines."""

    def __init__(self, postgres: SimulatedPostgres, seed: int) -> None:
        self.loop = VirtualLoop()
        self.seed = seed
        self.chance = Random(seed)
        self.faults = Faults(Random(f"faults {seed}"))
        self.trace = Trace(self.loop.time)
        self.postgres = postgres
        self.jetstream = JetStream(self.loop, Random(f"bus {seed}"), self.faults)
        postgres.trace = self.jetstream.trace = self.trace.add
        self.script = Script(
            Random(f"model {seed}"), self.faults, self._iteration_of, self.trace.add
        )
        self._context = Context()
        """Of what happens in no process."""
        self.errors: list[str] = []
        """Unexpected errors that the services have logged."""
        self.processes: dict[str, Process] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._number = 0
        self._is_over = False
        self._settings = Settings.model_validate(
            {
                "database_url": postgres.url,
                "model": MODEL,
                "prices": {MODEL: PRICE},
                "max_output_tokens": MAX_OUTPUT_TOKENS,
                "probe_pages": 0,
                "search_ttl_seconds": 0,
                "drain_seconds": 2.0,
                "scheduler_tick_seconds": 2.0,
                "openai_api_key": "none",
                "tavily_api_key": "none",
            }
        )

    def run(self, play: Callable[[], Awaitable[T]]) -> T:
        """Executes `play` with all services running."""

        async def start_and_play() -> T:
            for name in BUILDS:
                for number in range(REPLICAS):
                    self.start(f"{name}-{number}")
            return await play()

        with self._replaced():
            try:
                return self.loop.run_until_complete(start_and_play())
            finally:
                self._close()

    def start(self, name: str) -> None:
        self._number += 1
        process = self.processes[name] = Process(f"{name}#{self._number}")
        context = copy_context()
        context.run(PROCESS.set, process)
        self._tasks[name] = self.loop.create_task(self._run(name, process), context=context)

    async def _run(self, name: str, process: Process) -> None:
        service = BUILDS[name.partition("-")[0]](self._settings, self.script)
        try:
            await service.run()
        except Exception as error:
            if not self._is_over:
                self.errors.append(f"{process.name} ended: {error!r}")
            raise

    def kill(self, name: str) -> None:
        """Ends the process at once. Another one takes its place after some seconds."""
        process = self.processes[name]
        if process.state is ProcessState.DEAD:
            return
        self.trace.add(f"kill {process.name}")
        process.state = ProcessState.DEAD
        process.stash.clear()
        self.jetstream.forget(process)
        self.postgres.end_connections(process)
        self._later(self.chance.uniform(0.5, 4.0), self.start, name)

    def freeze(self, name: str) -> None:
        """Stops the process for some seconds, often longer than its leases last."""
        process = self.processes[name]
        if process.state is not ProcessState.RUNNING:
            return
        seconds = self.chance.choice(
            (self.chance.uniform(0.5, 5.0), self.chance.uniform(*LONG_FREEZE_SECONDS))
        )
        self.trace.add(f"freeze {process.name} for {seconds:.1f}")
        process.state, process.was_frozen = ProcessState.FROZEN, True
        if seconds > IDLE_IN_TRANSACTION_SECONDS:
            self._later(IDLE_IN_TRANSACTION_SECONDS, self._end_transactions, process)
        self._later(seconds, self._thaw, process)

    def stop(self, name: str) -> None:
        """Ends the process in order, as SIGTERM does."""
        process = self.processes[name]
        if process.state is not ProcessState.RUNNING or self._tasks[name].done():
            return
        self.trace.add(f"stop {process.name}")
        self._tasks[name].cancel()
        self._tasks[name].add_done_callback(lambda _: self._stopped(name, process))

    def calm(self) -> None:
        """Ends all faults. Frozen processes wake."""
        self.faults.is_calm = True
        for process in self.processes.values():
            self._thaw(process)

    async def inject(self) -> None:
        """Strikes processes at random, until cancelled."""
        while True:
            await asyncio.sleep(self.chance.uniform(0.2, 1.8))
            name = self.chance.choice(list(self.processes))
            if self.faults.happens("killed"):
                self.kill(name)
            elif self.faults.happens("frozen"):
                self.freeze(name)
            elif self.faults.happens("stopped"):
                self.stop(name)

    def _stopped(self, name: str, process: Process) -> None:
        if self.processes[name] is process and process.state is not ProcessState.DEAD:
            process.state = ProcessState.DEAD
            self.jetstream.forget(process)
            self.postgres.end_connections(process)
            self._later(0.5, self.start, name)

    def _end_transactions(self, process: Process) -> None:
        if process.state is ProcessState.FROZEN:
            self.postgres.end_transactions(process)

    def _thaw(self, process: Process) -> None:
        if process.state is ProcessState.FROZEN:
            self.trace.add(f"thaw {process.name}")
            self.loop.thaw(process)

    def _later(self, seconds: float, call: Callable[..., None], *args: Any) -> None:
        self.loop.call_later(seconds, call, *args, context=self._context)

    def _at_failpoint(self, _: Any, point: Failpoint) -> None:
        process = PROCESS.get()
        if process is None or process.state is ProcessState.DEAD:
            return
        self.trace.add(f"at {point}")
        name = process.name.partition("#")[0]
        if self.processes[name] is not process:
            return
        if self.faults.happens("killed at a failpoint"):
            self.kill(name)
            raise Killed
        if self.faults.happens("frozen at a failpoint"):
            self.freeze(name)

    def _lose(self, process: Process) -> str | None:
        for when in ("before", "after"):
            if self.faults.happens(f"connection lost {when} a request"):
                self.trace.add(f"connection lost {when} a request")
                return when
        return None

    def _iteration_of(self, agent_id: UUID) -> int:
        query = "select coalesce(max(number), 0) from iterations where agent_id = %s"
        row = self.postgres.monitor.execute(query, [agent_id]).fetchone()
        return int(row[0]) if row else 0

    def _note_log(self, _: Any, method: str, event: EventDict) -> EventDict:
        if self._is_over:
            raise structlog.DropEvent
        error = event.get("error", "")
        self.trace.add(f"{method}: {event['event']} {error}")
        if method in ("exception", "critical"):
            self.errors.append(f"{event['event']}: {traceback.format_exc(limit=-4)}")
        raise structlog.DropEvent

    @contextmanager
    def _replaced(self) -> Iterator[None]:
        """Replaces the clocks, the I/O and the failpoints of the product for the time of the block."""
        before = structlog.get_config()
        with (
            virtual_time(self.loop, self.seed),
            self.postgres.running(self.loop, Random(f"postgres {self.seed}"), self._lose),
            pytest.MonkeyPatch.context() as patch,
        ):
            patch.setenv(DIRECTORY, "simulation")
            patch.setattr(failpoints, "_send_signal_if_armed", self._at_failpoint)
            patch.setattr(nats, "connect", self._connect)
            patch.setattr(consumer, "find_consumer_fault", _no_fault)
            patch.setattr(Settings, "worker_name", property(_process_name))
            patch.setattr(StreamKeeper, "run", _forever)
            logging.disable()
            structlog.configure(processors=[self._note_log], cache_logger_on_first_use=False)
            try:
                yield
            finally:
                structlog.configure(**before)
                logging.disable(logging.NOTSET)

    async def _connect(self, **_: Any) -> SimulatedClient:
        return SimulatedClient(self.jetstream)

    def _close(self) -> None:
        """Ends all tasks without letting their cleanup have effects."""
        self._is_over = True
        for process in self.processes.values():
            process.state = ProcessState.DEAD
        self.postgres.end_all(self.processes.values())
        with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "unraisablehook", _ignore)
            warnings.simplefilter("ignore")
            self.loop.end_tasks()
            self.loop.close()
            self._tasks.clear()
            gc.collect()


def _process_name(_: Settings) -> str:
    process = PROCESS.get()
    assert process is not None
    return process.name


def _ignore(_: Any) -> None:
    """Of what the cleanup of killed processes raises."""


async def _forever(*_: Any) -> None:
    """Does nothing, as a loop that finds nothing to do."""
    await asyncio.get_running_loop().create_future()


async def _no_fault(*_: Any) -> None:
    """The consumers of the simulated JetStream are as they must be."""
