"""Judgement and page of a soak run."""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace

import psutil
import pytest

from bench.soak import judging, report
from bench.soak.judging import faults
from bench.soak.report import MIB, percentile, render_page
from bench.soak.sampling import ProcessUsage, Queue, Run, Sample, Stream, Table, Work, process_usage
from shared.database.tables import Base
from shared.runtime.settings import Settings

AGENTS = 2
APART_SECONDS = 60
WARM_UP_SECONDS = 300
ITERATIONS_APART = 10
PER_ITERATION = 50_000

Grown = Callable[[int], float]
"""Growth by sample number."""


def nothing(_: int) -> float:
    return 0


def sample(
    number: int, memory: Grown = nothing, table: Grown = nothing, kept: Grown = nothing
) -> Sample:
    completed = number * ITERATIONS_APART
    held = ProcessUsage(100 * MIB, int(90 * MIB + memory(number)), 60 * MIB, 1, 12, number * 2.0)
    grown = int(completed * PER_ITERATION + kept(number))
    return Sample(
        number * APART_SECONDS,
        {"observer": held, "postgres": held, "nats": held},
        {
            "contexts": Table(grown, 9, 0, 0),
            "agents": Table(int(MIB + table(number)), 2, 5, number),
        },
        {"VIGIL": Stream(completed * 15, completed * 9_000)},
        {"observer": Queue(0, 0, 0)},
        64 * MIB,
        work(completed),
        [0.5] * ITERATIONS_APART,
    )


def work(completed: int) -> Work:
    nodes = AGENTS * report.ANCHORS + completed * report.NODES
    edges = completed * report.EDGES
    return Work(completed, completed, 0, 0, 0, 0, 0, 0, 0, 0, 0, nodes, edges, 0, 12_000.0)


def run(memory: Grown = nothing, table: Grown = nothing, kept: Grown = nothing) -> Run:
    """A run of an hour."""
    samples = [sample(number, memory, table, kept) for number in range(61)]
    return Run(AGENTS, 60, WARM_UP_SECONDS, 3600, 0.0, 3600, True, samples, samples[-1])


def page(of: Run) -> str:
    return render_page(of, Settings())


def changed(of: Run, **work: int) -> Run:
    """Change the last sample."""
    assert of.at_rest is not None
    return replace(of, at_rest=replace(of.at_rest, work=replace(of.at_rest.work, **work)))


def test_an_hour_in_which_nothing_grows_is_without_fault() -> None:
    assert faults(run()) == []
    assert "All lines that should be flat are flat" in page(run())
    assert "What grows" not in page(run())


def test_the_slope_is_of_the_last_half_alone() -> None:
    samples = run(memory=lambda number: max(0, number - 40) * MIB).samples
    (trend, *_) = judging.memory(samples[40:])
    assert trend.per_hour == pytest.approx(60 * MIB)
    assert trend.growth == pytest.approx(10 * MIB)
    assert not trend.is_flat


def test_what_grew_before_the_last_half_is_not_held_against_it() -> None:
    assert faults(run(memory=lambda number: min(number, 30) * MIB)) == []


@pytest.mark.parametrize(
    ("mib_an_hour", "is_flat"), [(0, True), (3, True), (6, False), (-50, True)]
)
def test_memory_is_flat_within_its_bound(mib_an_hour: float, is_flat: bool) -> None:
    trend = next(judging.memory(run(memory=lambda at: at / 60 * mib_an_hour * MIB).steady))
    assert trend.is_flat is is_flat


def test_a_table_that_is_not_kept_may_not_grow() -> None:
    grown = run(table=lambda number: number * 64 * 1024)
    assert faults(grown) == ["table agents grows"]
    assert "Table agents: +1792 KiB" in page(grown)


def test_a_kept_table_may_grow_by_the_same_with_each_iteration() -> None:
    (growth,) = judging.growing_tables(run().steady)
    assert (growth.first, growth.last, growth.is_flat) == (PER_ITERATION, PER_ITERATION, True)


def test_a_kept_table_may_not_grow_by_more_and_more() -> None:
    grown = run(kept=lambda number: number**2 * 2_000)
    assert faults(grown) == ["table contexts grows by more with each iteration"]
    assert "which does not explain it" in page(grown)


def test_what_is_kept_are_tables() -> None:
    assert Base.metadata.tables.keys() >= judging.GROWING_TABLES


def test_growing_contexts_are_told_as_the_reason() -> None:
    grown = run(kept=lambda number: number**2 * 2_000)
    grown.samples = [
        replace(each, work=replace(each.work, context_bytes=1_000.0 * at))
        for at, each in enumerate(grown.samples)
    ]
    assert "6000 tokens of it at most" in page(grown)


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        ({"failed": 1}, "1 iterations failed"),
        ({"failed_steps": 3}, "3 steps failed"),
        ({"with_errors": 2}, "2 had errors"),
        ({"dead_letters": 1}, "1 dead letters"),
        ({"running": 1}, "1 iterations run"),
        ({"untold": 4}, "4 ends were not heard"),
    ],
)
def test_what_went_wrong_is_a_fault(seen: dict[str, int], said: str) -> None:
    found = changed(run(), **seen)
    assert any(said in each for each in faults(found))
    assert said in page(found)


def test_lag_that_does_not_return_to_nothing_is_a_fault() -> None:
    changed_run = run()
    assert changed_run.at_rest is not None
    changed_run.at_rest = replace(changed_run.at_rest, queues={"observer": Queue(7, 1, 1)})
    assert any("8 messages wait" in fault for fault in faults(changed_run))


def test_an_end_that_was_not_seen_is_not_taken_for_a_good_one() -> None:
    changed_run = replace(run(), at_rest=None)
    assert faults(changed_run) == ["whether anything waits at the end was not seen"]
    assert "| observer | 0 | 0 | 0 | not seen |" in page(changed_run)


def test_a_sample_that_could_not_be_taken_is_told() -> None:
    failed_run = run()
    failed_run.failures.append("no sample at 90 s: NoSuchProcess")
    message = "1 samples could not be taken; the first: no sample at 90 s: NoSuchProcess"
    assert faults(failed_run) == [message]
    assert message in page(failed_run)


def test_a_process_that_has_ended_is_not_one_that_holds_nothing() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)  # ended, and not yet waited for
    with pytest.raises(psutil.NoSuchProcess, match="notifier"):
        process_usage("notifier", ended.pid)
    ended.wait()


def test_a_process_is_seen_with_what_it_holds() -> None:
    usage = process_usage("this", os.getpid())
    assert usage.rss_bytes >= usage.pss_bytes >= usage.private_bytes > 0
    assert usage.files > 0


def test_one_that_was_ended_early_says_how_long_it_ran_and_judges_no_growth() -> None:
    short = run()
    short.samples, short.ran_seconds, short.is_whole = short.samples[:8], 420, False
    assert "ended after 7.0 of 60 minutes" in page(short)
    assert faults(short) == [
        "it ran too short a time after the warm-up to tell whether anything grows"
    ]


def test_that_others_used_the_machine_is_told() -> None:
    assert "Others used the machine" not in page(run())
    assert "load was 2.5" in page(replace(run(), load_before=2.5))


def test_one_without_samples_is_a_page_all_the_same() -> None:
    assert "no sample was taken" in page(Run(AGENTS, 60, 0, 3600))


def test_nodes_that_fell_together_are_told() -> None:
    assert "none fell together" in page(run())
    assert "none fell together" not in page(changed(run(), nodes=3, merges=1))


@pytest.mark.parametrize(
    ("values", "percent", "found"), [([], 50, None), ([3.0], 95, 3.0), ([1.0, 2.0, 3.0], 50, 2.0)]
)
def test_percentiles_of_few(values: list[float], percent: int, found: float | None) -> None:
    assert percentile(values, percent) == found
