"""Kills in a feedback round: the missing data is researched once, and its insight is repeated once."""

from collections.abc import Iterator
from typing import Any, ClassVar, Final

import pytest

from shared.enums import Phase, StepKind
from shared.failpoints import Failpoint
from tests.support.chaos.figures import Figures
from tests.support.chaos.mission import INSIGHTS, QUERIES, Mission, always, call
from tests.support.chaos.scenario_run import ScenarioRun, ScenarioRunner
from tests.support.chaos.scenarios import assert_like_baseline, killed_at
from tests.support.sandbox_control import Sandbox


class FeedbackMission(Mission):
    """The last insight requests an investigation: one more query, and the insight is repeated."""

    feedback_rounds: ClassVar[int] = 1

    def script_model(self, sandbox: Sandbox) -> None:
        """Script later rounds first; only the repeated insight's prompt contains the finding."""
        insight = INSIGHTS - 1
        finding = f"- {self._query(QUERIES)}"
        final, analysis = self._analysis(insight)
        sandbox.script(
            *self._research(QUERIES),
            final,
            analysis | {"contains": finding},
            *self._missing_data(),
        )
        super().script_model(sandbox)

    def _query(self, number: int) -> str:
        """Name in the request what answers it: a request is answered only by what bears on it."""
        return super()._query(number) + (" about lithium makers" if number == QUERIES else "")

    def _missing_data(self) -> list[dict[str, Any]]:
        mark = f"{self.tag} mark lacking"
        request = call(
            "requestInvestigation",
            objective=self._query(QUERIES),
            reasoning="Nothing can be concluded without it.",
            searchHints=[],
        )
        observation = self._observation(INSIGHTS - 1)
        return [
            always(Phase.ANALYSIS_GENERATION, mark, content="Asked."),
            always(
                Phase.ANALYSIS_GENERATION,
                observation,
                tool_calls=[call("queryGraph", text=mark), request],
            ),
        ]


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
