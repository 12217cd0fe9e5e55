"""`python -m bench.graph [NODES …]`: what the context, looks and writes cost in one agent's graph as it grows.

Graphs of 1,000, 100,000 and 1,000,000 nodes unless others are named, three edges to a node, with a hub, sources and
evidence, on an embedded PostgreSQL; in process, without HTTP. Exit code 1 where a p50 is not below its goal, or more than
twice that of the first graph. $VIGIL_BENCH_REQUESTS is how often each is done.
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
from bench.graph.measuring import Measured, measure
from cli.local.postgres import EmbeddedPostgres
from shared.database import migrate

SIZES: Final = (1_000, 100_000, 1_000_000)
MOST_GROWTH: Final = 2.0
"""Of a p50 that has a goal, from the first graph to any other."""


def main(arguments: Sequence[str]) -> int:
    sizes = [int(each.replace(",", "")) for each in arguments] or list(SIZES)
    times = int(os.environ.get("VIGIL_BENCH_REQUESTS") or 200)
    with tempfile.TemporaryDirectory() as home:
        postgres = EmbeddedPostgres(
            Path(home) / "postgres", Path(home) / "postgres.log", durable=False
        )
        try:
            postgres.start()
            missed: list[str] = []
            first: list[Measured] = []
            for nodes in sizes:
                found = _one(postgres, nodes, times)
                first = first or found
                missed += told(nodes, found, first)
        finally:
            postgres.stop()
    print("\n".join(["", *missed] if missed else ["", "All goals are met."]))
    return int(bool(missed))


def told(nodes: int, found: Sequence[Measured], first: Sequence[Measured]) -> list[str]:
    """Prints a table; what of it misses a goal, in words."""
    print(f"\n{f'{nodes:,} nodes':<34}{'p50':>8}{'p95':>8}{'goal':>7}  ms   times the first")
    missed = []
    for each, least in zip(found, first, strict=True):
        growth = each.p50_seconds / least.p50_seconds
        goal = "" if each.goal_seconds is None else f"{each.goal_seconds * 1000:.0f}"
        print(
            f"{each.name:<34}{each.p50_seconds * 1000:8.1f}{each.p95_seconds * 1000:8.1f}{goal:>7}{growth:13.1f}",
            flush=True,
        )
        missed += [f"{nodes:,} nodes, {each.name}: {why}" for why in _misses(each, growth)]
    return missed


def _misses(each: Measured, growth: float) -> list[str]:
    if each.goal_seconds is None:
        return []
    why = []
    if each.p50_seconds >= each.goal_seconds:
        why.append(f"{each.p50_seconds * 1000:.1f} ms, not below {each.goal_seconds * 1000:.0f}")
    if growth > MOST_GROWTH:
        why.append(f"{growth:.1f} times what it takes in the first graph, more than {MOST_GROWTH}")
    return why


def _one(postgres: EmbeddedPostgres, nodes: int, times: int) -> list[Measured]:
    name = f"bench_{nodes}"
    with psycopg.connect(postgres.dsn, autocommit=True) as connection:
        connection.execute(f"create database {name}".encode())
    migrate.upgrade(postgres.url(name))
    filled = fill(postgres.url(name), nodes)
    return asyncio.run(measure(postgres.url(name), filled, times))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
