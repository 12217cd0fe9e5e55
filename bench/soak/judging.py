"""Whether what was sampled stays as it is. Pure."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import linear_regression
from typing import Final

from bench.soak.sample import Run, Sample

MOST_PART: Final = 0.02
"""What is flat grows in the last half by this part of itself at most, or by so much as is nothing:"""
MEMORY_BYTES: Final = 2 * 1024**2
TABLE_BYTES: Final = 256 * 1024
FILES: Final = 2.0
MOST_PART_PER_ITERATION: Final = 0.10
"""What is kept grows in the last half by so much more per iteration than in the first, at most; or, in all, by"""
PAGES_BYTES: Final = 64 * 1024
"""more: a table grows by pages."""
FEWEST_SAMPLES: Final = 3
"""In each half, below which nothing is judged."""

KEPT: Final = frozenset(
    (
        *("iterations", "steps", "llm_interactions", "calls", "contexts"),
        *("graph_nodes", "graph_edges", "graph_names", "evidence", "sources", "citations"),
    )
)
"""Tables of which nothing is deleted while the agent lives: they are the truth, and must grow."""

Value = Callable[[Sample], float]


@dataclass(frozen=True)
class Trend:
    """Of something that should stay as it is."""

    what: str
    start: float
    middle: float
    end: float
    per_hour: float
    """By least squares over the last half."""
    growth: float
    """Over the last half, by the same line."""
    nothing: float
    """Growth that counts as none."""

    @property
    def bound(self) -> float:
        return max(self.nothing, MOST_PART * self.middle)

    @property
    def is_flat(self) -> bool:
        return self.growth <= self.bound


@dataclass(frozen=True)
class Kept:
    """Of something that grows with each iteration: by how much in each half."""

    what: str
    bytes: float
    """At the end."""
    first: float
    last: float
    """Bytes per iteration."""
    iterations: int
    """Of the last half."""

    @property
    def is_flat(self) -> bool:
        more = self.last - self.first
        return more <= MOST_PART_PER_ITERATION * self.first or more * self.iterations <= PAGES_BYTES


def is_long_enough(run: Run) -> bool:
    first, last = halves(run.steady)
    return min(len(first), len(last)) >= FEWEST_SAMPLES


def halves(samples: Sequence[Sample]) -> tuple[Sequence[Sample], Sequence[Sample]]:
    """By time; what stands in the middle belongs to both."""
    if not samples:
        return [], []
    middle = (samples[0].at_seconds + samples[-1].at_seconds) / 2
    first = [each for each in samples if each.at_seconds <= middle]
    return first, [first[-1], *samples[len(first) :]]


def trend(what: str, samples: Sequence[Sample], value: Value, nothing: float) -> Trend:
    _, last = halves(samples)
    times = [each.at_seconds for each in last]
    per_second = linear_regression(times, [value(each) for each in last]).slope
    return Trend(
        what,
        value(samples[0]),
        value(last[0]),
        value(last[-1]),
        per_second * 3600,
        per_second * (times[-1] - times[0]),
        nothing,
    )


def kept(what: str, samples: Sequence[Sample], value: Value) -> Kept:
    first, last = (_per_iteration(half, value) for half in halves(samples))
    return Kept(what, value(samples[-1]), first[0], last[0], last[1])


def _per_iteration(samples: Sequence[Sample], value: Value) -> tuple[float, int]:
    before, after = samples[0], samples[-1]
    iterations = after.work.completed - before.work.completed
    return (value(after) - value(before)) / max(iterations, 1), iterations


def _pss_of(name: str) -> Value:
    return lambda sample: sample.processes[name].pss_bytes


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
    for name in samples[0].processes:
        yield trend(name, samples, _files_of(name), FILES)


def flat_tables(samples: Sequence[Sample]) -> Iterator[Trend]:
    for name in sorted(samples[0].tables.keys() - KEPT):
        yield trend(name, samples, _table(name), TABLE_BYTES)


def kept_tables(samples: Sequence[Sample]) -> Iterator[Kept]:
    for name in sorted(samples[0].tables.keys() & KEPT):
        yield kept(name, samples, _table(name))


def streams(samples: Sequence[Sample]) -> Iterator[Kept]:
    for name in samples[0].streams:
        yield kept(name, samples, _stream(name))
