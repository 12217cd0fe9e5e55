"""Each actor is killed at each point that it comes by; the iteration is as if nothing had been."""

import signal
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pytest

from shared.crash_points import CrashPoint
from shared.store.words import StepKind
from tests.chaos.mission import LLM_CALLS, SEARCHES
from tests.chaos.visit import Visit, Visitor

pytestmark = pytest.mark.chaos

HANDLED: Final = (
    CrashPoint.MESSAGE_RECEIVED,
    CrashPoint.STATE_WRITTEN,
    CrashPoint.STATE_COMMITTED,
    CrashPoint.EVENTS_PUBLISHED,
)
CALLED: Final = (
    CrashPoint.LEASE_TAKEN,
    CrashPoint.CALL_UNSENT,
    CrashPoint.CALL_ANSWERED,
    CrashPoint.CALL_RECORDED,
)
POINTS: Final = {
    "scheduler": HANDLED,
    "observer": (*HANDLED, *CALLED),
    "researcher": (*HANDLED, *CALLED, CrashPoint.TOOL_APPLIED),
    "aggregator": HANDLED,
    "analyzer": (*HANDLED, *CALLED, CrashPoint.TOOL_APPLIED),
    "adviser": (*HANDLED, *CALLED, CrashPoint.TOOL_APPLIED),
}
SKIPS: Final = {"researcher": (0, 3, 8), "aggregator": (0, 3, 6), "analyzer": (0, 2)}
"""How many pass the point first: the first of the fan-out, one in its middle, and one in a later phase."""
SHORT: Final = {
    "scheduler": {
        CrashPoint.STATE_WRITTEN,
        CrashPoint.STATE_COMMITTED,
        CrashPoint.EVENTS_PUBLISHED,
    },
    "observer": {CrashPoint.CALL_RECORDED, CrashPoint.STATE_COMMITTED, CrashPoint.LEASE_TAKEN},
    "researcher": {CrashPoint.CALL_ANSWERED, CrashPoint.CALL_RECORDED, CrashPoint.TOOL_APPLIED},
    "aggregator": {
        CrashPoint.STATE_WRITTEN,
        CrashPoint.STATE_COMMITTED,
        CrashPoint.EVENTS_PUBLISHED,
    },
    "analyzer": {CrashPoint.TOOL_APPLIED, CrashPoint.STATE_WRITTEN, CrashPoint.STATE_COMMITTED},
    "adviser": {CrashPoint.TOOL_APPLIED, CrashPoint.CALL_RECORDED, CrashPoint.EVENTS_PUBLISHED},
}
WORKS_ON: Final = {
    "observer": StepKind.OBSERVE,
    "researcher": StepKind.QUERY,
    "analyzer": StepKind.INSIGHT,
    "adviser": StepKind.ADVISE,
}


@dataclass(frozen=True)
class Case:
    actor: str
    point: CrashPoint
    skip: int

    def __str__(self) -> str:
        return f"{self.actor}-{self.point}-{self.skip}"


def cases() -> Iterator[object]:
    for actor, points in POINTS.items():
        for point in points:
            for skip in SKIPS.get(actor, (0,)):
                short = point in SHORT[actor] and skip == 0
                marks = () if short else pytest.mark.slow
                yield pytest.param(
                    Case(actor, point, skip), id=f"{actor}-{point}-{skip}", marks=marks
                )


@pytest.fixture(scope="module")
async def undisturbed(visitor: Visitor) -> Visit:
    """What it is all compared with."""
    return await visitor.whole(seed=0)


async def test_a_house_that_is_left_alone_is_as_it_should_be(undisturbed: Visit) -> None:
    assert undisturbed.faults == ()
    assert undisturbed.result.status == "completed"
    assert (undisturbed.result.messages, len(undisturbed.result.inbox)) == (1, 1)
    assert undisturbed.billed["llm"] == LLM_CALLS
    assert undisturbed.billed["search"] == SEARCHES
    assert undisturbed.repeated == 0


@pytest.mark.parametrize("case", cases())
async def test_killed_at(visitor: Visitor, undisturbed: Visit, case: Case, seed: int) -> None:
    visitor.house.arm(case.actor, case.point, skip=case.skip)
    since = await visitor.next_sequence()
    agent = await visitor.begin(seed)
    in_flight = await visitor.in_flight_at_death(case.actor, signal.SIGKILL)
    visit = await visitor.end(agent, since)
    same_as(undisturbed, visit, in_flight)


@pytest.mark.parametrize(
    "actor",
    [
        pytest.param(actor, marks=() if actor == "researcher" else pytest.mark.slow)
        for actor in WORKS_ON
    ],
)
async def test_killed_while_draining(
    visitor: Visitor, undisturbed: Visit, actor: str, seed: int
) -> None:
    visitor.house.arm(actor, CrashPoint.DRAINING)
    since = await visitor.next_sequence()
    agent = await visitor.begin(seed)
    await visitor.working(agent, WORKS_ON[actor])
    visitor.house.send(actor, signal.SIGTERM)
    in_flight = await visitor.in_flight_at_death(actor, signal.SIGKILL)
    visit = await visitor.end(agent, since)
    same_as(undisturbed, visit, in_flight)


def same_as(undisturbed: Visit, visit: Visit, in_flight: int) -> None:
    """All is as it would have been; only calls that were in flight at the death may have been paid for twice."""
    assert visit.faults == ()
    assert visit.result == undisturbed.result
    assert visit.repeated <= in_flight
    assert sum(visit.billed.values()) == sum(undisturbed.billed.values()) + visit.repeated
