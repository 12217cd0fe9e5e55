"""Inject faults into an installation: kills, freezes, stops, engine outages."""

import asyncio
import json
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Sequence
from typing import Final

from cli.local.engines import Engine
from shared.errors import TransientError
from tests.support.chaos.scenario_run import ScenarioRunner

PAUSE_SECONDS: Final = (0.2, 1.5)
CALLS_OF_A_STEP: Final = 2
"""The most calls that a step has in flight: the mission's two searches."""
CALLS_OF_A_PROCESS: Final = 4 * CALLS_OF_A_STEP
WEIGHTS: Final = {"kill": 8, "freeze": 3, "stop": 2, "kill nats": 1, "kill postgres": 1}


class FaultInjector:
    """Injects random faults, by a seed; `fault_counts` counts them by kind."""

    def __init__(self, runner: ScenarioRunner, seed: int, *, freeze_seconds: float) -> None:
        self._runner = runner
        self._installation = runner.installation
        self._chance = random.Random(seed)
        self._freeze_seconds = freeze_seconds
        self._waking: set[asyncio.Task[None]] = set()
        self.fault_counts: Counter[str] = Counter()
        self._in_flight = 0
        self._released_steps_before = self._released_steps()

    @property
    def in_flight(self) -> int:
        """Calls in flight when their worker was killed or frozen, or when it handed over or lost its step."""
        return self._in_flight + CALLS_OF_A_STEP * (
            self._released_steps() - self._released_steps_before
        )

    async def run(self, seconds: float) -> None:
        """Inject faults for so long, then wake the frozen processes."""
        deadline = time.monotonic() + seconds
        kinds, weights = list(WEIGHTS), list(WEIGHTS.values())
        while time.monotonic() < deadline:
            await self.inject(self._chance.choices(kinds, weights)[0])
            await asyncio.sleep(self._chance.uniform(*PAUSE_SECONDS))
        await asyncio.gather(*self._waking)

    async def inject(self, kind: str) -> None:
        self.fault_counts[kind] += 1
        match kind:
            case "kill nats":
                self._kill(self._installation.nats)
            case "kill postgres":
                await self._count_all()
                self._kill(self._installation.postgres)
            case _:
                name = self._chance.choice(sorted(self._installation.process_pool.pids()))
                pid = self._installation.process_pool.pids()[name]
                await self._inject_into_service(kind, pid)

    async def stop_engines(self, engines: Sequence[Engine], seconds: float) -> None:
        """Kill the engines, and restart them only after so long."""
        names = {engine.name for engine in engines}
        self.fault_counts[f"{' and '.join(sorted(names))} away for {seconds:.0f} s"] += 1
        await self._count_all()
        self._installation.not_restarted |= names
        for engine in engines:
            self._kill(engine)
        await asyncio.sleep(seconds)
        self._installation.not_restarted -= names

    async def _inject_into_service(self, kind: str, pid: int) -> None:
        signals = {"kill": signal.SIGKILL, "freeze": signal.SIGSTOP, "stop": signal.SIGTERM}
        os.kill(pid, signals[kind])
        if kind == "freeze":
            wake_task = asyncio.create_task(self._wake(pid))
            self._waking.add(wake_task)
            wake_task.add_done_callback(self._waking.discard)
        if kind != "stop":
            await self._count(pid)

    async def _wake(self, pid: int) -> None:
        await asyncio.sleep(self._freeze_seconds)
        try:
            os.kill(pid, signal.SIGCONT)
        except ProcessLookupError:
            self.fault_counts["found dead on waking"] += 1

    async def _count(self, pid: int) -> None:
        """Count the calls that the process has in flight; while the database is down, the most it can have."""
        try:
            self._in_flight += await self._runner.in_flight(pid)
        except TransientError:
            self._in_flight += CALLS_OF_A_PROCESS

    async def _count_all(self) -> None:
        """Count all calls in flight: a response that cannot be committed in time is lost with its lease."""
        try:
            self._in_flight += await self._runner.in_flight()
        except TransientError:
            self._in_flight += CALLS_OF_A_PROCESS

    def _released_steps(self) -> int:
        """The number of steps that workers logged as handed over or lost."""
        lines = self._installation.log_lines()
        handed_over = [json.loads(line) for line in lines if '"released unfinished work"' in line]
        lost = [line for line in lines if "is no longer its own" in line]
        return sum(int(record["messages"]) for record in handed_over) + len(lost)

    def _kill(self, engine: Engine) -> None:
        if engine.alive():
            os.kill(engine.pid, signal.SIGKILL)
