"""Republishes dead letters whose retry was requested, and deletes them when the stream has stored them."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from shared import derived_events
from shared.database.engine import Database
from shared.events.codec import encode
from shared.failpoints import Failpoint, failpoint
from shared.runtime.bus import Bus
from shared.runtime.logging import logger
from shared.workflow import dead_letters

LETTERS_PER_RUN = 100

log = logger(__name__)


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
        async with self.database.transaction() as transaction:
            request = await dead_letters.get_retry_request(transaction, letter_id)
            if request is None:
                return
            subject, payload = request.subject, request.payload
            if request.step is not None:
                # Built from the state, in the event format of this version.
                event = await derived_events.step_requested_event(transaction, request.step)
                subject, payload = event.subject, encode(event)
        # Different from the first message id, or NATS would drop it as a duplicate; the same for each attempt of this retry.
        message_id = f"{letter_id}:{request.requested_at.isoformat()}"
        await self.bus.publish_bytes(subject, payload, message_id=message_id)
        failpoint(Failpoint.EVENTS_PUBLISHED)
        async with self.database.transaction() as transaction:
            await dead_letters.delete_republished(transaction, letter_id, request.requested_at)
        log.info("republished a dead letter", dead_letter=str(letter_id), about=subject)
