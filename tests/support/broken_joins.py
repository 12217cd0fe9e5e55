"""Broken versions of the aggregator's join, which its random tests must find."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from services.aggregator.reducer import (
    Command,
    DeadlinePassed,
    RequestQueries,
    State,
    StepEnded,
    StepOutcome,
    Tick,
    join,
)
from shared.enums import Stage, StepKind

Join = Callable[[State, Tick], tuple[State, Sequence[Command]]]


def last_end_counts(state: State, tick: Tick) -> tuple[State, Sequence[Command]]:
    if isinstance(tick, StepEnded) and state.stage is not Stage.ENDED:
        state = _with_end(state, tick.step_id, tick.ended)
    return join(state, tick)


def ended_iteration_is_reopened(state: State, tick: Tick) -> tuple[State, Sequence[Command]]:
    if state.stage is Stage.ENDED:
        state = replace(state, stage=Stage.ADVISING)
    return join(state, tick)


def first_query_suffices(state: State, tick: Tick) -> tuple[State, Sequence[Command]]:
    """Insights are requested after the first query of the plan."""
    queries = state.of(StepKind.QUERY)
    if state.stage is Stage.RESEARCHING and any(step.ended for step in queries):
        for step in queries:
            state = state if step.ended else _with_end(state, step.step_id, StepOutcome())
    return join(state, tick)


def failed_step_is_ignored(state: State, tick: Tick) -> tuple[State, Sequence[Command]]:
    if isinstance(tick, StepEnded) and tick.ended.error is not None:
        return state, ()
    return join(state, tick)


def rounds_are_unlimited(state: State, tick: Tick) -> tuple[State, Sequence[Command]]:
    new_state, commands = join(replace(state, feedback_rounds=state.round + 1), tick)
    return replace(new_state, feedback_rounds=state.feedback_rounds), commands


def suspension_is_ignored(state: State, tick: Tick) -> tuple[State, Sequence[Command]]:
    new_state, commands = join(replace(state, is_suspended=False), tick)
    return replace(new_state, is_suspended=state.is_suspended), commands


def new_queries_are_forgotten(state: State, tick: Tick) -> tuple[State, Sequence[Command]]:
    """Queries of a round are requested, but no longer part of the state."""
    new_state, commands = join(state, tick)
    forgotten = {
        query.step.step_id
        for command in commands
        if isinstance(command, RequestQueries)
        for query in command.queries
    }
    steps = tuple(step for step in new_state.steps if step.step_id not in forgotten)
    return replace(new_state, steps=steps), commands


def deadline_reports_no_failure_while_advising(
    state: State, tick: Tick
) -> tuple[State, Sequence[Command]]:
    if isinstance(tick, DeadlinePassed) and state.stage is Stage.ADVISING:
        return replace(state, stage=Stage.ENDED), ()
    return join(state, tick)


def _with_end(state: State, step_id: object, outcome: StepOutcome) -> State:
    return replace(
        state,
        steps=tuple(
            replace(step, ended=outcome) if step.step_id == step_id else step
            for step in state.steps
        ),
    )


BROKEN_JOINS: Final[Sequence[Join]] = (
    last_end_counts,
    ended_iteration_is_reopened,
    first_query_suffices,
    failed_step_is_ignored,
    rounds_are_unlimited,
    suspension_is_ignored,
    new_queries_are_forgotten,
    deadline_reports_no_failure_while_advising,
)
