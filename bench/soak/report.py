"""The run as a page."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from bench.loop.report import machine
from bench.soak import explaining, judging
from bench.soak.judging import Kept, Trend
from bench.soak.sample import Run, Sample
from bench.soak.telling import MIB, mib, ms, percentile, row
from bench.soak.verdict import faults
from shared.runtime.settings import Settings

ROWS_OF_TIME: Final = 13
NOT_IDLE: Final = 0.5
"""A load."""


def document(run: Run, settings: Settings) -> str:
    return "\n".join(_lines(run, settings)).rstrip() + "\n"


def _lines(run: Run, settings: Settings) -> Iterator[str]:
    yield f"# {run.agents} agents for {run.ran_seconds / 60:.0f} minutes"
    yield ""
    yield from _about(run)
    yield from _found(run)
    if not run.samples:
        return
    yield from _over_time(run.samples)
    yield from _iterations(run)
    yield from _queues(run)
    if judging.is_long_enough(run):
        yield from _memory(run.steady)
        yield from _tables(run.steady)
        yield from _stream(run, settings)
        yield from _explanations(run, settings)


def _about(run: Run) -> Iterator[str]:
    yield (
        "`make bench-soak` runs the shipped actors and the api, each in its process, on NATS and PostgreSQL with their"
        " shipped durability and settings: retention, autovacuum, the reconciler, ledger, leases, budgets, evidence. The"
        " model and the search answer at once. The scheduler starts each agent's iteration every"
        f" {run.period_seconds} s by the agent's own rhythm; the agents are spread over it evenly. Nobody asks the api. The"
        " script gives no advice, and no agent is configured or talked with, so that notifier and assistant stand by. It"
        " makes this page."
    )
    yield ""
    yield "Of this run: " + ", ".join(f"{name} {value}" for name, value in machine().items()) + "."
    if run.load_before >= NOT_IDLE:
        yield f"Others used the machine: its load was {run.load_before:.1f} before it began."
    if not run.is_whole:
        yield (
            f"It was ended after {run.ran_seconds / 60:.1f} of {run.wanted_seconds / 60:g} minutes; this is what was seen"
            " until then."
        )
    yield (
        f"{len(run.samples)} samples; what is said of growth is of the {len(run.steady)} after a warm-up of"
        f" {run.warm_up_seconds / 60:g} minutes, and slopes are of the last half of those, by least squares."
    )
    yield ""


def _found(run: Run) -> Iterator[str]:
    found = faults(run)
    if not found:
        yield "**All lines that should be flat are flat, no iteration failed, and nothing waits at the end.**"
    else:
        yield "**Not as it should be:**"
        yield ""
        yield from (f"- {each}" for each in found)
    yield ""
    if run.complaints:
        yield f"The actors warned {len(run.complaints)} times; the first: `{run.complaints[0][:300]}`"
        yield ""


def _over_time(samples: Sequence[Sample]) -> Iterator[str]:
    yield "## Over the time"
    yield ""
    yield (
        "| minute | iterations | p50 ms | p95 ms | waiting or in flight | actors and api MiB | PostgreSQL MiB | NATS MiB |"
        " tables MiB | stream MiB | WAL files MiB |"
    )
    yield "|---|---|---|---|---|---|---|---|---|---|---|"
    apart = max(1, -(-len(samples) // ROWS_OF_TIME))
    for at in range(0, len(samples), apart):
        yield _row_of(samples[at], samples[max(0, at - apart + 1) : at + 1])
    yield ""


def _row_of(sample: Sample, since: Sequence[Sample]) -> str:
    """The latencies are of all samples `since` the last row, this one among them."""
    held = dict(sample.processes)
    postgres, nats = held.pop("postgres").pss_bytes, held.pop("nats").pss_bytes
    actors = sum(each.pss_bytes for each in held.values())
    tables = sum(each.bytes for each in sample.tables.values())
    stream = sum(each.bytes for each in sample.streams.values())
    seconds = _seconds(since)
    return row(
        f"{sample.at_seconds / 60:.1f}",
        str(sample.work.completed),
        ms(percentile(seconds, 50)),
        ms(percentile(seconds, 95)),
        str(sample.lag),
        *(mib(each) for each in (actors, postgres, nats, tables, stream, sample.wal_bytes)),
    )


def _iterations(run: Run) -> Iterator[str]:
    work = (run.at_rest or run.samples[-1]).work
    yield "## Iterations"
    yield ""
    yield (
        f"{work.started} started, {work.completed} completed, {work.failed} failed, {work.with_errors} with errors;"
        f" {work.failed_steps} failed steps, {work.resends} steps asked for again by the reconciler,"
        f" {work.dead_letters} dead letters. Most at a time in a sample: {_most(run, lambda it: it.work.running)} running"
        f" iterations, {_most(run, lambda it: it.work.open_steps)} open steps,"
        f" {_most(run, lambda it: it.work.lapsed_leases)} lapsed leases."
    )
    yield ""
    if len(run.steady) < 2:
        return
    quarter = max(2, len(run.steady) // 4)
    yield "| after the warm-up | iterations | p50 ms | p95 ms | processor ms of an iteration | cores busy |"
    yield "|---|---|---|---|---|---|"
    for name, part in (
        ("first quarter", run.steady[:quarter]),
        ("last quarter", run.steady[-quarter:]),
    ):
        yield _quarter(name, part)
    yield ""
    yield explaining.graph(run)
    yield ""


def _quarter(name: str, samples: Sequence[Sample]) -> str:
    first, last = samples[0], samples[-1]
    seconds = _seconds(samples[1:])
    completed = last.work.completed - first.work.completed
    used = sum(each.seconds - first.processes[who].seconds for who, each in last.processes.items())
    return row(
        name,
        str(completed),
        ms(percentile(seconds, 50)),
        ms(percentile(seconds, 95)),
        ms(used / completed) if completed else "—",
        f"{used / (last.at_seconds - first.at_seconds):.2f}",
    )


def _queues(run: Run) -> Iterator[str]:
    yield "## Queues"
    yield ""
    yield "| consumer | most waiting | most in flight | most redelivered | at the end waiting or in flight |"
    yield "|---|---|---|---|---|"
    for name in run.samples[0].queues:
        seen = [each.queues[name] for each in run.samples if name in each.queues]
        end = run.at_rest and run.at_rest.queues.get(name)
        yield row(
            name,
            str(max(each.lag for each in seen)),
            str(max(each.in_flight for each in seen)),
            str(max(each.redelivered for each in seen)),
            str(end.lag + end.in_flight) if end else "not seen",
        )
    yield ""


def _memory(samples: Sequence[Sample]) -> Iterator[str]:
    yield "## Memory"
    yield ""
    yield (
        "Each process's part (PSS), which can be summed; PostgreSQL with all its backends. Flat is what grows over the last"
        f" half by {judging.MOST_PART:.0%} or {judging.MEMORY_BYTES / MIB:g} MiB at most."
    )
    yield ""
    yield "| | RSS MiB at the end | PSS MiB after the warm-up | in the middle | at the end | MiB an hour | |"
    yield "|---|---|---|---|---|---|---|"
    for each in judging.memory(samples):
        rss = samples[-1].processes[each.what].rss_bytes
        yield row(each.what, mib(rss), *_trend(each, MIB), _verdict(each.is_flat))
    yield ""
    yield (
        f"Open files: flat is what grows by {judging.MOST_PART:.0%} or {judging.FILES:g} at most."
    )
    yield ""
    yield "| | after the warm-up | in the middle | at the end | an hour | |"
    yield "|---|---|---|---|---|---|"
    for each in judging.files(samples):
        yield row(each.what, *_trend(each, 1), _verdict(each.is_flat))
    yield ""


def _tables(samples: Sequence[Sample]) -> Iterator[str]:
    yield "## Tables"
    yield ""
    yield (
        "With their indexes and TOAST. Of these nothing is deleted while the agent lives: they are what it knows and what it"
        " has cost. Flat is what grows in the last half by no more per iteration than in the first, within"
        f" {judging.MOST_PART_PER_ITERATION:.0%}, or {judging.PAGES_BYTES // 1024} KiB in all."
    )
    yield ""
    yield from _kept(judging.kept_tables(samples))
    yield (
        f"The others should not grow. Flat is what grows over the last half by {judging.MOST_PART:.0%} or"
        f" {judging.TABLE_BYTES // 1024} KiB at most."
    )
    yield ""
    yield "| | KiB after the warm-up | in the middle | at the end | KiB an hour | live, dead rows at the end | |"
    yield "|---|---|---|---|---|---|---|"
    untouched = 0
    for each in judging.flat_tables(samples):
        table = samples[-1].tables[each.what]
        if each.start == each.end and not table.live_rows:
            untouched += 1
            continue
        rows = f"{table.live_rows}, {table.dead_rows}"
        yield row(each.what, *_trend(each, 1024), rows, _verdict(each.is_flat))
    yield ""
    yield f"{untouched} more are empty and have not grown."
    yield ""


def _stream(run: Run, settings: Settings) -> Iterator[str]:
    yield "## Stream"
    yield ""
    yield from _kept(judging.streams(run.steady))
    yield explaining.stream(run.steady, settings)
    yield ""


def _kept(all_kept: Iterable[Kept]) -> Iterator[str]:
    yield "| | MiB at the end | bytes per iteration, first half | last half | |"
    yield "|---|---|---|---|---|"
    for each in all_kept:
        yield row(
            each.what,
            f"{each.bytes / MIB:.1f}",
            f"{each.first:,.0f}",
            f"{each.last:,.0f}",
            _verdict(each.is_flat),
        )
    yield ""


def _explanations(run: Run, settings: Settings) -> Iterator[str]:
    found = list(explaining.of(run, settings))
    if found:
        yield "## What grows, and why"
        yield ""
        yield from (f"- {each}" for each in found)


def _trend(each: Trend, unit: int) -> list[str]:
    digits = 0 if unit == 1 else 1
    told = [f"{value / unit:.{digits}f}" for value in (each.start, each.middle, each.end)]
    return [*told, f"{each.per_hour / unit:+.1f}"]


def _verdict(is_flat: bool) -> str:
    return "flat" if is_flat else "grows"


def _most(run: Run, value: Callable[[Sample], int]) -> int:
    return max(map(value, run.samples))


def _seconds(samples: Iterable[Sample]) -> list[float]:
    return [seconds for each in samples for seconds in each.seconds]
