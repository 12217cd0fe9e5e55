"""The simulated fleet, against what queueing theory says."""

from dataclasses import replace

import pytest

from bench.scaling.__main__ import COSTS
from bench.scaling.fleet import Fleet, peak_open_steps, size

FLEET = Fleet(agents=10_000, interval_seconds=3600, working=0.5, call_seconds=5)


def test_open_steps_are_those_of_littles_law_plus_some_for_bursts() -> None:
    """Arrivals are random and nothing waits: open steps are Poisson, with 99 % below mean + 2.33 standard deviations."""
    mean = 10_000 / 3600 * 0.5 * 20
    expected = mean + 2.33 * mean**0.5
    peak = peak_open_steps(FLEET, 1, 20, seed=1, iterations=100_000)
    assert peak == pytest.approx(expected, rel=0.15)


def test_costs_grow_with_the_working_iterations() -> None:
    one, ten = size(FLEET, COSTS), size(replace(FLEET, agents=100_000), COSTS)
    assert ten.all_cores == pytest.approx(10 * one.all_cores)
    assert ten.table_bytes_per_day == pytest.approx(10 * one.table_bytes_per_day)
    assert ten.replicas["researcher"] > one.replicas["researcher"]


def test_a_fleet_that_only_ticks_writes_nothing_to_its_graphs() -> None:
    quiet = size(replace(FLEET, working=1e-9), COSTS)
    busy = size(replace(FLEET, working=1), COSTS)
    assert quiet.table_bytes_per_day == pytest.approx(1e-9 * busy.table_bytes_per_day)
    ticks = FLEET.agents / FLEET.interval_seconds
    of_quiet = sum(COSTS.quiet.service_ms.values()) / 1000
    assert quiet.all_cores == pytest.approx(ticks * of_quiet)
    assert quiet.messages_per_second == pytest.approx(ticks * COSTS.quiet.messages)


def test_pages_are_checked_at_each_tick() -> None:
    without, checked = size(FLEET, COSTS), size(replace(FLEET, pages=50), COSTS)
    ticks = FLEET.agents / FLEET.interval_seconds
    expected = ticks * 50 * COSTS.page_ms / 1000
    assert checked.all_cores - without.all_cores == pytest.approx(expected)
    assert checked.cores["observer"] - without.cores["observer"] == pytest.approx(expected)


def test_there_are_two_replicas_at_least_and_no_core_is_overbooked() -> None:
    small = size(replace(FLEET, agents=1), COSTS)
    assert set(small.replicas.values()) == {2}
    large = size(replace(FLEET, agents=1_000_000, call_seconds=0.001), COSTS)
    for service, replicas in large.replicas.items():
        assert large.cores[service] / replicas <= 0.7
