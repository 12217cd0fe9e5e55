"""`python -m bench.round_trip [NODES [FILE]]`: a graph imported, exported, imported again, verified; in what time and
memory.

Three edges to a node, each node and edge with its evidence. Every process that takes part (the commands, and the api) may
hold 500 MiB at most, and the two agents must have one canonical hash. Exit code 1 where it is otherwise. FILE is where the
graph is kept for the next time, which then need not write it: of a million nodes that takes ten minutes.
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
from bench.engines import engines
from bench.graph_file import AGENT, write
from bench.owner import owners_token
from cli.local.ports import free_port
from shared.database import migrate
from shared.database.engine import Database
from shared.database.tables import Agent
from shared.graph.scope import Scope
from shared.runtime.settings import Settings
from tests.support.canonical_graph import canonical_hash

NODES: Final = 100_000
MOST_BYTES: Final = 500 * 1024**2
BACK: Final = "Back"
DATABASE: Final = "bench"


@dataclass(frozen=True)
class Ran:
    what: str
    seconds: float
    peak_bytes: int

    def __str__(self) -> str:
        return f"{self.what:<28} {self.seconds:8.1f} s  {self.peak_bytes / 1024**2:7.0f} MiB"


def main() -> int:
    nodes = int(sys.argv[1]) if len(sys.argv) > 1 else NODES
    with tempfile.TemporaryDirectory() as home, engines(Path(home)) as (postgres, nats):
        with psycopg.connect(postgres.dsn, autocommit=True) as connection:
            connection.execute(f"create database {DATABASE}")
        url = postgres.url(DATABASE)
        migrate.upgrade(url)
        settings = Settings(database_url=url, nats_url=nats.url, port=free_port())
        given = Path(sys.argv[2]) if len(sys.argv) > 2 else Path(home) / "given.jsonl"
        _write_once(given, nodes)
        return asyncio.run(_measure(settings, Path(home), given))


def _write_once(given: Path, nodes: int) -> None:
    if not given.exists():
        partial = given.with_suffix(".part")
        with _timed("written"), partial.open("wb") as file:
            write(file, nodes)
        partial.rename(given)
    # How many nodes there are in one that was kept is told by its import.
    print(f"{given.stat().st_size / 1024**2:,.0f} MiB as JSON Lines", flush=True)


async def _measure(settings: Settings, home: Path, given: Path) -> int:
    back = home / "back.jsonl"
    api = ApiProcess(settings, home / "api.log")
    try:
        await api.start()
        shown = {"VIGIL_URL": api.url, "VIGIL_TOKEN": await owners_token(settings)}
        inside = {"VIGIL_DATABASE_URL": settings.database_url}
        ran = [
            _vigil(inside, "import", given),
            _vigil(shown, "export", AGENT, "--output", back),
            _vigil(inside, "import", back, "--name", BACK),
        ]
        same = await _is_same(settings)
        ran.append(_vigil(shown, "verify", "--all"))
        ran += [
            _vigil(shown, "export", AGENT, "--format", wanted, "-o", home / wanted)
            for wanted in ("graphml", "prov")
        ]
        ran.append(Ran("the api, meanwhile", 0.0, api.peak_bytes()))
    finally:
        await api.end(signal.SIGTERM)
    print(ran[-1])
    return int(not same or max(each.peak_bytes for each in ran) > MOST_BYTES)


def _vigil(given: dict[str, str], *words: object) -> Ran:
    """Runs the command and prints what it took. Raises SystemExit where it fails."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("VIGIL_")}
    arguments = [sys.executable, "-m", "cli", *map(str, words)]
    began = time.perf_counter()
    process = os.posix_spawn(sys.executable, arguments, clean | given)
    _, status, used = os.wait4(process, 0)
    seconds = time.perf_counter() - began
    if os.waitstatus_to_exitcode(status) != 0:
        raise SystemExit(f"vigil {' '.join(map(str, words))} failed")
    shown = " ".join(str(word) for word in words if not isinstance(word, Path))
    ran = Ran(shown, seconds, used.ru_maxrss * 1024)
    print(ran, flush=True)
    return ran


async def _is_same(settings: Settings) -> bool:
    database = Database(settings.database_url, name="bench")
    try:
        hashes = set[str]()
        for name in (AGENT, BACK):
            with _timed(f"canonical hash of {name}"):
                async with database.snapshot() as session:
                    agent = (await session.scalars(select(Agent).where(Agent.name == name))).one()
                    hashes.add(await canonical_hash(session, Scope(agent.owner_id, agent.id)))
        print("equal by canonical hash" if len(hashes) == 1 else "THE HASHES DIFFER")
        return len(hashes) == 1
    finally:
        await database.close()


@contextmanager
def _timed(what: str) -> Iterator[None]:
    began = time.perf_counter()
    yield
    print(f"{what:<28} {time.perf_counter() - began:8.1f} s", flush=True)


if __name__ == "__main__":
    sys.exit(main())
