"""Has a message delivered again after a delay if it could not be handled."""

import asyncio
from typing import Any

from faststream.exceptions import NackMessage
from faststream.nats import NatsMessage

from shared.errors import TransientError, UnavailableError
from shared.runtime.logging import logger
from shared.runtime.middlewares import Next, ServiceMiddleware, delivery_count
from shared.telemetry import metrics

MIN_DELAY_SECONDS = 0.5
MAX_DELAY_SECONDS = 60.0
MAX_DELAY_WHILE_UNAVAILABLE_SECONDS = 5.0
"""What is only unavailable (PostgreSQL, NATS, another worker's lease) is retried more often than errors."""

log = logger(__name__)


class Retry(ServiceMiddleware):
    """Turns errors into FastStream's NackMessage, with a delay that doubles with each delivery.

    Without a delay NATS would deliver the message again at once. A handler that is cancelled, at a stop, hands its
    message over to another replica.
    """

    def __init__(self, service: str) -> None:
        self._service = service
        for reason in ("error", "unavailable"):
            # From zero on, so that the first increase is seen.
            metrics.MESSAGE_RETRIES.labels(service, reason)

    async def consume_scope(self, call_next: Next, msg: Any) -> Any:
        try:
            return await call_next(msg)
        except asyncio.CancelledError:
            await asyncio.shield(msg.nack())
            raise
        except TransientError as error:
            # Of an outage the log tells once, not for each step.
            is_known = isinstance(error, UnavailableError) and error.is_announced
            log_retry = log.debug if is_known else log.warning
            log_retry("will retry", error=str(error), retry_in_seconds=error.retry_in_seconds)
            raise self._retry(msg, error) from error
        except Exception as error:
            log.exception("unexpected error")
            raise self._retry(msg, TransientError(repr(error))) from error

    def _retry(self, message: NatsMessage, error: TransientError) -> NackMessage:
        reason = "error" if error.counts else "unavailable"
        metrics.MESSAGE_RETRIES.labels(self._service, reason).inc()
        max_seconds = MAX_DELAY_SECONDS if error.counts else MAX_DELAY_WHILE_UNAVAILABLE_SECONDS
        backoff_seconds = MIN_DELAY_SECONDS * 2.0 ** min(delivery_count(message) - 1, 10)
        delay_seconds = max(min(backoff_seconds, max_seconds), error.retry_in_seconds or 0.0)
        return NackMessage(delay=delay_seconds)
