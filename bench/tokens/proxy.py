"""A proxy in front of a model server, which records each exchange."""

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from aiohttp import ClientSession, ClientTimeout, web

from cli.local.ports import LOOPBACK
from shared.llm.answer_errors import AnswerError
from shared.llm.answers import Received
from shared.llm.messages import ChatAnswer
from shared.llm.model_server import IDEMPOTENCY_KEY

MAX_REQUEST_BYTES: Final = 64 * 1024**2
_HOP_HEADERS: Final = frozenset(
    {"host", "content-length", "transfer-encoding", "connection", "accept-encoding"}
)


@dataclass(frozen=True)
class Exchange:
    """A chat completion: the body of the request, and the answer's message."""

    key: str
    """The idempotency key: the id of the ledger's call, with a suffix after unusable answers."""
    request: dict[str, Any]
    answer: ChatAnswer
    seconds: float
    """Monotonic time at which the request arrived."""


@dataclass
class RecordingProxy:
    """Forwards every request to the server at `target`. Records the chat completions that were answered."""

    target: str
    """URL of the server without `/v1`."""
    exchanges: list[Exchange] = field(default_factory=list)
    url: str = ""

    @contextmanager
    def running(self) -> Iterator[None]:
        """Serve on a free port of the loopback interface, in a thread of its own; `url` is its address."""
        loop = asyncio.new_event_loop()
        started: Future[asyncio.Event] = Future()
        thread = threading.Thread(target=loop.run_until_complete, args=(self._serve(started),))
        thread.start()
        stopped = started.result()
        try:
            yield
        finally:
            loop.call_soon_threadsafe(stopped.set)
            thread.join()
            loop.close()

    async def _serve(self, started: "Future[asyncio.Event]") -> None:
        stopped = asyncio.Event()
        app = web.Application(client_max_size=MAX_REQUEST_BYTES)
        async with ClientSession(timeout=ClientTimeout(total=None)) as session:

            async def handle(request: web.Request) -> web.Response:
                return await self._forward(session, request)

            app.router.add_route("*", "/{path:.*}", handle)
            runner = web.AppRunner(app)
            await runner.setup()
            site = web.TCPSite(runner, LOOPBACK, 0)
            await site.start()
            host, port = runner.addresses[0][:2]
            self.url = f"http://{host}:{port}"
            started.set_result(stopped)
            await stopped.wait()
            await runner.cleanup()

    async def _forward(self, session: ClientSession, request: web.Request) -> web.Response:
        at = time.monotonic()
        body = await request.read()
        headers = {
            name: value
            for name, value in request.headers.items()
            if name.lower() not in _HOP_HEADERS
        }
        url = f"{self.target}{request.path_qs}"
        async with session.request(request.method, url, data=body, headers=headers) as response:
            content = await response.read()
            kept = {
                name: value
                for name, value in response.headers.items()
                if name.lower() not in _HOP_HEADERS | {"content-encoding"}
            }
            if (
                request.path.endswith("/chat/completions")
                and response.status == web.HTTPOk.status_code
            ):
                key = request.headers.get(IDEMPOTENCY_KEY, "")
                self.exchanges.append(Exchange(key, json.loads(body), _read(content), at))
            return web.Response(status=response.status, body=content, headers=kept)


def _read(content: bytes) -> ChatAnswer:
    """The answer in the body of a response; an empty one if the services cannot use it either."""
    received = Received("the server")
    try:
        received.take(content)
        return received.answer()
    except AnswerError as error:
        return ChatAnswer({"role": "assistant", "content": ""}, str(error.kind))
