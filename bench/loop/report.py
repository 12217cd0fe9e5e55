"""The goals of the loop, and the figures as a Markdown page."""

import os
import platform
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Final

from bench.loop import scripted_model
from bench.loop.counters import Usage
from bench.loop.run import CALL_SECONDS, CRITICAL_CALLS, Figures, Side

MAX_TIMES_FLOOR: Final = 2.5
MIN_SHARE_OF_FLOOR: Final = 0.5
FAST_FLOOR_PER_SECOND: Final = 80.0
MIN_PER_SECOND_WITH_FAST_FLOOR: Final = 40.0
MAX_CPU_SECONDS: Final = 0.045
MAX_COMMITS: Final = 36.0
MAX_WAL_BYTES: Final = 80_000.0
MIN_EFFICIENCY: Final = {1: 0.95, 20: 0.90}
"""By number of agents."""
MAX_IDLE_BYTES: Final = 90 * 1024**2
MAX_HOP_SECONDS: Final = 0.003


@dataclass(frozen=True)
class Goal:
    name: str
    measured: str
    target: str
    is_met: bool


def evaluate_goals(figures: Figures) -> Iterator[Goal]:
    loop, floor = figures.loop, figures.floor
    times = loop.idle_p50 / floor.idle_p50
    yield Goal(
        "one iteration alone (p50)",
        f"{times:.1f} times the floor's",
        f"at most {MAX_TIMES_FLOOR:g}",
        times <= MAX_TIMES_FLOOR,
    )
    share = loop.per_second / floor.per_second
    is_quick = (
        floor.per_second < FAST_FLOOR_PER_SECOND
        or loop.per_second >= MIN_PER_SECOND_WITH_FAST_FLOOR
    )
    yield Goal(
        "iterations a second, 32 agents",
        f"{loop.per_second:.1f}, {share:.2f} of the floor's",
        f"at least {MIN_SHARE_OF_FLOOR:g} of it, and {MIN_PER_SECOND_WITH_FAST_FLOOR:g} where the floor makes"
        f" {FAST_FLOOR_PER_SECOND:g}",
        share >= MIN_SHARE_OF_FLOOR and is_quick,
    )
    yield Goal(
        "processor time of an iteration, all processes, 32 agents",
        f"{loop.load.all_seconds * 1000:.0f} ms",
        f"at most {MAX_CPU_SECONDS * 1000:g} ms",
        loop.load.all_seconds <= MAX_CPU_SECONDS,
    )
    yield Goal(
        "commits of an iteration",
        f"{loop.idle.commits:.1f}",
        f"at most {MAX_COMMITS:g}",
        loop.idle.commits <= MAX_COMMITS,
    )
    yield Goal(
        "WAL of an iteration",
        f"{loop.idle.wal_bytes / 1000:.0f} kB",
        f"at most {MAX_WAL_BYTES / 1000:g} kB",
        loop.idle.wal_bytes <= MAX_WAL_BYTES,
    )
    yield from _further_goals(figures)


def _further_goals(figures: Figures) -> Iterator[Goal]:
    for makespan in figures.makespans:
        minimum = MIN_EFFICIENCY[makespan.agents]
        yield Goal(
            f"efficiency, {makespan.agents} agents, {makespan.researchers} researchers",
            f"{makespan.efficiency:.1%}",
            f"at least {minimum:.0%}",
            makespan.efficiency >= minimum,
        )
    heaviest = max(figures.rest_bytes, key=lambda name: figures.rest_bytes[name])
    idle_bytes = figures.rest_bytes[heaviest]
    yield Goal(
        "memory of an idle service",
        f"{idle_bytes / 1024**2:.0f} MiB (the {heaviest})",
        f"at most {MAX_IDLE_BYTES / 1024**2:g} MiB",
        idle_bytes <= MAX_IDLE_BYTES,
    )
    yield Goal(
        "from one service's commit to the next one's start (p50)",
        f"{figures.hop_p50 * 1000:.1f} ms",
        f"at most {MAX_HOP_SECONDS * 1000:g} ms",
        figures.hop_p50 <= MAX_HOP_SECONDS,
    )


LIMITS: Final = """\
## What limits them

Examined on 2026-11-23 with py-spy (holders of the interpreter lock), pg_stat_statements, pg_walinspect and a log of
all statements, on the reference iteration.

- **Commits.** The loop makes 35: 7 leases, 18 answers, 3 searches, 6 joins, and the start. The rest is the
  scheduler's record of ended iterations, one every two seconds, and PostgreSQL's own maintenance. See [decision
  0021](decisions/0021-one-commit-between-two-calls.md).
- **Processor time.** Services take two thirds of it, nine tenths of that in Python and not in the kernel. In a
  researcher, psycopg takes two fifths (half of that sends statements, which wakes a server process), Vigil's code a
  fifth, SQLAlchemy and asyncio a tenth each, JSON a twentieth. An iteration has 304 statements, about 75 of which
  share another one's round trip, and 36 commits. A transaction of one statement takes 0.95 ms of the client's
  processor time, 0.4 in psycopg alone; each further statement 0.15 ms. By these figures statements and transactions
  are a third of the total. The rest is spread over the code between them and over eight processes that share two
  cores; the shares were not measured.

  Tried without a measurable effect: fewer waits (40 fewer at the end of answers changed the processor time by
  nothing, the duration of a single iteration slightly), uvloop, a Unix socket in place of TCP, no garbage collection.
  What remains: look up and write the tools of an answer together (24 statements fewer), and transactions without
  SQLAlchemy's session where nothing is mapped. Together they might save a tenth. The goal is a ninth of the measured
  value. The graph survey is made four times, for the plan, the queries, the insights and the advice: see [decision
  0022](decisions/0022-a-survey-is-shared-by-its-hash.md).
- **Waiting.** All workers lock the row with the installation's spending of the day, and the workers of an agent take
  turns to write with their tools. With 32 agents the steps of an iteration wait 0.12 s for the row and 0.06 s for
  their turn. While two cores are busy this costs nothing. With many more cores the row would be the limit: 28 of an
  iteration's commits hold it. Next step: use that row only where the installation has a budget.
- **WAL.** Conversations take a quarter, the words of nodes in the search index a sixth, the calls a sixth: each row
  is written twice (opened with its reservation, closed with its cost) and in six indexes. The second write cannot
  stay on the row's page, because an answer changes a column of the costs index, and ends an entry of the reservations
  index. Next step: identify a call by its id alone; its step and hash fill the largest index.
- **Efficiency and hops** follow from processor time: it keeps two cores busy.
- **Memory.** A service that calls no provider holds about 90 MiB (RSS): Python with asyncio 20, psycopg 12,
  SQLAlchemy 20 and the tables 6, FastStream with NATS 13, of which rich is 3, pydantic 5. The OpenAI library adds 14,
  Tavily's 8; only the services that search load it. On one machine `vigil up` shares most of it between the services.
"""
_LIBRARIES = ("faststream", "nats-py", "psycopg", "sqlalchemy", "pydantic")


def machine() -> dict[str, str]:
    """The machine and the versions of the measurement."""
    return {
        "measured": datetime.now(UTC).date().isoformat(),
        "cores": str(os.cpu_count()),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        **{name: version(name) for name in _LIBRARIES},
    }


def render_page(figures: Figures, before: Mapping[str, str]) -> str:
    """Render the page. `before` has the results of the previous run by goal."""
    return "\n".join(_lines(figures, before)) + "\n"


def _lines(figures: Figures, before: Mapping[str, str]) -> Iterator[str]:
    about = machine()
    yield "# What an iteration costs"
    yield ""
    yield (
        "`make bench` runs the services, each in its process, on NATS and PostgreSQL with the durability of a "
        "release, and with the ledger, leases, budgets and evidence. The model and the search answer at once. The "
        "same run measures the *floor*: the same calls and rows written by hand in one asyncio process, which "
        "records every answer with its rows in one commit and guarantees nothing else. The command writes this "
        "page."
    )
    yield ""
    yield (
        f"The reference iteration: {scripted_model.MODEL_CALLS} calls of the model, {scripted_model.SEARCHES} searches,"
        f" 12 nodes and 9 edges with their evidence, 2 analyses linked to 2 nodes each; the critical"
        f" path has {CRITICAL_CALLS} calls."
    )
    yield ""
    versions = ", ".join(f"{name} {value}" for name, value in about.items())
    yield f"This run: {versions}."
    yield ""
    yield "| | measured | previous run | goal | |"
    yield "|---|---|---|---|---|"
    for goal in evaluate_goals(figures):
        is_met = "met" if goal.is_met else "not met"
        yield f"| {goal.name} | {goal.measured} | {before.get(goal.name, '')} | {goal.target} | {is_met} |"
    yield ""
    yield from _sides(figures)
    yield from _processes(figures)
    yield from _makespans(figures)
    yield ""
    yield LIMITS.rstrip()


def _sides(figures: Figures) -> Iterator[str]:
    yield "## Compared with the floor"
    yield ""
    yield "| | loop | floor | times |"
    yield "|---|---|---|---|"
    loop, floor = figures.loop, figures.floor
    rows: list[tuple[str, Callable[[Side], float], str]] = [
        ("one at a time, p50", lambda side: side.idle_p50 * 1000, "ms"),
        ("one at a time, p95", lambda side: side.idle_p95 * 1000, "ms"),
        ("32 agents", lambda side: side.per_second, "/s"),
        ("commits", lambda side: side.idle.commits, ""),
        ("transactions, with read-only ones", lambda side: side.idle.transactions, ""),
        ("WAL", lambda side: side.idle.wal_bytes / 1000, "kB"),
        ("messages", lambda side: side.idle.messages, ""),
        ("processor time, one at a time", lambda side: side.idle.all_seconds * 1000, "ms"),
        ("processor time, 32 agents", lambda side: side.load.all_seconds * 1000, "ms"),
    ]
    for label, value, unit in rows:
        yield _row(label, value(loop), value(floor), unit)
    yield ""
    yield (
        f"From one service's commit to the next one's start: {figures.hop_p50 * 1000:.1f} ms at p50,"
        f" {figures.hop_p95 * 1000:.1f} ms at p95."
    )
    yield ""


def _row(label: str, loop: float, floor: float, unit: str) -> str:
    times = f"{loop / floor:.2f}" if floor else ""
    return f"| {label} | {loop:.1f} {unit} | {floor:.1f} {unit} | {times} |"


def _processes(figures: Figures) -> Iterator[str]:
    yield "## By process"
    yield ""
    yield "| | ms one at a time | ms with 32 agents | MiB idle | MiB after the load |"
    yield "|---|---|---|---|---|"
    loop: Side = figures.loop
    for name in loop.load.seconds:
        rest_bytes, load_bytes = figures.rest_bytes.get(name), figures.load_bytes.get(name)
        yield f"| {name} | {_ms(loop.idle, name)} | {_ms(loop.load, name)} | {_mib(rest_bytes)} | {_mib(load_bytes)} |"
    yield ""


def _ms(usage: Usage, name: str) -> str:
    return f"{usage.seconds[name] * 1000:.1f}"


def _mib(size: int | None) -> str:
    return "" if size is None else f"{size / 1024**2:.0f}"


def _makespans(figures: Figures) -> Iterator[str]:
    yield f"## With calls of {CALL_SECONDS * 1000:.0f} ms"
    yield ""
    yield "The ideal has the same slots, and only calls take time."
    yield ""
    yield "| agents | researchers | ideal s | measured s, each run | efficiency |"
    yield "|---|---|---|---|---|"
    for makespan in figures.makespans:
        measured = ", ".join(f"{seconds:.2f}" for seconds in makespan.measured)
        cells = f"{makespan.agents} | {makespan.researchers} | {makespan.ideal:.2f} | {measured}"
        yield f"| {cells} | {makespan.efficiency:.1%} |"
