"""Killed in a round of feedback: what was lacking is looked for once, and who lacked it is asked again once."""

from collections.abc import Iterator
from typing import Final

import pytest

from shared.enums import StepKind
from shared.failpoints import Failpoint
from tests.support.chaos.figures import Figures
from tests.support.chaos.lacking import LackingMission
from tests.support.chaos.mission import INSIGHTS, QUERIES
from tests.support.chaos.scenarios import killed_at, unharmed
from tests.support.chaos.visit import Visit, Visitor

pytestmark = pytest.mark.chaos

THE_ROUND_BEGINS: Final = QUERIES + INSIGHTS
"""Words that the aggregator has heard before: of the plan, of its queries, and of all its insights but one."""
SOMEBODY_IS_ASKED_AGAIN: Final = THE_ROUND_BEGINS + 1
CASES: Final = [
    *(
        ("aggregator", point, skip - passed_by)
        for point, passed_by in (
            (Failpoint.STATE_WRITTEN, 1),  # by the plan, of which there is nothing to write
            (Failpoint.STATE_COMMITTED, 0),
            (Failpoint.EVENTS_PUBLISHED, 0),
        )
        for skip in (THE_ROUND_BEGINS, SOMEBODY_IS_ASKED_AGAIN)
    ),
    ("researcher", Failpoint.STATE_WRITTEN, QUERIES),
    ("researcher", Failpoint.EVENTS_PUBLISHED, QUERIES),
    ("analyzer", Failpoint.STATE_WRITTEN, INSIGHTS),
    ("analyzer", Failpoint.LEASE_TAKEN, INSIGHTS),
]


@pytest.fixture(autouse=True)
def _nothing_stays_armed(visitor: Visitor) -> Iterator[None]:
    yield
    visitor.house.disarm()


@pytest.fixture(scope="module")
async def calm(visitor: Visitor) -> Visit:
    return await visitor.whole(seed=0, kind=LackingMission)


async def test_left_alone_it_looks_once_and_asks_once_more(calm: Visit) -> None:
    assert calm.faults == ()
    assert calm.result.status == "completed"
    done = [kind for kind, _, _ in calm.result.steps]
    assert done.count(StepKind.QUERY) == QUERIES + 1
    assert done.count(StepKind.INSIGHT) == INSIGHTS + 1
    assert calm.repeated == 0


SHORT: Final = {
    ("aggregator", Failpoint.STATE_COMMITTED, THE_ROUND_BEGINS),
    ("researcher", Failpoint.STATE_WRITTEN, QUERIES),
    ("analyzer", Failpoint.LEASE_TAKEN, INSIGHTS),
}


@pytest.mark.parametrize(
    ("actor", "point", "skip"),
    [
        pytest.param(
            *case,
            id="-".join(map(str, case)),
            marks=() if case in SHORT else pytest.mark.slow,
        )
        for case in CASES
    ],
)
async def test_killed_in_a_round(
    visitor: Visitor,
    calm: Visit,
    figures: Figures,
    actor: str,
    point: Failpoint,
    skip: int,
    seed: int,
) -> None:
    trial = await killed_at(visitor, actor, point, seed, skip=skip, kind=LackingMission)
    unharmed(figures, calm, trial)
    figures.add("kills at a chosen point")
