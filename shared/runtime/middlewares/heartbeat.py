"""Tells NATS that a message is still being handled, so that it is not delivered to another replica."""

import asyncio
from typing import Any, Final

from shared.runtime.middlewares import Next, ServiceMiddleware

HEARTBEATS_PER_ACK_WAIT: Final = 4


class Heartbeat(ServiceMiddleware):
    """Extends `ack_wait` while the handler works."""

    def __init__(self, ack_wait_seconds: float) -> None:
        self._interval_seconds = ack_wait_seconds / HEARTBEATS_PER_ACK_WAIT

    async def consume_scope(self, call_next: Next, msg: Any) -> Any:
        async def send_heartbeats() -> None:
            while True:
                await asyncio.sleep(self._interval_seconds)
                await msg.in_progress()

        heartbeats = asyncio.create_task(send_heartbeats())
        try:
            return await call_next(msg)
        finally:
            heartbeats.cancel()
