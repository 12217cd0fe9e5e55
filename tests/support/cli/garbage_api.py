"""A server that answers every request with the same bytes, as a proxy or another program would in place of the API."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final


def _http(body: bytes, kind: str = "application/json", status: str = "200 OK") -> bytes:
    head = f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n"
    return f"{head}connection: close\r\n\r\n".encode() + body


ANSWERS: Final = {
    "nothing": b"",
    "no HTTP": b"SSH-2.0-OpenSSH_9.2\r\n",
    "a page": _http(b"<html><h1>Welcome</h1>", "text/html"),
    "no JSON": _http(b"{'items': "),
    "another object": _http(b'{"items": [{"name": 7}], "next": null, "id": "x"}'),
    "a list": _http(b"[1, 2, 3]"),
    "null": _http(b"null"),
    "bytes": _http(b"\xff\xfe\x00\x01"),
    "no body": _http(b""),
    "a short body": b"HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n{",
    "a wrong encoding": _http(b"nonsense").replace(b"connection", b"content-encoding: gzip\r\nconnection"),
    "a redirect": _http(b"").replace(b"200 OK\r\n", b"302 Found\r\nlocation: /elsewhere\r\n"),
    "an error page": _http(b"<html>Bad gateway</html>", "text/html", "502 Bad Gateway"),
    "an error without text": _http(b"", status="500 "),
    "not found": _http(b"", "text/plain", "404 Not Found"),
    "refused": _http(b"{}", status="401 Unauthorized"),
    "away": _http(b"", status="503 Service Unavailable"),
    "broken events": _http(b"id: x\nevent: text\ndata: nonsense\n\n", "text/event-stream"),
}  # fmt: skip


@contextmanager
def answering(answer: bytes) -> Iterator[str]:
    """The URL of a server that sends `answer` for each request, and closes the connection."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with connection, suppress(OSError):
                    connection.settimeout(5)
                    connection.recv(65_536)
                    connection.sendall(answer)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(5)
