"""Adds the event to log lines and to the trace while its message is handled."""

from typing import Any

from shared.errors import PermanentError
from shared.events.envelope import Event
from shared.runtime.logging import log_context
from shared.runtime.middlewares import Next, ServiceMiddleware, delivery_count
from shared.telemetry import tracing


class Trace(ServiceMiddleware):
    """Continues the trace of the event's publisher."""

    async def consume_scope(self, call_next: Next, msg: Any) -> Any:
        try:
            event: Event = await msg.decode()
        except PermanentError:  # raised again within DeadLetters
            return await call_next(msg)
        span = tracing.message(
            event.correlation_id,
            msg.headers.get(tracing.HEADER),
            event.subject,
            event.event_id,
            delivery_count(msg),
        )
        with log_context(event), span:
            return await call_next(msg)
