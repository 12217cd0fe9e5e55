"""Lets the agents run, and takes the samples."""

import asyncio
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from math import ceil
from typing import Final

import psutil
import psycopg
from nats.errors import Error as NatsError

from bench.api_process import ApiProcess
from bench.loop.driver import Driver
from bench.loop.fleet import Fleet, complaints
from bench.loop.measuring import Place
from bench.soak.sample import Run, Sample
from bench.soak.sampling import Sampler
from bench.soak.telling import progress
from cli.local.members import API

REST_SECONDS: Final = 120.0
"""How long is waited at the end for what still runs."""
LOOK_AGAIN_SECONDS: Final = 2.0


async def soak(place: Place, run: Run, apart_seconds: float) -> None:
    """Fills `run`, with a sample every `apart_seconds`. SIGINT and SIGTERM end it early, in order."""
    told = asyncio.Event()
    for ending in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(ending, told.set)
    async with (
        _installation(place) as pids,
        Driver.of(place.settings) as driver,
        Sampler.of(place.settings, pids) as sampler,
    ):
        agents = await driver.make_agents(run.agents)
        await driver.let_run(agents, run.period_seconds)
        began = time.monotonic()
        looks = _Looks(sampler, run, began)
        for number in range(ceil(run.wanted_seconds / apart_seconds) + 1):
            at_seconds = min(number * apart_seconds, run.wanted_seconds)
            if await _ends_before(told, began + at_seconds):
                break
            await looks.look()
        else:
            run.is_whole = True
        await driver.let_rest(agents)
        await looks.wait_for_rest()
    run.complaints = complaints(place.home)


@asynccontextmanager
async def _installation(place: Place) -> AsyncIterator[Callable[[], Iterable[tuple[str, int]]]]:
    """All of it at work; its processes by name."""
    api = ApiProcess(place.settings, place.home / f"{API}.log")
    fleet = Fleet(place.settings, place.home)
    with fleet.at_work():
        try:
            await api.start()
            yield lambda: [
                *fleet.pids,
                (API, api.pid),
                ("postgres", place.postgres.pid),
                ("nats", place.nats.pid),
            ]
        finally:
            await api.end(signal.SIGTERM)


async def _ends_before(told: asyncio.Event, deadline: float) -> bool:
    with suppress(TimeoutError):
        async with asyncio.timeout(deadline - time.monotonic()):
            await told.wait()
    return told.is_set()


class _Looks:
    def __init__(self, sampler: Sampler, run: Run, began: float) -> None:
        self._sampler = sampler
        self._run = run
        self._began = began

    async def look(self) -> None:
        self._run.ran_seconds = time.monotonic() - self._began
        sample = await self._take()
        if sample is not None:
            self._run.samples.append(sample)
            print(progress(sample), flush=True)

    async def wait_for_rest(self) -> None:
        """Until nothing runs and nothing waits, or it has been waited for too long, or cannot be seen."""
        deadline = time.monotonic() + REST_SECONDS
        while time.monotonic() < deadline:
            self._run.at_rest = await self._take()
            if self._run.at_rest is None or self._run.at_rest.is_at_rest:
                break
            await asyncio.sleep(LOOK_AGAIN_SECONDS)

    async def _take(self) -> Sample | None:
        """None where it could not be taken: that is told, and the rest of the hour is not lost."""
        at_seconds = time.monotonic() - self._began
        try:
            return await self._sampler.take(at_seconds)
        except (psutil.Error, psycopg.Error, NatsError, OSError) as error:
            said = f"no sample at {at_seconds:.0f} s: {type(error).__name__}: {error}"
            self._run.failures.append(said)
            print(said, file=sys.stderr, flush=True)
            return None
