"""The figures and what each contender promises, as a Markdown page."""

import json
import os
import platform
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from bench.loop.scripted_model import MODEL_CALLS, SEARCHES
from bench.peers.contenders import PROCESSES
from bench.peers.kills import DELAY_SECONDS, Kill
from bench.peers.measuring import AGENTS_UNDER_LOAD, Figures, Rounds, median, median_ratio

Kills = Mapping[str, Sequence[Kill]]
"""By the contender's name."""

_PACKAGES: Final = ("langgraph", "langgraph-checkpoint-postgres", "dbos", "httpx", "openai")
_VERSIONS: Final = f"""
import json
from importlib.metadata import version
print(json.dumps({{name: version(name) for name in {_PACKAGES}}}))
"""

_PROMISES: Final[Mapping[str, Mapping[str, str]]] = {
    "what survives a kill between two calls": {
        "Vigil": "every answer, with its effects on the graph",
        "by hand": "every answer",
        "LangGraph": "every finished node's part of the state, with durability `sync`; its default is `async`,"
        " which saves while the next nodes run",
        "DBOS": "the result of every finished step",
    },
    "who continues": {
        "Vigil": "another worker, when the lease has expired",
        "by hand": "the program that runs the iteration again",
        "LangGraph": "the program that invokes the thread again",
        "DBOS": "the executor, when it is started again",
    },
    "is an answered call paid twice": {
        "Vigil": "no",
        "by hand": "no",
        "LangGraph": "no, if each call is a node; a node starts again from its beginning",
        "DBOS": "no, if each call is a step; a step starts again from its beginning",
    },
    "budget": {
        "Vigil": "the maximum cost is reserved before each call, under caps of the agent and the installation",
        "by hand": "none",
        "LangGraph": "none; a limit of steps",
        "DBOS": "none; limits of rate and concurrency",
    },
    "audit": {
        "Vigil": "each call with its tokens and cost; each fact with its quotes; `vigil verify` finds changes",
        "by hand": "the answers",
        "LangGraph": "the history of a thread's states",
        "DBOS": "inputs and results of workflows, results of steps",
    },
}
_ALSO: Final = """\
Vigil also checks what it has found and writes it: 12 nodes and 9 edges with their evidence, and 2 analyses. The others store
the answers as they are.
"""


def render_page(rounds: Rounds, kills: Kills, python: Path) -> str:
    return "\n".join(_lines(rounds, kills, python)) + "\n"


def _lines(rounds: Rounds, kills: Kills, python: Path) -> Iterator[str]:
    yield "# Beside LangGraph, DBOS and a loop by hand"
    yield ""
    yield (
        f"`make bench-peers` runs the reference iteration of [performance](../performance.md), {MODEL_CALLS} calls of the"
        f" model and {SEARCHES} searches, in Vigil and in three programs: a graph of LangGraph with its PostgreSQL"
        " checkpointer, a workflow of DBOS, and an asyncio program that saves each answer with psycopg"
        " (`bench/peers/with_langgraph.py`, `bench/peers/with_dbos.py`, `bench/peers/by_hand.py`). All make the same calls"
        " over HTTP to one server, with requests of about the same length, and use databases of one PostgreSQL with the"
        " durability of a release. The command writes this page."
    )
    yield ""
    yield (
        "The programs call the model and the search with httpx, so that they differ by their framework alone;"
        " *libraries* is the same program with the Python libraries of OpenAI and Tavily. Each has"
        f" {PROCESSES} processes, one for each core. Vigil has one for each service, and NATS, which is part of it."
    )
    yield ""
    yield f"This run: {_conditions(python)}. {len(rounds['Vigil'])} rounds, in which all took turns; medians."
    yield ""
    yield from _figures(rounds)
    yield from _ratios(rounds)
    yield from _kills(kills)
    yield from _promises()


def _promises() -> Iterator[str]:
    yield "## What each promises"
    yield ""
    yield f"| | {' | '.join(_PROMISES['budget'])} |"
    yield "|---|---|---|---|---|"
    for question, answers in _PROMISES.items():
        yield f"| {question} | {' | '.join(answers.values())} |"
    yield ""
    yield _ALSO.rstrip()


def _conditions(python: Path) -> str:
    result = subprocess.run([python, "-c", _VERSIONS], capture_output=True, check=True)
    versions = ", ".join(f"{name} {version}" for name, version in json.loads(result.stdout).items())
    today = datetime.now(UTC).date().isoformat()
    cores = f"{os.cpu_count()} cores with a load average of {os.getloadavg()[2]:.0f}"
    return f"{today}, {cores}, Python {platform.python_version()}, {versions}"


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms"


_ROWS: Final[Sequence[tuple[str, Callable[[Figures], float], Callable[[float], str]]]] = (
    (f"processor time, {AGENTS_UNDER_LOAD} agents", lambda it: it.seconds_load, _ms),
    ("… of the program", lambda it: it.program_seconds_load, _ms),
    ("… of PostgreSQL", lambda it: it.postgres_seconds_load, _ms),
    ("processor time, one agent", lambda it: it.seconds_alone, _ms),
    ("… of the program", lambda it: it.program_seconds_alone, _ms),
    ("… of PostgreSQL", lambda it: it.postgres_seconds_alone, _ms),
    (f"iterations a second, {AGENTS_UNDER_LOAD} agents", lambda it: it.per_second, "{:.1f}".format),
    ("duration, one agent (p50)", lambda it: it.p50_alone, _ms),
    ("commits", lambda it: it.commits, "{:.1f}".format),
    ("WAL", lambda it: it.wal_bytes, lambda size: f"{size / 1000:.0f} kB"),
)


def _figures(rounds: Rounds) -> Iterator[str]:
    medians = {name: median(figures) for name, figures in rounds.items()}
    yield "## An iteration"
    yield ""
    yield f"| | {' | '.join(medians)} |"
    yield f"|---{'|---' * len(medians)}|"
    for label, value, show in _ROWS:
        cells = (show(value(figures)) for figures in medians.values())
        yield f"| {label} | {' | '.join(cells)} |"
    yield ""


def _ratios(rounds: Rounds) -> Iterator[str]:
    peers = [name for name in rounds if name != "Vigil"]
    yield "## Vigil as a multiple"
    yield ""
    yield "The medians of the ratios of each round."
    yield ""
    yield f"| | {' | '.join(f'of {name}' for name in peers)} |"
    yield f"|---{'|---' * len(peers)}|"
    for label, value, _ in _ROWS:
        if not label.startswith("…"):
            ratios = (median_ratio(rounds["Vigil"], rounds[name], value) for name in peers)
            yield f"| {label} | {' | '.join(f'{ratio:.2f}' for ratio in ratios)} |"
    yield ""


def _kills(kills: Kills) -> Iterator[str]:
    yield "## Killed between two calls"
    yield ""
    yield (
        f"All processes are killed (SIGKILL) {DELAY_SECONDS / 2:g} s after an answer, while the next calls are in flight,"
        " and started again. *Answered and made again* is paid for twice. A call in flight is repeated by all, with its"
        " idempotency key: whether it is billed twice depends on the provider."
    )
    yield ""
    yield "| | killed after | answered and made again | in flight and made again |"
    yield "|---|---|---|---|"
    for name, each in kills.items():
        for kill in each:
            again = f"{kill.answered_again} of {kill.answered}"
            in_flight = f"{kill.in_flight_again} of {kill.in_flight}"
            yield f"| {name} | {kill.answered} calls | {again} | {in_flight} |"
    yield ""
