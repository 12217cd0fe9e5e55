"""Three NATS nodes: one is lost, then the stream's leader, and no event with them."""

import json
from collections.abc import Iterator

import pytest

from tests.support.cluster.stack import Stack, waited_for
from tests.support.cluster.watch import Watch

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

NODES = {"nats-1": "nats", "nats-2": "nats-2", "nats-3": "nats-3"}
"""By the name that a node has among nodes: its service."""
JSZ = "http://127.0.0.1:8222/jsz?streams=true&config=true"


@pytest.fixture(scope="module")
def nodes(image: Stack) -> Iterator[Stack]:
    stack = Stack("deploy/compose.ha.yaml")
    try:
        stack.up()
        yield stack
    finally:
        stack.remove()


def test_a_node_then_the_leader_is_lost_and_no_event(nodes: Stack) -> None:
    watch = Watch(nodes)
    watch.plan(queries=16)
    watch.slow(0.3)
    watch.start()
    watch.queries_ended(1, 2)
    leader = _leader(nodes)
    other = next(name for name in NODES if name != leader)
    nodes.kill(NODES[other])
    watch.queries_ended(1, 6)
    nodes.up()
    _all_current(nodes)
    leader = _leader(nodes)
    nodes.kill(NODES[leader])
    first = watch.ended_whole(1, queries=16)
    second = watch.ended_whole(watch.run(), queries=16)
    nodes.up()
    _all_current(nodes)
    watch.told_once([first, second])
    watch.nothing_dead()


def _stream(stack: Stack, node: str) -> dict[str, object] | None:
    told = json.loads(stack.compose("exec", "-T", NODES[node], "wget", "-q", "-O", "-", JSZ))
    for account in told.get("account_details", []):
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

    return waited_for(look, "the stream to have a leader")


def _all_current(stack: Stack) -> None:
    """Returns when both followers hold what the leader holds."""

    def look() -> bool | None:
        stream = _stream(stack, _leader(stack))
        replicas = stream.get("replicas", []) if stream else []
        assert isinstance(replicas, list)
        return (len(replicas) == 2 and all(each["current"] for each in replicas)) or None

    waited_for(look, "every node to hold the whole stream")
