"""Runs agents on the sandbox, with the recording proxy between the services and the model."""

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import psycopg
from psycopg.rows import dict_row
from rich.console import Console

from bench.tokens.proxy import Exchange, RecordingProxy
from cli.config.providers import DEFAULT_CORPUS, Providers, corpus_cache
from cli.local.data_directory import DataDirectory
from cli.local.members import demo_ports
from cli.local.ports import LOOPBACK, free_port, unreadiness
from cli.local.supervisor import Stack, installation
from cli.throwaway import create_agent, watching
from cli.watch import IterationWatch
from shared.schemas.base import AgentDetails, IterationDetails

READY_SECONDS: Final = 120.0
POLL_SECONDS: Final = 0.1
TIMEOUT_SECONDS: Final = 1800.0


@dataclass(frozen=True)
class RecordedCall:
    """A model call of an iteration."""

    iteration: int
    kind: str
    """Kind of the step."""
    step: int
    """Index of the step among those of its kind."""
    round: int
    """Number of the step's earlier calls in this phase."""
    phase: str
    exchange: Exchange


@dataclass(frozen=True)
class Search:
    iteration: int
    operation: str
    usd: Decimal


@dataclass(frozen=True)
class Recording:
    """What one agent did."""

    mission: str
    iterations: int
    calls: tuple[RecordedCall, ...]
    """In the order of iterations, steps and rounds."""
    searches: tuple[Search, ...]
    nodes: tuple[Mapping[str, Any], ...]
    """The graph at the end: nodes with `type`, `name` and `properties`, conclusions not among them."""
    edges: tuple[Mapping[str, Any], ...]
    """Edges with `type`, `source`, `target` (names) and `properties`."""


Ticks = Callable[
    [IterationWatch, AgentDetails, int, psycopg.Connection], Iterator[IterationDetails]
]
"""Starts so many iterations, and yields each when it has ended."""


def record(
    mission: str,
    iterations: int,
    console: Console,
    *,
    corpus: str = DEFAULT_CORPUS,
    ticks: Ticks | None = None,
) -> Recording:
    """Run a new agent for `iterations` iterations, by default one after another. Raises RuntimeError if one fails."""
    with sandbox_running(corpus) as sandbox_url:
        proxy = RecordingProxy(sandbox_url)
        with proxy.running(), _kept_on_error() as directory:
            providers = Providers(
                "the sandbox behind the proxy",
                "the sandbox",
                corpus,
                also=_settings(proxy.url, sandbox_url),
            )
            with installation(directory, providers, demo_ports, lambda _: None) as stack:
                _run(stack, console, mission, iterations, ticks or _ticks)
                return _read(stack, mission, iterations, proxy)


@contextmanager
def _kept_on_error() -> Iterator[DataDirectory]:
    """A data directory that is deleted, unless the block fails: then the logs say why."""
    root = Path(tempfile.mkdtemp(prefix="vigil-tokens-"))
    try:
        yield DataDirectory(root)
    except BaseException:
        print(f"The data and logs are kept in {root}.", file=sys.stderr)
        raise
    shutil.rmtree(root)


@contextmanager
def sandbox_running(corpus: str) -> Iterator[str]:
    """Run the sandbox; yields its URL. Raises TimeoutError, or RuntimeError if it ends."""
    port = free_port()
    command = [
        sys.executable,
        "-m",
        "sandbox",
        "--port",
        str(port),
        "--corpus",
        corpus,
        "--cache",
        str(corpus_cache()),
    ]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + READY_SECONDS
        while (why := unreadiness(port, "/health")) is not None:
            if process.poll() is not None:
                raise RuntimeError(f"the sandbox ended with exit code {process.returncode}")
            if time.monotonic() > deadline:
                raise TimeoutError(f"the sandbox is not ready after {READY_SECONDS:g} s: {why}")
            time.sleep(POLL_SECONDS)
        yield f"http://{LOOPBACK}:{port}"
    finally:
        process.terminate()
        process.wait()


def _settings(model_url: str, search_url: str) -> dict[str, str]:
    return {
        "OPENAI_BASE_URL": f"{model_url}/v1",
        "OPENAI_API_KEY": "bench",
        "OPENAI_MODEL": "sandbox-reader",
        "TAVILY_BASE_URL": search_url,
        "TAVILY_API_KEY": "bench",
        "VIGIL_MODEL_STREAM": "never",
        # One step at a time: in parallel, who writes first decides what later contexts show, and figures vary by 15 %.
        "VIGIL_CONCURRENCY": "1",
        "VIGIL_FETCH_GATEWAY": f"{search_url}/page",
    }


_FIX_AGENT_ID: Final = """
create function bench_agent_id() returns trigger language plpgsql as $$
begin
  new.id := md5(new.mission)::uuid;
  return new;
end $$;
create trigger bench_agent_id before insert on agents for each row execute function bench_agent_id()
"""
"""All ids of a graph are hashes that begin with the agent's. They decide between nodes of equal rank and which evidence is
read again, so with a random one the figures of equal runs differ by 7 %."""


def _run(stack: Stack, console: Console, mission: str, count: int, ticks: Ticks) -> None:
    deadline = time.monotonic() + TIMEOUT_SECONDS
    with psycopg.connect(stack.running.database_url, autocommit=True) as connection:
        connection.execute(_FIX_AGENT_ID)
    with watching(stack, console, deadline) as watch:
        agent = create_agent(console, watch, mission)
        if agent.status != "ready":
            raise RuntimeError(f"the agent was not configured: {agent.fault}")
        with psycopg.connect(stack.running.database_url, autocommit=True) as connection:
            iterations = list(ticks(watch, agent, count, connection))
        errors = [error for each in iterations for error in each.errors]
        if len(iterations) < count or errors:
            raise RuntimeError(
                f"{len(iterations)} of {count} iterations ended, with errors: {errors}"
            )


def _ticks(
    watch: IterationWatch, agent: AgentDetails, count: int, connection: psycopg.Connection
) -> Iterator[IterationDetails]:
    """Yields iterations that the clock starts, one as soon as the one before has ended. One on request is never quiet."""
    for number in range(1, count + 1):
        if number > 1:
            connection.execute("update agents set next_run_at = clock_timestamp()")
        iteration = watch.watch_iteration(agent.id, number, count)
        if iteration is None:
            return
        yield iteration


_CALLS: Final = """
select calls.id, iterations.number, steps.kind, steps.index, calls.phase, calls.kind as call_kind,
    calls.request ->> 'tool' as tool, calls.cost_usd, calls.started_at
from calls join steps on steps.id = calls.step_id join iterations on iterations.id = calls.iteration_id
order by calls.started_at, calls.id
"""
_NODES: Final = """
select type, name, properties from graph_nodes where type not in ('AgentAnalysis', 'AgentAdvice') order by id
"""
_EDGES: Final = """
select edge.type, source.name as source, target.name as target, edge.properties
from graph_edges as edge join graph_nodes as source on source.id = edge.source_id
    join graph_nodes as target on target.id = edge.target_id
order by edge.id
"""


def _read(stack: Stack, mission: str, iterations: int, proxy: RecordingProxy) -> Recording:
    with psycopg.connect(stack.running.database_url, row_factory=dict_row) as connection:
        rows = connection.execute(_CALLS).fetchall()
        nodes = connection.execute(_NODES).fetchall()
        edges = connection.execute(_EDGES).fetchall()
    row_of = {str(row["id"]): row for row in rows}
    searches = [
        Search(row["number"], row["tool"], row["cost_usd"] or Decimal(0))
        for row in rows
        # An answer that still held is not paid for again.
        if row["call_kind"] == "search" and row["cost_usd"]
    ]
    calls: list[RecordedCall] = []
    rounds: dict[tuple[Any, ...], int] = {}
    for exchange in sorted(proxy.exchanges, key=lambda exchange: exchange.seconds):
        row = row_of.get(exchange.key[:36])
        if row is None:
            continue  # a call of the configuration, which belongs to no iteration
        run = (row["number"], row["kind"], row["index"], row["phase"])
        number = rounds[run] = rounds.get(run, -1) + 1
        calls.append(RecordedCall(*run[:3], number, row["phase"], exchange))
    return Recording(
        mission,
        iterations,
        tuple(calls),
        tuple(searches),
        tuple(nodes),
        tuple(edges),
    )
