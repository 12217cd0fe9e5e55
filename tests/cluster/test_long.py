"""The cluster in the long form: whatever is lost or scaled, all of it ends, once."""

import pytest

from tests.support.cluster.stack import SERVICES, Stack, waited_for
from tests.support.cluster.watch import Watch

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

FAN_OUT = 20
SLOWLY = {"kind": "latency", "always": True, "latency_seconds": 0.3}


def test_researchers_come_and_go_during_a_fan_out(watch: Watch) -> None:
    stack = watch.stack
    watch.plan(queries=FAN_OUT)
    watch.slow(0.5)
    watch.start()
    watch.queries_ended(1, 1)
    stack.up("researcher=4")
    assert len(stack.containers("researcher")) == 4
    watch.queries_ended(1, 10)
    stack.up("researcher=1")
    assert len(stack.containers("researcher")) == 1
    watch.told_once([watch.ended_whole(1, queries=FAN_OUT)])
    watch.nothing_dead()
    # Different queries may well search for the same words; what the model is asked has the query in it.
    assert stack.sandbox.repeated("llm") == 0, (
        "a call was paid twice, though everybody had time to drain"
    )


def test_each_is_killed_in_turn_and_all_is_done_once(stack: Stack) -> None:
    stack.sandbox.faults(SLOWLY)
    watches = [Watch(stack) for _ in range(4)]
    for watch in watches:
        watch.start()
    for victim in SERVICES:
        for watch in watches:
            watch.keep_running()
        stack.docker("start", stack.kill(victim))
        waited_for(stack.healthy, f"all to be well after the kill of {victim}")
        if victim == "sandbox":
            stack.sandbox.faults(SLOWLY)
    for watch in watches:
        iterations = watch.all_ended_whole()
        print(f"\n{len(iterations)} iterations ended whole")
        watch.told_once(iterations)
        watch.nothing_dead()


def test_one_that_crashes_comes_back_by_itself(watch: Watch) -> None:
    """Its process ends as by a fault of its own, not by an order to Docker, which would let it lie."""
    stack = watch.stack
    (container,) = stack.containers("observer")
    stack.docker("exec", container, "python", "-c", CRASH)

    def restarted() -> bool | None:
        count = stack.docker("inspect", "--format", "{{.RestartCount}}", container)
        return int(count) > 0 or None

    waited_for(restarted, "Docker to start the observer again")
    watch.plan(queries=1)
    watch.start()
    watch.told_once([watch.ended_whole(1, queries=1)])


def test_an_actor_is_ready_within_three_seconds(stack: Stack) -> None:
    for service in ("researcher", "scheduler", "api"):
        (container,) = stack.containers(service)
        seconds = min(stack.seconds_to_ready(container) for _ in range(3))
        print(f"\n{service} is ready {seconds:.1f} s after its start")
        assert seconds < 3


CRASH = """
import os, signal
for name in filter(str.isdecimal, os.listdir("/proc")):
    if name not in ("1", str(os.getpid())):
        os.kill(int(name), signal.SIGKILL)
"""
