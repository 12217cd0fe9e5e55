"""`python -m bench.loop.providers_server PORT DELAY_SECONDS [LOG]`: model and search over HTTP, as scripted.

As cheap as a server in Python can be, because it shares the machine with what is measured. Whole answers are one write; an
answer that is streamed has CHUNKS events, one after another. With LOG, a file, each call is logged: see `CallLog`.
"""

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from bench.loop.scripted_model import Query, answer
from shared.llm.messages import ChatAnswer, ChatRequest

CHUNKS: Final = 60
"""Events of a streamed answer."""
EVENT_SECONDS: Final = 0.0005
"""Between two events of a stream."""
_END_OF_HEAD: Final = b"\r\n\r\n"


class CallLog:
    """Appends a line when a call is received, and one when it is answered: `received KEY`, `answered KEY`.

    The key of a model's call is its idempotency key, that of a search its query.
    """

    def __init__(self, file: Path | None) -> None:
        self._file = None if file is None else file.open("a", buffering=1)

    def write(self, event: str, key: str) -> None:
        if self._file is not None:
            self._file.write(f"{event} {key}\n")


class ProvidersProtocol(asyncio.Protocol):
    """Serves `POST /v1/chat/completions` and `POST /search` on kept-alive connections, one request at a time."""

    def __init__(self, delay_seconds: float, log: CallLog | None = None) -> None:
        self._delay_seconds = delay_seconds
        self._log = log or CallLog(None)
        self._received = bytearray()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        while (head_end := self._received.find(_END_OF_HEAD)) >= 0:
            head = bytes(self._received[:head_end])
            headers = dict(_headers(head))
            body_start = head_end + len(_END_OF_HEAD)
            body_end = body_start + int(headers.get(b"content-length", b"0"))
            if len(self._received) < body_end:
                return
            body = bytes(self._received[body_start:body_end])
            del self._received[:body_end]
            response = respond(head.split(b" ", 2)[1], headers, body)
            key = _key(headers, body)
            self._log.write("received", key)
            loop = asyncio.get_running_loop()
            loop.call_later(self._delay_seconds, self._answer, key, iter(response))

    def _answer(self, key: str, pieces: Iterator[bytes]) -> None:
        self._log.write("answered", key)
        self._send(pieces)

    def _send(self, pieces: Iterator[bytes]) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        for piece in pieces:
            self._transport.write(piece)
            asyncio.get_running_loop().call_later(EVENT_SECONDS, self._send, pieces)
            return


def respond(path: bytes, headers: dict[bytes, bytes], body: bytes) -> list[bytes]:
    """The response to one request, in the pieces in which it is sent."""
    content = json.loads(body)
    if path.endswith(b"/search"):
        return [_whole({"results": [Query.parse(content["query"]).page]})]
    request = ChatRequest(
        content["model"],
        tuple(content["messages"]),
        tuple(content.get("tools", ())),
        content.get("response_format"),
    )
    scripted = answer(request, headers[b"idempotency-key"].decode())
    if content.get("stream"):
        return _stream(scripted)
    choice = {"index": 0, "message": scripted.message, "finish_reason": scripted.finish_reason}
    completion = {"id": "chat", "object": "chat.completion", "created": 0, "model": request.model}
    return [_whole({**completion, "choices": [choice], "usage": _usage(scripted)})]


def _key(headers: dict[bytes, bytes], body: bytes) -> str:
    key = headers.get(b"idempotency-key")
    return str(json.loads(body)["query"]) if key is None else key.decode()


def _headers(head: bytes) -> Iterator[tuple[bytes, bytes]]:
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        yield name.lower(), value.strip()


def _whole(content: dict[str, Any]) -> bytes:
    body = json.dumps(content).encode()
    head = (
        f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def _stream(scripted: ChatAnswer) -> list[bytes]:
    """The answer as server-sent events, each in an HTTP chunk of its own."""
    events = [json.dumps(chunk) for chunk in _chunks(scripted)]
    parts = [f"data: {data}\n\n".encode() for data in (*events, "[DONE]")]
    chunks = [b"%x\r\n%s\r\n" % (len(part), part) for part in parts]
    head = (
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    return [head + chunks[0], *chunks[1:], b"0\r\n\r\n"]


def _chunks(scripted: ChatAnswer) -> Iterator[dict[str, Any]]:
    for index, call in enumerate(scripted.tool_calls):
        function = {"name": call.name, "arguments": ""}
        yield _delta({"tool_calls": [{"index": index, "id": call.id, "function": function}]})
        for piece in _pieces(call.arguments, CHUNKS // len(scripted.tool_calls)):
            yield _delta({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    for piece in _pieces(scripted.text, CHUNKS):
        yield _delta({"content": piece})
    yield {"choices": [{"index": 0, "delta": {}, "finish_reason": scripted.finish_reason}]}
    yield {"choices": [], "usage": _usage(scripted)}


def _delta(delta: dict[str, Any]) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}


def _pieces(text: str, count: int) -> Iterator[str]:
    size = -(-len(text) // count) or 1
    for start in range(0, len(text), size):
        yield text[start : start + size]


def _usage(scripted: ChatAnswer) -> dict[str, int | None]:
    return {
        "prompt_tokens": scripted.input_tokens,
        "completion_tokens": scripted.output_tokens,
    }


async def serve(port: int, delay_seconds: float, log: CallLog) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: ProvidersProtocol(delay_seconds, log), "127.0.0.1", port
    )
    print("ready", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    log_file = Path(sys.argv[3]) if len(sys.argv) > 3 else None
    asyncio.run(serve(int(sys.argv[1]), float(sys.argv[2]), CallLog(log_file)))
