"""When the local PostgreSQL and NATS are restarted."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import pytest

from cli.local.engines import HEALTHY_SECONDS, RestartDelay
from cli.local.store_watch import (
    ENOUGH_BYTES,
    MAX_PAUSE_SECONDS,
    PATIENCE_SECONDS,
    RestartDecision,
)


def test_the_delay_doubles_up_to_its_limit() -> None:
    delay = RestartDelay()
    assert [delay.after(1.0) for _ in range(8)] == [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0]


def test_the_delay_resets_after_a_long_run() -> None:
    delay = RestartDelay()
    for _ in range(5):
        delay.after(59.9)
    assert delay.after(60.0) == 0.2
    assert delay.after(1.0) == 0.4


FAULT = "NATS cannot store messages: it does not confirm them"
ROOM, FULL = ENOUGH_BYTES, ENOUGH_BYTES - 1


@dataclass(frozen=True)
class Phase:
    """Faults reported during some seconds, once a second."""

    seconds: int
    fault: str | None = FAULT
    free_bytes: int = ROOM


def restarts(phases: Iterable[Phase]) -> Iterator[int]:
    """The seconds at which NATS is restarted."""
    decision, now = RestartDecision(), 0
    for phase in phases:
        for _ in range(phase.seconds):
            if decision.is_due(float(now), phase.fault, phase.free_bytes):
                yield now
            now += 1


P = int(PATIENCE_SECONDS)


@pytest.mark.parametrize(
    ("phases", "expected"),
    [
        ([Phase(1000, fault=None)], []),
        ([Phase(1000, free_bytes=FULL)], []),
        ([Phase(P), Phase(1000, fault=None)], []),
        ([Phase(P + 1), Phase(1000, fault=None)], [P]),
        # The time begins again when the disk is full again, or a message was stored.
        ([Phase(P), Phase(1, free_bytes=FULL), Phase(P + 1)], [2 * P + 1]),
        ([Phase(P), Phase(1, fault=None), Phase(P + 1)], [2 * P + 1]),
        ([Phase(100, free_bytes=FULL), Phase(P + 1), Phase(50, fault=None)], [100 + P]),
    ],
)
def test_nats_is_restarted_when_stores_go_on_failing_although_there_is_space(
    phases: list[Phase], expected: list[int]
) -> None:
    assert list(restarts(phases)) == expected


def test_restarts_that_do_not_help_become_rare() -> None:
    times = list(restarts([Phase(3600)]))
    pauses = [later - earlier for earlier, later in pairwise(times)]
    assert pauses[0] == HEALTHY_SECONDS
    assert pauses == sorted(pauses)
    assert pauses[-1] == MAX_PAUSE_SECONDS


def test_after_a_long_time_of_health_a_restart_comes_soon_again() -> None:
    times = list(restarts([Phase(300), Phase(2000, fault=None), Phase(P + 1)]))
    assert times[-1] == 2300 + P
