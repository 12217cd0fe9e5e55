"""Following the stream: from any sequence, in order, each event once, and across a restart of NATS."""

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
from shared.events import stream_reader
from shared.events.models import QueryCompleted, QueryFailed
from shared.events.stream_reader import (
    MAX_SEQUENCE,
    StoredEvent,
    StreamHistory,
    StreamPosition,
    connect_reader,
    follow,
)
from shared.events.topology import STREAM
from shared.runtime.bus import Bus
from shared.runtime.provision import provision_stream
from shared.runtime.settings import Settings
from tests.support.lost_events import events_that_are_lost
from tests.support.waiting import wait_until


@pytest.fixture
def own_nats(tmp_path: Path) -> Iterator[EmbeddedNats]:
    """A server that a test may stop."""
    server = EmbeddedNats(tmp_path / "nats", free_port(), tmp_path / "nats.log")
    server.start()
    yield server
    server.stop()


def query_completed(nodes: int) -> QueryCompleted:
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
    """The node counts of the events, in the order in which they are read."""
    node_counts: list[int] = []

    async def read() -> None:
        async with connect_reader(url) as client:
            async for stored in follow(client, pattern, from_sequence=from_sequence):
                _append_node_count(node_counts, stored)

    task = asyncio.create_task(read())
    yield node_counts
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def _append_node_count(node_counts: list[int], stored: StoredEvent) -> None:
    node_counts.append(stored.event.nodes if isinstance(stored.event, QueryCompleted) else -1)


async def publish(url: str, *counts: int) -> None:
    bus = Bus(url, name="test")
    await bus.connect()
    await bus.publish_all(query_completed(count) for count in counts)
    await bus.close()


async def assert_read(actual: list[int], expected: list[int]) -> None:
    async def is_read() -> bool:
        return len(actual) >= len(expected)

    await wait_until(is_read, what=f"{expected} to be read")
    assert actual == expected


async def test_history_is_read_and_reading_continues_after_a_restart_of_nats(
    own_nats: EmbeddedNats,
) -> None:
    await provision_stream(Settings(nats_url=own_nats.url))
    await publish(own_nats.url, 1, 2)
    async with (
        reading(own_nats.url) as everything,
        reading(own_nats.url, "query.*", from_sequence=2) as later,
    ):
        await assert_read(everything, [1, 2])
        await assert_read(later, [2])
        own_nats.stop()
        own_nats.start()
        await publish(own_nats.url, 3, 4)
        await assert_read(everything, [1, 2, 3, 4])
        await assert_read(later, [2, 3, 4])


async def test_events_that_take_the_sequences_of_lost_ones_are_read(
    own_nats: EmbeddedNats, tmp_path: Path
) -> None:
    await provision_stream(Settings(nats_url=own_nats.url))
    await publish(own_nats.url, 1, 2)
    async with (
        reading(own_nats.url) as everything,
        reading(own_nats.url, "query.completed", from_sequence=2) as later,
    ):
        with events_that_are_lost(own_nats, tmp_path / "kept"):
            await publish(own_nats.url, 3, 4)
            await assert_read(everything, [1, 2, 3, 4])
            await assert_read(later, [2, 3, 4])
        await publish(own_nats.url, 5, 6, 7)
        await assert_read(everything, [1, 2, 3, 4, 5, 6, 7])
        await assert_read(later, [2, 3, 4, 5, 6, 7])


@pytest.mark.parametrize(
    "text", ["", "-1", "1-", "a", "1-2-3", "9" * 20, str(MAX_SEQUENCE + 1), "١"]
)
def test_what_is_no_position_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a position"):
        StreamPosition.parse(text)


@pytest.mark.parametrize("text", ["0", "17", "17-1790000000123", f"{MAX_SEQUENCE}"])
def test_a_position_is_written_as_it_is_read(text: str) -> None:
    assert str(StreamPosition.parse(text)) == text


async def test_a_position_is_found_by_the_time_of_its_event(own_nats: EmbeddedNats) -> None:
    await provision_stream(Settings(nats_url=own_nats.url))
    for number in range(4):
        await publish(own_nats.url, number)
        await asyncio.sleep(0.01)  # NATS dates each
    async with connect_reader(own_nats.url) as client:
        history = StreamHistory(client)

        async def find(position: StreamPosition) -> int:
            state = await history.state()
            assert state is not None
            return await history.find(position, state)

        events = await history.read_after(0, max_events=4, max_bytes=100_000)
        for event in events:
            assert await find(StreamPosition.parse(str(event.position))) == event.sequence
            assert await find(StreamPosition(event.sequence)) == event.sequence
            # The event at the next sequence was stored later than the one that the reader has received.
            used_again = StreamPosition(event.sequence + 1, event.stored_at)
            assert await find(used_again) == event.sequence
        assert await find(StreamPosition(9, events[-1].stored_at)) == 4
        assert await find(StreamPosition(9)) == 9
        before_the_next = await history.state()
        assert before_the_next is not None
        await publish(own_nats.url, 4)
        lost = StreamPosition(9, events[-1].stored_at)
        assert await history.find(lost, before_the_next) == 4
        await client.jetstream().purge_stream(STREAM)
        assert [await find(event.position) for event in events] == [1, 2, 3, 4]


async def test_only_events_that_match_the_pattern_are_read(nats_url: str, bus: Bus) -> None:
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
    async with reading(nats_url, "query.completed") as node_counts:
        await assert_read(node_counts, [5])


async def test_the_error_of_a_missing_stream_says_what_to_do(own_nats: EmbeddedNats) -> None:
    async with connect_reader(own_nats.url) as client:
        with pytest.raises(PermanentError, match="vigil migrate"):
            await anext(follow(client))


async def test_an_unreachable_server_is_a_transient_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_reader, "CONNECT_SECONDS", 0.5)
    (port,) = free_ports(1)
    with pytest.raises(TransientError, match=str(port)):
        async with connect_reader(f"nats://127.0.0.1:{port}"):
            pass
