"""Many clients of one API process that is killed and restarted while events are published.

Half of the clients follow all of the owner's agents, half follow one agent each; another user's agents publish too.
Events are published at a steady rate, also while the API is down, and at the end as fast as NATS accepts them. Every
client must receive every event of its agents once, in order and without a gap, and no event of the other user. The API
may use at most 400 MiB.
"""

import asyncio
import json
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from uuid import UUID, uuid4

from bench.api_process import ApiProcess
from shared.agents import agents
from shared.database.engine import Database
from shared.events.models import QueryCompleted
from shared.events.stream_reader import StreamPosition
from shared.runtime.bus import Bus
from shared.runtime.settings import Settings
from tests.support.api.signed_in import create_token

MAX_CONCURRENT_PUBLISHES: Final = 64
"""Events of a burst that are published concurrently."""


class Publisher:
    """Publishes numbered events of each agent in turn; `published` are the numbers by agent."""

    def __init__(self, bus: Bus, agent_ids: Sequence[UUID]) -> None:
        self.published: dict[str, list[int]] = {str(agent_id): [] for agent_id in agent_ids}
        self._bus = bus
        self._agent_ids = agent_ids

    async def publish_steadily(self, numbers: range, per_second: float) -> None:
        start = time.monotonic()
        for count, number in enumerate(numbers):
            due_at = start + count / per_second
            await asyncio.sleep(max(0.0, due_at - time.monotonic()))
            await self._publish(number)

    async def publish_burst(self, numbers: range) -> None:
        """Publish as fast as NATS accepts events."""
        for first in range(numbers.start, numbers.stop, MAX_CONCURRENT_PUBLISHES):
            batch = range(first, min(first + MAX_CONCURRENT_PUBLISHES, numbers.stop))
            await asyncio.gather(*(self._publish(number) for number in batch))

    async def _publish(self, number: int) -> None:
        agent_id = self._agent_ids[number % len(self._agent_ids)]
        self.published[str(agent_id)].append(number)
        await self._bus.publish(
            QueryCompleted.of(
                agent_id=agent_id,
                iteration_id=uuid4(),
                step_id=uuid4(),
                occurred_at=datetime.now(UTC),
                nodes=number,
                edges=0,
            )
        )


RECONNECT_SECONDS: Final = 0.2
MAX_FRAME_BYTES: Final = 2**21
TIMEOUT_SECONDS: Final = 120.0
POLL_SECONDS: Final = 0.1
_ID: Final = b"id: "
_DATA: Final = b"data: "


def create_clients(
    port: int, token: str, count: int, agent_ids: Sequence[str]
) -> list["StreamClient"]:
    """Create clients: half for all agents, half for one agent each."""
    everything = [
        StreamClient(port, token, "/api/v1/events", agent_ids) for _ in range(0, count, 2)
    ]
    of_one = [agent_ids[number % len(agent_ids)] for number in range(count - len(everything))]
    return everything + [
        StreamClient(port, token, f"/api/v1/agents/{agent_id}/events", [agent_id])
        for agent_id in of_one
    ]


@asynccontextmanager
async def connected(clients: Sequence["StreamClient"]) -> AsyncIterator[None]:
    """Run the clients while the block runs."""
    tasks = [asyncio.create_task(client.run()) for client in clients]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@dataclass
class StreamClient:
    """A client of the event stream. It is no HTTP client library: hundreds of those would cost more than the API itself.

    `received` are the event numbers in order of arrival, `stream_positions` their positions in the stream.
    """

    port: int
    token: str
    path: str
    agent_ids: Sequence[str]
    """Agents whose events it should receive."""
    received: list[int] = field(default_factory=list)
    stream_positions: list[int] = field(default_factory=list)
    gaps: int = 0
    foreign_events: int = 0
    """Events of other agents."""
    connections: int = 0
    last_event_id: str | None = None

    async def run(self) -> None:
        """Listen, and reconnect after errors, until cancelled."""
        while True:
            with suppress(OSError, asyncio.IncompleteReadError):
                await self._listen()
            await asyncio.sleep(RECONNECT_SECONDS)

    async def _listen(self) -> None:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self.port, limit=MAX_FRAME_BYTES
        )
        try:
            headers = f"Host: localhost\r\nAuthorization: Bearer {self.token}\r\n"
            if self.last_event_id is not None:
                headers += f"Last-Event-ID: {self.last_event_id}\r\n"
            # HTTP/1.0 avoids a chunked answer.
            writer.write(f"GET {self.path} HTTP/1.0\r\n{headers}\r\n".encode())
            status = await reader.readuntil(b"\r\n\r\n")
            if b" 200 " not in status.splitlines()[0]:
                return
            self.connections += 1
            while True:
                self._handle_frame(await reader.readuntil(b"\n\n"))
        finally:
            writer.close()

    def _handle_frame(self, frame: bytes) -> None:
        lines = frame.splitlines()
        for line in lines:
            if line.startswith(_ID):
                self.last_event_id = line.removeprefix(_ID).decode()
        data = next((line for line in lines if line.startswith(_DATA)), None)
        if b"event: gap" in lines:
            self.gaps += 1
        elif data is not None and b"event: end" not in lines:
            self._record(json.loads(data.removeprefix(_DATA)))

    def _record(self, event: dict[str, Any]) -> None:
        if event["agent_id"] not in self.agent_ids:
            self.foreign_events += 1
        self.received.append(event["nodes"])
        self.stream_positions.append(StreamPosition.parse(self.last_event_id or "0").sequence)


async def wait_until(is_so: Callable[[], bool]) -> None:
    """Wait until `is_so` or the deadline. The result shows what is missing at the deadline."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while True:
        if is_so() or time.monotonic() > deadline:
            return
        await asyncio.sleep(POLL_SECONDS)


BURST_SHARE: Final = 0.25
"""Share of the events that is published as a burst at the end."""
AGENTS: Final = 8
OTHER_AGENTS: Final = 2
MAX_BYTES: Final = 400 * 1024**2


@dataclass(frozen=True)
class Load:
    clients: int
    events: int
    per_second: float


@dataclass(frozen=True)
class Result:
    """`faults` describes what failed."""

    faults: Sequence[str]
    deliveries: int
    resumed: int


async def measure(settings: Settings, home: Path, load: Load) -> Result:
    """Measure on provisioned engines."""
    ours = await _create_agents(settings, settings.owner, AGENTS)
    theirs = await _create_agents(settings, "stranger", OTHER_AGENTS)
    api = ApiProcess(settings, home / "api.log")
    token = await create_token(settings)
    clients = create_clients(api.port, token, load.clients, [str(agent_id) for agent_id in ours])
    bus = Bus(settings.nats_url, name="bench")
    await bus.connect()
    publisher = Publisher(bus, [*ours, *theirs])
    try:
        await api.start()
        async with connected(clients):
            await wait_until(lambda: all(client.last_event_id is not None for client in clients))
            peak_of_the_first = await _publish(publisher, api, load)
            expected = [_expected_events(client, publisher) for client in clients]
            await wait_until(
                lambda: all(
                    len(client.received) >= len(numbers)
                    for client, numbers in zip(clients, expected, strict=True)
                )
            )
            peak_bytes = max(peak_of_the_first, api.peak_bytes())
    finally:
        await api.end(signal.SIGKILL)
        await bus.close()
    return Result(
        faults=[*_faults(clients, expected), *_memory_fault(peak_bytes)],
        deliveries=sum(len(client.received) for client in clients),
        resumed=sum(client.connections > 1 for client in clients),
    )


async def _publish(publisher: Publisher, api: ApiProcess, load: Load) -> int:
    """Kill the API after a third of the steady events, restart it before the last third.

    Returns its peak memory in bytes before.
    """
    steady = int(load.events * (1 - BURST_SHARE))
    third = steady // 3
    await publisher.publish_steadily(range(third), load.per_second)
    peak_bytes = api.peak_bytes()
    await api.end(signal.SIGKILL)
    back = asyncio.create_task(api.start())
    await publisher.publish_steadily(range(third, 2 * third), load.per_second)
    await back
    await publisher.publish_steadily(range(2 * third, steady), load.per_second)
    await publisher.publish_burst(range(steady, load.events))
    return peak_bytes


def _expected_events(client: StreamClient, publisher: Publisher) -> set[int]:
    return {number for agent_id in client.agent_ids for number in publisher.published[agent_id]}


def _faults(clients: Sequence[StreamClient], expected: Sequence[set[int]]) -> Iterator[str]:
    for number, (client, numbers) in enumerate(zip(clients, expected, strict=True)):
        missing = len(numbers - set(client.received))
        repeated = len(client.received) - len(set(client.received))
        is_in_order = client.stream_positions == sorted(client.stream_positions)
        if missing or repeated or client.foreign_events or client.gaps or not is_in_order:
            yield (
                f"listener {number} ({client.path}) lacks {missing} events, has {repeated} twice, "
                f"{client.foreign_events} of others, {client.gaps} gaps, in order: {is_in_order}"
            )
        if client.connections < 2:
            yield f"listener {number} ({client.path}) did not have to come back"


def _memory_fault(peak_bytes: int) -> Iterator[str]:
    if peak_bytes > MAX_BYTES:
        yield f"the api held {peak_bytes / 1024**2:.0f} MiB"


async def _create_agents(settings: Settings, owner: str, count: int) -> list[UUID]:
    database = Database(settings.database_url, name="bench")
    async with database.transaction() as session:
        owner_id = await agents.ensure_user(session, owner)
        created = [
            await agents.create_agent(
                session, owner_id, name=f"agent {number}", mission="", interval_seconds=3600
            )
            for number in range(count)
        ]
    await database.close()
    return [agent.id for agent in created]
