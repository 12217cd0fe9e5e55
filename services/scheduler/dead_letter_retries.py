"""Republishes dead letters whose retry was requested, and deletes them when the stream has stored them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from shared import derived_events
from shared.database.engine import Database
from shared.database.tables import Step
from shared.database.transaction import Transaction
from shared.events.codec import encode
from shared.failpoints import Failpoint, failpoint
from shared.runtime.bus import Bus
from shared.runtime.logging import logger
from shared.workflow import dead_letters

LETTERS_PER_RUN = 100

log = logger(__name__)


@dataclass(frozen=True)
class _Message:
    """The message to republish for a dead letter."""

    subject: str
    payload: bytes
    retry_requested_at: datetime


@dataclass(frozen=True)
class Retrier:
    database: Database
    bus: Bus

    async def list_requests(self) -> Sequence[UUID]:
        return await self.database.run(dead_letters.list_retry_requests(LETTERS_PER_RUN))

    async def publish(self, letter_id: UUID) -> None:
        """Republishes the message and deletes the dead letter. A crash in between causes one more publication, which is
        harmless.

        Raises TransientError if the stream does not confirm; then the next run retries it.
        """
        async with self.database.transaction() as session:
            message = await _message(session, letter_id)
        if message is None:
            return
        # Different from the first message id, or NATS would drop it as a duplicate; the same for each attempt of this retry.
        message_id = f"{letter_id}:{message.retry_requested_at.isoformat()}"
        await self.bus.publish_bytes(message.subject, message.payload, message_id=message_id)
        failpoint(Failpoint.EVENTS_PUBLISHED)
        async with self.database.transaction() as session:
            await dead_letters.delete_republished(session, letter_id, message.retry_requested_at)
        log.info("republished a dead letter", dead_letter=str(letter_id), about=message.subject)


async def _message(session: Transaction, letter_id: UUID) -> _Message | None:
    dead_letter = await dead_letters.get_retry_request(session, letter_id)
    if dead_letter is None or dead_letter.retry_requested_at is None:
        return None
    if dead_letter.step_id is None:
        return _Message(dead_letter.subject, dead_letter.payload, dead_letter.retry_requested_at)
    # The request of a step is built from the state, in the event format of this version.
    step = await session.get_one(Step, dead_letter.step_id)
    request = await derived_events.step_requested_event(session, step)
    return _Message(request.subject, encode(request), dead_letter.retry_requested_at)
