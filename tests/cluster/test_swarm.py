"""The stack on Docker Swarm: scaled, updated to a broken image, killed; each iteration ends once, and nothing is lost."""

from collections.abc import Iterator

import pytest

from tests.cluster.conftest import save_logs
from tests.support.cluster.stack import IMAGE, Stack, wait_for
from tests.support.cluster.swarm import BROKEN_IMAGE, SwarmStack, own_swarm
from tests.support.cluster.watch import Watch

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

QUERIES = 12


@pytest.fixture(scope="module")
def swarm(
    image: Stack, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SwarmStack]:
    failed_before = request.session.testsfailed
    with own_swarm():
        stack = SwarmStack(tmp_path_factory.mktemp("swarm"))
        stack.build_broken_image()
        try:
            stack.deploy()
            yield stack
        finally:
            if request.session.testsfailed > failed_before:
                save_logs(stack, tmp_path_factory.mktemp("swarm") / "logs.txt")
            stack.remove()
            stack.docker("image", "rm", BROKEN_IMAGE)


@pytest.fixture
def watch(swarm: SwarmStack) -> Watch:
    swarm.sandbox.reset()
    watch = Watch(swarm)
    watch.plan(queries=QUERIES)
    watch.slow(0.3)
    return watch


def test_researchers_are_scaled_during_an_iteration(swarm: SwarmStack, watch: Watch) -> None:
    watch.start()
    watch.wait_for_queries(1, 1)
    swarm.scale("researcher", 3)
    watch.assert_events_published_once([watch.ended_whole(1, queries=QUERIES)])
    watch.assert_no_dead_letters()


def test_an_update_to_a_broken_image_is_rolled_back_and_loses_nothing(
    swarm: SwarmStack, watch: Watch
) -> None:
    watch.start()
    watch.wait_for_queries(1, 1)
    before = set(swarm.containers("researcher"))
    swarm.update("researcher", BROKEN_IMAGE)
    watch.assert_events_published_once([watch.ended_whole(1, queries=QUERIES)])

    def rolled_back() -> bool | None:
        return swarm.update_state("researcher") == "rollback_completed" or None

    wait_for(rolled_back, "the update to be rolled back", 180)
    assert swarm.image_of("researcher") == IMAGE
    assert before <= set(swarm.containers("researcher")), "a replica that worked was stopped"
    wait_for(
        lambda: set(swarm.containers("researcher")) == before or None, "the broken replica to end"
    )
    watch.assert_no_dead_letters()


def test_an_iteration_survives_the_kill_of_a_replica(swarm: SwarmStack, watch: Watch) -> None:
    watch.start()
    watch.wait_for_queries(1, 1)
    before = swarm.containers("researcher", "health=healthy")
    victim = swarm.kill("researcher")

    def replaced() -> bool | None:
        running = swarm.containers("researcher", "health=healthy")
        return (len(running) == len(before) and victim not in running) or None

    watch.assert_events_published_once([watch.ended_whole(1, queries=QUERIES)])
    wait_for(replaced, "Swarm to replace the container")
    watch.assert_no_dead_letters()
