"""Two replicas work on the same step: one of them frozen, or both at the same time."""

from typing import Final

import pytest

from tests.support.chaos.figures import Figures
from tests.support.chaos.installation import HASTY
from tests.support.chaos.scenario_run import ScenarioRun, ScenarioRunner
from tests.support.chaos.scenarios import (
    assert_like_baseline,
    frozen_with_a_lease,
    joined_by_two_aggregators,
)

pytestmark = pytest.mark.chaos

INSTALLATION: Final = {"settings": {**HASTY, "VIGIL_LEASE_SECONDS": "5"}}
"""No worker dies here. On a busy machine a shorter lease lapses, and its calls are paid for again."""


async def test_a_worker_that_wakes_with_an_old_epoch_cannot_write(
    runner: ScenarioRunner, baseline: ScenarioRun, figures: Figures, seed: int
) -> None:
    trial = await frozen_with_a_lease(runner, "researcher", "researcher-2", seed)
    assert_like_baseline(figures, baseline, trial)
    assert "is no longer its own" in runner.installation.log("researcher")
    figures.add("zombies refused")


async def test_two_aggregators_join_an_iteration_once(
    runner: ScenarioRunner, baseline: ScenarioRun, figures: Figures, seed: int
) -> None:
    assert_like_baseline(figures, baseline, await joined_by_two_aggregators(runner, seed))
    figures.add("joins by two at the same instant")
