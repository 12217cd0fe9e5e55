"""Two replicas with the same work in hand: one of them frozen, or both at the same instant."""

import pytest

from tests.support.chaos.figures import Figures
from tests.support.chaos.scenarios import frozen_with_a_lease, joined_by_two, unharmed
from tests.support.chaos.visit import Visit, Visitor

pytestmark = pytest.mark.chaos


async def test_a_zombie_that_wakes_is_refused_by_its_epoch(
    visitor: Visitor, undisturbed: Visit, figures: Figures, seed: int
) -> None:
    trial = await frozen_with_a_lease(visitor, "researcher", "researcher-2", seed)
    unharmed(figures, undisturbed, trial)
    assert "is no longer its own" in visitor.house.log("researcher")
    figures.add("zombies refused")


async def test_two_aggregators_join_as_one(
    visitor: Visitor, undisturbed: Visit, figures: Figures, seed: int
) -> None:
    unharmed(figures, undisturbed, await joined_by_two(visitor, seed))
    figures.add("joins by two at the same instant")
