"""The join under random ticks: whatever comes, in whatever order and however often, it keeps what it promises."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from random import Random
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
from tests.support.join_worlds import (
    ITERATION,
    OBSERVE,
    QUERIES_A_ROUND,
    World,
    a_world,
    disturbed,
    foretold,
    in_some_order,
    with_deadline,
)
from tests.support.seeds import repeatable

WORLDS = [10_000, pytest.param(50_000, marks=pytest.mark.slow)]
"""Three sequences of ticks in each."""
SETTLED_WORLDS = 20_000


@pytest.mark.parametrize("worlds", WORLDS)
def test_random_sequences_of_ticks_keep_the_promises(seed: int, worlds: int) -> None:
    for each in range(seed, seed + worlds):
        with repeatable(each):
            keeps_the_promises(Random(each))


@settings(max_examples=300, deadline=None)
@given(st.randoms(use_true_random=False))
def test_the_smallest_sequence_that_breaks_a_promise(random: Random) -> None:
    """The same, drawn by Hypothesis, which makes what fails small."""
    keeps_the_promises(random)


def test_ends_that_stand_in_the_state_join_whatever_word_of_them_is_lost(seed: int) -> None:
    for each in range(seed, seed + SETTLED_WORLDS):
        with repeatable(each):
            random = Random(each)
            world = a_world(random)
            assert Settled(random, world).run() == foretold(world), world


def keeps_the_promises(random: Random) -> None:
    """One world, told in some order: it ends, and nothing that comes in between changes how."""
    world = a_world(random)
    ticks = in_some_order(random, world)
    if has_deadline := random.random() < 0.3:
        ticks = with_deadline(random, ticks)
    calm = Walk(world, ticks)
    assert calm.state.stage is Stage.ENDED, f"it never ends: {ticks}"
    if not has_deadline:
        assert tuple(calm.commands) == foretold(world), f"the order counts: {ticks}"
    noise = disturbed(random, ticks)
    noisy = Walk(world, noise)
    assert (noisy.state, noisy.commands) == (calm.state, calm.commands), f"noise counts: {noise}"
    # In an order that cannot be: how it ends is open, the promises hold.
    Walk(world, random.sample(noise, len(noise)))


class Walk:
    """The join through a sequence of ticks, every promise looked at on the way."""

    def __init__(self, world: World, ticks: Sequence[Tick]) -> None:
        self.state = world.start
        self.commands: list[Command] = []
        self._words: dict[UUID, StepOutcome] = {}
        """The first that was said of each step's end while the step was known and the iteration ran."""
        for tick in ticks:
            self._take(tick)
        if self.state.stage is Stage.ENDED:
            self._account()

    def _take(self, tick: Tick) -> None:
        before = self.state
        self.state, following = join(before, tick)
        self.commands.extend(following)
        if before.stage is Stage.ENDED:
            assert self.state == before, "an ended iteration never changes"
            assert not following, "an ended iteration asks for nothing"
            return
        ends = [command for command in following if isinstance(command, Complete | Fail)]
        assert len(ends) == (self.state.stage is Stage.ENDED), "the end is told once, when it comes"
        for command in following:
            self._look_at(command, before, tick)
        if isinstance(tick, PlanCompleted):
            self._words.setdefault(tick.observe_id, StepOutcome())
        elif isinstance(tick, StepEnded) and tick.step_id in _ids(before.steps):
            self._words.setdefault(tick.step_id, tick.ended)

    def _look_at(self, command: Command, before: State, tick: Tick) -> None:
        match command:
            case RequestInsights(step_ids):
                planned = [part for part in self.state.steps if part.round == 0]
                queries = [part for part in planned if part.kind == StepKind.QUERY]
                insights = [part for part in planned if part.kind == StepKind.INSIGHT]
                assert step_ids == _ids(insights) != ()
                assert not _open(queries), "insights wait for every query"
            case RequestQueries(fresh):
                assert 1 <= len(fresh) <= QUERIES_A_ROUND
                assert self.state.round <= self.state.feedback_rounds
                assert not self.state.is_suspended, "who rests begins no round"
                assert not _open(self.state.of(StepKind.INSIGHT)), "a round waits for every insight"
                asked = {each for part in before.of(StepKind.QUERY) for each in part.answers}
                for query in fresh:
                    assert asked.isdisjoint(query.step.answers), "what was asked is not asked again"
            case RepeatInsights(again):
                assert not _open(self.state.of(StepKind.QUERY)), "insights wait for every query"
                assert len({each.step.repeats for each in again}) == len(again) > 0
                assert all(each.answered for each in again), "again where something was found"
            case RequestAdvice(_, analysis_ids):
                assert analysis_ids, "advice stands on analyses"
                assert not _open(self.state.of(StepKind.INSIGHT)), "advice waits for every insight"
            case AbandonSteps(step_ids):
                assert isinstance(tick, DeadlinePassed)
                assert step_ids == _open(before.steps), "what is abandoned is what was open"

    def _account(self) -> None:
        """Of an iteration that has ended: nothing happened twice, and nothing that was asked for is left open."""
        times = Counter(type(command) for command in self.commands)
        most = dict.fromkeys((RequestQueries, RepeatInsights), self.state.feedback_rounds)
        assert all(count <= most.get(kind, 1) for kind, count in times.items()), times
        assert times[Complete] + times[Fail] == 1
        asked = {
            OBSERVE,
            *_ids(self.state.of(StepKind.QUERY)),
            *_ids(self.state.of(StepKind.ADVISE)),
        }
        abandoned: tuple[UUID, ...] = ()
        for command in self.commands:
            if isinstance(command, RequestInsights):
                asked.update(command.step_ids)
            elif isinstance(command, RepeatInsights):
                asked.update(each.step.step_id for each in command.insights)
            elif isinstance(command, AbandonSteps):
                abandoned = command.step_ids
        assert len(set(abandoned)) == len(abandoned)
        assert asked <= self._words.keys() | set(abandoned), "what was asked for is accounted for"
        for part in self.state.steps:
            if part.step_id in self._words:
                assert part.step_id not in abandoned
                assert part.ended == self._words[part.step_id], "the first word counts"


class Settled:
    """The join as the aggregator runs it: ends stand in rows first, ticks are the news of them.

    News come late, doubled, in any order, or never; when there is none left and work neither, the last is said again,
    as the reconciler does.
    """

    def __init__(self, random: Random, world: World) -> None:
        self._random = random
        self._world = world
        self._rows = {OBSERVE: StepState(OBSERVE, StepKind.OBSERVE)}
        self._stage = Stage.OBSERVING
        self._working = [OBSERVE]
        self._news: list[Tick] = []
        self._last = world.word_of(OBSERVE)
        self._commands: list[Command] = []

    def run(self) -> tuple[Command, ...]:
        while self._stage is not Stage.ENDED:
            if self._working and (not self._news or self._random.random() < 0.5):
                self._end_a_step()
            elif self._news:
                self._hear()
            else:
                stood_at = (self._stage, len(self._rows))
                self._join(self._last)
                now_at = (self._stage, len(self._rows))
                assert now_at != stood_at, f"stands still while {stood_at}: {self._world}"
        while self._news:
            self._hear()
        return tuple(self._commands)

    def _end_a_step(self) -> None:
        step_id = self._working.pop(self._random.randrange(len(self._working)))
        self._rows[step_id] = replace(self._rows[step_id], ended=self._world.ends[step_id])
        self._last = self._world.word_of(step_id)
        if isinstance(self._last, PlanCompleted):
            self._add(StepKind.QUERY, self._world.queries)
            self._add(StepKind.INSIGHT, self._world.insights)
            self._working += self._world.queries
        self._news += [self._last] * self._random.choice((0, 1, 1, 2, 3))

    def _hear(self) -> None:
        self._join(self._news.pop(self._random.randrange(len(self._news))))

    def _join(self, tick: Tick) -> None:
        rows, world = tuple(self._rows.values()), self._world
        before = State(self._stage, rows, ITERATION, world.feedback_rounds, world.rests)
        state, commands = join(before, tick)
        self._stage = state.stage
        self._commands += commands
        for command in commands:
            match command:
                case RequestInsights(step_ids):
                    self._working += step_ids
                case RequestQueries(fresh) | RepeatInsights(fresh):
                    for each in fresh:
                        self._rows[each.step.step_id] = each.step
                        self._working.append(each.step.step_id)
                case RequestAdvice(step_id):
                    self._add(StepKind.ADVISE, (step_id,))
                    self._working.append(step_id)

    def _add(self, kind: StepKind, step_ids: Sequence[UUID]) -> None:
        self._rows.update((step_id, StepState(step_id, kind)) for step_id in step_ids)


def _ids(parts: Sequence[StepState]) -> tuple[UUID, ...]:
    return tuple(part.step_id for part in parts)


def _open(parts: Sequence[StepState]) -> tuple[UUID, ...]:
    return tuple(part.step_id for part in parts if part.ended is None)
