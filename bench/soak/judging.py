"""Decides whether the samples of a run stay flat, and lists what is wrong with a run. Pure."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import linear_regression
from typing import Final

from bench.soak.sampling import Run, Sample

MAX_GROWTH_SHARE: Final = 0.02
"""Flat means: growth in the last half by at most this share, or by at most one of the next three limits. Bounded means:
the last value is above the highest of the first half by no more than that.
"""
MEMORY_BYTES: Final = 2 * 1024**2
TABLE_BYTES: Final = 256 * 1024
OPEN_FILES: Final = 2.0
MAX_GROWTH_SHARE_PER_ITERATION: Final = 0.10
"""Flat growth means: at most this share more per iteration in the last half than in the first, or"""
PAGES_BYTES: Final = 64 * 1024
"""at most this many bytes more in all, because tables grow by pages. Bounded growth means:"""
MAX_GROWTH_SHARE_OF_QUARTER: Final = 0.05
"""at most this share more per iteration in the last quarter than in the one before."""
MIN_SAMPLES: Final = 3
"""Minimal samples in each half for a judgement."""

GROWING_TABLES: Final = frozenset(
    (
        *("iterations", "steps", "llm_interactions", "calls", "contexts", "pinned_contexts"),
        *("graph_nodes", "graph_edges", "graph_names", "evidence", "sources", "citations"),
        "graph_journal",
    )
)
"""Tables without deletions while the agent exists, which must grow."""

POSTGRES: Final = "postgres"

Value = Callable[[Sample], float]


@dataclass(frozen=True)
class Trend:
    """The trend of a value that should stay flat."""

    what: str
    start: float
    middle: float
    end: float
    per_hour: float
    """By least squares over the last half."""
    growth: float
    """Growth over the last half, by the same line."""
    peak_before: float
    """The highest value in the first half."""
    tolerance: float
    """Growth below this is ignored."""

    @property
    def bound(self) -> float:
        return max(self.tolerance, MAX_GROWTH_SHARE * self.middle)

    @property
    def is_flat(self) -> bool:
        return self.growth <= self.bound

    @property
    def is_bounded(self) -> bool:
        return self.end <= self.peak_before + self.bound

    @property
    def grows(self) -> bool:
        return not (self.is_flat or self.is_bounded)


@dataclass(frozen=True)
class Growth:
    """Growth per iteration of a value in each half."""

    what: str
    bytes: float
    """Size at the end."""
    first: float
    last: float
    """Bytes per iteration."""
    third_quarter: float
    last_quarter: float
    iterations: int
    """Iterations in the last half."""

    @property
    def is_flat(self) -> bool:
        more = self.last - self.first
        return (
            more <= MAX_GROWTH_SHARE_PER_ITERATION * self.first
            or more * self.iterations <= PAGES_BYTES
        )

    @property
    def is_bounded(self) -> bool:
        return self.last_quarter <= (1 + MAX_GROWTH_SHARE_OF_QUARTER) * self.third_quarter

    @property
    def grows(self) -> bool:
        return not (self.is_flat or self.is_bounded)


def is_long_enough(run: Run) -> bool:
    first, last = halves(run.steady)
    return min(len(first), len(last)) >= MIN_SAMPLES


def halves(samples: Sequence[Sample]) -> tuple[Sequence[Sample], Sequence[Sample]]:
    """Split the samples by time; the middle one belongs to both halves."""
    if not samples:
        return [], []
    middle = (samples[0].at_seconds + samples[-1].at_seconds) / 2
    first = [sample for sample in samples if sample.at_seconds <= middle]
    return first, [first[-1], *samples[len(first) :]]


def trend(label: str, samples: Sequence[Sample], value: Value, nothing: float) -> Trend:
    first, last = halves(samples)
    times = [sample.at_seconds for sample in last]
    per_second = linear_regression(times, [value(sample) for sample in last]).slope
    return Trend(
        label,
        value(samples[0]),
        value(last[0]),
        value(last[-1]),
        per_second * 3600,
        per_second * (times[-1] - times[0]),
        max(map(value, first)),
        nothing,
    )


def growth_per_iteration(label: str, samples: Sequence[Sample], value: Value) -> Growth:
    first, last = halves(samples)
    third_quarter, last_quarter = (_per_iteration(part, value)[0] for part in halves(last))
    in_last, iterations = _per_iteration(last, value)
    in_first, _ = _per_iteration(first, value)
    return Growth(
        label,
        value(samples[-1]),
        in_first,
        in_last,
        third_quarter,
        last_quarter,
        iterations,
    )


def _per_iteration(samples: Sequence[Sample], value: Value) -> tuple[float, int]:
    start, end = samples[0], samples[-1]
    iterations = end.work.completed - start.work.completed
    return (value(end) - value(start)) / max(iterations, 1), iterations


def _pss_of(name: str) -> Value:
    """For each process of a server: how many PostgreSQL has depends on the pools of its clients."""
    return lambda sample: sample.processes[name].pss_bytes / sample.processes[name].processes


def _files_of(name: str) -> Value:
    return lambda sample: sample.processes[name].files


def _table(name: str) -> Value:
    return lambda sample: sample.tables[name].bytes


def _stream(name: str) -> Value:
    return lambda sample: sample.streams[name].bytes


def memory(samples: Sequence[Sample]) -> Iterator[Trend]:
    for name in samples[0].processes:
        yield trend(name, samples, _pss_of(name), MEMORY_BYTES)


def files(samples: Sequence[Sample]) -> Iterator[Trend]:
    """Without PostgreSQL, which keeps the files of its tables open as a cache, up to `max_files_per_process`."""
    for name in samples[0].processes:
        if name != POSTGRES:
            yield trend(name, samples, _files_of(name), OPEN_FILES)


def flat_tables(samples: Sequence[Sample]) -> Iterator[Trend]:
    for name in sorted(samples[0].tables.keys() - GROWING_TABLES):
        yield trend(name, samples, _table(name), TABLE_BYTES)


def growing_tables(samples: Sequence[Sample]) -> Iterator[Growth]:
    for name in sorted(samples[0].tables.keys() & GROWING_TABLES):
        yield growth_per_iteration(name, samples, _table(name))


def streams(samples: Sequence[Sample]) -> Iterator[Growth]:
    for name in samples[0].streams:
        yield growth_per_iteration(name, samples, _stream(name))


def faults(run: Run) -> list[str]:
    return [*_work_faults(run), *_trend_faults(run), *_sample_faults(run)]


def _sample_faults(run: Run) -> Iterator[str]:
    if run.failures:
        yield f"{len(run.failures)} samples could not be taken; the first: {run.failures[0]}"


def _work_faults(run: Run) -> Iterator[str]:
    sample = run.at_rest or (run.samples[-1] if run.samples else None)
    if sample is None:
        yield "no sample was taken"
        return
    work = sample.work
    if not work.completed:
        yield "no iteration was completed"
    if work.failed or work.failed_steps or work.with_errors:
        yield (
            f"{work.failed} iterations failed, {work.with_errors} had errors, {work.failed_steps} steps failed"
        )
    if work.dead_letters:
        yield f"{work.dead_letters} dead letters are kept"
    if run.at_rest is None:
        yield "whether anything waits at the end was not seen"
    elif not sample.is_at_rest:
        yield (
            f"at the end {sample.lag} messages wait or are in flight, {work.running} iterations run, {work.open_steps} steps"
            f" are open, {work.unpublished_ends} ends were not published"
        )


def _trend_faults(run: Run) -> Iterator[str]:
    if not is_long_enough(run):
        yield "it ran too short a time after the warm-up to tell whether anything grows"
        return
    samples = run.steady
    for label, trends in (
        ("memory of", memory(samples)),
        ("open files of", files(samples)),
        ("table", flat_tables(samples)),
    ):
        yield from (f"{label} {item.what} grows" for item in trends if item.grows)
    for label, growths in (
        ("table", growing_tables(samples)),
        ("stream", streams(samples)),
    ):
        yield from (
            f"{label} {item.what} grows by more with each iteration"
            for item in growths
            if item.grows
        )
