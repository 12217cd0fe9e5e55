"""Does to a house what befalls machines: deaths, freezes, orders to stop, engines that are away."""

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
from tests.support.chaos.visit import Visitor

PAUSE_SECONDS: Final = (0.2, 1.5)
CALLS_OF_A_STEP: Final = 2
"""What a step can have in flight at most: the mission's two searches."""
CALLS_OF_A_PROCESS: Final = 4 * CALLS_OF_A_STEP
WEIGHTS: Final = {"kill": 8, "freeze": 3, "stop": 2, "kill nats": 1, "kill postgres": 1}


class Monkey:
    """Strikes at random, from a seed; `deeds` says what was done."""

    def __init__(self, visitor: Visitor, seed: int, *, freeze_seconds: float) -> None:
        self._visitor = visitor
        self._house = visitor.house
        self._chance = random.Random(seed)
        self._freeze_seconds = freeze_seconds
        self._waking: set[asyncio.Task[None]] = set()
        self.deeds: Counter[str] = Counter()
        self._in_flight = 0
        self._given_up_before = self._given_up()

    @property
    def in_flight(self) -> int:
        """Calls that were under way when their worker was struck, or gave its step up: told to stop, or too late."""
        return self._in_flight + CALLS_OF_A_STEP * (self._given_up() - self._given_up_before)

    async def rage(self, seconds: float) -> None:
        """Strikes again and again for so long, then wakes whom it froze."""
        until = time.monotonic() + seconds
        kinds, weights = list(WEIGHTS), list(WEIGHTS.values())
        while time.monotonic() < until:
            await self.strike(self._chance.choices(kinds, weights)[0])
            await asyncio.sleep(self._chance.uniform(*PAUSE_SECONDS))
        await asyncio.gather(*self._waking)

    async def strike(self, deed: str) -> None:
        self.deeds[deed] += 1
        match deed:
            case "kill nats":
                self._kill(self._house.nats)
            case "kill postgres":
                await self._count_all()
                self._kill(self._house.postgres)
            case _:
                name = self._chance.choice(sorted(self._house.fleet.pids()))
                pid = self._house.fleet.pids()[name]
                await self._strike_actor(deed, pid)

    async def take_away(self, engines: Sequence[Engine], seconds: float) -> None:
        """Nobody starts them again for so long."""
        names = {engine.name for engine in engines}
        self.deeds[f"{' and '.join(sorted(names))} away for {seconds:.0f} s"] += 1
        await self._count_all()
        self._house.kept_down |= names
        for engine in engines:
            self._kill(engine)
        await asyncio.sleep(seconds)
        self._house.kept_down -= names

    async def _strike_actor(self, deed: str, pid: int) -> None:
        sent = {"kill": signal.SIGKILL, "freeze": signal.SIGSTOP, "stop": signal.SIGTERM}[deed]
        os.kill(pid, sent)
        if deed == "freeze":
            waking = asyncio.create_task(self._wake(pid))
            self._waking.add(waking)
            waking.add_done_callback(self._waking.discard)
        if deed != "stop":
            await self._count(pid)

    async def _wake(self, pid: int) -> None:
        await asyncio.sleep(self._freeze_seconds)
        try:
            os.kill(pid, signal.SIGCONT)
        except ProcessLookupError:
            self.deeds["found dead on waking"] += 1

    async def _count(self, pid: int) -> None:
        """What whoever was struck had in flight; the most it can be, where nobody is there to ask."""
        try:
            self._in_flight += await self._visitor.in_flight(pid)
        except TransientError:
            self._in_flight += CALLS_OF_A_PROCESS

    async def _count_all(self) -> None:
        """All that is in flight: an answer that cannot be committed in time is lost with its lease."""
        try:
            self._in_flight += await self._visitor.in_flight()
        except TransientError:
            self._in_flight += CALLS_OF_A_PROCESS

    def _given_up(self) -> int:
        """How many steps workers have said that they handed over or lost."""
        lines = self._house.log_lines()
        handed_over = [
            json.loads(line) for line in lines if '"handed over unfinished work"' in line
        ]
        lost = [line for line in lines if "is no longer its own" in line]
        return sum(int(told["messages"]) for told in handed_over) + len(lost)

    def _kill(self, engine: Engine) -> None:
        if engine.alive():
            os.kill(engine.pid, signal.SIGKILL)
