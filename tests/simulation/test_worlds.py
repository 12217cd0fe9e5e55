"""The protocol of the loop holds in simulated worlds full of faults, and the simulator finds broken builds."""

from dataclasses import fields

import pytest

from tests.support.simulation.breakages import Breakage
from tests.support.simulation.scheduler import ViolationError
from tests.support.simulation.statistics import Statistics
from tests.support.simulation.world import World

WORLDS = 60
MAX_WORLDS_PER_BREAKAGE = 600


def run_worlds(seeds: range, breakage: Breakage | None = None) -> Statistics:
    total = Statistics()
    for seed in seeds:
        total.add(World(seed, breakage).run())
    return total


def test_no_invariant_is_violated() -> None:
    total = run_worlds(range(WORLDS))
    never = [field.name for field in fields(total) if not getattr(total, field.name)]
    assert not never, "these never happened, so nothing was tested about them"


@pytest.mark.slow
def test_no_invariant_is_violated_in_many_worlds() -> None:
    assert run_worlds(range(WORLDS, 3000)).joins > 50_000


def test_a_seed_determines_everything() -> None:
    first, second = World(7).run(), World(7).run()
    assert first == second
    assert first != World(8).run()


@pytest.mark.parametrize("breakage", Breakage, ids=lambda breakage: breakage.name.lower())
def test_a_broken_build_is_found(breakage: Breakage) -> None:
    with pytest.raises(ViolationError):
        run_worlds(range(MAX_WORLDS_PER_BREAKAGE), breakage)
