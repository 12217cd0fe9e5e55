"""Each actor is killed at each point that it comes by; the iteration is as if nothing had been."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pytest

from shared.failpoints import Failpoint
from tests.support.chaos.figures import Figures
from tests.support.chaos.mission import INSIGHTS, LLM_CALLS, QUERIES, SEARCHES
from tests.support.chaos.scenarios import killed_at, killed_while_draining, unharmed
from tests.support.chaos.visit import Visit, Visitor
from tests.support.chaos.workers import WORKS_ON

pytestmark = pytest.mark.chaos

HANDLED: Final = (
    Failpoint.MESSAGE_RECEIVED,
    Failpoint.STATE_WRITTEN,
    Failpoint.STATE_COMMITTED,
    Failpoint.EVENTS_PUBLISHED,
)
CALLED: Final = (
    Failpoint.LEASE_TAKEN,
    Failpoint.CALL_UNSENT,
    Failpoint.CALL_ANSWERED,
    Failpoint.CALL_RECORDED,
)
POINTS: Final = {
    "scheduler": HANDLED,
    "observer": (*HANDLED, *CALLED),
    "researcher": (*HANDLED, *CALLED, Failpoint.TOOL_APPLIED),
    "aggregator": HANDLED,
    "analyzer": (*HANDLED, *CALLED, Failpoint.TOOL_APPLIED),
    "adviser": (*HANDLED, *CALLED, Failpoint.TOOL_APPLIED),
}
OFTEN: Final = {*CALLED, Failpoint.TOOL_APPLIED} - {Failpoint.LEASE_TAKEN}
"""Points that a step comes by more than once."""


def skips(actor: str, point: Failpoint) -> tuple[int, ...]:
    """How many pass the point first: the first of the fan-out, one in its middle, and one in a later phase."""
    match actor:
        case "researcher":
            return (0, 3, 8) if point in OFTEN else (0, QUERIES - 1)
        case "analyzer":
            return (0, 2) if point in OFTEN else (0, INSIGHTS - 1)
        case "aggregator":
            return (0, QUERIES, QUERIES + INSIGHTS)
        case _:
            return (0,)


SHORT: Final = {
    "scheduler": {Failpoint.STATE_COMMITTED},
    "observer": {Failpoint.CALL_RECORDED},
    "researcher": {Failpoint.CALL_ANSWERED, Failpoint.TOOL_APPLIED},
    "aggregator": {Failpoint.STATE_WRITTEN, Failpoint.EVENTS_PUBLISHED},
    "analyzer": {Failpoint.LEASE_TAKEN},
    "adviser": {Failpoint.EVENTS_PUBLISHED},
}
"""One kill of each actor, two where it pays for calls or joins others' work: each at another point."""


@dataclass(frozen=True)
class Case:
    actor: str
    point: Failpoint
    skip: int

    def __str__(self) -> str:
        return f"{self.actor}-{self.point}-{self.skip}"


def cases() -> Iterator[object]:
    for actor, points in POINTS.items():
        for point in points:
            for skip in skips(actor, point):
                short = point in SHORT[actor] and skip == 0
                marks = () if short else pytest.mark.slow
                yield pytest.param(
                    Case(actor, point, skip), id=f"{actor}-{point}-{skip}", marks=marks
                )


@pytest.fixture(autouse=True)
def _nothing_stays_armed(visitor: Visitor) -> Iterator[None]:
    """What did not strike in its own test shall strike in no other."""
    yield
    visitor.house.disarm()


async def test_a_house_that_is_left_alone_is_as_it_should_be(undisturbed: Visit) -> None:
    assert undisturbed.faults == ()
    assert undisturbed.result.status == "completed"
    assert (undisturbed.result.messages, len(undisturbed.result.inbox)) == (1, 1)
    assert undisturbed.billed["llm"] == LLM_CALLS
    assert undisturbed.billed["search"] == SEARCHES
    assert undisturbed.repeated == 0


@pytest.mark.parametrize("case", list(cases()))
async def test_killed_at(
    visitor: Visitor, undisturbed: Visit, figures: Figures, case: Case, seed: int
) -> None:
    trial = await killed_at(visitor, case.actor, case.point, seed, skip=case.skip)
    unharmed(figures, undisturbed, trial)
    figures.add("kills at a chosen point")


@pytest.mark.parametrize(
    "actor",
    [
        pytest.param(actor, marks=() if actor == "researcher" else pytest.mark.slow)
        for actor in WORKS_ON
    ],
)
async def test_killed_while_draining(
    visitor: Visitor, undisturbed: Visit, figures: Figures, actor: str, seed: int
) -> None:
    trial = await killed_while_draining(visitor, actor, WORKS_ON[actor], seed)
    unharmed(figures, undisturbed, trial)
    figures.add("kills at a chosen point")
