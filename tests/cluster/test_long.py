"""The long cluster tests: whatever is killed or scaled, every iteration ends once."""

import pytest

from tests.support.cluster.stack import SERVICES, Stack, wait_for
from tests.support.cluster.watch import Watch

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

FAN_OUT = 20
SLOW_CALLS = {"kind": "latency", "always": True, "latency_seconds": 0.3}


def test_researchers_are_scaled_during_a_fan_out(watch: Watch) -> None:
    stack = watch.stack
    watch.plan(queries=FAN_OUT)
    watch.slow(0.5)
    watch.start()
    watch.wait_for_queries(1, 1)
    stack.up("researcher=4")
    assert len(stack.containers("researcher")) == 4
    watch.wait_for_queries(1, 10)
    stack.up("researcher=1")
    assert len(stack.containers("researcher")) == 1
    watch.assert_events_published_once([watch.ended_whole(1, queries=FAN_OUT)])
    watch.assert_no_dead_letters()
    # Different queries may search for the same words; a model request contains its query.
    assert stack.sandbox.repeated("llm") == 0, (
        "a call was paid twice, though the workers had time to drain"
    )


def test_each_service_is_killed_in_turn_and_each_step_is_done_once(stack: Stack) -> None:
    stack.sandbox.faults(SLOW_CALLS)
    watches = [Watch(stack) for _ in range(4)]
    for watch in watches:
        watch.start()
    for victim in SERVICES:
        for watch in watches:
            watch.keep_running()
        stack.docker("start", stack.kill(victim))
        wait_for(stack.healthy, f"all services to be healthy after the kill of {victim}")
        if victim == "sandbox":
            stack.sandbox.faults(SLOW_CALLS)
    for watch in watches:
        iterations = watch.wait_for_all()
        print(f"\n{len(iterations)} iterations completed")
        watch.assert_events_published_once(iterations)
        watch.assert_no_dead_letters()


def test_a_crashed_service_is_restarted(watch: Watch) -> None:
    """The process itself is killed: Docker does not restart a container that Docker was told to kill."""
    stack = watch.stack
    (container,) = stack.containers("observer")
    stack.docker("exec", container, "python", "-c", CRASH)

    def restarted() -> bool | None:
        count = stack.docker("inspect", "--format", "{{.RestartCount}}", container)
        return int(count) > 0 or None

    wait_for(restarted, "Docker to start the observer again")
    watch.plan(queries=1)
    watch.start()
    watch.assert_events_published_once([watch.ended_whole(1, queries=1)])


def test_a_service_is_ready_within_three_seconds(stack: Stack) -> None:
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
