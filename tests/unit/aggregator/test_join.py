"""The join reducer, as a table of cases."""

from collections.abc import Sequence
from uuid import UUID

import pytest

from services.aggregator.reducer import (
    AbandonSteps,
    Command,
    Complete,
    DeadlinePassed,
    Fail,
    PlanCompleted,
    RequestAdvice,
    RequestInsights,
    State,
    StepEnded,
    StepOutcome,
    Tick,
    join,
)
from shared.enums import Stage
from tests.support.join_scenarios import ADVISE, OBSERVE, START, named

Q1, Q2, I1, I2 = (named(name) for name in ("q1", "q2", "i1", "i2"))
A1, A2 = named("analysis 1"), named("analysis 2")


def plan(queries: tuple[UUID, ...] = (), insights: tuple[UUID, ...] = ()) -> PlanCompleted:
    return PlanCompleted(OBSERVE, queries, insights)


def done(step_id: UUID, *analyses: UUID) -> StepEnded:
    return StepEnded(step_id, StepOutcome(analysis_ids=analyses))


def failed(step_id: UUID, error: str = "broke") -> StepEnded:
    return StepEnded(step_id, StepOutcome(error=error))


def run(*ticks: Tick) -> tuple[State, list[Command]]:
    state, commands = START, list[Command]()
    for tick in ticks:
        state, following = join(state, tick)
        commands.extend(following)
    return state, commands


STALLED = (
    "no progress for 60 s while researching: no step ended and no call was answered"
    " (VIGIL_ITERATION_DEADLINE_SECONDS sets this limit)"
)
CASES: dict[str, tuple[Sequence[Tick], Stage, list[Command]]] = {
    "an empty plan completes at once": ([plan()], Stage.ENDED, [Complete(())]),
    "a failed plan fails the iteration": (
        [failed(OBSERVE, "no key")],
        Stage.ENDED,
        [Fail(("observe: no key",))],
    ),
    "the join waits for queries": ([plan((Q1, Q2)), done(Q1)], Stage.RESEARCHING, []),
    "queries alone complete": ([plan((Q1,)), done(Q1)], Stage.ENDED, [Complete(())]),
    "insights without queries are requested at once": (
        [plan((), (I1,))],
        Stage.ANALYZING,
        [RequestInsights((I1,))],
    ),
    "insights wait for the last query": (
        [plan((Q1, Q2), (I1, I2)), done(Q2), done(Q1)],
        Stage.ANALYZING,
        [RequestInsights((I1, I2))],
    ),
    "one failed query is listed and the join goes on": (
        [plan((Q1, Q2)), failed(Q1, "429"), done(Q2)],
        Stage.ENDED,
        [Complete(("query: 429",))],
    ),
    "every query failed": (
        [plan((Q1, Q2), (I1,)), failed(Q1, "a"), failed(Q2, "b")],
        Stage.ENDED,
        [Fail(("query: a", "query: b"))],
    ),
    "no analysis, no Adviser": (
        [plan((), (I1,)), done(I1)],
        Stage.ENDED,
        [RequestInsights((I1,)), Complete(())],
    ),
    "the Adviser is requested once, with all analyses": (
        [plan((), (I1, I2)), done(I2, A2), done(I1, A1)],
        Stage.ADVISING,
        [RequestInsights((I1, I2)), RequestAdvice(ADVISE, (A1, A2))],
    ),
    "the Adviser's end ends the iteration": (
        [plan((), (I1,)), done(I1, A1), done(ADVISE)],
        Stage.ENDED,
        [RequestInsights((I1,)), RequestAdvice(ADVISE, (A1,)), Complete(())],
    ),
    "a failed Adviser fails the iteration": (
        [plan((), (I1,)), done(I1, A1), failed(ADVISE, "x")],
        Stage.ENDED,
        [RequestInsights((I1,)), RequestAdvice(ADVISE, (A1,)), Fail(("advise: x",))],
    ),
    "every insight failed": (
        [plan((), (I1,)), failed(I1, "x")],
        Stage.ENDED,
        [RequestInsights((I1,)), Fail(("insight: x",))],
    ),
    "the first result of a step counts": (
        [plan((Q1, Q2)), failed(Q1, "a"), done(Q1), done(Q2)],
        Stage.ENDED,
        [Complete(("query: a",))],
    ),
    "an unknown step changes nothing": ([plan((Q1,)), done(I2)], Stage.RESEARCHING, []),
    "the deadline abandons open steps and fails the iteration": (
        [plan((Q1, Q2)), done(Q1), DeadlinePassed(60)],
        Stage.ENDED,
        [
            AbandonSteps((Q2,), STALLED),
            Fail((STALLED,)),
        ],
    ),
    "nothing happens after the end": (
        [plan(), done(Q1), plan((Q1,)), DeadlinePassed(60)],
        Stage.ENDED,
        [Complete(())],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_join(case: str) -> None:
    ticks, stage, commands = CASES[case]
    state, actual = run(*ticks)
    assert (state.stage, actual) == (stage, commands)
