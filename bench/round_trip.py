"""`python -m bench.round_trip [NODES [FILE]]`: time and memory to import, export, import again and verify a graph.

Three edges per node; each node and edge has evidence. Each process (commands and API) may use at most 500 MiB, and both
agents must have the same fingerprint. Exit code 1 otherwise. FILE stores the generated graph for the next run; to
generate a million nodes takes ten minutes.
"""

import asyncio
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psycopg
from sqlalchemy import select

from bench.api_process import ApiProcess
from bench.graph_file import AGENT, write_graph_file
from bench.support import create_owner_token, running_engines
from cli.local.ports import free_port
from shared.database import migrate
from shared.database.engine import Database
from shared.database.tables import Agent
from shared.graph.scope import GraphScope
from shared.runtime.settings import Settings
from tests.support.canonical_graph import graph_fingerprint

NODES: Final = 100_000
MAX_BYTES: Final = 500 * 1024**2
IMPORTED_NAME: Final = "Back"
DATABASE: Final = "bench"


@dataclass(frozen=True)
class CommandRun:
    what: str
    seconds: float
    peak_bytes: int

    def __str__(self) -> str:
        return f"{self.what:<28} {self.seconds:8.1f} s  {self.peak_bytes / 1024**2:7.0f} MiB"


def main() -> int:
    nodes = int(sys.argv[1]) if len(sys.argv) > 1 else NODES
    with tempfile.TemporaryDirectory() as home, running_engines(Path(home)) as (postgres, nats):
        with psycopg.connect(postgres.dsn, autocommit=True) as connection:
            connection.execute(f"create database {DATABASE}")
        url = postgres.url(DATABASE)
        migrate.upgrade(url)
        settings = Settings(database_url=url, nats_url=nats.url, port=free_port())
        graph_file = Path(sys.argv[2]) if len(sys.argv) > 2 else Path(home) / "given.jsonl"
        _write_once(graph_file, nodes)
        return asyncio.run(_measure(settings, Path(home), graph_file))


def _write_once(graph_file: Path, nodes: int) -> None:
    if not graph_file.exists():
        partial = graph_file.with_suffix(".part")
        with _print_time("written"), partial.open("wb") as file:
            write_graph_file(file, nodes)
        partial.rename(graph_file)
    # The number of nodes in an existing file is printed by its import.
    print(f"{graph_file.stat().st_size / 1024**2:,.0f} MiB as JSON Lines", flush=True)


async def _measure(settings: Settings, home: Path, graph_file: Path) -> int:
    exported = home / "back.jsonl"
    api = ApiProcess(settings, home / "api.log")
    try:
        await api.start()
        api_environment = {"VIGIL_URL": api.url, "VIGIL_TOKEN": await create_owner_token(settings)}
        database_environment = {"VIGIL_DATABASE_URL": settings.database_url}
        runs = [
            run_vigil(database_environment, "import", graph_file),
            run_vigil(api_environment, "export", AGENT, "--output", exported),
            run_vigil(database_environment, "import", exported, "--name", IMPORTED_NAME),
        ]
        are_equal = await _graphs_are_equal(settings)
        runs.append(run_vigil(api_environment, "verify", "--all"))
        runs += [
            run_vigil(
                api_environment, "export", AGENT, "--format", file_format, "-o", home / file_format
            )
            for file_format in ("graphml", "prov")
        ]
        runs.append(CommandRun("the api, meanwhile", 0.0, api.peak_bytes()))
    finally:
        await api.end(signal.SIGTERM)
    print(runs[-1])
    return int(not are_equal or max(run.peak_bytes for run in runs) > MAX_BYTES)


def run_vigil(environment: dict[str, str], *arguments: object) -> CommandRun:
    """Run the command and print its time and memory. Raises SystemExit if it fails."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("VIGIL_")}
    argv = [sys.executable, "-m", "cli", *map(str, arguments)]
    began = time.perf_counter()
    process = os.posix_spawn(sys.executable, argv, clean | environment)
    _, status, usage = os.wait4(process, 0)
    seconds = time.perf_counter() - began
    if os.waitstatus_to_exitcode(status) != 0:
        raise SystemExit(f"vigil {' '.join(map(str, arguments))} failed")
    command = " ".join(str(word) for word in arguments if not isinstance(word, Path))
    run = CommandRun(command, seconds, usage.ru_maxrss * 1024)
    print(run, flush=True)
    return run


async def _graphs_are_equal(settings: Settings) -> bool:
    database = Database(settings.database_url, name="bench")
    try:
        hashes = set[str]()
        for name in (AGENT, IMPORTED_NAME):
            with _print_time(f"fingerprint of {name}"):
                async with database.snapshot() as session:
                    agent = (await session.scalars(select(Agent).where(Agent.name == name))).one()
                    hashes.add(
                        await graph_fingerprint(session, GraphScope(agent.owner_id, agent.id))
                    )
        print("equal by fingerprint" if len(hashes) == 1 else "THE HASHES DIFFER")
        return len(hashes) == 1
    finally:
        await database.close()


@contextmanager
def _print_time(label: str) -> Iterator[None]:
    began = time.perf_counter()
    yield
    print(f"{label:<28} {time.perf_counter() - began:8.1f} s", flush=True)


if __name__ == "__main__":
    sys.exit(main())
