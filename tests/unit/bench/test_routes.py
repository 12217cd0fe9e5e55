"""What counts as crossed on a route, and as growth."""

import json

import pytest

from bench.routes import Count, Counts, RouteCounter, find_growth
from shared.agents.model_choice import check_models
from shared.database.text import refuse_nul
from shared.graph.grounding.words import phrases

RECORDED: Counts = {"a route": Count(20, 100)}


def test_a_function_counts_once_in_every_open_route() -> None:
    counter = RouteCounter()
    with counter.counted("outer"):
        check_models("one, then two")
        with counter.counted("inner"):
            refuse_nul("one")
            refuse_nul("two")
            json.dumps("other code")
    assert counter.medians() == {"outer": Count(2, 3), "inner": Count(1, 1)}


def test_what_was_suspended_when_the_route_began_does_not_count() -> None:
    counter = RouteCounter()
    running = phrases("one")
    next(running)
    with counter.counted("a route"):
        assert list(running) == []
    assert counter.medians() == {"a route": Count(0, 0)}


def test_a_closed_route_counts_nothing() -> None:
    counter = RouteCounter()
    with counter.counted("a route"):
        pass
    refuse_nul("one")
    counter.end("a route")
    assert counter.counts == {"a route": [Count(0, 0)]}


@pytest.mark.parametrize(
    ("now", "growth"),
    [
        (Count(20, 100), []),
        (Count(22, 110), []),
        (Count(3, 111), ["a route: 111 functions, recorded were 100"]),
        (Count(22.5, 10), ["a route: 22.5 files, recorded were 20"]),
    ],
)
def test_growth_above_the_tolerance_is_reported(now: Count, growth: list[str]) -> None:
    assert find_growth(RECORDED, {"a route": now}) == growth
