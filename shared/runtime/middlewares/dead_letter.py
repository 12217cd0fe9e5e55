"""Stores messages that can never be handled as dead letters."""

from collections import Counter
from typing import Any, Final

from faststream.nats import NatsMessage

from shared.database.engine import Database
from shared.database.text import error_text
from shared.errors import PermanentError, TransientError
from shared.runtime.logging import logger
from shared.runtime.middlewares import Next, ServiceMiddleware, delivery_count, stream_sequence
from shared.telemetry import metrics
from shared.workflow import dead_letters

MAX_FAILURES: Final = 50
"""After so many unexpected errors in this process a message becomes a dead letter; steps give up much earlier.

Deliveries are not counted: the request of a step that waits for a provider may be delivered hundreds of times.
"""

log = logger(__name__)


class DeadLetters(ServiceMiddleware):
    """Also for messages that cannot be decoded. Returning acknowledges the message."""

    def __init__(self, service: str, database: Database) -> None:
        self._service = service
        self._database = database
        self._failures: Counter[int] = Counter()
        """Unexpected errors by the message's number in the stream, of those that failed last."""

    async def consume_scope(self, call_next: Next, msg: Any) -> Any:
        sequence = stream_sequence(msg)
        try:
            result = await call_next(msg)
        except TransientError:
            raise
        except PermanentError as error:
            await self._store(msg, error)
            return None
        except Exception as error:
            self._failures[sequence] += 1
            if self._failures[sequence] < MAX_FAILURES:
                raise
            await self._store(msg, PermanentError("unexpected", repr(error)))
            result = None
        self._failures.pop(sequence, None)
        return result

    async def _store(self, message: NatsMessage, error: PermanentError) -> None:
        message_text = error_text(str(error))
        async with self._database.transaction() as transaction:
            await dead_letters.store(
                transaction,
                service=self._service,
                subject=message.raw_message.subject,
                payload=message.raw_message.data,
                code=error.code,
                error=message_text,
                attempts=delivery_count(message),
            )
        metrics.DEAD_LETTERS_STORED.labels(self._service, metrics.CODES(error.code)).inc()
        log.error("stored as a dead letter", code=error.code, error=message_text)
