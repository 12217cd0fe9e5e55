"""Stream and consumers are made, mended, and waited for."""

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
from tests.support.waiting import until

DAY_SECONDS = 86400.0
SOME_BYTES = 10_000_000
IMPATIENT_SECONDS = 0.3


async def test_a_consumer_of_an_older_version_is_made_again(bus: Bus) -> None:
    asked = consumer_config(CONSUMERS["researcher"])
    await bus.jetstream.delete_consumer(STREAM, "researcher")
    await bus.jetstream.add_consumer(STREAM, replace(asked, deliver_policy=DeliverPolicy.ALL))

    await provision(bus.jetstream, max_age_seconds=DAY_SECONDS, max_bytes=SOME_BYTES)

    found = (await bus.jetstream.consumer_info(STREAM, "researcher")).config
    assert found.deliver_policy == DeliverPolicy.NEW


async def test_provisioning_again_leaves_a_consumer_where_it_was(bus: Bus) -> None:
    before = await bus.jetstream.consumer_info(STREAM, "researcher")

    await provision(bus.jetstream, max_age_seconds=DAY_SECONDS, max_bytes=SOME_BYTES)

    assert (await bus.jetstream.consumer_info(STREAM, "researcher")).created == before.created


async def test_what_nats_will_never_do_is_no_matter_for_another_try(bus: Bus) -> None:
    with pytest.raises(PermanentError, match="NATS refuses"):
        await provision(
            bus.jetstream, max_age_seconds=DAY_SECONDS, max_bytes=SOME_BYTES, replicas=3
        )


async def test_nodes_without_a_leader_are_waited_for(tmp_path: Path) -> None:
    nodes = _three(tmp_path)
    for node in nodes:
        node.launch()
    for node in nodes:
        node.wait_until_ready()
    bus = Bus(nodes[0].url, name="test")
    try:
        await bus.connect()
        jetstream = bus.client.jetstream(timeout=IMPATIENT_SECONDS)
        await until(lambda: _provisioned(jetstream), what="three nodes to make the stream")
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


async def _provisioned(jetstream: JetStreamContext) -> bool:
    try:
        await provision(jetstream, max_age_seconds=DAY_SECONDS, max_bytes=SOME_BYTES, replicas=3)
    except TransientError:
        return False
    return True


def _three(home: Path) -> list[EmbeddedNats]:
    ports = free_ports(6)
    routes = ports[:3]
    nodes = []
    for number, (route, port) in enumerate(zip(routes, ports[3:], strict=True)):
        also = {
            "cluster": {
                "name": "three",
                "listen": f"127.0.0.1:{route}",
                "routes": [f"nats-route://127.0.0.1:{other}" for other in routes],
            },
        }
        data, log = home / f"data-{number}", home / f"log-{number}"
        nodes.append(EmbeddedNats(data, port, log, durable=False, also=also))
    return nodes
