"""A webhook receiver: an HTTP server on loopback with configurable responses."""

import asyncio
import base64
import hashlib
import hmac
import json
import ssl
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

HANG = "hang"
DROP = "drop"

Answer = bytes | str


@dataclass(frozen=True)
class Hit:
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def message(self) -> Any:
        return json.loads(self.body)

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    def signed_by(self, secret: str) -> bool:
        """Verify the signature as specified, independently of the product."""
        key = base64.b64decode(secret.split("_", 1)[1])
        content = self.id + "." + self.headers["webhook-timestamp"] + "." + self.body.decode()
        mac = base64.b64encode(hmac.new(key, content.encode(), hashlib.sha256).digest()).decode()
        return f"v1,{mac}" in self.headers["webhook-signature"].split(" ")


def answer(status: int, *headers: str, body: bytes = b"{}") -> bytes:
    lines = [f"HTTP/1.1 {status} Said", f"content-length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


@dataclass
class WebhookReceiver:
    """Gives `answers` in order and repeats the last. HANG answers when `released` is set, DROP closes at once."""

    port: int = 0
    hits: list[Hit] = field(default_factory=list)
    answers: dict[str, list[Answer]] = field(default_factory=dict)
    released: asyncio.Event = field(default_factory=asyncio.Event)
    hanging: int = 0
    max_hanging: int = 0

    def url(self, path: str = "/hook", host: str = "127.0.0.1", scheme: str = "http") -> str:
        return f"{scheme}://{host}:{self.port}{path}"

    def respond_with(self, *answers: Answer, path: str = "/hook") -> None:
        self.answers[path] = list(answers)

    def of(self, path: str) -> list[Hit]:
        return [hit for hit in self.hits if hit.path == path]

    def with_id(self, message_id: str) -> list[Hit]:
        return [hit for hit in self.hits if hit.id == message_id]

    def hit(self, times: int = 1, path: str = "/hook") -> Callable[[], Any]:
        """A condition for `wait_until`."""

        async def look() -> bool:
            return len(self.of(path)) >= times

        return look

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            hit = await _read(reader)
            self.hits.append(hit)
            reply = self._next(hit.path)
            if reply == HANG:
                reply = await self._hang()
            if reply != DROP:
                assert isinstance(reply, bytes)
                writer.write(reply)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            return
        finally:
            writer.close()

    async def _hang(self) -> Answer:
        self.hanging += 1
        self.max_hanging = max(self.hanging, self.max_hanging)
        try:
            await self.released.wait()
        finally:
            self.hanging -= 1
        return answer(200)

    def _next(self, path: str) -> Answer:
        answers = self.answers.get(path) or [answer(200)]
        return answers.pop(0) if len(answers) > 1 else answers[0]


async def _read(reader: asyncio.StreamReader) -> Hit:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    headers = dict(_header(line) for line in head[1:] if line)
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Hit(head[0].split(" ")[1], headers, body)


def _header(line: str) -> tuple[str, str]:
    name, _, value = line.partition(":")
    return name.lower(), value.strip()


@asynccontextmanager
async def open_receiver(tls: ssl.SSLContext | None = None) -> AsyncIterator[WebhookReceiver]:
    receiver = WebhookReceiver()
    server = await asyncio.start_server(receiver.serve, "127.0.0.1", 0, ssl=tls)
    receiver.port = server.sockets[0].getsockname()[1]
    try:
        yield receiver
    finally:
        receiver.released.set()
        server.close()


def ids(hits: Iterable[Hit]) -> set[str]:
    return {hit.id for hit in hits}


@contextmanager
def receiving(hits: list[Hit]) -> Iterator[str]:
    """A receiver that answers 204 to every path but `/broken`."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            hits.append(Hit(self.path, headers, body))
            self.send_response(500 if self.path == "/broken" else 204)
            self.end_headers()

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()
