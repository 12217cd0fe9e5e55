"""Faults and report page of a soak run."""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace

import psutil
import pytest

from bench.soak import judging, report
from bench.soak.judging import faults
from bench.soak.report import MIB, render_page
from bench.soak.sampling import ProcessUsage, Queue, Run, Sample, Stream, Table, Work, process_usage
from shared.database.tables import Base
from shared.runtime.settings import Settings
from tests.support.case_files import read_cases

CASES = read_cases(__file__)

AGENTS = 2
APART_SECONDS = 60
WARM_UP_SECONDS = 300
ITERATIONS_APART = 10
PER_ITERATION = 50_000

Growth = Callable[[int], float]
"""Growth by sample number."""


def no_growth(_: int) -> float:
    return 0


def sample(
    number: int,
    memory: Growth = no_growth,
    table: Growth = no_growth,
    growing_table: Growth = no_growth,
) -> Sample:
    completed = number * ITERATIONS_APART
    usage = ProcessUsage(100 * MIB, int(90 * MIB + memory(number)), 60 * MIB, 1, 12, number * 2.0)
    size = int(completed * PER_ITERATION + growing_table(number))
    return Sample(
        number * APART_SECONDS,
        {"observer": usage, "postgres": usage, "nats": usage},
        {
            "contexts": Table(size, 9, 0, 0),
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


def run(
    memory: Growth = no_growth, table: Growth = no_growth, growing_table: Growth = no_growth
) -> Run:
    """Return a run of one hour."""
    samples = [sample(number, memory, table, growing_table) for number in range(61)]
    return Run(AGENTS, 60, WARM_UP_SECONDS, 3600, 0.0, 3600, True, samples, samples[-1])


def page(soak_run: Run) -> str:
    return render_page(soak_run, Settings())


def with_counters(soak_run: Run, **counters: int) -> Run:
    """Change the last sample."""
    assert soak_run.at_rest is not None
    return replace(
        soak_run, at_rest=replace(soak_run.at_rest, work=replace(soak_run.at_rest.work, **counters))
    )


def test_an_hour_without_growth_has_no_faults() -> None:
    assert faults(run()) == []
    assert "Everything that should not grow is flat or bounded" in page(run())
    assert "What grows" not in page(run())


def test_the_slope_uses_only_the_last_half() -> None:
    samples = run(memory=lambda number: max(0, number - 40) * MIB).samples
    (trend, *_) = judging.memory(samples[40:])
    assert trend.per_hour == pytest.approx(60 * MIB)
    assert trend.growth == pytest.approx(10 * MIB)
    assert not trend.is_flat


def test_memory_that_returns_to_an_earlier_height_is_bounded() -> None:
    def wave(number: int) -> float:
        return abs(30 - number % 60) * 0.3 * MIB

    trend = next(judging.memory(run(memory=wave).steady))
    assert not trend.is_flat
    assert not trend.grows
    assert "| bounded |" in page(run(memory=wave))
    assert faults(run(memory=lambda number: wave(number) + max(0, number - 50) * MIB)) == [
        f"memory of {name} grows" for name in ("observer", "postgres", "nats")
    ]


def test_the_memory_of_postgresql_is_judged_by_process() -> None:
    soak_run = run()
    for number, entry in enumerate(soak_run.samples):
        count = 31 if number < 58 else 35
        usage = replace(
            entry.processes["postgres"],
            pss_bytes=count * 6 * MIB,
            processes=count,
            files=count * 50,
        )
        soak_run.samples[number] = replace(entry, processes=dict(entry.processes, postgres=usage))
    assert faults(soak_run) == []
    assert "PostgreSQL had 31 to 35 processes" in page(soak_run)
    assert "postgres" not in [trend.what for trend in judging.files(soak_run.steady)]


@pytest.mark.parametrize(
    ("mib_an_hour", "is_flat"), [(0, True), (3, True), (6, False), (-50, True)]
)
def test_memory_is_flat_within_its_limit(mib_an_hour: float, is_flat: bool) -> None:
    trend = next(judging.memory(run(memory=lambda number: number / 60 * mib_an_hour * MIB).steady))
    assert trend.is_flat is is_flat


def test_a_table_of_constant_size_may_not_grow() -> None:
    soak_run = run(table=lambda number: number * 64 * 1024)
    assert faults(soak_run) == ["table agents grows"]
    assert "Table agents: +1792 KiB" in page(soak_run)


def test_a_growing_table_may_grow_by_a_constant_amount_per_iteration() -> None:
    (growth,) = judging.growing_tables(run().steady)
    assert (growth.first, growth.last, growth.is_flat) == (PER_ITERATION, PER_ITERATION, True)


def test_a_growing_table_may_not_grow_faster_and_faster() -> None:
    soak_run = run(growing_table=lambda number: number**2 * 2_000)
    assert faults(soak_run) == ["table contexts grows by more with each iteration"]
    assert "which does not explain it" in page(soak_run)


def test_a_growing_table_may_grow_faster_until_what_it_stores_has_its_full_size() -> None:
    def faster_until_30(number: int) -> float:
        return 10_000 * (number**2 if number < 30 else 60 * number - 900)

    soak_run = run(growing_table=faster_until_30)
    (growth,) = judging.growing_tables(soak_run.steady)
    assert (growth.is_flat, growth.is_bounded, growth.grows) == (False, True, False)


def test_growing_tables_exist_in_the_schema() -> None:
    assert Base.metadata.tables.keys() >= judging.GROWING_TABLES


@pytest.mark.parametrize(("counters", "message"), CASES["a_failure_is_a_fault"])
def test_a_failure_is_a_fault(counters: dict[str, int], message: str) -> None:
    soak_run = with_counters(run(), **counters)
    assert any(message in fault for fault in faults(soak_run))
    assert message in page(soak_run)


def test_lag_that_does_not_return_to_zero_is_a_fault() -> None:
    changed_run = run()
    assert changed_run.at_rest is not None
    changed_run.at_rest = replace(changed_run.at_rest, queues={"observer": Queue(7, 1, 1)})
    assert any("8 messages wait" in fault for fault in faults(changed_run))


def test_a_missing_final_sample_is_a_fault() -> None:
    changed_run = replace(run(), at_rest=None)
    assert faults(changed_run) == ["whether anything waits at the end was not seen"]
    assert "| observer | 0 | 0 | 0 | not seen |" in page(changed_run)


def test_a_failed_sample_is_reported() -> None:
    failed_run = run()
    failed_run.failures.append("no sample at 90 s: NoSuchProcess")
    message = "1 samples could not be taken; the first: no sample at 90 s: NoSuchProcess"
    assert faults(failed_run) == [message]
    assert message in page(failed_run)


def test_the_usage_of_an_ended_process_is_an_error_not_zero() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # exited, and not yet reaped
    with pytest.raises(psutil.NoSuchProcess, match="notifier"):
        process_usage("notifier", process.pid)
    process.wait()


def test_a_run_that_ended_early_reports_its_duration_and_judges_no_growth() -> None:
    short = run()
    short.samples, short.ran_seconds, short.is_whole = short.samples[:8], 420, False
    assert "stopped after 7.0 of 60 minutes" in page(short)
    assert faults(short) == [
        "it ran too short a time after the warm-up to tell whether anything grows"
    ]
