"""Many listeners in one process, each over a connection of its own, that come back to their place when it breaks.

By hand rather than by an HTTP client: some hundred of those would cost more than the api that is measured.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

COME_AGAIN_SECONDS: Final = 0.2
MOST_FRAME_BYTES: Final = 2**21
PATIENCE_SECONDS: Final = 120.0
LOOK_AGAIN_SECONDS: Final = 0.1
_ID: Final = b"id: "
_DATA: Final = b"data: "


def clients_of(port: int, token: str, count: int, agent_ids: Sequence[str]) -> list["Client"]:
    """Half of them for all of these agents, half for one each."""
    everything = [Client(port, token, "/api/v1/events", agent_ids) for _ in range(0, count, 2)]
    of_one = [agent_ids[number % len(agent_ids)] for number in range(count - len(everything))]
    return everything + [
        Client(port, token, f"/api/v1/agents/{agent_id}/events", [agent_id]) for agent_id in of_one
    ]


@asynccontextmanager
async def listening(clients: Sequence["Client"]) -> AsyncIterator[None]:
    """They listen while the block runs."""
    tasks = [asyncio.create_task(client.run()) for client in clients]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@dataclass
class Client:
    """`heard` are the numbers of the events in the order in which they came; `late_seconds` how long each took, from
    before it was published; `places` where in the stream each stands.
    """

    port: int
    token: str
    path: str
    wanted: Sequence[str]
    """Agents whose events it should be told."""
    heard: list[int] = field(default_factory=list)
    late_seconds: list[float] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    gaps: int = 0
    strangers: int = 0
    """Events that it should never have seen."""
    connections: int = 0
    place: str | None = None

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            with suppress(OSError, asyncio.IncompleteReadError):
                await self._listen()
            await asyncio.sleep(COME_AGAIN_SECONDS)

    async def _listen(self) -> None:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self.port, limit=MOST_FRAME_BYTES
        )
        try:
            headers = f"Host: localhost\r\nAuthorization: Bearer {self.token}\r\n"
            if self.place is not None:
                headers += f"Last-Event-ID: {self.place}\r\n"
            # As HTTP/1.0, so that the answer comes as it is and not in chunks.
            writer.write(f"GET {self.path} HTTP/1.0\r\n{headers}\r\n".encode())
            status = await reader.readuntil(b"\r\n\r\n")
            if b" 200 " not in status.splitlines()[0]:
                return
            self.connections += 1
            while True:
                self._take(await reader.readuntil(b"\n\n"))
        finally:
            writer.close()

    def _take(self, frame: bytes) -> None:
        lines = frame.splitlines()
        for line in lines:
            if line.startswith(_ID):
                self.place = line.removeprefix(_ID).decode()
        data = next((line for line in lines if line.startswith(_DATA)), None)
        if b"event: gap" in lines:
            self.gaps += 1
        elif data is not None and b"event: end" not in lines:
            self._note(json.loads(data.removeprefix(_DATA)))

    def _note(self, event: dict[str, Any]) -> None:
        if event["agent_id"] not in self.wanted:
            self.strangers += 1
        self.heard.append(event["nodes"])
        self.places.append(int(self.place or 0))
        told_at = datetime.fromisoformat(event["occurred_at"])
        self.late_seconds.append((datetime.now(UTC) - told_at).total_seconds())


async def until(is_so: Callable[[], bool]) -> None:
    """Returns at the deadline too: what then is not so, the result says."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        if is_so() or time.monotonic() > deadline:
            return
        await asyncio.sleep(LOOK_AGAIN_SECONDS)
