"""When an iteration works, and when it is quiet."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random

import pytest

from services.observer.quiescence import (
    MAX_ATTEMPTS,
    PastIteration,
    Situation,
    reasons_to_work,
)

NOW = datetime(2026, 11, 27, 12, tzinfo=UTC)
EVERY = timedelta(hours=6)


def past(minutes_ago: float = 5, **changes: bool) -> PastIteration:
    return PastIteration(NOW - timedelta(minutes=minutes_ago), **changes)


FRUITLESS = (past(5), past(10))
QUIET = Situation("due", NOW, FRUITLESS)


def reasons(situation: Situation, news: int = 0) -> list[str]:
    return reasons_to_work(situation, search_every=EVERY, news=news)


def test_nothing_new_and_nothing_due_is_quiet() -> None:
    assert reasons(QUIET) == []


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"past": ()}, "this is the first iteration"),
        ({"why": "run_now"}, "the owner asked for it"),
        ({"is_begun": True}, "it was begun before"),
        ({"past": (past(5, is_flawed=True), past(10))}, "the last iteration had errors"),
        ({"past": (past(5, has_learned=True), past(10))}, "the last iteration learned something"),
        ({"past": (past(5), past(10, has_learned=True))}, "the last plan may be continued"),
        ({"past": (past(5),)}, "the last plan may be continued"),
        ({"graph_is_empty": True}, "the graph is empty"),
        ({"has_new_requests": True}, "an analysis lacks data"),
        ({"owner_acted": True}, "the owner has changed something"),
        ({"past": (past(360), past(400))}, "the last search is too long ago"),
        (
            {"past": (past(5, has_searched=False), past(10, has_searched=False))},
            "the last search is too long ago",
        ),
        ({"due": ["Advice has passed its horizon"]}, "Advice has passed its horizon"),
    ],
)
def test_each_reason_alone_is_enough(changes: dict[str, object], reason: str) -> None:
    assert reasons(replace(QUIET, **changes)) == [reason]  # type: ignore[arg-type]


def test_news_are_a_reason() -> None:
    assert reasons(QUIET, news=1) == ["pages have changed or are new"]


def test_an_empty_plan_is_not_continued() -> None:
    after_learning = (past(5, is_planned=False, has_searched=False), past(10, has_learned=True))
    assert reasons(replace(QUIET, past=after_learning)) == []


def test_an_empty_graph_is_not_researched_for_ever() -> None:
    attempts = tuple(past(5 * number) for number in range(1, MAX_ATTEMPTS + 1))
    assert reasons(replace(QUIET, past=attempts, graph_is_empty=True)) == []


@pytest.mark.parametrize("seed", range(20))
def test_a_walk_of_ticks_is_quiet_unless_something_happens(seed: int) -> None:
    """Whatever happened before, two fruitless iterations after the last event make all ticks quiet until the next event;
    and no six hours pass without a search.
    """
    random = Random(seed)
    worked: list[PastIteration] = []
    now = NOW
    fruitless = 0
    searched_at = now - EVERY
    for _ in range(2000):
        now += timedelta(minutes=5)
        event = random.random() < 0.01
        situation = Situation("due", now, tuple(worked[-1:-4:-1]), owner_acted=False)
        found = reasons_to_work(situation, search_every=EVERY, news=int(event))
        is_quiet = not found
        assert not (event and is_quiet), "an event wakes the agent at the next tick"
        if fruitless >= 2 and not event and now - searched_at < EVERY:
            assert is_quiet, found
        if is_quiet:
            assert now - searched_at < EVERY, "a search is due"
            continue
        learned = event and random.random() < 0.5
        is_planned = learned or random.random() < 0.8 or situation.is_search_due(EVERY)
        worked.append(
            PastIteration(now, is_planned=is_planned, has_searched=is_planned, has_learned=learned)
        )
        searched_at = now if is_planned else searched_at
        fruitless = 0 if learned else fruitless + 1
