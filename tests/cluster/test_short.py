"""The cluster in the short form: what every change must leave whole. The long form is in `test_long`."""

import json

import httpx
import pytest

from tests.support.cluster.stack import SERVICES, Stack, waited_for
from tests.support.cluster.watch import Watch
from tests.support.paths import TESTS

pytestmark = pytest.mark.cluster

TRESPASS = TESTS / "support" / "cluster" / "trespass.py"
FIRST_MISSION = "Watch how energy"
ENOUGH_ITERATIONS = 5


def test_it_is_healthy_after_up(stack: Stack) -> None:
    """The goal is half a minute: told and not demanded, for how long it takes hangs on who else uses the machine."""
    assert stack.first_up_seconds is not None
    print(f"\nhealthy {stack.first_up_seconds:.1f} s after `up`")
    assert all(len(stack.containers(service)) == 1 for service in SERVICES)


def test_the_first_up_shows_an_agent_that_works(stack: Stack) -> None:
    def first() -> str | None:
        found = [each.name for each in stack.api.agents() if each.mission.startswith(FIRST_MISSION)]
        return found[0] if found else None

    agent = waited_for(first, "the agent that the first `up` makes")
    assert stack.ended(agent, 1).status == "completed"


def test_the_api_answers_to_its_own_names_only(stack: Stack) -> None:
    def status(host: str) -> int:
        url = f"{stack.api.url}/health/live"
        return httpx.get(url, headers={"host": host}, trust_env=False).status_code

    assert {host: status(host) for host in ("localhost:1", "127.0.0.1", "api:8080")} == {
        "localhost:1": 200,
        "127.0.0.1": 200,
        "api:8080": 200,
    }
    assert status("rebound.example") == 403
    listed = stack.compose("run", "--rm", "-T", "--no-deps", "vigil", "agent", "list", "--json")
    assert isinstance(json.loads(listed), list)


def test_an_iteration_ends_through_all_seven(watch: Watch) -> None:
    watch.start()
    iterations = [watch.ended_whole(1)]
    while "advise" not in {step.kind for step in iterations[-1].steps}:
        assert len(iterations) < ENOUGH_ITERATIONS, "no analysis was made that the adviser hears of"
        iterations.append(watch.ended_whole(watch.run()))
    assert {step.kind for step in iterations[-1].steps} >= {"observe", "insight", "advise"}
    watch.told_once(iterations)


def test_a_researcher_is_kept_from_what_is_not_its_own(stack: Stack) -> None:
    found = json.loads(stack.python("researcher", TRESPASS.read_text()))
    own = {"sees its consumer", "looks at its agent", "reads its key"}
    assert {what for what, came_of_it in found.items() if came_of_it == "done"} == own
    assert {came_of_it for what, came_of_it in found.items() if what not in own} == {"denied"}, (
        found
    )


def test_researchers_and_nats_are_killed_and_all_is_done_once(watch: Watch) -> None:
    stack = watch.stack
    watch.plan(queries=12)
    watch.slow(0.3)
    stack.up("researcher=3")
    watch.start()
    watch.queries_ended(1, 2)
    stack.kill("researcher")
    stack.kill("nats")
    stack.up("researcher=3")
    watch.told_once([watch.ended_whole(1, queries=12)])
    watch.nothing_dead()


def test_down_and_up_keeps_everything(watch: Watch) -> None:
    stack = watch.stack
    watch.plan(queries=2)
    watch.start()
    before = watch.ended_whole(1, queries=2)
    graph = stack.api.graph(watch.word)
    stack.down()
    stack.up()
    assert stack.api.iteration(before.id) == before
    assert stack.api.graph(watch.word) == graph
    watch.told_once([before])
    watch.plan(queries=1)
    watch.ended_whole(watch.run(), queries=1)
