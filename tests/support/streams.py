"""Clients of an API on a real socket, for endless responses."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, Protocol
from uuid import UUID, uuid4

import httpx
import uvicorn
from fastapi import FastAPI
from httpx_sse import ServerSentEvent, aconnect_sse

from bench.api_process import ApiProcess
from services.api.app import build
from shared.events.models import InsightCompleted, QueryCompleted
from shared.events.stream_reader import StreamPosition
from shared.runtime.bus import Bus
from shared.runtime.settings import Settings
from tests.support.api.signed_in import create_token
from tests.support.waiting import wait_until
from tests.support.warm_processes import WarmProcess, start_python

GAP, END = "gap", "end"


class Reachable(Protocol):
    @property
    def url(self) -> str: ...

    @property
    def token(self) -> str:
        """The owner's token."""
        ...


@dataclass(frozen=True)
class Serving:
    url: str
    app: FastAPI
    token: str

    def client(self, **options: Any) -> httpx.AsyncClient:
        """A client with the owner's token."""
        headers = {**auth_headers(self), **options.pop("headers", {})}
        base = f"{self.url}/api/v1"
        return httpx.AsyncClient(
            base_url=base, headers=headers, verify=False, trust_env=False, **options
        )


class OwnersApi(ApiProcess):
    """An API in its own process."""

    def __init__(self, settings: Settings, log: Path, token: str) -> None:
        super().__init__(settings, log)
        self.token = token

    async def _start_process(self, environment: Mapping[str, str], log: BinaryIO) -> WarmProcess:
        return await start_python("-m", "services.api", env=environment, stdout=log, stderr=log)


def auth_headers(api: Reachable) -> dict[str, str]:
    return {"Authorization": f"Bearer {api.token}"}


@asynccontextmanager
async def serving(
    settings: Settings, *, port: int = 0, user: str | None = None
) -> AsyncIterator[Serving]:
    """Serve the API on loopback in this process, for its owner or `user`; stops with its listeners."""
    app = build(settings)
    token = await create_token(settings, user)
    server = uvicorn.Server(
        uvicorn.Config(
            app, port=port, log_config=None, access_log=False, timeout_graceful_shutdown=2
        )
    )
    task = asyncio.create_task(server.serve())

    async def started() -> bool:
        return server.started or task.done()

    await wait_until(started, what="the api to listen")
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield Serving(f"http://127.0.0.1:{port}", app, token)
    finally:
        app.state.stop()
        server.should_exit = True
        await task


@dataclass
class EventListener:
    """The events that one listener received."""

    received: list[ServerSentEvent] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    is_over: bool = False

    @property
    def last_event_id(self) -> str:
        """The Last-Event-ID that a browser would send."""
        return next((event.id for event in reversed(self.received) if event.id), "")

    @property
    def numbers(self) -> list[int]:
        """The numbers that `publish` gave the events."""
        return [json.loads(event.data).get("nodes", -1) for event in self.events]

    @property
    def events(self) -> list[ServerSentEvent]:
        return [event for event in self.received if event.data and event.event not in (GAP, END)]

    def of(self, name: str) -> list[dict[str, Any]]:
        return [json.loads(event.data) for event in self.received if event.event == name]

    async def wait_for_numbers(self, *numbers: int) -> None:
        """Wait for exactly the events with these numbers."""
        await eventually(lambda: len(self.numbers) >= len(numbers), f"{len(numbers)} events")
        assert self.numbers == list(numbers)

    async def wait_for_event_id(self) -> None:
        await eventually(lambda: bool(self.last_event_id), "the listener to have a place")

    async def wait_for_end(self) -> None:
        await eventually(lambda: self.is_over, "the stream to end")


@asynccontextmanager
async def listening(
    api: Reachable, path: str = "/events", **headers: str
) -> AsyncIterator[EventListener]:
    """Listen during the block. Fails if the API refuses."""
    ear = EventListener()
    opened = asyncio.Event()
    request_headers = auth_headers(api) | {
        name.replace("_", "-"): value for name, value in headers.items()
    }

    async def listen() -> None:
        async with (
            httpx.AsyncClient(timeout=None, verify=False, trust_env=False) as client,
            aconnect_sse(
                client, "GET", f"{api.url}/api/v1{path}", headers=request_headers
            ) as source,
        ):
            source.response.raise_for_status()
            ear.headers = dict(source.response.headers)
            opened.set()
            with suppress(httpx.RemoteProtocolError):  # aborted in the middle
                async for event in source.aiter_sse():
                    ear.received.append(event)
        ear.is_over = True

    task = asyncio.create_task(listen())
    open_task = asyncio.create_task(opened.wait())
    await asyncio.wait({task, open_task}, return_when=asyncio.FIRST_COMPLETED)
    open_task.cancel()
    if task.done():
        task.result()
    try:
        yield ear
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError, httpx.TransportError):
            await task


async def publish(bus: Bus, agent_id: UUID, *numbers: int) -> None:
    """Publish an event for each number, with the number as its count of nodes."""
    await bus.publish_all(query_completed(agent_id, number) for number in numbers)


def query_completed(agent_id: UUID, number: int) -> QueryCompleted:
    return QueryCompleted.of(nodes=number, edges=0, **_about(agent_id))


def insight_completed(agent_id: UUID, *missing: str) -> InsightCompleted:
    return InsightCompleted.of(analyses=1, missing=list(missing), **_about(agent_id))


def _about(agent_id: UUID) -> dict[str, Any]:
    return {
        "agent_id": agent_id,
        "iteration_id": uuid4(),
        "step_id": uuid4(),
        "occurred_at": datetime.now(UTC),
    }


async def eventually(condition: Callable[[], bool], what: str) -> None:
    async def look() -> bool:
        return condition()

    await wait_until(look, what=what)


def ids_of(events: Sequence[ServerSentEvent]) -> list[int]:
    return [StreamPosition.parse(event.id).sequence for event in events]
