"""How figures are told, and a sample as one line for who waits."""

import statistics
from collections.abc import Sequence
from typing import Final

from bench.soak.sample import Sample

MIB: Final = 1024**2


def progress(sample: Sample) -> str:
    work, held = sample.work, sample.processes
    memory = sum(each.pss_bytes for each in held.values()) / MIB
    tables = sum(each.bytes for each in sample.tables.values()) / MIB
    return (
        f"{sample.at_seconds / 60:5.1f} min  {work.completed} completed, {work.failed} failed, {work.running} running;"
        f"  p50 {ms(percentile(sample.seconds, 50))} ms, p95 {ms(percentile(sample.seconds, 95))} ms;  lag {sample.lag};"
        f"  memory {memory:.0f} MiB, tables {tables:.1f} MiB"
    )


def percentile(values: Sequence[float], percent: int) -> float | None:
    """None of none."""
    if len(values) < 2:
        return values[0] if values else None
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]


def ms(seconds: float | None) -> str:
    return "—" if seconds is None else f"{seconds * 1000:.0f}"


def mib(held: float) -> str:
    return f"{held / MIB:.1f}"


def row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
