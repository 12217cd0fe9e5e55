"""`python -m bench.verification [--nodes N] [--edges N] [--file FILE]`: time and memory of `vigil verify --all`.

Each node and edge has evidence: with the default of 3 edges per node there are four quotes per node. The graph is imported
into a PostgreSQL of its own, and checked twice: the processes of the API start with the first check.
"""

import argparse
import asyncio
import os
import signal
import tempfile
from pathlib import Path
from typing import Final

import psycopg

from bench.api_process import ApiProcess
from bench.graph_file import EDGES_PER_NODE, write_graph_file
from bench.round_trip import run_vigil
from bench.support import create_owner_token, running_engines
from cli.local.ports import free_port
from shared.database import migrate
from shared.runtime.settings import Settings

DATABASE: Final = "bench"
CHECKS: Final = 2
_TICKS: Final = os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument(
        "--edges", type=int, choices=range(1, EDGES_PER_NODE + 1), default=EDGES_PER_NODE
    )
    parser.add_argument("--file", type=Path, help="stores the generated graph for the next run")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as home, running_engines(Path(home)) as (postgres, nats):
        with psycopg.connect(postgres.dsn, autocommit=True) as connection:
            connection.execute(f"create database {DATABASE}")
        url = postgres.url(DATABASE)
        migrate.upgrade(url)
        graph_file = options.file or Path(home) / "graph.jsonl"
        if not graph_file.exists():
            with graph_file.open("wb") as file:
                write_graph_file(file, options.nodes, options.edges)
        settings = Settings(database_url=url, nats_url=nats.url, port=free_port())
        run_vigil({"VIGIL_DATABASE_URL": url}, "import", graph_file)
        asyncio.run(_measure(settings, Path(home)))


async def _measure(settings: Settings, home: Path) -> None:
    api = ApiProcess(settings, home / "api.log")
    await api.start()
    try:
        environment = {"VIGIL_URL": api.url, "VIGIL_TOKEN": await create_owner_token(settings)}
        for _ in range(CHECKS):
            before = _processor_seconds(api.pid)
            await asyncio.to_thread(run_vigil, environment, "verify", "--all")
            seconds = _processor_seconds(api.pid) - before
            print(f"{'processor time of the api':<28} {seconds:8.1f} s", flush=True)
        peaks = [_peak_bytes(pid) / 1024**2 for pid in _family(api.pid)]
        print(f"{'memory of its processes':<28} {', '.join(f'{peak:.0f}' for peak in peaks)} MiB")
    finally:
        await api.end(signal.SIGTERM)


def _family(pid: int) -> list[int]:
    """The process and its children."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *map(int, children)]


def _processor_seconds(pid: int) -> float:
    fields = [
        Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split() for each in _family(pid)
    ]
    return (
        sum(int(user) + int(system) for *_, user, system in (each[:13] for each in fields)) / _TICKS
    )


def _peak_bytes(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


if __name__ == "__main__":
    main()
