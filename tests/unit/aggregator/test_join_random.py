"""The join under random ticks: its invariants hold for any order and any duplicates."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count
from random import Random
from typing import Final
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.aggregator.reducer import (
    AbandonSteps,
    Command,
    Complete,
    DeadlinePassed,
    Fail,
    PlanCompleted,
    RepeatInsights,
    RequestAdvice,
    RequestInsights,
    RequestQueries,
    State,
    StepEnded,
    StepOutcome,
    StepState,
    Tick,
    join,
)
from shared.enums import Stage, StepKind
from tests.support.join_scenarios import (
    ITERATION,
    OBSERVE,
    QUERIES_PER_ROUND,
    JoinScenario,
    disturbed,
    expected_commands,
    random_scenario,
    shuffled_ticks,
    with_deadline,
)
from tests.support.marks import slow
from tests.support.seeds import repeatable

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


JOINS = [20_000, *slow(1_000_000)]
STORED_ENDS_SCENARIOS = [1_000, *slow(20_000)]


@pytest.mark.parametrize("joins", JOINS)
def test_the_invariants_hold_for_random_sequences_of_ticks(seed: int, joins: int) -> None:
    scenario_seeds = count(seed)
    while joins > 0:
        scenario_seed = next(scenario_seeds)
        with repeatable(scenario_seed):
            joins -= check_invariants(Random(scenario_seed))


@pytest.mark.parametrize("broken_join", BROKEN_JOINS, ids=lambda join: join.__name__)
def test_a_broken_join_is_found(broken_join: Join) -> None:
    with pytest.raises(AssertionError):
        check_many(broken_join)


@settings(max_examples=50)
@given(st.randoms(use_true_random=False))
def test_the_invariants_hold_for_hypothesis_examples(random: Random) -> None:
    """The same with Hypothesis, which shrinks failing examples."""
    check_invariants(random)


@pytest.mark.parametrize("scenarios", STORED_ENDS_SCENARIOS)
def test_stored_ends_are_joined_even_if_their_ticks_are_lost(seed: int, scenarios: int) -> None:
    for scenario_seed in range(seed, seed + scenarios):
        with repeatable(scenario_seed):
            random = Random(scenario_seed)
            scenario = random_scenario(random)
            assert StoredEnds(random, scenario).run() == expected_commands(scenario), scenario


def check_many(join: Join) -> None:
    for scenario_seed in range(500):
        check_invariants(Random(scenario_seed), join)


def check_invariants(random: Random, join: Join = join) -> int:
    """Run one scenario in a random order: it ends, and stray ticks do not change the result. Return the number of joins."""
    scenario = random_scenario(random)
    ticks = shuffled_ticks(random, scenario)
    if has_deadline := random.random() < 0.3:
        ticks = with_deadline(random, ticks)
    undisturbed = Walk(scenario, ticks, join)
    assert undisturbed.state.stage is Stage.ENDED, f"the iteration does not end: {ticks}"
    if not has_deadline:
        assert tuple(undisturbed.commands) == expected_commands(scenario), (
            f"the result depends on the order: {ticks}"
        )
    disturbed_ticks = disturbed(random, ticks)
    disturbed_walk = Walk(scenario, disturbed_ticks, join)
    assert (disturbed_walk.state, disturbed_walk.commands) == (
        undisturbed.state,
        undisturbed.commands,
    ), f"stray ticks change the result: {disturbed_ticks}"
    # In an impossible order the result is undefined, but the invariants hold.
    Walk(scenario, random.sample(disturbed_ticks, len(disturbed_ticks)), join)
    return len(ticks) + 2 * len(disturbed_ticks)


class Walk:
    """The join over a sequence of ticks, with every invariant checked after each tick."""

    def __init__(self, scenario: JoinScenario, ticks: Sequence[Tick], join: Join) -> None:
        self.state = scenario.start
        self._join = join
        self.commands: list[Command] = []
        self._outcomes: dict[UUID, StepOutcome] = {}
        """The first outcome of each known step while the iteration was running."""
        for tick in ticks:
            self._take(tick)
        if self.state.stage is Stage.ENDED:
            self._check_end()

    def _take(self, tick: Tick) -> None:
        before = self.state
        self.state, following = self._join(before, tick)
        self.commands.extend(following)
        if before.stage is Stage.ENDED:
            assert self.state == before, "an ended iteration never changes"
            assert not following, "an ended iteration requests nothing"
            return
        ends = [command for command in following if isinstance(command, Complete | Fail)]
        assert len(ends) == (self.state.stage is Stage.ENDED), "the end is reported once"
        for command in following:
            self._check(command, before, tick)
        if isinstance(tick, PlanCompleted):
            self._outcomes.setdefault(tick.observe_id, StepOutcome())
        elif isinstance(tick, StepEnded) and tick.step_id in _ids(before.steps):
            self._outcomes.setdefault(tick.step_id, tick.ended)

    def _check(self, command: Command, before: State, tick: Tick) -> None:
        match command:
            case RequestInsights(step_ids):
                planned = [step for step in self.state.steps if step.round == 0]
                queries = [step for step in planned if step.kind == StepKind.QUERY]
                insights = [step for step in planned if step.kind == StepKind.INSIGHT]
                assert step_ids == _ids(insights) != ()
                assert not _open(queries), "insights wait for every query"
            case RequestQueries(new_queries):
                assert 1 <= len(new_queries) <= QUERIES_PER_ROUND
                assert self.state.round <= self.state.feedback_rounds
                assert not self.state.is_suspended, "a suspended agent starts no round"
                assert not _open(self.state.of(StepKind.INSIGHT)), "a round waits for every insight"
                requested = {
                    answer for step in before.of(StepKind.QUERY) for answer in step.answers
                }
                for query in new_queries:
                    assert requested.isdisjoint(query.step.answers), (
                        "a query is not requested twice"
                    )
            case RepeatInsights(repetitions):
                assert not _open(self.state.of(StepKind.QUERY)), "insights wait for every query"
                assert (
                    len({repetition.step.repeats for repetition in repetitions})
                    == len(repetitions)
                    > 0
                )
                assert all(repetition.answered for repetition in repetitions), (
                    "an insight is repeated only for queries with results"
                )
            case RequestAdvice(_, analysis_ids):
                assert analysis_ids, "advice needs analyses"
                assert not _open(self.state.of(StepKind.INSIGHT)), "advice waits for every insight"
            case AbandonSteps(step_ids):
                assert isinstance(tick, DeadlinePassed)
                assert step_ids == _open(before.steps), "exactly the open steps are abandoned"

    def _check_end(self) -> None:
        """Check an ended iteration: nothing happened twice, and no requested step is left open."""
        counts = Counter(type(command) for command in self.commands)
        limits = dict.fromkeys((RequestQueries, RepeatInsights), self.state.feedback_rounds)
        assert all(count <= limits.get(kind, 1) for kind, count in counts.items()), counts
        assert counts[Complete] + counts[Fail] == 1
        requested = {
            OBSERVE,
            *_ids(self.state.of(StepKind.QUERY)),
            *_ids(self.state.of(StepKind.ADVISE)),
        }
        abandoned: tuple[UUID, ...] = ()
        for command in self.commands:
            if isinstance(command, RequestInsights):
                requested.update(command.step_ids)
            elif isinstance(command, RepeatInsights):
                requested.update(repetition.step.step_id for repetition in command.insights)
            elif isinstance(command, AbandonSteps):
                abandoned = command.step_ids
        assert len(set(abandoned)) == len(abandoned)
        assert requested <= self._outcomes.keys() | set(abandoned), (
            "every requested step has ended or was abandoned"
        )
        for step in self.state.steps:
            if step.step_id in self._outcomes:
                assert step.step_id not in abandoned
                assert step.ended == self._outcomes[step.step_id], "the first outcome counts"


class StoredEnds:
    """The join as the aggregator runs it: ends are stored in rows first, ticks report them.

    Ticks come late, duplicated, in any order, or never; when no tick is pending and no step is running, the last tick
    is repeated, as the reconciler does.
    """

    def __init__(self, random: Random, scenario: JoinScenario) -> None:
        self._random = random
        self._scenario = scenario
        self._rows = {OBSERVE: StepState(OBSERVE, StepKind.OBSERVE)}
        self._stage = Stage.OBSERVING
        self._running = [OBSERVE]
        self._pending: list[Tick] = []
        self._last = scenario.end_tick(OBSERVE)
        self._commands: list[Command] = []

    def run(self) -> tuple[Command, ...]:
        while self._stage is not Stage.ENDED:
            if self._running and (not self._pending or self._random.random() < 0.5):
                self._end_a_step()
            elif self._pending:
                self._join_next()
            else:
                before = (self._stage, len(self._rows))
                self._join(self._last)
                after = (self._stage, len(self._rows))
                assert after != before, f"no progress at {before}: {self._scenario}"
        while self._pending:
            self._join_next()
        return tuple(self._commands)

    def _end_a_step(self) -> None:
        step_id = self._running.pop(self._random.randrange(len(self._running)))
        self._rows[step_id] = replace(self._rows[step_id], ended=self._scenario.ends[step_id])
        self._last = self._scenario.end_tick(step_id)
        if isinstance(self._last, PlanCompleted):
            self._add(StepKind.QUERY, self._scenario.queries)
            self._add(StepKind.INSIGHT, self._scenario.insights)
            self._running += self._scenario.queries
        self._pending += [self._last] * self._random.choice((0, 1, 1, 2, 3))

    def _join_next(self) -> None:
        self._join(self._pending.pop(self._random.randrange(len(self._pending))))

    def _join(self, tick: Tick) -> None:
        rows, scenario = tuple(self._rows.values()), self._scenario
        before = State(
            self._stage, rows, ITERATION, scenario.feedback_rounds, scenario.is_suspended
        )
        state, commands = join(before, tick)
        self._stage = state.stage
        self._commands += commands
        for command in commands:
            match command:
                case RequestInsights(step_ids):
                    self._running += step_ids
                case RequestQueries(new_steps) | RepeatInsights(new_steps):
                    for new_step in new_steps:
                        self._rows[new_step.step.step_id] = new_step.step
                        self._running.append(new_step.step.step_id)
                case RequestAdvice(step_id):
                    self._add(StepKind.ADVISE, (step_id,))
                    self._running.append(step_id)

    def _add(self, kind: StepKind, step_ids: Sequence[UUID]) -> None:
        self._rows.update((step_id, StepState(step_id, kind)) for step_id in step_ids)


def _ids(steps: Sequence[StepState]) -> tuple[UUID, ...]:
    return tuple(step.step_id for step in steps)


def _open(steps: Sequence[StepState]) -> tuple[UUID, ...]:
    return tuple(step.step_id for step in steps if step.ended is None)
