"""The join's rounds of feedback, as a table of cases."""

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
from tests.support.join_worlds import ADVISE, INSIGHTS, OBSERVE, QUERIES, START, named

Q1, Q2, Q3, Q4 = QUERIES[:4]
I1, I2, I3 = INSIGHTS[:3]
A1, A2 = named("analysis 1"), named("analysis 2")
L1, L2, L3, L4, L5 = (MissingData(named(f"lack {each}"), f"objective {each}") for each in "12345")
SAME_AS_1 = MissingData(named("lack 1 again"), "Objective 1")


def plan(insights: tuple[UUID, ...] = (I1,)) -> PlanCompleted:
    return PlanCompleted(OBSERVE, (), insights)


def lacking(step_id: UUID, *lacks: MissingData, analyses: tuple[UUID, ...] = ()) -> StepEnded:
    return StepEnded(step_id, StepOutcome(None, analyses, lacks))


def found(step_id: UUID, *, anything: bool = True) -> StepEnded:
    return StepEnded(step_id, StepOutcome(has_results=anything))


def failed(step_id: UUID) -> StepEnded:
    return StepEnded(step_id, StepOutcome("broke"))


def asks(index: int, number: int, *lacks: MissingData) -> NewQuery:
    answers = tuple(lack.request_id for lack in lacks)
    return NewQuery(StepState(QUERIES[index], StepKind.QUERY, round=number, answers=answers), index)


def again(index: int, number: int, of: UUID, *lacks: MissingData) -> NewInsight:
    part = StepState(INSIGHTS[index], StepKind.INSIGHT, round=number, repeats=of)
    return NewInsight(part, index, tuple(lack.request_id for lack in lacks))


STALLED = (
    "no progress for 60 s while researching: no step ended and no call was answered"
    " (VIGIL_ITERATION_DEADLINE_SECONDS sets this limit)"
)
CASES: dict[str, tuple[int, Sequence[Tick], Stage, list[Command]]] = {
    "without rounds nothing is looked for": (
        0,
        [plan(), lacking(I1, L1)],
        Stage.ENDED,
        [Complete(())],
    ),
    "what is lacking is looked for": (
        1,
        [plan(), lacking(I1, L1, L2)],
        Stage.RESEARCHING,
        [RequestQueries((asks(0, 1, L1), asks(1, 1, L2)))],
    ),
    "a round waits for every insight": (2, [plan((I1, I2)), lacking(I1, L1)], Stage.ANALYZING, []),
    "whoever lacks it is asked again, when all has been looked for": (
        1,
        [plan((I1, I2)), lacking(I1, L1), lacking(I2, L2), found(Q1), found(Q2)],
        Stage.ANALYZING,
        [
            RequestQueries((asks(0, 1, L1), asks(1, 1, L2))),
            RepeatInsights((again(2, 1, I1, L1), again(3, 1, I2, L2))),
        ],
    ),
    "what several lack is one query": (
        1,
        [plan((I1, I2)), lacking(I1, L1), lacking(I2, SAME_AS_1), found(Q1)],
        Stage.ANALYZING,
        [
            RequestQueries((asks(0, 1, L1, SAME_AS_1),)),
            RepeatInsights((again(2, 1, I1, L1), again(3, 1, I2, SAME_AS_1))),
        ],
    ),
    "nobody is asked again for what was not found": (
        1,
        [plan((I1, I2)), lacking(I1, L1), lacking(I2, L2), found(Q1, anything=False), found(Q2)],
        Stage.ANALYZING,
        [
            RequestQueries((asks(0, 1, L1), asks(1, 1, L2))),
            RepeatInsights((again(2, 1, I2, L2),)),
        ],
    ),
    "where all of a round's queries fail the iteration goes on with what there is": (
        1,
        [plan(), lacking(I1, L1, analyses=(A1,)), failed(Q1)],
        Stage.ADVISING,
        [RequestQueries((asks(0, 1, L1),)), RequestAdvice(ADVISE, (A1,))],
    ),
    "where whoever is asked again fails, too": (
        1,
        [plan(), lacking(I1, L1, analyses=(A1,)), found(Q1), failed(I2), found(ADVISE)],
        Stage.ENDED,
        [
            RequestQueries((asks(0, 1, L1),)),
            RepeatInsights((again(1, 1, I1, L1),)),
            RequestAdvice(ADVISE, (A1,)),
            Complete(("insight: broke",)),
        ],
    ),
    "the Adviser is given the analyses of all rounds": (
        1,
        [plan(), lacking(I1, L1, analyses=(A1,)), found(Q1), lacking(I2, L2, analyses=(A2,))],
        Stage.ADVISING,
        [
            RequestQueries((asks(0, 1, L1),)),
            RepeatInsights((again(1, 1, I1, L1),)),
            RequestAdvice(ADVISE, (A1, A2)),
        ],
    ),
    "a second round looks for what is lacking then, and asks the same insight again": (
        2,
        [plan(), lacking(I1, L1), found(Q1), lacking(I2, SAME_AS_1, L2), found(Q2)],
        Stage.ANALYZING,
        [
            RequestQueries((asks(0, 1, L1),)),
            RepeatInsights((again(1, 1, I1, L1),)),
            RequestQueries((asks(1, 2, L2),)),
            RepeatInsights((again(2, 2, I1, L2),)),
        ],
    ),
    "three a round": (
        2,
        [
            plan(),
            lacking(I1, L1, L2, L3, L4, L5),
            *(found(each, anything=False) for each in (Q3, Q1, Q2)),
        ],
        Stage.RESEARCHING,
        [
            RequestQueries((asks(0, 1, L1), asks(1, 1, L2), asks(2, 1, L3))),
            RequestQueries((asks(3, 2, L4), asks(4, 2, L5))),
        ],
    ),
    "what fails lacks nothing": (
        1,
        [plan((I1, I2)), failed(I1), lacking(I2, analyses=(A1,))],
        Stage.ADVISING,
        [RequestAdvice(ADVISE, (A1,))],
    ),
    "doubled and late words begin nothing twice": (
        1,
        [plan(), lacking(I1, L1), plan(), lacking(I1, L2), found(Q1), found(Q1), lacking(I1, L1)],
        Stage.ANALYZING,
        [RequestQueries((asks(0, 1, L1),)), RepeatInsights((again(1, 1, I1, L1),))],
    ),
    "the deadline abandons a round": (
        1,
        [plan(), lacking(I1, L1, L2), found(Q1), DeadlinePassed(60)],
        Stage.ENDED,
        [
            RequestQueries((asks(0, 1, L1), asks(1, 1, L2))),
            AbandonSteps((Q2,), STALLED),
            Fail((STALLED,)),
        ],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_case(case: str) -> None:
    feedback_rounds, ticks, stage, wanted = CASES[case]
    state, commands = replace(START, feedback_rounds=feedback_rounds), list[Command]()
    for tick in ticks:
        state, following = join(state, tick)
        commands.extend(following)
    assert isinstance(commands[0], RequestInsights)
    assert (state.stage, commands[1:]) == (stage, wanted)


def test_who_rests_begins_no_round() -> None:
    state = replace(START, feedback_rounds=2, is_suspended=True)
    for tick in (plan(), lacking(I1, L1)):
        state, commands = join(state, tick)
    assert (state.stage, list(commands)) == (Stage.ENDED, [Complete(())])
