"""Why something grows, as far as the figures of the run tell it."""

from collections.abc import Iterator, Sequence
from typing import Final

from bench.loop import script
from bench.soak import judging
from bench.soak.judging import Trend
from bench.soak.sample import Run, Sample
from bench.soak.telling import MIB
from shared.runtime.settings import Settings

ANCHORS: Final = 2
NODES: Final = script.QUERIES * script.NODES_OF_A_QUERY + script.INSIGHTS
EDGES: Final = script.QUERIES * (script.NODES_OF_A_QUERY - 1) + script.INSIGHTS * 2
"""That an iteration of the script adds, its analyses and their ties among them."""
CONTEXTS: Final = "contexts"
"""The table of what phases were shown of the graph."""


def graph(run: Run) -> str:
    """What the graphs do over the run."""
    seen = run.at_rest or run.samples[-1]
    work, first = seen.work, run.samples[0].work
    told = (
        f"The graphs grow: they had {first.nodes} nodes and {first.edges} edges in the first sample and {work.nodes} and"
        f" {work.edges} at the end, {work.nodes / run.agents:.0f} nodes an agent."
    )
    nodes = ANCHORS * run.agents + NODES * work.completed
    edges = EDGES * work.completed
    if (work.nodes, work.edges, work.merges, work.running) == (nodes, edges, 0, 0):
        return (
            f"{told} Each completed iteration added {NODES} nodes and {EDGES} edges, its analyses and their ties among them:"
            " the script's names are new ones each time, and none fell together with one that was there."
        )
    return (
        f"{told} By the script the completed iterations make {nodes} nodes and {edges} edges; {work.merges} merges, and"
        f" {work.running} iterations still ran when this was counted."
    )


def stream(samples: Sequence[Sample], settings: Settings) -> str:
    """The limits as shipped, and when they are met at this rate."""
    _, last = judging.halves(samples)
    before, after = (sum(it.bytes for it in each.streams.values()) for each in (last[0], last[-1]))
    per_hour = (after - before) / (last[-1].at_seconds - last[0].at_seconds) * 3600
    limits = (
        f"As shipped, messages are dropped when they are {settings.stream_max_age_seconds / 86400:g} days old, or the oldest"
        f" when the stream has {settings.stream_max_bytes / MIB:,.0f} MiB."
    )
    if per_hour <= 0:
        return limits
    hours = (settings.stream_max_bytes - after) / per_hour
    return f"{limits} At this rate ({per_hour / MIB:.1f} MiB an hour) it is full {hours:,.0f} hours after this run."


def of(run: Run, settings: Settings) -> Iterator[str]:
    """One for each line that is not flat."""
    samples = run.steady
    for each in judging.memory(samples):
        if not each.is_flat:
            yield _memory(each, samples)
    for each in judging.files(samples):
        if not each.is_flat:
            yield f"Open files of {each.what}: not explained yet."
    for each in judging.flat_tables(samples):
        if not each.is_flat:
            yield _table(each, samples)
    for kept in judging.kept_tables(samples):
        if not kept.is_flat:
            why = _context(samples, settings) if kept.what == CONTEXTS else "not explained yet."
            yield f"Table {kept.what}: {why}"
    for kept in judging.streams(samples):
        if not kept.is_flat:
            yield f"Stream {kept.what}: not explained yet."


def _memory(grown: Trend, samples: Sequence[Sample]) -> str:
    _, last = judging.halves(samples)
    before, after = (each.processes[grown.what] for each in (last[0], last[-1]))
    private = (after.private_bytes - before.private_bytes) / MIB
    told = (
        f"Memory of {grown.what}: {grown.growth / MIB:+.1f} MiB over the last half by its slope; from its first sample to"
        f" its last {(after.pss_bytes - before.pss_bytes) / MIB:+.1f} MiB, {private:+.1f} of which is private."
    )
    if grown.what != "postgres":
        return f"{told} Not explained yet."
    count = f"It had {before.processes} processes then and {after.processes} in the end."
    if private * MIB <= judging.MEMORY_BYTES:
        return f"{told} {count} The rest is what they share: buffers, which count from when they are first used."
    return f"{told} {count} What is private is not explained yet."


def _table(grown: Trend, samples: Sequence[Sample]) -> str:
    _, last = judging.halves(samples)
    before, after = (each.tables[grown.what] for each in (last[0], last[-1]))
    return (
        f"Table {grown.what}: {grown.growth / 1024:+.0f} KiB; live rows {before.live_rows} in the middle and"
        f" {after.live_rows} at the end, dead rows {before.dead_rows} and {after.dead_rows}, vacuumed"
        f" {after.autovacuums - before.autovacuums} times in between. Not explained further."
    )


def _context(samples: Sequence[Sample], settings: Settings) -> str:
    first, last = (
        [size for each in half if (size := each.work.context_bytes) is not None]
        for half in judging.halves(samples)
    )
    if not first or not last:
        return "not explained yet."
    before, after = sum(first) / len(first), sum(last) / len(last)
    told = (
        f"a context, what a phase is shown of a graph, had {before:,.0f} bytes in the first half and {after:,.0f} in the"
        " last"
    )
    if after > before * (1 + judging.MOST_PART_PER_ITERATION):
        return f"{told}. A phase is shown {settings.context_tokens} tokens of it at most: by then it should be flat."
    return f"{told}, which does not explain it."
