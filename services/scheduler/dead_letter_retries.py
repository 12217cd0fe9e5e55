"""Dead letters whose retry somebody wished: published again, and deleted when the stream has them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession

from shared import derived_events
from shared.database.engine import Database
from shared.database.tables import Step
from shared.events.codec import encode
from shared.failpoints import CrashPoint, reach
from shared.runtime.bus import Bus
from shared.runtime.logging import logger
from shared.workflow import dead_letters

LETTERS_PER_LOOK = 100

log = logger(__name__)


@dataclass(frozen=True)
class _Again:
    """What a letter says when it is published again."""

    subject: str
    payload: bytes
    wished_at: datetime


@dataclass(frozen=True)
class Retrier:
    database: Database
    bus: Bus

    async def wanted(self) -> Sequence[UUID]:
        async with self.database.transaction() as session:
            return await dead_letters.wanted(session, LETTERS_PER_LOOK)

    async def publish(self, letter_id: UUID) -> None:
        """Publishes the letter and deletes it. Killed in between it will be published once more, which harms nobody.

        Raises TransientError where the stream does not confirm; the letter is there at the next look.
        """
        async with self.database.transaction() as session:
            again = await _again(session, letter_id)
        if again is None:
            return
        # Another than the first, or the bus would take it for a double; the same for every attempt at this retry.
        message_id = f"{letter_id}:{again.wished_at.isoformat()}"
        await self.bus.publish_bytes(again.subject, again.payload, message_id=message_id)
        reach(CrashPoint.EVENTS_PUBLISHED)
        async with self.database.transaction() as session:
            await dead_letters.published(session, letter_id, again.wished_at)
        log.info("published a dead letter again", letter=str(letter_id), about=again.subject)


async def _again(session: AsyncSession, letter_id: UUID) -> _Again | None:
    letter = await dead_letters.find_wanted(session, letter_id)
    if letter is None or letter.retry_requested_at is None:
        return None
    if letter.step_id is None:
        return _Again(letter.subject, letter.payload, letter.retry_requested_at)
    # Of a step the state says what to ask for, in the words of this version.
    step = await session.get_one(Step, letter.step_id)
    request = await derived_events.requested(session, step)
    return _Again(request.subject, encode(request), letter.retry_requested_at)
