"""The stream and its consumers are created, corrected, and retried until NATS is ready."""

from dataclasses import replace
from pathlib import Path

import pytest
from nats.js import JetStreamContext
from nats.js.api import DeliverPolicy

from cli.local.nats import EmbeddedNats
from cli.local.ports import free_ports
from shared.errors import PermanentError, TransientError
from shared.events.stream_admin import consumer_config, provision
from shared.events.topology import CONSUMERS, STREAM
from shared.runtime.bus import Bus
from tests.support.waiting import wait_until

DAY_SECONDS = 86400.0
SOME_BYTES = 10_000_000
IMPATIENT_SECONDS = 0.3


async def test_a_consumer_with_outdated_settings_is_recreated(bus: Bus) -> None:
    expected = consumer_config(CONSUMERS["researcher"])
    await bus.jetstream.delete_consumer(STREAM, "researcher")
    await bus.jetstream.add_consumer(STREAM, replace(expected, deliver_policy=DeliverPolicy.ALL))

    await provision(bus.jetstream, max_age_seconds=DAY_SECONDS, max_bytes=SOME_BYTES)

    actual = (await bus.jetstream.consumer_info(STREAM, "researcher")).config
    assert actual.deliver_policy == DeliverPolicy.NEW


async def test_provisioning_again_keeps_an_unchanged_consumer(bus: Bus) -> None:
    before = await bus.jetstream.consumer_info(STREAM, "researcher")

    await provision(bus.jetstream, max_age_seconds=DAY_SECONDS, max_bytes=SOME_BYTES)

    assert (await bus.jetstream.consumer_info(STREAM, "researcher")).created == before.created


async def test_a_request_that_nats_rejects_is_a_permanent_error(bus: Bus) -> None:
    with pytest.raises(PermanentError, match="NATS refused the request"):
        await provision(
            bus.jetstream, max_age_seconds=DAY_SECONDS, max_bytes=SOME_BYTES, replicas=3
        )


async def test_a_cluster_without_a_leader_is_a_transient_error(tmp_path: Path) -> None:
    nodes = _make_cluster(tmp_path)
    for node in nodes:
        node.launch()
    for node in nodes:
        node.wait_until_ready()
    bus = Bus(nodes[0].url, name="test")
    try:
        await bus.connect()
        jetstream = bus.client.jetstream(timeout=IMPATIENT_SECONDS)
        await wait_until(
            lambda: _try_to_provision(jetstream), what="three nodes to make the stream"
        )
        for node in nodes[1:]:
            node.stop()
        with pytest.raises(TransientError, match="NATS is not ready"):
            await provision(
                jetstream, max_age_seconds=DAY_SECONDS, max_bytes=SOME_BYTES, replicas=3
            )
    finally:
        await bus.close()
        for node in nodes:
            node.stop()


async def _try_to_provision(jetstream: JetStreamContext) -> bool:
    try:
        await provision(jetstream, max_age_seconds=DAY_SECONDS, max_bytes=SOME_BYTES, replicas=3)
    except TransientError:
        return False
    return True


def _make_cluster(home: Path) -> list[EmbeddedNats]:
    ports = free_ports(6)
    routes = ports[:3]
    nodes = []
    for number, (route, port) in enumerate(zip(routes, ports[3:], strict=True)):
        options = {
            "cluster": {
                "name": "three",
                "listen": f"127.0.0.1:{route}",
                "routes": [f"nats-route://127.0.0.1:{other}" for other in routes],
            },
        }
        data, log = home / f"data-{number}", home / f"log-{number}"
        nodes.append(EmbeddedNats(data, port, log, durable=False, also=options))
    return nodes
