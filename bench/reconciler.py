"""`python -m bench.reconciler`: processor time of an idle scheduler, as a share of one core.

Each row is a scheduler with default settings (a tick every second, reconciliation every two), over a history of
10,000 ended iterations of five steps, with 1, 100 and 1,000 agents that are due in an hour; the last row has all of
1,000 agents at work, each on a step whose lease holds. `scheduler` is the process, `postgres` its backends, both from
/proc. Exit code 1 if an idle row costs more than 1 % of a core. $VIGIL_BENCH_SECONDS sets the duration of each.
"""

import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil
import psycopg

from bench.support import provision, running_engines
from cli.local.nats import EmbeddedNats
from cli.local.ports import free_port, unreadiness
from cli.local.postgres import EmbeddedPostgres
from shared.runtime.settings import Settings

HISTORY: Final = 10_000
AGENTS: Final = (1, 100, 1000)
MAX_IDLE_CORES: Final = 0.01
READY_SECONDS: Final = 60.0
SETTLE_SECONDS: Final = 5.0
"""Pause after the start, so that imports and first plans are not measured."""

_PROMPTS: Final = (
    "conversation",
    "observer",
    "knowledge_acquisition",
    "graph_construction",
    "analysis_generation",
    "advice_generation",
)


@dataclass(frozen=True)
class Cost:
    """Processor seconds per second."""

    scheduler: float
    postgres: float

    @property
    def total(self) -> float:
        return self.scheduler + self.postgres


def main() -> int:
    seconds = float(os.environ.get("VIGIL_BENCH_SECONDS") or 30)
    print(f"{'agents':>7}  {'running':>7}  {'scheduler':>9}  {'postgres':>8}  {'whole':>6}")
    with tempfile.TemporaryDirectory() as home, running_engines(Path(home)) as (postgres, nats):
        costs = [_measure(postgres, nats, seconds, agents, running=0) for agents in AGENTS]
        _measure(postgres, nats, seconds, AGENTS[-1], running=AGENTS[-1])
    return int(max(cost.total for cost in costs) > MAX_IDLE_CORES)


def _measure(
    postgres: EmbeddedPostgres, nats: EmbeddedNats, seconds: float, agents: int, *, running: int
) -> Cost:
    """Measure and print a row."""
    url = postgres.url(f"bench_{agents}_{running}")
    provision(Settings(database_url=url, nats_url=nats.url))
    with psycopg.connect(url, autocommit=True) as connection:
        _fill(connection, agents, running)
        cost = _cost(connection, url, nats, seconds)
    print(
        f"{agents:>7}  {running:>7}  {cost.scheduler:>9.2%}  {cost.postgres:>8.2%}  {cost.total:>6.2%}",
        flush=True,
    )
    return cost


def _environment(url: str, nats: EmbeddedNats) -> dict[str, str]:
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("VIGIL_")
    }
    return environment | {"VIGIL_DATABASE_URL": url, "VIGIL_NATS_URL": nats.url}


def _fill(connection: psycopg.Connection, agents: int, running: int) -> None:
    """Insert agents due in an hour, their history, and running iterations for the first `running` of them."""
    names = ", ".join(f"{phase}_system_prompt" for phase in _PROMPTS)
    prompts = ", ''" * len(_PROMPTS)
    connection.execute("delete from users")
    connection.execute("insert into users (id, name) values (gen_random_uuid(), 'bench')")
    connection.execute(
        f"insert into agents (id, owner_id, name, mission, interval_seconds, next_run_at, {names})"
        " select gen_random_uuid(), users.id, 'agent ' || number, '', 300,"
        f" clock_timestamp() + interval '1 hour' {prompts}"
        " from users, generate_series(1, %s) number",
        (agents,),
    )
    _insert_iterations(connection, "completed", HISTORY)
    _insert_iterations(connection, "running", running)
    connection.execute("vacuum analyze")


def _insert_iterations(connection: psycopg.Connection, status: str, count: int) -> None:
    """Insert `count` iterations with their steps, spread evenly over the agents."""
    is_ended = status != "running"
    connection.execute(
        "with numbered as (select id, row_number() over () as place, count(*) over () as whole from agents)"
        " insert into iterations (id, agent_id, number, why, status, stage, deadline_at, ended_at, end_published_at)"
        " select gen_random_uuid(), numbered.id, %(from)s + number, 'due', %(status)s, %(stage)s,"
        " clock_timestamp() + interval '1 hour', %(ended)s, %(ended)s"
        " from generate_series(1, %(count)s) number join numbered on place = 1 + number %% whole",
        {
            "from": 0 if is_ended else HISTORY,
            "status": status,
            "stage": "ended" if is_ended else "observing",
            "ended": "2026-01-01T00:00:00Z" if is_ended else None,
            "count": count,
        },
    )
    kinds = (
        ["observe:0", "query:0", "query:1", "query:2", "insight:0"] if is_ended else ["observe:0"]
    )
    connection.execute(
        "insert into steps (id, iteration_id, agent_id, kind, index, status, requested_at, lease_until, ended_at)"
        " select gen_random_uuid(), iterations.id, agent_id, split_part(kind, ':', 1),"
        " split_part(kind, ':', 2)::int, iterations.status, started_at, deadline_at, ended_at"
        " from iterations, unnest(%s::text[]) kind where status = %s",
        (kinds, status),
    )


def _cost(connection: psycopg.Connection, url: str, nats: EmbeddedNats, seconds: float) -> Cost:
    port = free_port()
    environment = _environment(url, nats) | {"VIGIL_PORT": str(port)}
    command = [sys.executable, "-m", "services.scheduler"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) as scheduler:
        try:
            _wait_until_ready(port)
            time.sleep(SETTLE_SECONDS)
            began = time.monotonic()
            start = _cpu_seconds(scheduler.pid), _backend_cpu_seconds(connection)
            time.sleep(seconds)
            end = _cpu_seconds(scheduler.pid), _backend_cpu_seconds(connection)
            wall = time.monotonic() - began
        finally:
            scheduler.terminate()
    assert start[1].keys() <= end[1].keys(), "a connection was closed, and its count with it"
    postgres = sum(end[1].values()) - sum(start[1].values())
    return Cost((end[0] - start[0]) / wall, postgres / wall)


def _wait_until_ready(port: int) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while (why := unreadiness(port)) is not None:
        if time.monotonic() > deadline:
            raise SystemExit(f"the scheduler is not ready after {READY_SECONDS:.0f} s: {why}")
        time.sleep(0.1)


def _cpu_seconds(pid: int) -> float:
    """Processor seconds in user and kernel mode."""
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


def _backend_cpu_seconds(connection: psycopg.Connection) -> dict[int, float]:
    rows = connection.execute(
        "select pid from pg_stat_activity where application_name like 'vigil-scheduler%%'"
        " and datname = current_database()"
    )
    return {pid: _cpu_seconds(pid) for (pid,) in rows}


if __name__ == "__main__":
    sys.exit(main())
