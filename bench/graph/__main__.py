"""`python -m bench.graph [NODES …]`: what the context, reads and writes cost in one agent's graph as it grows.

Graphs of 1,000, 100,000 and 1,000,000 nodes unless others are named, three edges to a node, with a hub, sources and
evidence, on an embedded PostgreSQL; in process, without HTTP. Exit code 1 if a p50 is not below its goal, or more than
twice that of the first graph. $VIGIL_BENCH_REQUESTS sets the number of runs of each.
"""

import asyncio
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import psycopg

from bench.graph.filling import fill
from bench.graph.measuring import Timing, measure
from cli.local.postgres import EmbeddedPostgres
from shared.database import migrate

SIZES: Final = (1_000, 100_000, 1_000_000)
MAX_GROWTH: Final = 2.0
"""Maximal growth of a p50 with a goal, from the first graph to any other."""


def main(arguments: Sequence[str]) -> int:
    sizes = [int(argument.replace(",", "")) for argument in arguments] or list(SIZES)
    times = int(os.environ.get("VIGIL_BENCH_REQUESTS") or 200)
    with tempfile.TemporaryDirectory() as home:
        postgres = EmbeddedPostgres(
            Path(home) / "postgres", Path(home) / "postgres.log", durable=False
        )
        try:
            postgres.start()
            missed: list[str] = []
            first: list[Timing] = []
            for nodes in sizes:
                timings = _measure_size(postgres, nodes, times)
                first = first or timings
                missed += print_table(nodes, timings, first)
        finally:
            postgres.stop()
    print("\n".join(["", *missed] if missed else ["", "All goals are met."]))
    return int(bool(missed))


def print_table(nodes: int, timings: Sequence[Timing], first: Sequence[Timing]) -> list[str]:
    """Print a table and return the missed goals."""
    print(f"\n{f'{nodes:,} nodes':<34}{'p50':>8}{'p95':>8}{'goal':>7}  ms   times the first")
    missed = []
    for timing, first_timing in zip(timings, first, strict=True):
        growth = timing.p50_seconds / first_timing.p50_seconds
        goal = "" if timing.goal_seconds is None else f"{timing.goal_seconds * 1000:.0f}"
        print(
            f"{timing.name:<34}{timing.p50_seconds * 1000:8.1f}{timing.p95_seconds * 1000:8.1f}{goal:>7}{growth:13.1f}",
            flush=True,
        )
        missed += [
            f"{nodes:,} nodes, {timing.name}: {why}" for why in _missed_goals(timing, growth)
        ]
    return missed


def _missed_goals(timing: Timing, growth: float) -> list[str]:
    if timing.goal_seconds is None:
        return []
    reasons = []
    if timing.p50_seconds >= timing.goal_seconds:
        reasons.append(
            f"{timing.p50_seconds * 1000:.1f} ms, not below {timing.goal_seconds * 1000:.0f}"
        )
    if growth > MAX_GROWTH:
        reasons.append(
            f"{growth:.1f} times what it takes in the first graph, more than {MAX_GROWTH}"
        )
    return reasons


def _measure_size(postgres: EmbeddedPostgres, nodes: int, times: int) -> list[Timing]:
    name = f"bench_{nodes}"
    with psycopg.connect(postgres.dsn, autocommit=True) as connection:
        connection.execute(f"create database {name}".encode())
    migrate.upgrade(postgres.url(name))
    filled = fill(postgres.url(name), nodes)
    return asyncio.run(measure(postgres.url(name), filled, times))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
