"""Iterations as they may go, drawn at random: what was planned, how each step ends, and the ticks that tell of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from uuid import UUID, uuid5

from services.aggregator.join import (
    Command,
    Complete,
    DeadlinePassed,
    Ended,
    Fail,
    Part,
    PlanMade,
    RequestAdvice,
    RequestInsights,
    State,
    StepEnded,
    Tick,
)
from shared.store.words import Stage, StepKind

SPACE = UUID(int=7)
MOST_OF_A_KIND = 4


def named(name: str) -> UUID:
    return uuid5(SPACE, name)


OBSERVE, ADVISE, STRANGER = named("observe"), named("advise"), named("stranger")
START = State(Stage.OBSERVING, (Part(OBSERVE, StepKind.OBSERVE),), ADVISE)
QUERIES = tuple(named(f"query {number}") for number in range(MOST_OF_A_KIND))
INSIGHTS = tuple(named(f"insight {number}") for number in range(MOST_OF_A_KIND))
ANALYSES = {
    insight: tuple(named(f"analysis {number} of {insight}") for number in range(2))
    for insight in INSIGHTS
}


@dataclass(frozen=True)
class World:
    """One truth about an iteration: its plan, and how each step ends once it is begun."""

    queries: tuple[UUID, ...]
    insights: tuple[UUID, ...]
    ends: Mapping[UUID, Ended]

    def word_of(self, step_id: UUID) -> Tick:
        """What the aggregator is told of the step's end."""
        if step_id == OBSERVE and self.ends[OBSERVE].error is None:
            return PlanMade(OBSERVE, self.queries, self.insights)
        return StepEnded(step_id, self.ends[step_id])


def a_world(random: Random) -> World:
    queries = QUERIES[: random.randrange(MOST_OF_A_KIND + 1)]
    insights = INSIGHTS[: random.randrange(MOST_OF_A_KIND + 1)]
    bad_luck = random.choice((0.0, 0.2, 0.6, 1.0))
    ends = {OBSERVE: _an_end(random, bad_luck / 8), ADVISE: _an_end(random, bad_luck)}
    for query in queries:
        ends[query] = _an_end(random, bad_luck)
    for insight in insights:
        ends[insight] = _an_end(random, bad_luck, ANALYSES[insight][: random.randrange(3)])
    return World(queries, insights, ends)


def foretold(world: World) -> tuple[Command, ...]:
    """All that must be commanded where no deadline passes, worked out from the end and not tick by tick."""
    analyses = tuple(each for step in world.insights for each in world.ends[step].analysis_ids)
    begins: Mapping[StepKind, tuple[Command, ...]] = {
        StepKind.INSIGHT: (RequestInsights(world.insights),) if world.insights else (),
        StepKind.ADVISE: (RequestAdvice(ADVISE, analyses),),
    }
    commands: list[Command] = []
    errors: list[str] = []
    for kind, step_ids in (
        (StepKind.OBSERVE, (OBSERVE,)),
        (StepKind.QUERY, world.queries),
        (StepKind.INSIGHT, world.insights),
        (StepKind.ADVISE, (ADVISE,) if analyses else ()),
    ):
        commands += begins.get(kind, ()) if step_ids else ()
        failed = [error for step in step_ids if (error := world.ends[step].error) is not None]
        errors += [f"{kind}: {error}" for error in failed]
        if step_ids and len(failed) == len(step_ids):
            return (*commands, Fail(tuple(errors)))
    return (*commands, Complete(tuple(errors)))


def in_some_order(random: Random, world: World) -> list[Tick]:
    """The word of every step once: a step's after that of those it waited for, else in any order."""
    queries = random.sample(world.queries, len(world.queries))
    insights = random.sample(world.insights, len(world.insights))
    return [world.word_of(step) for step in (OBSERVE, *queries, *insights, ADVISE)]


def with_deadline(random: Random, ticks: Sequence[Tick]) -> list[Tick]:
    passed = random.randrange(len(ticks) + 1)
    return [*ticks[:passed], DeadlinePassed(), *ticks[passed:]]


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
    step_id = OBSERVE if isinstance(tick, PlanMade) else random.choice((tick.step_id, STRANGER))
    return StepEnded(
        step_id, random.choice((Ended("on second thoughts"), Ended(None, (STRANGER,))))
    )


def _an_end(random: Random, bad_luck: float, analysis_ids: tuple[UUID, ...] = ()) -> Ended:
    if random.random() < bad_luck:
        return Ended(random.choice(("429", "broke")))
    return Ended(None, analysis_ids)
