"""`python -m bench.scaling`: iterations per second by replicas, quiet iterations, the engines' limits, and sizes of fleets.

The shipped services run in a process each, on NATS and PostgreSQL with the durability of a release. `--computed` prints
only the sizes, from costs of earlier runs.
"""

import argparse
import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from bench.loop import counters
from bench.loop.driver import Driver
from bench.loop.environment import DATABASE, Environment
from bench.loop.makespan import ideal_makespan
from bench.loop.scripted_model import INSIGHTS, QUERIES
from bench.loop.service_pool import ServicePool
from bench.scaling.engines import measure_nats, measure_postgres
from bench.scaling.fleet import SLOTS, Costs, Fleet, Usage, size
from bench.scaling.quiet import measure_quiet
from bench.support import provision, running_engines
from shared.runtime.settings import Settings

CASES: Final = ((0.2, 20), (2.0, 6))
"""Seconds of a call, and agents that run an iteration at the same time: each must end within the driver's minute."""
REPLICAS: Final = (1, 2, 4)
FLEETS: Final = (100, 1_000, 10_000, 100_000)
INTERVAL_SECONDS: Final = 3600.0
WORKING: Final = 37 / 288
"""Share of iterations that are not quiet, on a corpus of which a tenth changes in a day (`make bench-day`)."""
CALL_SECONDS: Final = 5.0

PAGES: Final = 100
"""That an agent's graph rests on."""

COSTS: Final = Costs(
    # An earlier run of docs/performance.md, 32 agents; what HTTP adds (165.1 - 133.7 ms) is spread over the callers.
    working=Usage(
        service_ms={
            "scheduler": 1.2,
            "observer": 11.0,
            "researcher": 63.0,
            "aggregator": 8.8,
            "analyzer": 20.0,
            "adviser": 7.0,
            "postgres": 44.9,
            "nats": 6.9,
        },
        statements=250.9,
        messages=15.0,
        wal_bytes=296_600,
    ),
    # `measure_quiet`, without what its pages take; statements as the share of its commits, 3.0 of 30.1.
    quiet=Usage(
        service_ms={
            "scheduler": 1.7,
            "observer": 2.0,
            "researcher": 0.4,
            "aggregator": 2.1,
            "analyzer": 0.0,
            "adviser": 0.0,
            "postgres": 4.0,
            "nats": 2.5,
        },
        statements=25.0,
        messages=3.0,
        wal_bytes=4_000,
    ),
    page_ms=0.9,
    # docs/soak.md
    table_bytes=130_000,
    stream_bytes=10_043,
    calls={
        "observer": (1, 1),
        "researcher": (QUERIES, 4),
        "analyzer": (INSIGHTS, 1),
        "adviser": (1, 1),
    },
)


async def _iterations_a_second(
    place: Environment, replicas: int, call_seconds: float, agents: int
) -> tuple[float, float]:
    """Measured and ideal; the ideal has the same slots, and only calls take time."""
    pool = ServicePool(
        place.settings,
        place.home,
        delay_seconds=call_seconds,
        researchers=replicas,
        analyzers=replicas,
    )
    slots = dict(SLOTS) | {name: SLOTS[name] * replicas for name in ("researcher", "analyzer")}
    async with Driver.open(place.settings) as driver:
        with pool.running():
            agent_ids = await driver.create_agents(agents)
            await driver.run(agent_ids[0])  # warm-up
            began = time.perf_counter()
            await asyncio.gather(*(driver.run(agent_id) for agent_id in agent_ids))
            seconds = time.perf_counter() - began
    return agents / seconds, agents / ideal_makespan(agents, slots, call_seconds)


async def _measure_replicas(place: Environment) -> None:
    print("| call | agents | researchers, analyzers | iterations/s | ideal | of the ideal | load |")
    print("|---|---|---|---|---|---|---|", flush=True)
    for call_seconds, agents in CASES:
        for replicas in REPLICAS:
            rate, ideal = await _iterations_a_second(place, replicas, call_seconds, agents)
            load = os.getloadavg()[0]
            print(
                f"| {call_seconds:g} s | {agents} | {replicas} each | {rate:.2f} | {ideal:.2f}"
                f" | {rate / ideal:.0%} | {load:.0f} |",
                flush=True,
            )


async def _measure_quiet(place: Environment) -> None:
    print(
        "| pages | iteration | ms | of the Observer | of PostgreSQL | commits | messages | WAL kB |"
    )
    print("|---|---|---|---|---|---|---|---|", flush=True)
    for each in await measure_quiet(place):
        for kind, usage in (("working", each.working), ("quiet", each.quiet)):
            print(
                f"| {each.pages} | {kind} | {_service_ms(usage):.1f} | {usage.seconds['observer'] * 1000:.1f}"
                f" | {usage.seconds['postgres'] * 1000:.1f} | {usage.commits:.1f} | {usage.messages:.0f}"
                f" | {usage.wal_bytes / 1000:.0f} |",
                flush=True,
            )
        others = {name: f"{value * 1000:.1f}" for name, value in each.quiet.seconds.items()}
        print(f"ms of a quiet iteration: {others}", file=sys.stderr)


async def _measure_engines(place: Environment) -> None:
    messages = await measure_nats(place.settings.nats_url, 5.0)
    reads, commits = await measure_postgres(place.postgres.url("postgres"), 5.0)
    print(
        f"NATS: {messages:,.0f} messages/s, PostgreSQL: {reads:,.0f} reads/s, {commits:,.0f} commits/s;"
        f" load {os.getloadavg()[0]:.0f}"
    )


MEASURED: Final = {
    "replicas": _measure_replicas,
    "quiet": _measure_quiet,
    "engines": _measure_engines,
}


def _service_ms(usage: counters.Usage) -> float:
    return sum(seconds * 1000 for name, seconds in usage.seconds.items() if name != "driver")


def size_table() -> Iterator[str]:
    """Computed for FLEETS, an interval of an hour and calls of 5 s."""
    names = (
        "agents", "working iterations/s", "researchers", "analyzers", "observers", "advisers", "cores",
        "statements/s", "messages/s", "WAL MB/s", "tables GB/day", "stream GB/day",
    )  # fmt: skip
    yield f"| {' | '.join(names)} |"
    yield "|---" * len(names) + "|"
    for agents in FLEETS:
        needed = size(Fleet(agents, INTERVAL_SECONDS, WORKING, CALL_SECONDS, PAGES), COSTS)
        cells = (
            f"{agents:,}",
            f"{needed.working_per_second:.3f}",
            *(
                str(needed.replicas[name])
                for name in ("researcher", "analyzer", "observer", "adviser")
            ),
            f"{needed.all_cores:.2f}",
            f"{needed.statements_per_second:,.0f}",
            f"{needed.messages_per_second:,.1f}",
            f"{needed.wal_bytes_per_second / 1e6:.2f}",
            f"{needed.table_bytes_per_day / 1e9:.2f}",
            f"{needed.stream_bytes_per_day / 1e9:.3f}",
        )
        yield f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.scaling", description=__doc__)
    parser.add_argument("--computed", action="store_true", help="only compute the sizes")
    parser.add_argument("--only", choices=MEASURED, help="measure only this")
    arguments = parser.parse_args()
    if not arguments.computed:
        for name in [arguments.only] if arguments.only else MEASURED:
            _measure(name)
    print("\n".join(size_table()))


def _measure(name: str) -> None:
    """On engines of its own: agents that run share nothing with earlier ones."""
    with (
        tempfile.TemporaryDirectory() as home,
        running_engines(Path(home), durable=True) as (postgres, nats),
    ):
        settings = Settings(database_url=postgres.url(DATABASE), nats_url=nats.url)
        provision(settings)
        asyncio.run(MEASURED[name](Environment(settings, Path(home), postgres, nats)))
    print()


if __name__ == "__main__":
    main()
