"""Three NATS nodes: a follower fails, then the stream's leader, and no event is lost."""

import json
from collections.abc import Iterator

import pytest

from tests.support.cluster.stack import Stack, wait_for
from tests.support.cluster.watch import Watch

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

NODES = {"nats-1": "nats", "nats-2": "nats-2", "nats-3": "nats-3"}
"""Service names by node name."""
JSZ = "http://127.0.0.1:8222/jsz?streams=true&config=true"


@pytest.fixture(scope="module")
def nodes(image: Stack) -> Iterator[Stack]:
    stack = Stack("deploy/compose.ha.yaml")
    try:
        stack.up()
        yield stack
    finally:
        stack.remove()


def test_no_event_is_lost_when_a_node_and_then_the_leader_fail(nodes: Stack) -> None:
    watch = Watch(nodes)
    watch.plan(queries=16)
    watch.slow(0.3)
    watch.start()
    watch.wait_for_queries(1, 2)
    leader = _leader(nodes)
    other = next(name for name in NODES if name != leader)
    nodes.kill(NODES[other])
    watch.wait_for_queries(1, 6)
    nodes.up()
    _wait_until_replicated(nodes)
    leader = _leader(nodes)
    nodes.kill(NODES[leader])
    first = watch.ended_whole(1, queries=16)
    second = watch.ended_whole(watch.run(), queries=16)
    nodes.up()
    _wait_until_replicated(nodes)
    watch.assert_events_published_once([first, second])
    watch.assert_no_dead_letters()


def _stream(stack: Stack, node: str) -> dict[str, object] | None:
    response = json.loads(stack.compose("exec", "-T", NODES[node], "wget", "-q", "-O", "-", JSZ))
    for account in response.get("account_details", []):
        for stream in account.get("stream_detail", []):
            if stream["name"] == "VIGIL":
                return dict(stream["cluster"], config=stream["config"])
    return None


def _leader(stack: Stack) -> str:
    def look() -> str | None:
        for node, service in NODES.items():
            if stack.containers(service):
                stream = _stream(stack, node)
                if stream and stream.get("leader"):
                    return str(stream["leader"])
        return None

    return wait_for(look, "the stream to have a leader")


def _wait_until_replicated(stack: Stack) -> None:
    """Wait until both followers have caught up with the leader."""

    def look() -> bool | None:
        stream = _stream(stack, _leader(stack))
        replicas = stream.get("replicas", []) if stream else []
        assert isinstance(replicas, list)
        return (len(replicas) == 2 and all(replica["current"] for replica in replicas)) or None

    wait_for(look, "every node to hold the whole stream")
