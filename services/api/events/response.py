"""The answer that goes on."""

import asyncio
from typing import Final

from starlette.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from services.api.events.hub import Hub
from services.api.events.listener import Listener
from shared.runtime.logs import logger

TAKES_NOTHING_SECONDS: Final = 30.0
"""How long a listener may let a chunk wait before it is cut off."""
HEADERS: Final = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
"""No proxy may keep events back, or keep them at all."""

log = logger(__name__)


class EventStream(StreamingResponse):
    """Server-Sent Events of one listener, who counts among the hub's as long as they are sent."""

    media_type = "text/event-stream"

    def __init__(self, hub: Hub, listener: Listener) -> None:
        super().__init__(listener.frames(), headers=HEADERS)
        self._hub = hub

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._hub.listeners += 1
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._hub.listeners -= 1

    async def stream_response(self, send: Send) -> None:
        async def send_in_time(message: Message) -> None:
            async with asyncio.timeout(TAKES_NOTHING_SECONDS):
                await send(message)

        try:
            await super().stream_response(send_in_time)
        except TimeoutError:
            log.warning("a listener takes nothing, and is cut off", seconds=TAKES_NOTHING_SECONDS)
