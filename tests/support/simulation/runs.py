"""Runs many simulated installations in several processes."""

import sys
import time
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing import get_context

from tests.support.simulation.installation import SimulatedInstallation
from tests.support.simulation.scheduler import ViolationError
from tests.support.simulation.statistics import Statistics

RUNS_PER_TASK = 100
SECONDS_PER_REPORT = 20.0

Result = tuple[Statistics, str | None]
"""What happened, and the first violation with its seed."""


def run_installations(first_seed: int) -> Result:
    total = Statistics()
    for seed in range(first_seed, first_seed + RUNS_PER_TASK):
        try:
            total.add(SimulatedInstallation(seed).run())
        except ViolationError as error:
            return total, f"seed {seed}: {error}"
    return total, None


def run_many(*, joins: int, steps: int, processes: int, first_seed: int) -> Result:
    """Run installations until they have made so many joins and steps, or to the first violation."""
    total = Statistics()
    reported_at = time.monotonic()
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        tasks: list[Future[Result]] = []
        next_seed = first_seed
        while tasks or total.joins < joins or total.steps < steps:
            while len(tasks) < 2 * processes and (total.joins < joins or total.steps < steps):
                tasks.append(pool.submit(run_installations, next_seed))
                next_seed += RUNS_PER_TASK
            statistics, violation = tasks.pop(0).result()
            total.add(statistics)
            if violation is not None:
                pool.shutdown(cancel_futures=True)
                return total, violation
            if time.monotonic() > reported_at + SECONDS_PER_REPORT:
                reported_at = time.monotonic()
                print(f"{total.joins:,} joins, {total.steps:,} steps", file=sys.stderr, flush=True)
    return total, None
