"""A model server on loopback whose responses a test controls byte by byte."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from shared.billing.resumable_call import ResumableCall
from shared.llm.messages import ChatRequest
from shared.llm.model_server import Limits, ModelServer, Stream
from shared.llm.provider import ChatProvider

Json = dict[str, Any]

USAGE = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
REQUEST = ChatRequest("m", ({"role": "user", "content": "Go on."},), max_output_tokens=100)


class Connection:
    """One request, and the connection for its response."""

    def __init__(self, writer: asyncio.StreamWriter, path: str, body: Json) -> None:
        self._writer = writer
        self.path = path
        self.body = body

    @property
    def streams(self) -> bool:
        return bool(self.body.get("stream"))

    async def head(
        self, status: int = 200, headers: Mapping[str, str] | None = None, kind: str = ""
    ) -> None:
        kind = kind or ("text/event-stream" if self.streams else "application/json")
        lines = {"Content-Type": kind, "Connection": "close", **(headers or {})}
        header_text = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        await self.send(f"HTTP/1.1 {status} OK\r\n{header_text}\r\n".encode())

    async def send(self, piece: bytes) -> None:
        self._writer.write(piece)
        await self._writer.drain()

    def close(self) -> None:
        self._writer.close()

    def reset(self) -> None:
        """Abort the connection instead of closing it."""
        self._writer.transport.abort()


Respond = Callable[[Connection], Awaitable[None]]


@dataclass
class ModelStandIn:
    """Answers every request with `respond`."""

    respond: Respond
    requests: list[Json] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    """The requests' idempotency keys."""
    url: str = ""

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            lines = [line.partition(": ") for line in head.split("\r\n")]
            headers = {name.lower(): value for name, _, value in lines}
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            request: Json = json.loads(body or b"{}")
            self.requests.append(request)
            self.keys.append(headers.get("idempotency-key", ""))
            await self.respond(Connection(writer, head.split(" ")[1], request))
            writer.close()


@asynccontextmanager
async def model_server(respond: Respond) -> AsyncIterator[ModelStandIn]:
    """Serve on a free port of loopback during the block."""
    stand_in = ModelStandIn(respond)
    server = await asyncio.start_server(stand_in._serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    stand_in.url = f"http://127.0.0.1:{port}/v1"
    try:
        yield stand_in
    finally:
        server.close()


def fixed_response(body: bytes, status: int = 200, kind: str = "", **headers: str) -> Respond:
    """Always respond with these bytes."""

    async def respond(connection: Connection) -> None:
        response_headers = {name.replace("_", "-"): value for name, value in headers.items()}
        await connection.head(status, response_headers, kind)
        if status != HTTPStatus.NOT_MODIFIED:  # which has no body
            await connection.send(body)

    return respond


def completion(message: Any, finish: Any = "stop", **more: Any) -> Json:
    choice = {"index": 0, "message": message, "finish_reason": finish}
    return {"id": "c", "object": "chat.completion", "choices": [choice], "usage": USAGE, **more}


def chunk(delta: Any, finish: Any = None, **more: Any) -> Json:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "c", "object": "chat.completion.chunk", "choices": [choice], **more}


def events(*chunks: Any, done: bool = True) -> bytes:
    """Chunks as server-sent events; texts are sent unchanged."""
    lines = [item if isinstance(item, str) else f"data: {json.dumps(item)}" for item in chunks]
    return "".join(f"{line}\n\n" for line in (*lines, *(["data: [DONE]"] if done else []))).encode()


@asynccontextmanager
async def provider_for(
    stand_in: ModelStandIn,
    *,
    stream: Stream = "auto",
    limits: Limits | None = None,
    warnings: list[str] | None = None,
) -> AsyncIterator[ChatProvider]:
    """A chat provider for that server."""
    messages: list[str] = [] if warnings is None else warnings
    server = ModelServer(
        api_key="k",
        base_url=stand_in.url,
        limits=limits or Limits(),
        stream=stream,
        warn=messages.append,
    )
    try:
        yield ChatProvider(server)
    finally:
        await server.close()


def make_resumable_call(
    attempts: list[BaseException | None] | None = None,
    progressed: Callable[[int], Awaitable[None]] | None = None,
) -> ResumableCall:
    """A call without a ledger; the error of each attempt, or None, is added to `attempts`."""

    async def store_reference(reference: str) -> None:
        raise AssertionError(f"nothing has a reference here: {reference}")

    @asynccontextmanager
    async def attempt() -> AsyncIterator[None]:
        error: BaseException | None = None
        try:
            yield
        except BaseException as caught:
            error = caught
            raise
        finally:
            if attempts is not None:
                attempts.append(error)

    return ResumableCall("key", None, store_reference, attempt, progressed)
