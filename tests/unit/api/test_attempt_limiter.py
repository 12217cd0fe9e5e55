"""Limits of failed sign-in attempts."""

import pytest

from services.api.auth.middleware import WINDOW_SECONDS, AttemptLimiter
from shared.runtime.connection_limits import address_group
from tests.support.case_files import read_cases

CASES = read_cases(__file__)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_after_the_limit_the_next_attempt_waits_for_the_next_window() -> None:
    clock = Clock()
    attempts = AttemptLimiter(3, clock)
    for _ in range(3):
        assert attempts.wait_seconds("a") == 0
        attempts.add("a")
        clock.now += 10
    assert attempts.wait_seconds("a") == WINDOW_SECONDS - 30
    assert attempts.wait_seconds("b") == 0
    clock.now += WINDOW_SECONDS - 30
    assert attempts.wait_seconds("a") == 0
    attempts.add("a")
    assert attempts.wait_seconds("a") == 0


@pytest.mark.parametrize(("host", "group"), CASES["ipv6_addresses_are_grouped_by_network"])
def test_ipv6_addresses_are_grouped_by_network(host: str, group: str) -> None:
    assert address_group(host) == group
