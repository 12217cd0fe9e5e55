"""When an iteration works, and when it is quiet."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from math import log2
from random import Random

import pytest

from services.observer.quiescence import (
    FREE_AT_FIRST,
    MAX_ATTEMPTS,
    MAX_PAST,
    OWN_REASONS,
    PastIteration,
    Situation,
    reasons_to_work,
)
from shared.enums import WorkReason

NOW = datetime(2026, 11, 27, 12, tzinfo=UTC)
EVERY = timedelta(hours=6)
NUMBER = 100


def past(minutes_ago: float = 5, **changes: bool) -> PastIteration:
    """An iteration of one every five minutes, for a reason outside: so that reasons of its own count at once."""
    number = NUMBER - int(minutes_ago // 5)
    started_at = NOW - timedelta(minutes=minutes_ago)
    return PastIteration(number, started_at, is_own=False)._replace(**changes)  # type: ignore[arg-type]


FRUITLESS = (past(5), past(10))
QUIET = Situation("due", NUMBER, NOW, FRUITLESS)


def reasons(situation: Situation, news: int = 0) -> list[WorkReason]:
    return reasons_to_work(situation, search_every=EVERY, news=news)


def test_nothing_new_and_nothing_due_is_quiet() -> None:
    assert reasons(QUIET) == []


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"past": ()}, WorkReason.FIRST),
        ({"why": "run_now"}, WorkReason.RUN_REQUESTED),
        ({"is_resumed": True}, WorkReason.RESUMED),
        ({"past": (past(5, is_flawed=True), past(10))}, WorkReason.ERRORS),
        ({"past": (past(5, has_learned=True), past(10))}, WorkReason.LEARNED),
        ({"past": (past(5), past(10, has_learned=True))}, WorkReason.CONTINUED),
        ({"past": (past(5),)}, WorkReason.CONTINUED),
        ({"graph_is_empty": True}, WorkReason.GRAPH_EMPTY),
        ({"has_new_requests": True}, WorkReason.DATA_REQUESTED),
        ({"owner_acted": True}, WorkReason.OWNER_ACTED),
        ({"past": (past(360), past(400))}, WorkReason.SEARCH_DUE),
        (
            {"past": (past(5, has_searched=False), past(10, has_searched=False))},
            WorkReason.SEARCH_DUE,
        ),
        ({"due": ["Advice has passed its horizon"]}, WorkReason.DUE),
    ],
)
def test_each_reason_alone_is_enough(changes: dict[str, object], reason: WorkReason) -> None:
    assert reasons(replace(QUIET, **changes)) == [reason]  # type: ignore[arg-type]


def test_news_are_a_reason() -> None:
    assert reasons(QUIET, news=1) == [WorkReason.NEWS]


def test_an_empty_plan_is_not_continued() -> None:
    after_learning = (past(5, is_planned=False, has_searched=False), past(10, has_learned=True))
    assert reasons(replace(QUIET, past=after_learning)) == []


def test_an_empty_graph_is_not_researched_for_ever() -> None:
    attempts = tuple(past(5 * number) for number in range(1, MAX_ATTEMPTS + 1))
    assert reasons(replace(QUIET, past=attempts, graph_is_empty=True)) == []


def learning(*numbers: int, **changes: bool) -> tuple[PastIteration, ...]:
    """Iterations that learned something, the newest first."""
    return tuple(
        PastIteration(number, NOW, has_learned=True, **changes)
        for number in sorted(numbers, reverse=True)
    )


def working_ticks(past: tuple[PastIteration, ...], first: int, last: int) -> list[int]:
    """The ticks from `first` to `last` at which an agent works that learns something each time."""
    worked = []
    for number in range(first, last + 1):
        if reasons(Situation("due", number, NOW, past)):
            worked.append(number)
            past = (PastIteration(number, NOW, has_learned=True), *past)
    return worked


def test_a_new_agent_works_nine_times_and_then_ever_more_rarely() -> None:
    assert working_ticks((), 1, 70) == [1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 15, 23, 39]


def test_after_an_event_an_agent_works_twice_and_then_ever_more_rarely() -> None:
    event = PastIteration(50, NOW, is_own=False, has_learned=True)
    assert working_ticks((event, *learning(1, 2, 3)), 51, 70) == [51, 52, 54, 58, 66]


def test_what_happens_outside_is_never_put_off() -> None:
    many = learning(*range(1, 15))
    assert reasons(Situation("due", 15, NOW, many)) == []
    for changes in ({"why": "run_now"}, {"owner_acted": True}, {"due": ["x"]}):
        assert reasons(replace(Situation("due", 15, NOW, many), **changes))
    assert reasons(Situation("due", 15, NOW, many), news=1)


@pytest.mark.parametrize("seed", range(20))
def test_a_walk_of_ticks_is_quiet_unless_something_happens(seed: int) -> None:
    """Whatever happened before: an event wakes the agent at the next tick, two fruitless iterations make all ticks quiet
    until the next event, no six hours pass without a search, and of its own accord an agent that always learns something
    works a bounded number of times between two events.
    """
    random = Random(seed)
    always_learns = bool(seed % 2)
    worked: list[PastIteration] = []
    now = NOW
    fruitless = own = 0
    searched_at = now - EVERY
    for number in range(1, 2001):
        now += timedelta(minutes=5)
        event = random.random() < 0.01
        situation = Situation("due", number, now, tuple(worked[: -MAX_PAST - 1 : -1]))
        found = reasons_to_work(situation, search_every=EVERY, news=int(event))
        is_quiet = not found
        assert not (event and is_quiet), "an event wakes the agent at the next tick"
        if fruitless >= 2 and not event and now - searched_at < EVERY:
            assert is_quiet, found
        if is_quiet:
            assert now - searched_at < EVERY, "a search is due"
            continue
        is_own = set(found) <= OWN_REASONS
        own = own + 1 if is_own else 0
        # A search is due every 72 ticks, which is an event too.
        assert own <= FREE_AT_FIRST + log2(72)
        learned = always_learns or (event and random.random() < 0.5)
        is_planned = learned or random.random() < 0.8 or situation.is_search_due(EVERY)
        worked.append(
            PastIteration(
                number,
                now,
                is_own=is_own,
                is_planned=is_planned,
                has_searched=is_planned,
                has_learned=learned,
            )
        )
        searched_at = now if is_planned else searched_at
        fruitless = 0 if learned else fruitless + 1
