"""Iterations as they may go, drawn at random: what was planned, how each step ends, and the ticks that tell of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from random import Random
from uuid import UUID, uuid5

from services.aggregator.reducer import (
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
    State,
    StepEnded,
    StepOutcome,
    StepState,
    Tick,
)
from shared.database import ids
from shared.enums import Stage, StepKind

SPACE = UUID(int=7)
ITERATION = UUID(int=8)
MOST_OF_A_KIND = 4
MOST_ROUNDS = 2
QUERIES_A_ROUND = 3
OBJECTIVES = (
    "output of Togo",
    "Output of Togo",
    "prices",
    "exports of Ghana",
    "who buys",
    "since when",
)
"""Of what is lacking; two ask for the same."""


def named(name: str) -> UUID:
    return uuid5(SPACE, name)


def _ids(kind: StepKind, count: int) -> tuple[UUID, ...]:
    return tuple(ids.step_id(ITERATION, kind, number) for number in range(count))


OBSERVE, STRANGER = named("observe"), named("stranger")
(ADVISE,) = _ids(StepKind.ADVISE, 1)
START = State(Stage.OBSERVING, (StepState(OBSERVE, StepKind.OBSERVE),), ITERATION)
QUERIES = _ids(StepKind.QUERY, MOST_OF_A_KIND + MOST_ROUNDS * QUERIES_A_ROUND)
INSIGHTS = _ids(StepKind.INSIGHT, MOST_OF_A_KIND * (1 + MOST_ROUNDS))
"""Those of the plan first, then those of later rounds as they come."""
ANALYSES = {
    insight: tuple(named(f"analysis {number} of {insight}") for number in range(2))
    for insight in INSIGHTS
}
LACKS = {
    (insight, objective): MissingData(uuid5(insight, objective), objective)
    for insight in INSIGHTS
    for objective in OBJECTIVES
}


@dataclass(frozen=True)
class World:
    """One truth about an iteration: its plan, how often it may go on, and how each step ends once it is begun."""

    queries: tuple[UUID, ...]
    insights: tuple[UUID, ...]
    ends: Mapping[UUID, StepOutcome]
    feedback_rounds: int = 0
    rests: bool = False

    @property
    def start(self) -> State:
        return replace(START, feedback_rounds=self.feedback_rounds, is_suspended=self.rests)

    @cached_property
    def course(self) -> Sequence["Round"]:
        return _course(self)

    def word_of(self, step_id: UUID) -> Tick:
        """What the aggregator is told of the step's end."""
        if step_id == OBSERVE and self.ends[OBSERVE].error is None:
            return PlanCompleted(OBSERVE, self.queries, self.insights)
        return StepEnded(step_id, self.ends[step_id])


def a_world(random: Random) -> World:
    queries = QUERIES[: random.randrange(MOST_OF_A_KIND + 1)]
    insights = INSIGHTS[: random.randrange(MOST_OF_A_KIND + 1)]
    bad_luck = random.choice((0.0, 0.2, 0.6, 1.0))
    ends = {OBSERVE: _an_end(random, bad_luck / 8), ADVISE: _an_end(random, bad_luck)}
    for query in QUERIES:
        ends[query] = replace(_an_end(random, bad_luck), has_results=random.random() < 0.7)
    for insight in INSIGHTS:
        ends[insight] = _an_end(
            random, bad_luck, ANALYSES[insight][: random.randrange(3)], _lacks(random, insight)
        )
    rests = random.random() < 0.1
    return World(queries, insights, ends, random.randrange(MOST_ROUNDS + 1), rests)


def foretold(world: World) -> tuple[Command, ...]:
    """All that must be commanded where no deadline passes, worked out from the end and not tick by tick."""
    begins = (RequestInsights(world.insights),) if world.insights else ()
    commands: list[Command] = []
    errors: list[str] = []
    for kind, step_ids in (
        (StepKind.OBSERVE, (OBSERVE,)),
        (StepKind.QUERY, world.queries),
        (StepKind.INSIGHT, world.insights),
    ):
        commands += begins if kind == StepKind.INSIGHT else ()
        failed = _errors(world, kind, step_ids)
        errors += failed
        if step_ids and len(failed) == len(step_ids):
            return (*commands, Fail(tuple(errors)))
    asked = [*world.insights]
    for each in world.course:
        commands += [RequestQueries(each.queries)]
        commands += [RepeatInsights(each.insights)] if each.insights else []
        errors += _errors(world, StepKind.QUERY, [query.step.step_id for query in each.queries])
        again = [insight.step.step_id for insight in each.insights]
        errors += _errors(world, StepKind.INSIGHT, again)
        asked += again
    analyses = tuple(each for step in asked for each in world.ends[step].analysis_ids)
    if not analyses:
        return (*commands, Complete(tuple(errors)))
    failed = _errors(world, StepKind.ADVISE, [ADVISE])
    end = Fail((*errors, *failed)) if failed else Complete(tuple(errors))
    return (*commands, RequestAdvice(ADVISE, analyses), end)


@dataclass(frozen=True)
class Round:
    queries: tuple[NewQuery, ...]
    insights: tuple[NewInsight, ...]


def _course(world: World) -> Sequence[Round]:
    """The rounds after the plan's, as they must come where all that was planned has ended."""
    rounds: list[Round] = []
    done: set[str] = set()
    planned = {insight: insight for insight in world.insights}
    queries = iter(enumerate(QUERIES[len(world.queries) :], len(world.queries)))
    for number in range(1, 1 + (0 if world.rests else world.feedback_rounds)):
        lacking = _lacking(world, planned)
        chosen = [each for each in lacking if each not in done][:QUERIES_A_ROUND]
        if not chosen:
            break
        done |= set(chosen)
        asked: list[NewQuery] = []
        answered: list[tuple[UUID, UUID]] = []
        for objective, (index, step_id) in zip(chosen, queries, strict=False):
            requests = tuple(request for request, _ in lacking[objective])
            part = StepState(step_id, StepKind.QUERY, round=number, answers=requests)
            asked.append(NewQuery(part, index))
            if world.ends[step_id].error is None and world.ends[step_id].has_results:
                answered += lacking[objective]
        # In the order of the insights, whichever query found it.
        told = [lack.request_id for insight in planned for lack in world.ends[insight].missing]
        again = _again(number, planned, sorted(answered, key=lambda each: told.index(each[0])))
        planned |= {each.step.step_id: each.step.planned_id for each in again}
        rounds.append(Round(tuple(asked), again))
    return rounds


def _lacking(
    world: World, planned: Mapping[UUID, UUID]
) -> Mapping[str, Sequence[tuple[UUID, UUID]]]:
    """Requests by what they ask for, each with the insight of the plan that lacks it, in the order of the insights."""
    found: dict[str, list[tuple[UUID, UUID]]] = {}
    for insight, of_plan in planned.items():
        for lack in world.ends[insight].missing:
            found.setdefault(lack.objective.lower(), []).append((lack.request_id, of_plan))
    return found


def _again(
    number: int, planned: Mapping[UUID, UUID], answered: Sequence[tuple[UUID, UUID]]
) -> tuple[NewInsight, ...]:
    by_insight: dict[UUID, list[UUID]] = {}
    for request_id, of_plan in answered:
        by_insight.setdefault(of_plan, []).append(request_id)
    return tuple(
        NewInsight(
            StepState(INSIGHTS[index], StepKind.INSIGHT, round=number, repeats=of_plan),
            index,
            tuple(request_ids),
        )
        for index, (of_plan, request_ids) in enumerate(by_insight.items(), len(planned))
    )


def _errors(world: World, kind: StepKind, step_ids: Sequence[UUID]) -> list[str]:
    failed = [world.ends[step].error for step in step_ids]
    return [f"{kind}: {error}" for error in failed if error is not None]


def _lacks(random: Random, insight: UUID) -> tuple[MissingData, ...]:
    chosen = random.sample(OBJECTIVES, random.choice((0, 0, 1, 2, 4)))
    return tuple(LACKS[insight, objective] for objective in chosen)


def in_some_order(random: Random, world: World) -> list[Tick]:
    """The word of every step once: a step's after that of those it waited for, else in any order."""
    stages: list[Sequence[UUID]] = [(OBSERVE,), world.queries, world.insights]
    for each in world.course:
        stages.append([query.step.step_id for query in each.queries])
        stages.append([insight.step.step_id for insight in each.insights])
    stages.append((ADVISE,))
    return [world.word_of(step) for steps in stages for step in random.sample(steps, len(steps))]


def with_deadline(random: Random, ticks: Sequence[Tick]) -> list[Tick]:
    passed = random.randrange(len(ticks) + 1)
    return [*ticks[:passed], DeadlinePassed(60), *ticks[passed:]]


def disturbed(random: Random, ticks: Sequence[Tick]) -> list[Tick]:
    """The same ticks among others that must not matter: doubled, late, contradicting, strange, too early to be known."""
    behind: list[list[Tick]] = [[] for _ in ticks]
    for _ in range(random.randrange(2 * len(ticks))):
        place = random.randrange(len(ticks))
        behind[random.randrange(place, len(ticks))].append(_said_again(random, ticks[place]))
    steps = [tick for tick in ticks if isinstance(tick, StepEnded) and tick.step_id != OBSERVE]
    early = random.sample(steps, random.randrange(len(steps) + 1)) if random.random() < 0.3 else []
    return [
        *early,
        *(each for tick, more in zip(ticks, behind, strict=True) for each in (tick, *more)),
    ]


def _said_again(random: Random, tick: Tick) -> Tick:
    if isinstance(tick, DeadlinePassed) or random.random() < 0.6:
        return tick
    step_id = (
        OBSERVE if isinstance(tick, PlanCompleted) else random.choice((tick.step_id, STRANGER))
    )
    return StepEnded(
        step_id, random.choice((StepOutcome("on second thoughts"), StepOutcome(None, (STRANGER,))))
    )


def _an_end(
    random: Random,
    bad_luck: float,
    analysis_ids: tuple[UUID, ...] = (),
    lacks: tuple[MissingData, ...] = (),
) -> StepOutcome:
    if random.random() < bad_luck:
        return StepOutcome(random.choice(("429", "broke")))
    return StepOutcome(None, analysis_ids, lacks)
