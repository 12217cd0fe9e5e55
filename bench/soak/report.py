"""The run as a Markdown page, with explanations of what grows."""

import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from bench.loop import scripted_model
from bench.loop.report import machine
from bench.soak import judging
from bench.soak.judging import Growth, Trend, faults
from bench.soak.sampling import Run, Sample
from shared.runtime.settings import Settings

MIB: Final = 1024**2


def progress(sample: Sample) -> str:
    work, processes = sample.work, sample.processes
    memory = sum(usage.pss_bytes for usage in processes.values()) / MIB
    tables = sum(usage.bytes for usage in sample.tables.values()) / MIB
    return (
        f"{sample.at_seconds / 60:5.1f} min  {work.completed} completed, {work.failed} failed, {work.running} running;"
        f"  p50 {ms(percentile(sample.seconds, 50))} ms, p95 {ms(percentile(sample.seconds, 95))} ms;  lag {sample.lag};"
        f"  memory {memory:.0f} MiB, tables {tables:.1f} MiB"
    )


def percentile(values: Sequence[float], percent: int) -> float | None:
    """The percentile of `values`; None if there are none."""
    if len(values) < 2:
        return values[0] if values else None
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]


def ms(seconds: float | None) -> str:
    return "—" if seconds is None else f"{seconds * 1000:.0f}"


def mib(size: float) -> str:
    return f"{size / MIB:.1f}"


def table_row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


ANCHORS: Final = 2
NODES: Final = scripted_model.QUERIES * scripted_model.NODES_PER_QUERY + scripted_model.INSIGHTS
EDGES: Final = (
    scripted_model.QUERIES * (scripted_model.NODES_PER_QUERY - 1) + scripted_model.INSIGHTS * 2
)
"""Edges that an iteration of the script adds, including those of analyses."""
CONTEXTS: Final = "contexts"
"""The table of contexts that phases were shown."""


def explain_graph(run: Run) -> str:
    """Describe the growth of the graphs."""
    sample = run.at_rest or run.samples[-1]
    work, first = sample.work, run.samples[0].work
    text = (
        f"The graphs grow: they had {first.nodes} nodes and {first.edges} edges in the first sample and {work.nodes} and"
        f" {work.edges} at the end, {work.nodes / run.agents:.0f} nodes an agent."
    )
    nodes = ANCHORS * run.agents + NODES * work.completed
    edges = EDGES * work.completed
    if (work.nodes, work.edges, work.merges, work.running) == (nodes, edges, 0, 0):
        return (
            f"{text} Each completed iteration added {NODES} nodes and {EDGES} edges, including analyses and their links."
            " Names are new in each iteration, and no node was merged."
        )
    return (
        f"{text} Expected: {nodes} nodes and {edges} edges from the completed iterations. There were {work.merges} merges,"
        f" and {work.running} iterations were still running."
    )


def explain_stream(samples: Sequence[Sample], settings: Settings) -> str:
    """Describe the stream's shipped limits, and when they are reached at this rate."""
    _, last = judging.halves(samples)
    before, after = (
        sum(stream.bytes for stream in sample.streams.values()) for sample in (last[0], last[-1])
    )
    per_hour = (after - before) / (last[-1].at_seconds - last[0].at_seconds) * 3600
    limits = (
        f"As shipped, messages are dropped when they are {settings.stream_max_age_seconds / 86400:g} days old, or the oldest"
        f" when the stream has {settings.stream_max_bytes / MIB:,.0f} MiB."
    )
    if per_hour <= 0:
        return limits
    hours = (settings.stream_max_bytes - after) / per_hour
    return f"{limits} At this rate ({per_hour / MIB:.1f} MiB an hour) it is full {hours:,.0f} hours after this run."


def explain_growth(run: Run, settings: Settings) -> Iterator[str]:
    """An explanation for each line that grows."""
    samples = run.steady
    for trend in judging.memory(samples):
        if trend.grows:
            yield _explain_memory(trend, samples)
    for trend in judging.files(samples):
        if trend.grows:
            yield f"Open files of {trend.what}: not explained yet."
    for trend in judging.flat_tables(samples):
        if trend.grows:
            yield _explain_table(trend, samples)
    for growth in judging.growing_tables(samples):
        if growth.grows:
            why = (
                _explain_context(samples, settings)
                if growth.what == CONTEXTS
                else "not explained yet."
            )
            yield f"Table {growth.what}: {why}"
    for growth in judging.streams(samples):
        if growth.grows:
            yield f"Stream {growth.what}: not explained yet."


def _explain_memory(grown: Trend, samples: Sequence[Sample]) -> str:
    _, last = judging.halves(samples)
    before, after = (sample.processes[grown.what] for sample in (last[0], last[-1]))
    private = (after.private_bytes - before.private_bytes) / MIB
    text = (
        f"Memory of {grown.what}: {grown.growth / MIB:+.1f} MiB over the last half by its slope; from its first sample to"
        f" its last {(after.pss_bytes - before.pss_bytes) / MIB:+.1f} MiB, {private:+.1f} of which is private."
    )
    return f"{text} Not explained yet."


def _explain_table(grown: Trend, samples: Sequence[Sample]) -> str:
    _, last = judging.halves(samples)
    before, after = (sample.tables[grown.what] for sample in (last[0], last[-1]))
    return (
        f"Table {grown.what}: {grown.growth / 1024:+.0f} KiB; live rows {before.live_rows} in the middle and"
        f" {after.live_rows} at the end, dead rows {before.dead_rows} and {after.dead_rows}, vacuumed"
        f" {after.autovacuums - before.autovacuums} times in between. Not explained further."
    )


def _explain_context(samples: Sequence[Sample], settings: Settings) -> str:
    first, last = (
        [size for sample in half if (size := sample.work.context_bytes) is not None]
        for half in judging.halves(samples)
    )
    if not first or not last:
        return "not explained yet."
    before, after = sum(first) / len(first), sum(last) / len(last)
    text = f"a graph context had {before:,.0f} bytes on average in the first half and {after:,.0f} in the last"
    if after > before * (1 + judging.MAX_GROWTH_SHARE_PER_ITERATION):
        return f"{text}. It has at most {settings.context_tokens} tokens, so it should be flat by then."
    return f"{text}, which does not explain it."


MAX_TIME_ROWS: Final = 13
BUSY_LOAD: Final = 0.5
"""Load average above which other processes used the machine."""


def render_page(run: Run, settings: Settings) -> str:
    return "\n".join(_lines(run, settings)).rstrip() + "\n"


def _lines(run: Run, settings: Settings) -> Iterator[str]:
    yield f"# {run.agents} agents for {run.ran_seconds / 60:.0f} minutes"
    yield ""
    yield from _about(run)
    yield from _verdict_lines(run)
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
        "`make bench-soak` writes this page. It runs every service and the API in separate processes, on NATS and PostgreSQL"
        " with the shipped settings for durability, retention and autovacuum. The model and the search answer immediately."
        f" The scheduler starts an iteration of each agent every {run.period_seconds} s; the agents are spread evenly over"
        " that time. There are no API requests, no advice, no configurations and no conversations, so the notifier and the"
        " assistant are idle."
    )
    yield ""
    yield "This run: " + ", ".join(f"{name} {value}" for name, value in machine().items()) + "."
    if run.load_before >= BUSY_LOAD:
        yield f"The machine was busy: its load average was {run.load_before:.1f} before the run."
    if not run.is_whole:
        yield (
            f"The run was stopped after {run.ran_seconds / 60:.1f} of {run.planned_seconds / 60:g} minutes."
        )
    yield (
        f"{len(run.samples)} samples. Growth is judged from the {len(run.steady)} samples after a warm-up of"
        f" {run.warm_up_seconds / 60:g} minutes; slopes are least squares over the last half of them."
    )
    yield ""


def _verdict_lines(run: Run) -> Iterator[str]:
    fault_lines = faults(run)
    if not fault_lines:
        yield "**Everything that should not grow is flat or bounded, no iteration failed, and no message waits at the end.**"
    else:
        yield "**Problems:**"
        yield ""
        yield from (f"- {fault}" for fault in fault_lines)
    yield ""
    if run.complaints:
        yield f"The services warned {len(run.complaints)} times; the first: `{run.complaints[0][:300]}`"
        yield ""


def _over_time(samples: Sequence[Sample]) -> Iterator[str]:
    yield "## Over time"
    yield ""
    yield (
        "| minute | iterations | p50 ms | p95 ms | waiting or in flight | services and api MiB | PostgreSQL MiB | NATS MiB |"
        " tables MiB | stream MiB | WAL files MiB |"
    )
    yield "|---|---|---|---|---|---|---|---|---|---|---|"
    apart = max(1, -(-len(samples) // MAX_TIME_ROWS))
    for at in range(0, len(samples), apart):
        yield _row_of(samples[at], samples[max(0, at - apart + 1) : at + 1])
    yield ""


def _row_of(sample: Sample, since: Sequence[Sample]) -> str:
    """A row of the table; latencies are of all samples `since` the last row, including this one."""
    processes = dict(sample.processes)
    postgres, nats = processes.pop("postgres").pss_bytes, processes.pop("nats").pss_bytes
    services = sum(usage.pss_bytes for usage in processes.values())
    tables = sum(usage.bytes for usage in sample.tables.values())
    stream = sum(usage.bytes for usage in sample.streams.values())
    seconds = _seconds(since)
    return table_row(
        f"{sample.at_seconds / 60:.1f}",
        str(sample.work.completed),
        ms(percentile(seconds, 50)),
        ms(percentile(seconds, 95)),
        str(sample.lag),
        *(mib(usage) for usage in (services, postgres, nats, tables, stream, sample.wal_bytes)),
    )


def _iterations(run: Run) -> Iterator[str]:
    work = (run.at_rest or run.samples[-1]).work
    yield "## Iterations"
    yield ""
    yield (
        f"{work.started} started, {work.completed} completed, {work.failed} failed, {work.with_errors} with errors;"
        f" {work.failed_steps} failed steps, {work.republish_count} steps republished by the reconciler,"
        f" {work.dead_letters} dead letters. Maximum in one sample: {_max(run, lambda row: row.work.running)} running"
        f" iterations, {_max(run, lambda row: row.work.open_steps)} open steps,"
        f" {_max(run, lambda row: row.work.lapsed_leases)} lapsed leases."
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
    yield explain_graph(run)
    yield ""


def _quarter(name: str, samples: Sequence[Sample]) -> str:
    first, last = samples[0], samples[-1]
    seconds = _seconds(samples[1:])
    completed = last.work.completed - first.work.completed
    seconds_used = sum(
        usage.seconds - first.processes[name].seconds for name, usage in last.processes.items()
    )
    return table_row(
        name,
        str(completed),
        ms(percentile(seconds, 50)),
        ms(percentile(seconds, 95)),
        ms(seconds_used / completed) if completed else "—",
        f"{seconds_used / (last.at_seconds - first.at_seconds):.2f}",
    )


def _queues(run: Run) -> Iterator[str]:
    yield "## Queues"
    yield ""
    yield "| consumer | max waiting | max in flight | max redelivered | waiting or in flight at the end |"
    yield "|---|---|---|---|---|"
    for name in run.samples[0].queues:
        queues = [sample.queues[name] for sample in run.samples if name in sample.queues]
        end = run.at_rest and run.at_rest.queues.get(name)
        yield table_row(
            name,
            str(max(sample.lag for sample in queues)),
            str(max(sample.in_flight for sample in queues)),
            str(max(sample.redelivered for sample in queues)),
            str(end.lag + end.in_flight) if end else "not seen",
        )
    yield ""


def _memory(samples: Sequence[Sample]) -> Iterator[str]:
    yield "## Memory"
    yield ""
    yield (
        "Proportional set size (PSS), which can be added up; of PostgreSQL the average of its processes, since their number"
        " depends on the pools of its clients, with all of their RSS. Flat means growth over the last half of at most"
        f" {judging.MAX_GROWTH_SHARE:.0%} or {judging.MEMORY_BYTES / MIB:g} MiB; bounded means that the last value is"
        " above the highest of the first half by no more than that."
    )
    yield ""
    yield "| | RSS MiB at the end | PSS MiB after the warm-up | in the middle | at the end | MiB an hour | |"
    yield "|---|---|---|---|---|---|---|"
    for trend in judging.memory(samples):
        rss = samples[-1].processes[trend.what].rss_bytes
        yield table_row(trend.what, mib(rss), *_trend(trend, MIB), _verdict(trend))
    yield ""
    counts = [sample.processes[judging.POSTGRES].processes for sample in samples]
    files = [
        sample.processes[judging.POSTGRES].files / count
        for sample, count in zip(samples, counts, strict=True)
    ]
    yield (
        f"PostgreSQL had {min(counts)} to {max(counts)} processes, {counts[-1]} in the last sample. The pools of the clients"
        " replace a connection after an hour; one that is asked for another connection meanwhile opens it, up to its size,"
        " and closes it when it was idle for ten minutes."
    )
    yield ""
    yield (
        f"Open files. Flat means growth of at most {judging.MAX_GROWTH_SHARE:.0%} or {judging.OPEN_FILES:g}; bounded as"
        f" above. A process of PostgreSQL had {min(files):.0f} to {max(files):.0f}, a cache of at most"
        " `max_files_per_process` (1,000)."
    )
    yield ""
    yield "| | after the warm-up | in the middle | at the end | an hour | |"
    yield "|---|---|---|---|---|---|"
    for trend in judging.files(samples):
        yield table_row(trend.what, *_trend(trend, 1), _verdict(trend))
    yield ""


def _tables(samples: Sequence[Sample]) -> Iterator[str]:
    yield "## Tables"
    yield ""
    yield (
        "Sizes include indexes and TOAST. Rows of these tables are deleted only with their agent, or after weeks: they hold"
        " its graph and its costs. Flat means that growth per iteration in the last half is at most"
        f" {judging.MAX_GROWTH_SHARE_PER_ITERATION:.0%} above the first half, or at most"
        f" {judging.PAGES_BYTES // 1024} KiB in all; bounded means that in the last quarter it is at most"
        f" {judging.MAX_GROWTH_SHARE_OF_QUARTER:.0%} above the third."
    )
    yield ""
    yield from _growth_table(judging.growing_tables(samples))
    yield (
        f"The other tables should not grow. Flat means growth over the last half of at most {judging.MAX_GROWTH_SHARE:.0%}"
        f" or {judging.TABLE_BYTES // 1024} KiB."
    )
    yield ""
    yield "| | KiB after the warm-up | in the middle | at the end | KiB an hour | live, dead rows at the end | |"
    yield "|---|---|---|---|---|---|---|"
    untouched = 0
    for trend in judging.flat_tables(samples):
        table = samples[-1].tables[trend.what]
        if trend.start == trend.end and not table.live_rows:
            untouched += 1
            continue
        rows = f"{table.live_rows}, {table.dead_rows}"
        yield table_row(trend.what, *_trend(trend, 1024), rows, _verdict(trend))
    yield ""
    yield f"{untouched} other tables are empty and have not grown."
    yield ""


def _stream(run: Run, settings: Settings) -> Iterator[str]:
    yield "## Stream"
    yield ""
    yield from _growth_table(judging.streams(run.steady))
    yield explain_stream(run.steady, settings)
    yield ""


def _growth_table(growths: Iterable[Growth]) -> Iterator[str]:
    yield "| | MiB at the end | bytes per iteration, first half | last half | third quarter | last quarter | |"
    yield "|---|---|---|---|---|---|---|"
    for growth in growths:
        yield table_row(
            growth.what,
            f"{growth.bytes / MIB:.1f}",
            f"{growth.first:,.0f}",
            f"{growth.last:,.0f}",
            f"{growth.third_quarter:,.0f}",
            f"{growth.last_quarter:,.0f}",
            _verdict(growth),
        )
    yield ""


def _explanations(run: Run, settings: Settings) -> Iterator[str]:
    lines = list(explain_growth(run, settings))
    if lines:
        yield "## What grows, and why"
        yield ""
        yield from (f"- {line}" for line in lines)


def _trend(trend: Trend, unit: int) -> list[str]:
    digits = 0 if unit == 1 else 1
    cells = [f"{value / unit:.{digits}f}" for value in (trend.start, trend.middle, trend.end)]
    return [*cells, f"{trend.per_hour / unit:+.1f}"]


def _verdict(line: Trend | Growth) -> str:
    return "grows" if line.grows else "flat" if line.is_flat else "bounded"


def _max(run: Run, value: Callable[[Sample], int]) -> int:
    return max(map(value, run.samples))


def _seconds(samples: Iterable[Sample]) -> list[float]:
    return [seconds for sample in samples for seconds in sample.seconds]
