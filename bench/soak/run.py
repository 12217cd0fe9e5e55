"""Runs the agents and takes the samples."""

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
from bench.loop.environment import Environment
from bench.loop.service_pool import ServicePool, log_warnings
from bench.soak.report import progress
from bench.soak.sampling import Run, Sample, Sampler
from cli.local.members import API

DRAIN_SECONDS: Final = 120.0
"""Maximal wait at the end for running work."""
POLL_SECONDS: Final = 2.0


async def soak(place: Environment, run: Run, interval_seconds: float) -> None:
    """Fill `run` with a sample every `interval_seconds`. SIGINT and SIGTERM end it early, in order."""
    stopped = asyncio.Event()
    for ending in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(ending, stopped.set)
    async with (
        _installation(place) as pids,
        Driver.open(place.settings) as driver,
        Sampler.open(place.settings, pids) as sampler,
    ):
        agents = await driver.create_agents(run.agents)
        await driver.activate(agents, run.period_seconds)
        began = time.monotonic()
        recorder = _Recorder(sampler, run, began)
        for number in range(ceil(run.planned_seconds / interval_seconds) + 1):
            at_seconds = min(number * interval_seconds, run.planned_seconds)
            if await _is_stopped_before(stopped, began + at_seconds):
                break
            await recorder.record()
        else:
            run.is_whole = True
        await driver.deactivate(agents)
        await recorder.wait_until_idle()
    run.complaints = log_warnings(place.home)


@asynccontextmanager
async def _installation(
    place: Environment,
) -> AsyncIterator[Callable[[], Iterable[tuple[str, int]]]]:
    """Run the installation; yields a function for its processes by name."""
    api = ApiProcess(place.settings, place.home / f"{API}.log")
    pool = ServicePool(place.settings, place.home)
    with pool.running():
        try:
            await api.start()
            yield lambda: [
                *pool.pids,
                (API, api.pid),
                ("postgres", place.postgres.pid),
                ("nats", place.nats.pid),
            ]
        finally:
            await api.end(signal.SIGTERM)


async def _is_stopped_before(stopped: asyncio.Event, deadline: float) -> bool:
    with suppress(TimeoutError):
        async with asyncio.timeout(deadline - time.monotonic()):
            await stopped.wait()
    return stopped.is_set()


class _Recorder:
    def __init__(self, sampler: Sampler, run: Run, began: float) -> None:
        self._sampler = sampler
        self._run = run
        self._began = began

    async def record(self) -> None:
        self._run.ran_seconds = time.monotonic() - self._began
        sample = await self._sample()
        if sample is not None:
            self._run.samples.append(sample)
            print(progress(sample), flush=True)

    async def wait_until_idle(self) -> None:
        """Wait until nothing runs or waits, or the time is over, or a sample fails."""
        deadline = time.monotonic() + DRAIN_SECONDS
        while time.monotonic() < deadline:
            self._run.at_rest = await self._sample()
            if self._run.at_rest is None or self._run.at_rest.is_at_rest:
                break
            await asyncio.sleep(POLL_SECONDS)

    async def _sample(self) -> Sample | None:
        """Take a sample; None if it fails. The failure is recorded and the run continues."""
        at_seconds = time.monotonic() - self._began
        try:
            return await self._sampler.sample(at_seconds)
        except (psutil.Error, psycopg.Error, NatsError, OSError) as error:
            message = f"no sample at {at_seconds:.0f} s: {type(error).__name__}: {error}"
            self._run.failures.append(message)
            print(message, file=sys.stderr, flush=True)
            return None
