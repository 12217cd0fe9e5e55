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
from bench.loop.counting import Counted, Counts
from bench.loop.makespan import CALL_SECONDS, CRITICAL_CALLS
from bench.loop.run import Figures, Side

MAX_CPU_SECONDS: Final = 0.065
MAX_CPU_SECONDS_OVER_HTTP: Final = 0.080
MIN_PER_SECOND: Final = 28.0
MIN_PER_SECOND_OVER_HTTP: Final = 22.0
MAX_SECONDS_ALONE: Final = 0.060
MAX_TIMES_FLOOR: Final = 5.0
MAX_COMMITS: Final = (28.0, 16.0)
"""One at a time, and under load."""
MAX_BATCHES: Final = (60.0, 40.0)
MAX_WAL_BYTES: Final = 150_000.0
MAX_HOP_SECONDS: Final = 0.003
MIN_EFFICIENCY: Final = {1: 0.95, 20: 0.90}
"""By number of agents."""
MAX_IDLE_BYTES: Final = 85 * 1024**2
SHOWN_WAL_BYTES: Final = 500.0
MAX_GROWTH: Final = 1.1
"""What the 500th iteration of an agent may cost, compared with the 20th."""


@dataclass(frozen=True)
class Goal:
    name: str
    measured: str
    target: str
    is_met: bool


def evaluate_goals(figures: Figures) -> Iterator[Goal]:
    loop, http = figures.loop, figures.loop_over_http
    yield _at_most(
        "processor time of an iteration, 32 agents", loop.load.all_seconds, MAX_CPU_SECONDS, _as_ms
    )
    yield _at_most(
        "the same with model and search over HTTP",
        http.load.all_seconds,
        MAX_CPU_SECONDS_OVER_HTTP,
        _as_ms,
    )
    yield _at_least("iterations a second, 32 agents", loop.per_second, MIN_PER_SECOND)
    yield _at_least("the same over HTTP", http.per_second, MIN_PER_SECOND_OVER_HTTP)
    yield _at_most("one iteration alone (p50)", loop.idle_p50, MAX_SECONDS_ALONE, _as_ms)
    yield _at_most(
        "the same as a multiple of the floor's",
        loop.idle_p50 / figures.floor.idle_p50,
        MAX_TIMES_FLOOR,
    )
    counted = figures.counted
    for label, usage, counts, index in (
        ("alone", loop.idle, counted.alone, 0),
        ("under load", loop.load, counted.load, 1),
    ):
        yield _at_most(f"commits, {label}", usage.commits, MAX_COMMITS[index])
        yield _at_most(f"round trips to PostgreSQL, {label}", counts.trips, MAX_BATCHES[index])
    yield _at_most("WAL of an iteration", loop.idle.wal_bytes, MAX_WAL_BYTES, _as_kb)
    yield from _further_goals(figures)


def _at_most(
    name: str, measured: float, limit: float, show: Callable[[float], str] = "{:.1f}".format
) -> Goal:
    return Goal(name, show(measured), f"at most {show(limit)}", measured <= limit)


def _at_least(
    name: str, measured: float, limit: float, show: Callable[[float], str] = "{:.1f}".format
) -> Goal:
    return Goal(name, show(measured), f"at least {show(limit)}", measured >= limit)


def _as_ms(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms"


def _as_kb(size: float) -> str:
    return f"{size / 1000:.0f} kB"


def _as_percent(share: float) -> str:
    return f"{share:.1%}"


def _further_goals(figures: Figures) -> Iterator[Goal]:
    yield _at_most(
        "from one service's commit to the next one's start (p50)",
        figures.hop_p50,
        MAX_HOP_SECONDS,
        _as_ms,
    )
    for makespan in figures.makespans:
        yield _at_least(
            f"efficiency, {makespan.agents} agents, {makespan.researchers} researchers",
            makespan.efficiency,
            MIN_EFFICIENCY[makespan.agents],
            _as_percent,
        )
    heaviest = max(figures.rest_bytes, key=lambda name: figures.rest_bytes[name])
    yield _at_most(
        f"memory of an idle service (the {heaviest})",
        figures.rest_bytes[heaviest],
        MAX_IDLE_BYTES,
        _as_mib,
    )
    first, last = figures.ages[0], figures.ages[-1]
    yield _at_most(
        f"processor time of iteration {last.iterations} of an agent as a multiple of {first.iterations}",
        last.cpu_seconds / first.cpu_seconds,
        MAX_GROWTH,
        "{:.2f}".format,
    )


def _as_mib(size: float) -> str:
    return f"{size / 1024**2:.0f} MiB"


LIMITS: Final = """\
## What limits them

Examined on 2026-11-26 with pg_stat_statements, auto_explain, pg_walinspect, perf, a count of round trips and profiles of
the clients.

- **Statements.** What a step reads at its start, what the tools of an answer read, and what lies between two calls of
  the model is one round trip each, which leaves in one packet
  ([decision 0030](decisions/0030-direct-connections.md)). The budgets change with the
  first call of a step and at its end ([decision 0065](decisions/0065-reserve-once-a-step.md)). The events of a
  phase run are written with the answers that they follow ([decision 0037](decisions/0037-events-with-the-answer.md)).
  PostgreSQL's time is spread over its own code. The statement of a payment takes a quarter of it, the insert of an
  answer's nodes, edges and evidence with their indexes a sixth, the survey of the graph a fifth, foreign keys a
  fiftieth. What a call that is written once would save is measured in
  [decision 0039](decisions/0039-calls-are-written-twice.md). Next step: one statement for the lease and the payment.
  What a reference iteration needs, counted from what services send: see [below](#what-an-iteration-writes).
- **Python.** Four fifths of a worker's time are the interpreter, spread over the tool loop, the survey of the graph, and
  what sends statements and reads their rows. Python's garbage collector took a twentieth more until it ran less often.
- **Waiting for locks.** The statements of an iteration wait for the row with the installation's spending of the day,
  and for their agent's turn to write with tools. With 32 agents this costs little while two cores are busy. Alone, three
  researchers that write at the same time wait 35 ms of the iteration's duration for each other, since a turn lasts
  from the first look at the names until the commit. Next step: the graph's head in place of a turn.
- **Hops.** NATS syncs the stream every two seconds ([decision 0038](decisions/0038-sync-the-stream-at-intervals.md)).
- **Growth.** PostgreSQL keeps plans from when the tables were small until autovacuum has analysed them, at most once
  a minute. The edge between two nodes is therefore looked up in the order of its index, which leaves no choice.
- **WAL.** The search indexes of nodes take an eighth, phase runs and contexts an eighth, calls a fifth:
  each call is written twice (opened with its reservation, closed with its cost). Images of whole pages are not counted.
  PostgreSQL writes one at the first change of a page after a checkpoint, so they depend on when a side is measured: 5 to
  360 kB.
- **Foreign keys.** 185 checks, 383 before [decision 0026](decisions/0026-fewer-foreign-keys.md).
- **The model's client.** An answer over HTTP takes half a millisecond of the client's processor time, a search one, an
  answer that is streamed in 66 events, one by one, two. What the SDK would add, and how a
  stream is read, is in [decision 0035](decisions/0035-model-client.md).
- **Memory.** A service that calls no provider holds about 100 MiB (RSS): Python with asyncio 20, psycopg 12,
  SQLAlchemy 20 and the tables 6, FastStream with NATS 13, pydantic 5. The OpenAI library with aiohttp adds 20,
  Tavily's 8; only the services that search load it. On one machine `vigil up` shares most of it between the
  services.

## What an iteration writes

Examined on 2026-11-29: the reference iteration has 7 steps (one of the observer, three of researchers, two of
analyzers, one of the adviser).

| purpose | round trips | commits | at least |
|---|---|---|---|
| load the step | 7 | | 7; with the claim it would be committed at once, 7 commits more |
| read the types and the graph; number what a prompt shows | 8 | 4 | 7, numbering with the first commit |
| claim, phase run, reservation and record of the first call | 7 | 7 | 7 |
| what is known of pages, and names, between two calls | 7 | | 7 |
| answer or result, record of the next call | 9 | 9 | 9 |
| begin, locks and look-ups of tools | 5 | | 5 |
| what tools write, answer, end of the step | 5 | 5 | 5 |
| answer, end of the step | 2 | 2 | 2 |
| joins and transitions | 9 | 3 | 7 |
| start | 2 | 1 | 2 |

Look-ups of a query between two calls were 12 round trips and are 6, those of a plan were 3 and are 1, and each of the
two analyzers needs one less for the relations of its nodes. The trigrams of names have an index of their own
([decision 0066](decisions/0066-an-index-for-similar-names.md)). Measured before and after both, one run each, on a
machine that was busy with other work: 74.6 and 65.8 round trips, 271 and 261 statements, 245 and 225 kB of WAL
(`graph_nodes` 62.6 and 41.5, in a young graph), 31 and 31 commits. Round trips and statements are without those of
timers (3.9 and 7.7 round trips), which depend on how long the iterations take.

Then the agent is loaded with its step, what a survey is built from is read in the round trip that looks for a pinned
one, the queries of a round in one process share it, a payment checks the lease itself and marks the phase run as
complete, and the end of a step looks for open calls itself. `python -m bench.loop --counts`, twice before and after in
turn: 66.2, 66.2 and 61.8, 61.8 round trips; 264.2, 263.8 and 219.3, 219.4 statements. Next step: the reads of a step in
the round trip that loads it. They need the owner of the agent, and the requests and the round in the input of the step,
which events do not have.

The budgets change in 14 of these commits, 23 before [decision 0065](decisions/0065-reserve-once-a-step.md). Measured
before and after it, one run each, on a busy machine: 75.6 and 76.8 round trips, 274 and 277 statements, 229 and 230
kB of WAL (`budget_days` 6.4 and 3.9, `steps` 13.9 and 18.1), 211 and 239 foreign-key checks. So it saves writes of
the budget rows, which all steps share, and nothing else was seen to change. The column "at least" is an estimate.

Group commit was measured before it was removed, with 32 agents, in pairs of one run each with and without it, in
turn, on a machine that was busy with other work: 3.5 and 5.6, 1.2 and 2.6, 1.4 and 1.4 iterations a second; 203 and
202, 242 and 201, 237 and 215 ms of processor time; 28 and 30, 31 and 31, 32 and 33 commits. It
saved up to two commits, and did not gain a tenth of the iterations.
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
        "release, and with the ledger, leases, budgets and evidence. The model and the search answer at once: in the "
        "process, or over HTTP from a process of their own, which is not counted. The same run measures two *floors*: "
        "the same calls and rows written by hand in one asyncio process, which records every answer with its rows in "
        "one commit and guarantees nothing else. The second one calls model and search over HTTP with the shipped "
        "clients, and has indexes for search and evidence. The command writes this page."
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
    yield from _sides("Compared with the floor", figures.loop, figures.floor)
    yield (
        f"From one service's commit to the next one's start: {figures.hop_p50 * 1000:.1f} ms at p50,"
        f" {figures.hop_p95 * 1000:.1f} ms at p95."
    )
    yield ""
    yield from _sides(
        "The same over HTTP, compared with the second floor",
        figures.loop_over_http,
        figures.floor_over_http,
    )
    yield from count_lines(figures.counted)
    yield from _processes(figures)
    yield from _ages(figures)
    yield from _makespans(figures)
    yield ""
    yield LIMITS.rstrip()


def _sides(title: str, loop: Side, floor: Side) -> Iterator[str]:
    yield f"## {title}"
    yield ""
    yield "| | loop | floor | times |"
    yield "|---|---|---|---|"
    rows: list[tuple[str, Callable[[Side], float], str]] = [
        ("one at a time, p50", lambda side: side.idle_p50 * 1000, "ms"),
        ("one at a time, p95", lambda side: side.idle_p95 * 1000, "ms"),
        ("32 agents", lambda side: side.per_second, "/s"),
        ("commits, one at a time", lambda side: side.idle.commits, ""),
        ("commits, 32 agents", lambda side: side.load.commits, ""),
        ("WAL", lambda side: side.idle.wal_bytes / 1000, "kB"),
        ("messages", lambda side: side.idle.messages, ""),
        ("processor time, one at a time", lambda side: side.idle.all_seconds * 1000, "ms"),
        ("processor time, 32 agents", lambda side: side.load.all_seconds * 1000, "ms"),
    ]
    for label, value, unit in rows:
        yield _row(label, value(loop), value(floor), unit)
    yield ""


def count_lines(counted: Counted) -> Iterator[str]:
    """Render what PostgreSQL does for an iteration."""
    yield "## What PostgreSQL does for an iteration"
    yield ""
    yield "Counted in a run of their own, because counting costs time."
    yield ""
    yield "| | one at a time | 32 agents |"
    yield "|---|---|---|"
    alone, load = counted.alone, counted.load
    rows: list[tuple[str, Callable[[Counts], float]]] = [
        ("round trips", lambda counts: counts.trips),
        ("statements", lambda counts: counts.statements),
        ("foreign-key checks", lambda counts: counts.checks),
        (
            "ms in which a statement waited for a lock",
            lambda counts: counts.lock_wait_seconds * 1000,
        ),
    ]
    for label, value in rows:
        yield f"| {label} | {value(alone):.1f} | {value(load):.1f} |"
    for table, size in alone.wal_bytes.items():
        if size >= SHOWN_WAL_BYTES:
            loaded = load.wal_bytes.get(table, 0.0)
            yield f"| kB of WAL for {table} | {size / 1000:.1f} | {loaded / 1000:.1f} |"
    yield ""


def _ages(figures: Figures) -> Iterator[str]:
    yield "## As an agent's graph and history grow"
    yield ""
    yield "| iterations | processor time | duration (p50) |"
    yield "|---|---|---|"
    for age in figures.ages:
        yield f"| {age.iterations} | {_as_ms(age.cpu_seconds)} | {_as_ms(age.seconds)} |"
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
