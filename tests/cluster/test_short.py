"""The short cluster tests, for every change. The long ones are in `test_long`."""

import json

import httpx
import pytest

from tests.support.cluster.stack import SERVICES, Stack, wait_for
from tests.support.cluster.watch import Watch
from tests.support.paths import TESTS

pytestmark = pytest.mark.cluster

TRESPASS = TESTS / "support" / "cluster" / "trespass.py"
FIRST_MISSION = "Watch how energy"
ENOUGH_ITERATIONS = 5


def test_every_service_is_healthy_after_up(stack: Stack) -> None:
    """The goal is half a minute; it is printed and not asserted, because it depends on the machine's load."""
    assert stack.first_up_seconds is not None
    print(f"\nhealthy {stack.first_up_seconds:.1f} s after `up`")
    assert all(len(stack.containers(service)) == 1 for service in SERVICES)


def test_the_first_up_creates_a_working_agent(stack: Stack) -> None:
    def first_agent() -> str | None:
        names = [
            agent.name for agent in stack.api.agents() if agent.mission.startswith(FIRST_MISSION)
        ]
        return names[0] if names else None

    name = wait_for(first_agent, "the agent that the first `up` creates")
    assert stack.wait_for_iteration(name, 1).status == "completed"


def test_the_api_answers_only_to_its_own_host_names(stack: Stack) -> None:
    def status(host: str) -> int:
        url = f"{stack.api.url}/health/live"
        return httpx.get(url, headers={"host": host}, trust_env=False).status_code

    assert {host: status(host) for host in ("localhost:1", "127.0.0.1", "api:8080")} == {
        "localhost:1": 200,
        "127.0.0.1": 200,
        "api:8080": 200,
    }
    assert status("rebound.example") == 403
    output = stack.compose("run", "--rm", "-T", "--no-deps", "vigil", "agent", "list", "--json")
    assert isinstance(json.loads(output), list)


def test_an_iteration_passes_through_all_services(watch: Watch) -> None:
    watch.start()
    iterations = [watch.ended_whole(1)]
    while "advise" not in {step.kind for step in iterations[-1].steps}:
        assert len(iterations) < ENOUGH_ITERATIONS, (
            "no analysis was made that the adviser is notified of"
        )
        iterations.append(watch.ended_whole(watch.run()))
    assert {step.kind for step in iterations[-1].steps} >= {"observe", "insight", "advise"}
    watch.assert_events_published_once(iterations)


def test_a_researcher_is_denied_what_other_services_own(stack: Stack) -> None:
    results = json.loads(stack.python("researcher", TRESPASS.read_text()))
    own = {"sees its consumer", "looks at its agent", "reads its key"}
    assert {attempt for attempt, result in results.items() if result == "done"} == own
    assert {result for attempt, result in results.items() if attempt not in own} == {"denied"}, (
        results
    )


def test_each_step_is_done_once_when_a_researcher_and_nats_are_killed(watch: Watch) -> None:
    stack = watch.stack
    watch.plan(queries=12)
    watch.slow(0.3)
    stack.up("researcher=3")
    watch.start()
    watch.wait_for_queries(1, 2)
    stack.kill("researcher")
    stack.kill("nats")
    stack.up("researcher=3")
    watch.assert_events_published_once([watch.ended_whole(1, queries=12)])
    watch.assert_no_dead_letters()


def test_down_and_up_preserve_all_data(watch: Watch) -> None:
    stack = watch.stack
    watch.plan(queries=2)
    watch.start()
    before = watch.ended_whole(1, queries=2)
    graph = stack.api.graph(watch.word)
    stack.down()
    stack.up()
    assert stack.api.iteration(before.id) == before
    assert stack.api.graph(watch.word) == graph
    watch.assert_events_published_once([before])
    watch.plan(queries=1)
    watch.ended_whole(watch.run(), queries=1)
