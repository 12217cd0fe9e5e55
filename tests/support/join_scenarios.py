"""Random courses of iterations: the plan, the outcome of each step, and the ticks of the aggregator's reducer."""

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
MAX_STEPS_OF_A_KIND = 4
MAX_ROUNDS = 2
QUERIES_PER_ROUND = 3
OBJECTIVES = (
    "output of Togo",
    "Output of Togo",
    "prices",
    "exports of Ghana",
    "who buys",
    "since when",
)
"""Objectives of missing data; two of them are the same."""


def named(name: str) -> UUID:
    return uuid5(SPACE, name)


def _ids(kind: StepKind, count: int) -> tuple[UUID, ...]:
    return tuple(ids.step_id(ITERATION, kind, number) for number in range(count))


OBSERVE, UNKNOWN_STEP = named("observe"), named("stranger")
(ADVISE,) = _ids(StepKind.ADVISE, 1)
START = State(Stage.OBSERVING, (StepState(OBSERVE, StepKind.OBSERVE),), ITERATION)
QUERIES = _ids(StepKind.QUERY, MAX_STEPS_OF_A_KIND + MAX_ROUNDS * QUERIES_PER_ROUND)
INSIGHTS = _ids(StepKind.INSIGHT, MAX_STEPS_OF_A_KIND * (1 + MAX_ROUNDS))
"""Those of the plan first, then those of later rounds in order."""
ANALYSES = {
    insight: tuple(named(f"analysis {number} of {insight}") for number in range(2))
    for insight in INSIGHTS
}
MISSING_DATA = {
    (insight, objective): MissingData(uuid5(insight, objective), objective)
    for insight in INSIGHTS
    for objective in OBJECTIVES
}


@dataclass(frozen=True)
class JoinScenario:
    """One course of an iteration: its plan, the number of feedback rounds, and the outcome of each step."""

    queries: tuple[UUID, ...]
    insights: tuple[UUID, ...]
    ends: Mapping[UUID, StepOutcome]
    feedback_rounds: int = 0
    is_suspended: bool = False

    @property
    def start(self) -> State:
        return replace(START, feedback_rounds=self.feedback_rounds, is_suspended=self.is_suspended)

    @cached_property
    def rounds(self) -> Sequence["Round"]:
        return _expected_rounds(self)

    def end_tick(self, step_id: UUID) -> Tick:
        """The tick of the step's end."""
        if step_id == OBSERVE and self.ends[OBSERVE].error is None:
            return PlanCompleted(OBSERVE, self.queries, self.insights)
        return StepEnded(step_id, self.ends[step_id])


def random_scenario(random: Random) -> JoinScenario:
    queries = QUERIES[: random.randrange(MAX_STEPS_OF_A_KIND + 1)]
    insights = INSIGHTS[: random.randrange(MAX_STEPS_OF_A_KIND + 1)]
    bad_luck = random.choice((0.0, 0.2, 0.6, 1.0))
    ends = {
        OBSERVE: _random_outcome(random, bad_luck / 8),
        ADVISE: _random_outcome(random, bad_luck),
    }
    for query in QUERIES:
        ends[query] = replace(_random_outcome(random, bad_luck), has_results=random.random() < 0.7)
    for insight in INSIGHTS:
        ends[insight] = _random_outcome(
            random,
            bad_luck,
            ANALYSES[insight][: random.randrange(3)],
            _random_missing_data(random, insight),
        )
    is_suspended = random.random() < 0.1
    return JoinScenario(queries, insights, ends, random.randrange(MAX_ROUNDS + 1), is_suspended)


def expected_commands(scenario: JoinScenario) -> tuple[Command, ...]:
    """All commands that the reducer must return without a deadline, computed at once and not tick by tick."""
    insight_commands = (RequestInsights(scenario.insights),) if scenario.insights else ()
    commands: list[Command] = []
    errors: list[str] = []
    for kind, step_ids in (
        (StepKind.OBSERVE, (OBSERVE,)),
        (StepKind.QUERY, scenario.queries),
        (StepKind.INSIGHT, scenario.insights),
    ):
        commands += insight_commands if kind == StepKind.INSIGHT else ()
        step_errors = _errors(scenario, kind, step_ids)
        errors += step_errors
        if step_ids and len(step_errors) == len(step_ids):
            return (*commands, Fail(tuple(errors)))
    insights = [*scenario.insights]
    for round_ in scenario.rounds:
        commands += [RequestQueries(round_.queries)]
        commands += [RepeatInsights(round_.insights)] if round_.insights else []
        errors += _errors(
            scenario, StepKind.QUERY, [query.step.step_id for query in round_.queries]
        )
        repeated_ids = [insight.step.step_id for insight in round_.insights]
        errors += _errors(scenario, StepKind.INSIGHT, repeated_ids)
        insights += repeated_ids
    analyses = tuple(
        analysis_id for step in insights for analysis_id in scenario.ends[step].analysis_ids
    )
    if not analyses:
        return (*commands, Complete(tuple(errors)))
    step_errors = _errors(scenario, StepKind.ADVISE, [ADVISE])
    end = Fail((*errors, *step_errors)) if step_errors else Complete(tuple(errors))
    return (*commands, RequestAdvice(ADVISE, analyses), end)


@dataclass(frozen=True)
class Round:
    queries: tuple[NewQuery, ...]
    insights: tuple[NewInsight, ...]


def _expected_rounds(scenario: JoinScenario) -> Sequence[Round]:
    """The feedback rounds that must follow the end of the planned steps."""
    rounds: list[Round] = []
    done: set[str] = set()
    planned = {insight: insight for insight in scenario.insights}
    queries = iter(enumerate(QUERIES[len(scenario.queries) :], len(scenario.queries)))
    for number in range(1, 1 + (0 if scenario.is_suspended else scenario.feedback_rounds)):
        requests_by_objective = _missing_by_objective(scenario, planned)
        objectives = [objective for objective in requests_by_objective if objective not in done][
            :QUERIES_PER_ROUND
        ]
        if not objectives:
            break
        done |= set(objectives)
        new_queries: list[NewQuery] = []
        answered: list[tuple[UUID, UUID]] = []
        for objective, (index, step_id) in zip(objectives, queries, strict=False):
            request_ids = tuple(request_id for request_id, _ in requests_by_objective[objective])
            state = StepState(step_id, StepKind.QUERY, round=number, answers=request_ids)
            new_queries.append(NewQuery(state, index))
            if scenario.ends[step_id].error is None and scenario.ends[step_id].has_results:
                answered += requests_by_objective[objective]
        # In the order of the insights, not of the queries.
        request_order = [
            item.request_id for insight in planned for item in scenario.ends[insight].missing
        ]
        repeated = _repeated_insights(
            number, planned, sorted(answered, key=lambda pair: request_order.index(pair[0]))
        )
        planned |= {insight.step.step_id: insight.step.planned_id for insight in repeated}
        rounds.append(Round(tuple(new_queries), repeated))
    return rounds


def _missing_by_objective(
    scenario: JoinScenario, planned: Mapping[UUID, UUID]
) -> Mapping[str, Sequence[tuple[UUID, UUID]]]:
    """Requests by objective, each with the planned insight that misses the data, in the order of the insights."""
    requests: dict[str, list[tuple[UUID, UUID]]] = {}
    for insight, planned_id in planned.items():
        for item in scenario.ends[insight].missing:
            requests.setdefault(item.objective.lower(), []).append((item.request_id, planned_id))
    return requests


def _repeated_insights(
    number: int, planned: Mapping[UUID, UUID], answered: Sequence[tuple[UUID, UUID]]
) -> tuple[NewInsight, ...]:
    by_insight: dict[UUID, list[UUID]] = {}
    for request_id, planned_id in answered:
        by_insight.setdefault(planned_id, []).append(request_id)
    return tuple(
        NewInsight(
            StepState(INSIGHTS[index], StepKind.INSIGHT, round=number, repeats=planned_id),
            index,
            tuple(request_ids),
        )
        for index, (planned_id, request_ids) in enumerate(by_insight.items(), len(planned))
    )


def _errors(scenario: JoinScenario, kind: StepKind, step_ids: Sequence[UUID]) -> list[str]:
    step_errors = [scenario.ends[step].error for step in step_ids]
    return [f"{kind}: {error}" for error in step_errors if error is not None]


def _random_missing_data(random: Random, insight: UUID) -> tuple[MissingData, ...]:
    chosen = random.sample(OBJECTIVES, random.choice((0, 0, 1, 2, 4)))
    return tuple(MISSING_DATA[insight, objective] for objective in chosen)


def shuffled_ticks(random: Random, scenario: JoinScenario) -> list[Tick]:
    """One tick for the end of each step, in random order within each stage."""
    stages: list[Sequence[UUID]] = [(OBSERVE,), scenario.queries, scenario.insights]
    for round_ in scenario.rounds:
        stages.append([query.step.step_id for query in round_.queries])
        stages.append([insight.step.step_id for insight in round_.insights])
    stages.append((ADVISE,))
    return [
        scenario.end_tick(step) for steps in stages for step in random.sample(steps, len(steps))
    ]


def with_deadline(random: Random, ticks: Sequence[Tick]) -> list[Tick]:
    index = random.randrange(len(ticks) + 1)
    return [*ticks[:index], DeadlinePassed(60), *ticks[index:]]


def disturbed(random: Random, ticks: Sequence[Tick]) -> list[Tick]:
    """The same ticks among others that must have no effect: duplicate, late, contradicting, unknown or too early."""
    extra_ticks: list[list[Tick]] = [[] for _ in ticks]
    for _ in range(random.randrange(2 * len(ticks))):
        index = random.randrange(len(ticks))
        extra_ticks[random.randrange(index, len(ticks))].append(_repeat_tick(random, ticks[index]))
    steps = [tick for tick in ticks if isinstance(tick, StepEnded) and tick.step_id != OBSERVE]
    early = random.sample(steps, random.randrange(len(steps) + 1)) if random.random() < 0.3 else []
    return [
        *early,
        *(t for tick, extra in zip(ticks, extra_ticks, strict=True) for t in (tick, *extra)),
    ]


def _repeat_tick(random: Random, tick: Tick) -> Tick:
    if isinstance(tick, DeadlinePassed) or random.random() < 0.6:
        return tick
    step_id = (
        OBSERVE if isinstance(tick, PlanCompleted) else random.choice((tick.step_id, UNKNOWN_STEP))
    )
    return StepEnded(
        step_id,
        random.choice((StepOutcome("on second thoughts"), StepOutcome(None, (UNKNOWN_STEP,)))),
    )


def _random_outcome(
    random: Random,
    bad_luck: float,
    analysis_ids: tuple[UUID, ...] = (),
    lacks: tuple[MissingData, ...] = (),
) -> StepOutcome:
    if random.random() < bad_luck:
        return StepOutcome(random.choice(("429", "broke")))
    return StepOutcome(None, analysis_ids, lacks)
