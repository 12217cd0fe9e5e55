"""A model server on loopback with responses chosen by a test."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Reply:
    status: int
    body: bytes
    content_type: str = "application/json"


def json_reply(value: Any, status: int = 200) -> Reply:
    return Reply(status, json.dumps(value).encode())


def completion(content: str, tool_calls: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": content}
    if tool_calls:
        message["tool_calls"] = tool_calls
    return {
        "id": "1",
        "object": "chat.completion",
        "created": 0,
        "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
    }


def as_stream(content: str) -> Reply:
    """The response as a stream of two chunks."""

    def chunk(**part: Any) -> dict[str, Any]:
        header = {"id": "1", "object": "chat.completion.chunk", "created": 0, "model": "m"}
        return {**header, "choices": [], **part}

    def choice(delta: Mapping[str, Any], finish: str | None = None) -> list[dict[str, Any]]:
        return [{"index": 0, "delta": delta, "finish_reason": finish}]

    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    half = len(content) // 2
    parts = [
        chunk(choices=choice({"role": "assistant", "content": content[:half]})),
        chunk(choices=choice({"content": content[half:]}, "stop")),
        chunk(usage=usage),
    ]
    events = "".join(f"data: {json.dumps(part)}\n\n" for part in parts)
    return Reply(200, f"{events}data: [DONE]\n\n".encode(), "text/event-stream")


Answer = Callable[[str, Mapping[str, Any]], Reply]
"""The response to a path and its JSON body."""


@contextmanager
def serve_model(answer: Answer) -> Iterator[str]:
    """Serve during the block; yields the base URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._send(answer(self.path, {"key": self.headers.get("Authorization")}))

        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            self._send(answer(self.path, json.loads(self.rfile.read(length))))

        def _send(self, reply: Reply) -> None:
            self.send_response(reply.status)
            self.send_header("Content-Type", reply.content_type)
            self.send_header("Content-Length", str(len(reply.body)))
            self.end_headers()
            self.wfile.write(reply.body)

        def log_message(self, *_: Any) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
