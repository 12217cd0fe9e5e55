"""Following the stream for people: from any point, in order, once each, and over a restart of NATS."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import pytest

from cli.local.nats import EmbeddedNats
from cli.local.ports import free_port, free_ports
from shared.errors import PermanentError, TransientError
from shared.events.models import QueryCompleted, QueryFailed
from shared.events.stream_reader import StoredEvent, connect_reader, follow
from shared.runtime.bus import Bus
from shared.runtime.provision import provision_stream
from shared.runtime.settings import Settings
from tests.support.waiting import until


@pytest.fixture
def own_nats(tmp_path: Path) -> Iterator[EmbeddedNats]:
    """A server that a test may stop."""
    server = EmbeddedNats(tmp_path / "nats", free_port(), tmp_path / "nats.log")
    server.start()
    yield server
    server.stop()


def learned(nodes: int) -> QueryCompleted:
    return QueryCompleted.of(
        agent_id=uuid4(),
        iteration_id=uuid4(),
        step_id=uuid4(),
        occurred_at=datetime.now(UTC),
        nodes=nodes,
        edges=0,
    )


@asynccontextmanager
async def reading(
    url: str, pattern: str = ">", *, from_sequence: int = 1
) -> AsyncIterator[list[int]]:
    """How many nodes each event told, in the order in which they are read."""
    heard: list[int] = []

    async def read() -> None:
        async with connect_reader(url) as client:
            async for told in follow(client, pattern, from_sequence=from_sequence):
                _note(heard, told)

    task = asyncio.create_task(read())
    yield heard
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def _note(heard: list[int], told: StoredEvent) -> None:
    heard.append(told.event.nodes if isinstance(told.event, QueryCompleted) else -1)


async def publish(url: str, *counts: int) -> None:
    bus = Bus(url, name="test")
    await bus.connect()
    await bus.publish_all(learned(count) for count in counts)
    await bus.close()


async def heard_all(heard: list[int], wanted: list[int]) -> None:
    async def look() -> bool:
        return len(heard) >= len(wanted)

    await until(look, what=f"{wanted} to be read")
    assert heard == wanted


async def test_history_is_read_back_and_a_restart_of_nats_is_outlived(
    own_nats: EmbeddedNats,
) -> None:
    await provision_stream(Settings(nats_url=own_nats.url))
    await publish(own_nats.url, 1, 2)
    async with (
        reading(own_nats.url) as everything,
        reading(own_nats.url, "query.*", from_sequence=2) as later,
    ):
        await heard_all(everything, [1, 2])
        await heard_all(later, [2])
        own_nats.stop()
        own_nats.start()
        await publish(own_nats.url, 3, 4)
        await heard_all(everything, [1, 2, 3, 4])
        await heard_all(later, [2, 3, 4])


async def test_only_what_matches_is_read(nats_url: str, bus: Bus) -> None:
    await bus.publish(
        QueryFailed.of(
            agent_id=uuid4(),
            iteration_id=uuid4(),
            step_id=uuid4(),
            occurred_at=datetime.now(UTC),
            error="no answer",
        )
    )
    await publish(nats_url, 5)
    async with reading(nats_url, "query.completed") as heard:
        await heard_all(heard, [5])


async def test_without_a_stream_it_says_what_to_do(own_nats: EmbeddedNats) -> None:
    async with connect_reader(own_nats.url) as client:
        with pytest.raises(PermanentError, match="vigil migrate"):
            await anext(follow(client))


async def test_where_nobody_answers_it_says_so() -> None:
    (port,) = free_ports(1)
    with pytest.raises(TransientError, match=str(port)):
        async with connect_reader(f"nats://127.0.0.1:{port}"):
            pass
