"""The feedback rounds of the join reducer, as a table of cases."""

from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

import pytest

from services.aggregator.reducer import (
    AbandonSteps,
    Command,
    Complete,
    DeadlinePassed,
    Fail,
    MissingData,
    NewInsight,
    NewQuery,
    PlanCompleted,
    RepeatInsights,
    RequestAdvice,
    RequestInsights,
    RequestQueries,
    StepEnded,
    StepOutcome,
    StepState,
    Tick,
    join,
)
from shared.enums import Stage, StepKind
from tests.support.join_scenarios import ADVISE, INSIGHTS, OBSERVE, QUERIES, START, named

Q1, Q2, Q3 = QUERIES[:3]
I1, I2 = INSIGHTS[:2]
A1, A2 = named("analysis 1"), named("analysis 2")
L1, L2, L3, L4, L5 = (
    MissingData(named(f"lack {number}"), f"objective {number}") for number in "12345"
)
SAME_AS_1 = MissingData(named("lack 1 again"), "Objective 1")


def plan(insights: tuple[UUID, ...] = (I1,)) -> PlanCompleted:
    return PlanCompleted(OBSERVE, (), insights)


def insight_ended(
    step_id: UUID, *missing: MissingData, analyses: tuple[UUID, ...] = ()
) -> StepEnded:
    return StepEnded(step_id, StepOutcome(None, analyses, missing))


def query_ended(
    step_id: UUID, *, has_results: bool = True, unanswered: MissingData | None = None
) -> StepEnded:
    requests = frozenset({unanswered.request_id} if unanswered else ())
    return StepEnded(step_id, StepOutcome(has_results=has_results, unanswered=requests))


def failed(step_id: UUID) -> StepEnded:
    return StepEnded(step_id, StepOutcome("broke"))


def new_query(index: int, round_number: int, *missing: MissingData) -> NewQuery:
    answers = tuple(data.request_id for data in missing)
    return NewQuery(
        StepState(QUERIES[index], StepKind.QUERY, round=round_number, answers=answers), index
    )


def new_insight(index: int, round_number: int, repeats: UUID, *missing: MissingData) -> NewInsight:
    step = StepState(INSIGHTS[index], StepKind.INSIGHT, round=round_number, repeats=repeats)
    return NewInsight(step, index, tuple(data.request_id for data in missing))


STALLED = (
    "no progress for 60 s while researching: no step ended and no call was answered"
    " (VIGIL_ITERATION_DEADLINE_SECONDS sets this limit)"
)
CASES: dict[str, tuple[int, Sequence[Tick], Stage, list[Command]]] = {
    "without rounds no query is requested": (
        0,
        [plan(), insight_ended(I1, L1)],
        Stage.ENDED,
        [Complete(())],
    ),
    "missing data is requested as queries": (
        1,
        [plan(), insight_ended(I1, L1, L2)],
        Stage.RESEARCHING,
        [RequestQueries((new_query(0, 1, L1), new_query(1, 1, L2)))],
    ),
    "a round waits for every insight": (
        2,
        [plan((I1, I2)), insight_ended(I1, L1)],
        Stage.ANALYZING,
        [],
    ),
    "insights are repeated after all queries have ended": (
        1,
        [
            plan((I1, I2)),
            insight_ended(I1, L1),
            insight_ended(I2, L2),
            query_ended(Q1),
            query_ended(Q2),
        ],
        Stage.ANALYZING,
        [
            RequestQueries((new_query(0, 1, L1), new_query(1, 1, L2))),
            RepeatInsights((new_insight(2, 1, I1, L1), new_insight(3, 1, I2, L2))),
        ],
    ),
    "the same missing data of two insights is one query": (
        1,
        [plan((I1, I2)), insight_ended(I1, L1), insight_ended(I2, SAME_AS_1), query_ended(Q1)],
        Stage.ANALYZING,
        [
            RequestQueries((new_query(0, 1, L1, SAME_AS_1),)),
            RepeatInsights((new_insight(2, 1, I1, L1), new_insight(3, 1, I2, SAME_AS_1))),
        ],
    ),
    "an insight is not repeated if its query found nothing": (
        1,
        [
            plan((I1, I2)),
            insight_ended(I1, L1),
            insight_ended(I2, L2),
            query_ended(Q1, has_results=False),
            query_ended(Q2),
        ],
        Stage.ANALYZING,
        [
            RequestQueries((new_query(0, 1, L1), new_query(1, 1, L2))),
            RepeatInsights((new_insight(2, 1, I2, L2),)),
        ],
    ),
    "an insight is not repeated for a request that its query left unanswered": (
        1,
        [
            plan((I1, I2)),
            insight_ended(I1, L1),
            insight_ended(I2, SAME_AS_1),
            query_ended(Q1, unanswered=L1),
        ],
        Stage.ANALYZING,
        [
            RequestQueries((new_query(0, 1, L1, SAME_AS_1),)),
            RepeatInsights((new_insight(2, 1, I2, SAME_AS_1),)),
        ],
    ),
    "if all queries of a round fail the iteration continues with its analyses": (
        1,
        [plan(), insight_ended(I1, L1, analyses=(A1,)), failed(Q1)],
        Stage.ADVISING,
        [RequestQueries((new_query(0, 1, L1),)), RequestAdvice(ADVISE, (A1,))],
    ),
    "if a repeated insight fails the iteration continues with its analyses": (
        1,
        [
            plan(),
            insight_ended(I1, L1, analyses=(A1,)),
            query_ended(Q1),
            failed(I2),
            query_ended(ADVISE),
        ],
        Stage.ENDED,
        [
            RequestQueries((new_query(0, 1, L1),)),
            RepeatInsights((new_insight(1, 1, I1, L1),)),
            RequestAdvice(ADVISE, (A1,)),
            Complete(("insight: broke",)),
        ],
    ),
    "the Adviser receives the analyses of all rounds": (
        1,
        [
            plan(),
            insight_ended(I1, L1, analyses=(A1,)),
            query_ended(Q1),
            insight_ended(I2, L2, analyses=(A2,)),
        ],
        Stage.ADVISING,
        [
            RequestQueries((new_query(0, 1, L1),)),
            RepeatInsights((new_insight(1, 1, I1, L1),)),
            RequestAdvice(ADVISE, (A1, A2)),
        ],
    ),
    "a second round queries the data still missing and repeats the same insight": (
        2,
        [
            plan(),
            insight_ended(I1, L1),
            query_ended(Q1),
            insight_ended(I2, SAME_AS_1, L2),
            query_ended(Q2),
        ],
        Stage.ANALYZING,
        [
            RequestQueries((new_query(0, 1, L1),)),
            RepeatInsights((new_insight(1, 1, I1, L1),)),
            RequestQueries((new_query(1, 2, L2),)),
            RepeatInsights((new_insight(2, 2, I1, L2),)),
        ],
    ),
    "at most three queries a round": (
        2,
        [
            plan(),
            insight_ended(I1, L1, L2, L3, L4, L5),
            *(query_ended(query, has_results=False) for query in (Q3, Q1, Q2)),
        ],
        Stage.RESEARCHING,
        [
            RequestQueries((new_query(0, 1, L1), new_query(1, 1, L2), new_query(2, 1, L3))),
            RequestQueries((new_query(3, 2, L4), new_query(4, 2, L5))),
        ],
    ),
    "a failed insight has no missing data": (
        1,
        [plan((I1, I2)), failed(I1), insight_ended(I2, analyses=(A1,))],
        Stage.ADVISING,
        [RequestAdvice(ADVISE, (A1,))],
    ),
    "duplicate and late ticks start nothing twice": (
        1,
        [
            plan(),
            insight_ended(I1, L1),
            plan(),
            insight_ended(I1, L2),
            query_ended(Q1),
            query_ended(Q1),
            insight_ended(I1, L1),
        ],
        Stage.ANALYZING,
        [RequestQueries((new_query(0, 1, L1),)), RepeatInsights((new_insight(1, 1, I1, L1),))],
    ),
    "the deadline abandons a round": (
        1,
        [plan(), insight_ended(I1, L1, L2), query_ended(Q1), DeadlinePassed(60)],
        Stage.ENDED,
        [
            RequestQueries((new_query(0, 1, L1), new_query(1, 1, L2))),
            AbandonSteps((Q2,), STALLED),
            Fail((STALLED,)),
        ],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_feedback_rounds(case: str) -> None:
    feedback_rounds, ticks, stage, expected = CASES[case]
    state, commands = replace(START, feedback_rounds=feedback_rounds), list[Command]()
    for tick in ticks:
        state, following = join(state, tick)
        commands.extend(following)
    assert isinstance(commands[0], RequestInsights)
    assert (state.stage, commands[1:]) == (stage, expected)


def test_a_suspended_agent_starts_no_round() -> None:
    state = replace(START, feedback_rounds=2, is_suspended=True)
    for tick in (plan(), insight_ended(I1, L1)):
        state, commands = join(state, tick)
    assert (state.stage, list(commands)) == (Stage.ENDED, [Complete(())])
