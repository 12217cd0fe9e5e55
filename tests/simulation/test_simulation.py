"""The protocol of the loop holds in simulated installations full of faults, and the simulator finds broken builds."""

from dataclasses import fields

import pytest

from tests.support.simulation.breakages import Breakage
from tests.support.simulation.installation import SimulatedInstallation
from tests.support.simulation.scheduler import ViolationError
from tests.support.simulation.statistics import Statistics

RUNS = 60
MAX_RUNS_PER_BREAKAGE = 600


def run_installations(seeds: range, breakage: Breakage | None = None) -> Statistics:
    total = Statistics()
    for seed in seeds:
        total.add(SimulatedInstallation(seed, breakage).run())
    return total


def test_no_invariant_is_violated() -> None:
    total = run_installations(range(RUNS))
    never = [field.name for field in fields(total) if not getattr(total, field.name)]
    assert not never, "these never happened, so nothing was tested about them"


@pytest.mark.slow
def test_no_invariant_is_violated_in_many_installations() -> None:
    assert run_installations(range(RUNS, 3000)).joins > 50_000


@pytest.mark.parametrize(
    ("seconds", "seeds"),
    [(600.0, range(3)), pytest.param(3600.0, range(12), marks=pytest.mark.slow)],
)
def test_an_outage_of_the_provider_fails_nothing(seconds: float, seeds: range) -> None:
    """With kills, lost messages and lost commits meanwhile. All steps go on within a minute of its return."""
    for seed in seeds:
        installation = SimulatedInstallation(seed, outage_seconds=seconds)
        total = installation.run()
        assert installation.outage.released > seconds / 60
        assert installation.outage.refused <= seconds / 10 + 40
        assert total.killed_processes


def test_a_seed_determines_everything() -> None:
    first, second = SimulatedInstallation(7).run(), SimulatedInstallation(7).run()
    assert first == second
    assert first != SimulatedInstallation(8).run()


@pytest.mark.parametrize("breakage", Breakage, ids=lambda breakage: breakage.name.lower())
def test_a_broken_build_is_found(breakage: Breakage) -> None:
    with pytest.raises(ViolationError):
        run_installations(range(MAX_RUNS_PER_BREAKAGE), breakage)
