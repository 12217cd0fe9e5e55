"""Listening to an api that really listens: over a socket, as answers without end need it."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol
from uuid import UUID, uuid4

import httpx
import uvicorn
from fastapi import FastAPI
from httpx_sse import ServerSentEvent, aconnect_sse

from bench.api_process import ApiProcess
from services.api.app import build
from shared.events.models import InsightCompleted, QueryCompleted
from shared.runtime.bus import Bus
from shared.runtime.settings import Settings
from tests.support.api.signed_in import token_of
from tests.support.waiting import until

GAP, END = "gap", "end"


class Reachable(Protocol):
    @property
    def url(self) -> str: ...

    @property
    def token(self) -> str:
        """By which its owner comes in."""
        ...


@dataclass(frozen=True)
class Serving:
    url: str
    app: FastAPI
    token: str

    def client(self, **options: Any) -> httpx.AsyncClient:
        """Its owner's."""
        headers = {**shown(self), **options.pop("headers", {})}
        base = f"{self.url}/api/v1"
        return httpx.AsyncClient(base_url=base, headers=headers, trust_env=False, **options)


class OwnersApi(ApiProcess):
    """One of its own process."""

    def __init__(self, settings: Settings, log: Path, token: str) -> None:
        super().__init__(settings, log)
        self.token = token


def shown(api: Reachable) -> dict[str, str]:
    return {"Authorization": f"Bearer {api.token}"}


@asynccontextmanager
async def serving(
    settings: Settings, *, port: int = 0, user: str | None = None
) -> AsyncIterator[Serving]:
    """The api on loopback, in this process, for its owner or `user`; ended with its listeners."""
    app = build(settings)
    token = await token_of(settings, user)
    server = uvicorn.Server(
        uvicorn.Config(
            app, port=port, log_config=None, access_log=False, timeout_graceful_shutdown=2
        )
    )
    task = asyncio.create_task(server.serve())

    async def started() -> bool:
        return server.started or task.done()

    await until(started, what="the api to listen")
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield Serving(f"http://127.0.0.1:{port}", app, token)
    finally:
        app.state.stop()
        server.should_exit = True
        await task


@dataclass
class Ear:
    """What one listener was sent."""

    told: list[ServerSentEvent] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    is_over: bool = False

    @property
    def place(self) -> str:
        """What a browser sends back as Last-Event-ID."""
        return next((each.id for each in reversed(self.told) if each.id), "")

    @property
    def numbers(self) -> list[int]:
        """Of the events, as `publish` numbered them."""
        return [json.loads(each.data).get("nodes", -1) for each in self.events]

    @property
    def events(self) -> list[ServerSentEvent]:
        return [each for each in self.told if each.data and each.event not in (GAP, END)]

    def of(self, name: str) -> list[dict[str, Any]]:
        return [json.loads(each.data) for each in self.told if each.event == name]

    async def hears(self, *numbers: int) -> None:
        """Fails unless these are the events, all of them, at the deadline."""
        await eventually(lambda: len(self.numbers) >= len(numbers), f"{len(numbers)} events")
        assert self.numbers == list(numbers)

    async def has_place(self) -> None:
        await eventually(lambda: bool(self.place), "the listener to have a place")

    async def ends(self) -> None:
        await eventually(lambda: self.is_over, "the stream to end")


@asynccontextmanager
async def listening(api: Reachable, path: str = "/events", **headers: str) -> AsyncIterator[Ear]:
    """Listens while the block runs. Fails where the api refuses."""
    ear = Ear()
    opened = asyncio.Event()
    given = shown(api) | {name.replace("_", "-"): value for name, value in headers.items()}

    async def listen() -> None:
        async with (
            httpx.AsyncClient(timeout=None, trust_env=False) as client,
            aconnect_sse(client, "GET", f"{api.url}/api/v1{path}", headers=given) as source,
        ):
            source.response.raise_for_status()
            ear.headers = dict(source.response.headers)
            opened.set()
            with suppress(httpx.RemoteProtocolError):  # cut off in the middle
                async for sent in source.aiter_sse():
                    ear.told.append(sent)
        ear.is_over = True

    task = asyncio.create_task(listen())
    waiting = asyncio.create_task(opened.wait())
    await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if task.done():
        task.result()
    try:
        yield ear
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError, httpx.TransportError):
            await task


async def publish(bus: Bus, agent_id: UUID, *numbers: int) -> None:
    """An event for each number, which it tells as its count of nodes."""
    await bus.publish_all(learned(agent_id, number) for number in numbers)


def learned(agent_id: UUID, number: int) -> QueryCompleted:
    return QueryCompleted.of(nodes=number, edges=0, **_about(agent_id))


def concluded(agent_id: UUID, *missing: str) -> InsightCompleted:
    return InsightCompleted.of(analyses=1, missing=list(missing), **_about(agent_id))


def _about(agent_id: UUID) -> dict[str, Any]:
    return {
        "agent_id": agent_id,
        "iteration_id": uuid4(),
        "step_id": uuid4(),
        "occurred_at": datetime.now(UTC),
    }


async def eventually(is_so: Callable[[], bool], what: str) -> None:
    async def look() -> bool:
        return is_so()

    await until(look, what=what)


def ids_of(told: Sequence[ServerSentEvent]) -> list[int]:
    return [int(each.id) for each in told]
