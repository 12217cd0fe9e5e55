"""Publishes the events that a handler returns."""

from collections.abc import Sequence
from typing import Any

from shared.events.envelope import Event
from shared.failpoints import Failpoint, failpoint
from shared.runtime.bus import Bus
from shared.runtime.middlewares import Next, ServiceMiddleware


class Publish(ServiceMiddleware):
    """The handler has committed before it returns; the message is acknowledged when all events are stored."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    async def consume_scope(self, call_next: Next, msg: Any) -> None:
        events: Sequence[Event] = await call_next(msg)
        failpoint(Failpoint.STATE_COMMITTED)
        await self._bus.publish_all(events)
        failpoint(Failpoint.EVENTS_PUBLISHED)
