"""Token buckets with a test clock."""

from services.api.http import guards
from services.api.http.guards import Buckets


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_burst_is_allowed_and_then_the_steady_rate() -> None:
    clock = Clock()
    buckets = Buckets(per_second=2, burst=4, clock=clock)
    assert [buckets.take("a").allowed for _ in range(6)] == [True] * 4 + [False] * 2
    clock.now += 0.5
    assert [buckets.take("a").allowed for _ in range(2)] == [True, False]
    clock.now += 3600
    assert [buckets.take("a").allowed for _ in range(5)] == [True] * 4 + [False], (
        "no more than the capacity"
    )


def test_callers_are_limited_independently() -> None:
    buckets = Buckets(per_second=1, burst=1, clock=Clock())
    assert [buckets.take(caller).allowed for caller in "abab"] == [True, True, False, False]


def test_the_decision_has_the_remaining_requests_and_the_wait() -> None:
    buckets = Buckets(per_second=0.5, burst=2, clock=Clock())
    first, second, third = (buckets.take("a") for _ in range(3))
    assert (first.left, first.wait_seconds) == (1, 0)
    assert (second.left, second.wait_seconds) == (0, 2)
    assert (third.allowed, third.left, third.wait_seconds) == (False, 0, 2)


def test_a_caller_that_waits_is_allowed_again() -> None:
    clock = Clock()
    buckets = Buckets(per_second=0.3, burst=1, clock=clock)
    buckets.take("a")
    clock.now += buckets.take("a").wait_seconds
    assert buckets.take("a").allowed


def test_the_number_of_callers_in_memory_is_limited() -> None:
    buckets = Buckets(per_second=1, burst=1, clock=Clock())
    for number in range(guards.MAX_CALLERS + 1):
        buckets.take(str(number))
    assert not buckets.take(str(guards.MAX_CALLERS)).allowed
    assert buckets.take("0").allowed, "evicted, because its request was the oldest"
