"""Whoever receives webhooks: an HTTP server of the test's own on loopback that answers as it is told to."""

import asyncio
import base64
import hashlib
import hmac
import json
import ssl
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
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
        """As the specification has it, written here anew."""
        key = base64.b64decode(secret.split("_", 1)[1])
        said = self.id + "." + self.headers["webhook-timestamp"] + "." + self.body.decode()
        mac = base64.b64encode(hmac.new(key, said.encode(), hashlib.sha256).digest()).decode()
        return f"v1,{mac}" in self.headers["webhook-signature"].split(" ")


def answer(status: int, *headers: str, body: bytes = b"{}") -> bytes:
    lines = [f"HTTP/1.1 {status} Said", f"content-length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


@dataclass
class Receiver:
    """`answers` are given in order, the last of them for ever. HANG answers when `released`, DROP closes at once."""

    port: int = 0
    hits: list[Hit] = field(default_factory=list)
    answers: dict[str, list[Answer]] = field(default_factory=dict)
    released: asyncio.Event = field(default_factory=asyncio.Event)
    hanging: int = 0
    most_hanging: int = 0

    def url(self, path: str = "/hook", host: str = "127.0.0.1", scheme: str = "http") -> str:
        return f"{scheme}://{host}:{self.port}{path}"

    def says(self, *answers: Answer, path: str = "/hook") -> None:
        self.answers[path] = list(answers)

    def of(self, path: str) -> list[Hit]:
        return [hit for hit in self.hits if hit.path == path]

    def with_id(self, message_id: str) -> list[Hit]:
        return [hit for hit in self.hits if hit.id == message_id]

    def hit(self, times: int = 1, path: str = "/hook") -> Callable[[], Any]:
        """For `until`."""

        async def look() -> bool:
            return len(self.of(path)) >= times

        return look

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            hit = await _read(reader)
            self.hits.append(hit)
            said = self._next(hit.path)
            if said == HANG:
                said = await self._hang()
            if said != DROP:
                assert isinstance(said, bytes)
                writer.write(said)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            return
        finally:
            writer.close()

    async def _hang(self) -> Answer:
        self.hanging += 1
        self.most_hanging = max(self.hanging, self.most_hanging)
        try:
            await self.released.wait()
        finally:
            self.hanging -= 1
        return answer(200)

    def _next(self, path: str) -> Answer:
        left = self.answers.get(path) or [answer(200)]
        return left.pop(0) if len(left) > 1 else left[0]


async def _read(reader: asyncio.StreamReader) -> Hit:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    headers = dict(_header(line) for line in head[1:] if line)
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Hit(head[0].split(" ")[1], headers, body)


def _header(line: str) -> tuple[str, str]:
    name, _, value = line.partition(":")
    return name.lower(), value.strip()


@asynccontextmanager
async def open_receiver(tls: ssl.SSLContext | None = None) -> AsyncIterator[Receiver]:
    receiver = Receiver()
    server = await asyncio.start_server(receiver.serve, "127.0.0.1", 0, ssl=tls)
    receiver.port = server.sockets[0].getsockname()[1]
    try:
        yield receiver
    finally:
        receiver.released.set()
        server.close()


def ids(hits: Iterable[Hit]) -> set[str]:
    return {hit.id for hit in hits}
