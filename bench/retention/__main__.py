"""`python -m bench.retention`: five agents for a year with 20 iterations a day, and the pruner after each day.

The services run the reference iteration of `bench.loop` a few times. Its rows are copied with new ids, and times that are
given, as the iterations of every day; pages are stored by the code that stores those of a search. After each day all
passes of the real pruner are made, with the shipped age limits. Exit code 1 if a table that is pruned, with its indexes,
differs by more than 5 % and 64 KiB between day 60 and the last, or `vigil verify --all` finds a fault.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from sqlalchemy import text

from bench.loop.driver import Driver
from bench.loop.environment import DATABASE
from bench.loop.service_pool import ServicePool
from bench.retention.simulation import PRUNED_TABLES, Simulation
from bench.support import provision, running_engines
from shared.database.engine import Database
from shared.runtime import logging
from shared.runtime.connections import create_database
from shared.runtime.settings import Settings

STEADY_DAY: Final = 60
MAX_CHANGE: Final = 0.05
FEW_BYTES: Final = 64 * 1024
"""A few pages more or less, of tables that have few."""
RECORDED: Final = 16
"""Iterations: so many contexts, and more, are in a chain of differences."""
KIB: Final = 1024


def main() -> int:
    arguments = _parse_arguments()
    logging.configure(service="bench", log_format="console", level="WARNING")
    with (
        tempfile.TemporaryDirectory() as home,
        running_engines(Path(home)) as (postgres, nats),
    ):
        settings = Settings(database_url=postgres.url(DATABASE), nats_url=nats.url)
        provision(settings)
        return asyncio.run(_run(settings, Path(home), arguments))


async def _run(settings: Settings, home: Path, arguments: argparse.Namespace) -> int:
    pool = ServicePool(settings, home)
    async with Driver.open(settings) as driver:
        [agent_id] = await driver.create_agents(1)
        with pool.running():
            for _ in range(RECORDED + 4):
                await driver.run(agent_id)
    database = create_database(settings, "bench", pool_size=3)
    try:
        await _publish_ends(database)
        simulation = await Simulation.begin(
            database,
            settings.database_url,
            agent_id,
            policy=settings.retention_policy,
            count=arguments.agents,
            days=arguments.days,
            recorded=RECORDED,
        )
        return await _simulate(simulation, arguments.days, arguments.iterations)
    finally:
        await database.close()


async def _publish_ends(database: Database) -> None:
    """As the scheduler does, which does not run."""
    async with database.transaction() as session:
        await session.execute(text("update iterations set end_published_at = ended_at"))


async def _simulate(simulation: Simulation, days: int, iterations: int) -> int:
    began = time.monotonic()
    for day in range(days):
        await simulation.run_day(day, iterations)
        if day + 1 in (STEADY_DAY, days):
            await simulation.measure(day + 1)
        if (day + 1) % 30 == 0:
            print(f"day {day + 1}, {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    total = days * iterations * len(simulation.agents)
    print(f"{total:,} iterations in {time.monotonic() - began:.0f} s")
    changed = _report(simulation, days)
    for name in changed:
        print(f"{name} has not kept its size", file=sys.stderr)
        for (table, index), after in simulation.index_sizes[days].items():
            if table == name:
                before = simulation.index_sizes[STEADY_DAY][table, index]
                print(f"  {index}: {before / KIB:,.0f} -> {after / KIB:,.0f} KiB", file=sys.stderr)
    began = time.monotonic()
    faults = await simulation.find_faults()
    print(f"verify --all: {len(faults)} faults in {time.monotonic() - began:.0f} s")
    for fault in faults[:20]:
        print(fault, file=sys.stderr)
    return int(bool(changed or faults))


def _report(simulation: Simulation, days: int) -> list[str]:
    """Print the sizes; returns the pruned tables that have not kept theirs."""
    before, after = simulation.sizes[STEADY_DAY], simulation.sizes[days]
    rows_before, rows_after = simulation.row_sizes[STEADY_DAY], simulation.row_sizes[days]
    changed = []
    for title, names in (
        ("pruned", PRUNED_TABLES),
        ("kept", sorted(after.keys() - {*PRUNED_TABLES})),
    ):
        print(
            f"\n{title:24} {f'day {STEADY_DAY}':>12} {f'day {days}':>12} {'change':>8} {'of rows':>8}   KiB"
        )
        for name in names:
            if after[name] == before[name] and name not in PRUNED_TABLES:
                continue
            change = after[name] / before[name] - 1
            of_rows = rows_after[name] / max(1, rows_before[name]) - 1
            sizes = f"{before[name] / KIB:12,.0f} {after[name] / KIB:12,.0f}"
            print(f"{name:24} {sizes} {change:+8.1%} {of_rows:+8.1%}")
            allowed = max(FEW_BYTES, MAX_CHANGE * before[name])
            if name in PRUNED_TABLES and abs(after[name] - before[name]) > allowed:
                changed.append(name)
    print()
    return changed


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.retention", description=__doc__)
    parser.add_argument("--days", type=int, default=365)
    parser.add_argument("--agents", type=int, default=5)
    parser.add_argument("--iterations", type=int, default=20, help="of each agent and day")
    arguments = parser.parse_args()
    if arguments.days <= STEADY_DAY:
        parser.error(f"--days must be more than {STEADY_DAY}")
    return arguments


if __name__ == "__main__":
    sys.exit(main())
