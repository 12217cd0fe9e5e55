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
        "one iteration, nothing else going on (p50)",
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
        "memory of an actor at rest",
        f"{idle_bytes / 1024**2:.0f} MiB (the {heaviest})",
        f"at most {MAX_IDLE_BYTES / 1024**2:g} MiB",
        idle_bytes <= MAX_IDLE_BYTES,
    )
    yield Goal(
        "from one actor's commit to the next one's start (p50)",
        f"{figures.hop_p50 * 1000:.1f} ms",
        f"at most {MAX_HOP_SECONDS * 1000:g} ms",
        figures.hop_p50 <= MAX_HOP_SECONDS,
    )


LIMITS: Final = """\
## What limits them

Looked at on 2026-11-23 with py-spy (what holds the interpreter), pg_stat_statements, pg_walinspect and a list of all
statements, on the reference iteration.

- **Commits.** 35 are the loop's: 7 leases, 18 answers, 3 searches, 6 joins, and the beginning. What is measured above
  that is the scheduler's note of the ends that it has heard of, one in two seconds, and PostgreSQL's own housekeeping. See
  [decision 0021](decisions/0021-one-commit-between-two-sendings.md).
- **Processor time.** Two thirds are the actors', nine tenths of that in Python and not in the kernel, and it is spread
  thin. Of a researcher's, psycopg holds two fifths (half of that is the sending of statements, which wakes a server
  process), the code of Vigil a fifth, SQLAlchemy and asyncio a tenth each, JSON a twentieth. There are 304 statements
  in an iteration, some 75 of which go with another's round trip, and 36 commits. A transaction of one statement that
  does nothing else takes 0.95 ms of the client's time, 0.4 by psycopg alone; a statement more 0.15. By these figures
  statements and transactions are a third of what is measured. The rest is what lies between them, and eight processes
  that take turns on two cores; how much of it is which was not measured.

  What was tried and showed no more than noise: fewer waits (the 40 that were spared at the end of answers made no
  difference to processor time, a little to an iteration alone), uvloop, a socket of the file system in place of TCP, no
  garbage collection. What it would take: the tools of an answer looked up and written together and not one by one (24
  statements fewer), and transactions without SQLAlchemy's session where nothing is mapped. Together they might save a
  tenth. The goal is a ninth of what is measured: that is an iteration in one process, which is what actors that scale
  and fail alone are not. The survey of the graph is made four times, for the plan, the queries, the insights and the
  advice: see [decision 0022](decisions/0022-a-survey-is-shared-by-its-hash.md).
- **Waiting.** Everybody waits for the row that says what the installation has spent today, and an agent's workers for its
  turn to write with their tools. With 32 agents an iteration waits 0.12 s in the statements that need the row, all of its
  steps together, and 0.06 s for the turn. While two cores are busy this costs nothing. On many more the row would be the
  limit: 28 of an iteration's commits hold it until they are written. To go on: that row only where the installation has a
  budget.
- **WAL.** A quarter is the conversations', a sixth the words of nodes in the search index, a sixth the calls: each row
  is written twice (asked with its reservation, answered with what it has cost) and in six indexes. The second time
  cannot stay within the row's page while the index that the costs are told by holds what an answer changes, and one of
  what is reserved ends with it; without them costs would be read from the calls themselves. To go on: a call known by
  its id alone, whose step and hash take the largest of its indexes.
- **Efficiency and hops** follow from processor time: two cores are busy with it.
- **Memory.** An actor that asks nobody outside holds about 90 MiB (RSS): Python with asyncio 20, psycopg 12, SQLAlchemy 20
  and the tables 6, FastStream with NATS 13, of which rich is 3, pydantic 5. The OpenAI library adds 14, Tavily's 8, which
  only those load that search. To load the one where a call is made would tell a figure before the first call alone. On one
  machine `vigil up` shares most of it between the actors.
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
        "`make bench` runs the shipped actors, each in its process, on NATS and PostgreSQL with their shipped durability,"
        " everything on: ledger, leases, budgets, evidence. The model and the search answer at once. Beside it, in the same"
        " run, stands the *floor*: the same calls and rows by hand in one asyncio process, where every answer is journalled"
        " with its rows in one commit, and nothing else is promised. It makes this page."
    )
    yield ""
    yield (
        f"The reference iteration: {scripted_model.MODEL_CALLS} calls of the model, {scripted_model.SEARCHES} searches, 12"
        f" nodes and 9 edges with their evidence, 2 analyses tied to 2 nodes each; {CRITICAL_CALLS} calls stand one behind"
        " another."
    )
    yield ""
    versions = ", ".join(f"{name} {value}" for name, value in about.items())
    yield f"Of this run: {versions}."
    yield ""
    yield "| | measured | the run before | goal | |"
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
    yield "## Beside the floor"
    yield ""
    yield "| | loop | floor | times |"
    yield "|---|---|---|---|"
    loop, floor = figures.loop, figures.floor
    rows: list[tuple[str, Callable[[Side], float], str]] = [
        ("one at a time, p50", lambda side: side.idle_p50 * 1000, "ms"),
        ("one at a time, p95", lambda side: side.idle_p95 * 1000, "ms"),
        ("32 agents", lambda side: side.per_second, "/s"),
        ("commits", lambda side: side.idle.commits, ""),
        ("transactions, looks among them", lambda side: side.idle.transactions, ""),
        ("WAL", lambda side: side.idle.wal_bytes / 1000, "kB"),
        ("messages", lambda side: side.idle.messages, ""),
        ("processor time, one at a time", lambda side: side.idle.all_seconds * 1000, "ms"),
        ("processor time, 32 agents", lambda side: side.load.all_seconds * 1000, "ms"),
    ]
    for what, value, unit in rows:
        yield _row(what, value(loop), value(floor), unit)
    yield ""
    yield (
        f"From one actor's commit to the next one's start: {figures.hop_p50 * 1000:.1f} ms at p50,"
        f" {figures.hop_p95 * 1000:.1f} ms at p95."
    )
    yield ""


def _row(what: str, loop: float, floor: float, unit: str) -> str:
    times = f"{loop / floor:.2f}" if floor else ""
    return f"| {what} | {loop:.1f} {unit} | {floor:.1f} {unit} | {times} |"


def _processes(figures: Figures) -> Iterator[str]:
    yield "## By process"
    yield ""
    yield "| | ms one at a time | ms with 32 agents | MiB at rest | MiB after the load |"
    yield "|---|---|---|---|---|"
    loop: Side = figures.loop
    for name in loop.load.seconds:
        rest, after = figures.rest_bytes.get(name), figures.load_bytes.get(name)
        yield f"| {name} | {_ms(loop.idle, name)} | {_ms(loop.load, name)} | {_mib(rest)} | {_mib(after)} |"
    yield ""


def _ms(used: Usage, name: str) -> str:
    return f"{used.seconds[name] * 1000:.1f}"


def _mib(size: int | None) -> str:
    return "" if size is None else f"{size / 1024**2:.0f}"


def _makespans(figures: Figures) -> Iterator[str]:
    yield f"## With calls of {CALL_SECONDS * 1000:.0f} ms"
    yield ""
    yield "The ideal has the same slots, and nothing but calls takes time in it."
    yield ""
    yield "| agents | researchers | ideal s | measured s, each run | efficiency |"
    yield "|---|---|---|---|---|"
    for makespan in figures.makespans:
        measured = ", ".join(f"{seconds:.2f}" for seconds in makespan.measured)
        cells = f"{makespan.agents} | {makespan.researchers} | {makespan.ideal:.2f} | {measured}"
        yield f"| {cells} | {makespan.efficiency:.1%} |"
