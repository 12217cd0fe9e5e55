"""Each service is killed at each failpoint that it reaches; the result of the iteration does not change."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pytest

from shared.failpoints import Failpoint
from tests.support.chaos.figures import Figures
from tests.support.chaos.mission import INSIGHTS, LLM_CALLS, QUERIES, SEARCHES
from tests.support.chaos.scenario_run import ScenarioRun, ScenarioRunner
from tests.support.chaos.scenarios import assert_like_baseline, killed_at, killed_while_draining
from tests.support.chaos.workers import STEP_KIND_BY_WORKER

pytestmark = pytest.mark.chaos

HANDLER_POINTS: Final = (
    Failpoint.MESSAGE_RECEIVED,
    Failpoint.STATE_WRITTEN,
    Failpoint.STATE_COMMITTED,
    Failpoint.EVENTS_PUBLISHED,
)
CALL_POINTS: Final = (
    Failpoint.LEASE_TAKEN,
    Failpoint.CALL_UNSENT,
    Failpoint.CALL_ANSWERED,
    Failpoint.CALL_RECORDED,
)
POINTS: Final = {
    "scheduler": HANDLER_POINTS,
    "observer": (*HANDLER_POINTS, *CALL_POINTS),
    "researcher": (*HANDLER_POINTS, *CALL_POINTS, Failpoint.TOOL_APPLIED),
    "aggregator": HANDLER_POINTS,
    "analyzer": (*HANDLER_POINTS, *CALL_POINTS, Failpoint.TOOL_APPLIED),
    "adviser": (*HANDLER_POINTS, *CALL_POINTS, Failpoint.TOOL_APPLIED),
}
REPEATED_POINTS: Final = {*CALL_POINTS, Failpoint.TOOL_APPLIED} - {Failpoint.LEASE_TAKEN}
"""Failpoints that a step reaches more than once."""


def skips(service: str, point: Failpoint) -> tuple[int, ...]:
    """How often the failpoint is passed first: for the first step of the fan-out, a middle one, and a later phase."""
    match service:
        case "researcher":
            return (0, 3, 8) if point in REPEATED_POINTS else (0, QUERIES - 1)
        case "analyzer":
            return (0, 2) if point in REPEATED_POINTS else (0, INSIGHTS - 1)
        case "aggregator" if point is Failpoint.STATE_WRITTEN:
            return (0, 1, 2)  # only transitions are written: to insights, to advice, to the end
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
"""One kill per service, two for services that pay for calls or join steps: each at another failpoint."""


@dataclass(frozen=True)
class Case:
    service: str
    point: Failpoint
    skip: int

    def __str__(self) -> str:
        return f"{self.service}-{self.point}-{self.skip}"


def cases() -> Iterator[object]:
    for service, points in POINTS.items():
        for point in points:
            for skip in skips(service, point):
                short = point in SHORT[service] and skip == 0
                marks = () if short else pytest.mark.slow
                yield pytest.param(
                    Case(service, point, skip), id=f"{service}-{point}-{skip}", marks=marks
                )


@pytest.fixture(autouse=True)
def _disarm(runner: ScenarioRunner) -> Iterator[None]:
    """A failpoint that did not fire in its test must not fire in another."""
    yield
    runner.installation.disarm()


async def test_an_undisturbed_run_has_the_expected_result(baseline: ScenarioRun) -> None:
    assert baseline.faults == ()
    assert baseline.result.status == "completed"
    assert (baseline.result.messages, len(baseline.result.inbox)) == (1, 1)
    assert baseline.billed["llm"] == LLM_CALLS
    assert baseline.billed["search"] == SEARCHES
    assert baseline.repeated == 0


@pytest.mark.parametrize("case", list(cases()))
async def test_killed_at(
    runner: ScenarioRunner, baseline: ScenarioRun, figures: Figures, case: Case, seed: int
) -> None:
    trial = await killed_at(runner, case.service, case.point, seed, skip=case.skip)
    assert_like_baseline(figures, baseline, trial)
    figures.add("kills at a chosen point")


@pytest.mark.parametrize(
    "service",
    [
        pytest.param(service, marks=() if service == "researcher" else pytest.mark.slow)
        for service in STEP_KIND_BY_WORKER
    ],
)
async def test_killed_while_draining(
    runner: ScenarioRunner, baseline: ScenarioRun, figures: Figures, service: str, seed: int
) -> None:
    trial = await killed_while_draining(runner, service, STEP_KIND_BY_WORKER[service], seed)
    assert_like_baseline(figures, baseline, trial)
    figures.add("kills at a chosen point")
