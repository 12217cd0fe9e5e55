"""Kills in a feedback round: the missing data is researched once, and its insight is repeated once."""

from collections.abc import Iterator
from typing import Final

import pytest

from shared.enums import StepKind
from shared.failpoints import Failpoint
from tests.support.chaos.figures import Figures
from tests.support.chaos.missing_data import FeedbackMission
from tests.support.chaos.mission import INSIGHTS, QUERIES
from tests.support.chaos.scenario_run import ScenarioRun, ScenarioRunner
from tests.support.chaos.scenarios import assert_like_baseline, killed_at

pytestmark = pytest.mark.chaos

ROUND_STARTS: Final = QUERIES + INSIGHTS
"""Events that the aggregator has handled before: the plan, its queries, and all insights but one."""
INSIGHT_REPEATED: Final = ROUND_STARTS + 1
CASES: Final = [
    # Only transitions are written: the end of the queries comes before these two.
    ("aggregator", Failpoint.STATE_WRITTEN, 1),
    ("aggregator", Failpoint.STATE_WRITTEN, 2),
    *(
        ("aggregator", point, skip)
        for point in (Failpoint.STATE_COMMITTED, Failpoint.EVENTS_PUBLISHED)
        for skip in (ROUND_STARTS, INSIGHT_REPEATED)
    ),
    ("researcher", Failpoint.STATE_WRITTEN, QUERIES),
    ("researcher", Failpoint.EVENTS_PUBLISHED, QUERIES),
    ("analyzer", Failpoint.STATE_WRITTEN, INSIGHTS),
    ("analyzer", Failpoint.LEASE_TAKEN, INSIGHTS),
]


@pytest.fixture(autouse=True)
def _disarm(runner: ScenarioRunner) -> Iterator[None]:
    yield
    runner.installation.disarm()


@pytest.fixture(scope="module")
async def feedback_baseline(runner: ScenarioRunner) -> ScenarioRun:
    return await runner.run(seed=0, kind=FeedbackMission)


async def test_an_undisturbed_round_adds_one_query_and_one_insight(
    feedback_baseline: ScenarioRun,
) -> None:
    assert feedback_baseline.faults == ()
    assert feedback_baseline.result.status == "completed"
    step_kinds = [kind for kind, _, _ in feedback_baseline.result.steps]
    assert step_kinds.count(StepKind.QUERY) == QUERIES + 1
    assert step_kinds.count(StepKind.INSIGHT) == INSIGHTS + 1
    assert feedback_baseline.repeated == 0


SHORT: Final = ("aggregator", Failpoint.STATE_COMMITTED, ROUND_STARTS)


@pytest.mark.parametrize(
    ("service", "point", "skip"),
    [
        pytest.param(
            *case,
            id="-".join(map(str, case)),
            marks=() if case == SHORT else pytest.mark.slow,
        )
        for case in CASES
    ],
)
async def test_killed_in_a_round(
    runner: ScenarioRunner,
    feedback_baseline: ScenarioRun,
    figures: Figures,
    service: str,
    point: Failpoint,
    skip: int,
    seed: int,
) -> None:
    trial = await killed_at(runner, service, point, seed, skip=skip, kind=FeedbackMission)
    assert_like_baseline(figures, feedback_baseline, trial)
    figures.add("kills at a chosen point")
