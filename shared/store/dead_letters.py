"""What could not be handled is kept, with the reason."""

from uuid import UUID

from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from shared.store import ids
from shared.store.storable import error_text
from shared.store.tables import DeadLetter


async def keep(
    session: AsyncSession,
    *,
    actor: str,
    subject: str,
    payload: bytes,
    code: str,
    error: str,
    attempts: int,
    step_id: UUID | None = None,
) -> None:
    """Keeps one dead letter for each message, however often it is delivered."""
    letter = {
        "id": ids.dead_letter_id(subject, payload),
        "actor": actor,
        "subject": subject,
        "payload": payload,
        "step_id": step_id,
        "code": code,
        "error": error_text(error),
        "attempts": attempts,
    }
    known = insert(DeadLetter).values(letter)
    await session.execute(
        known.on_conflict_do_update(
            index_elements=[DeadLetter.id],
            set_={"error": known.excluded.error, "attempts": known.excluded.attempts},
        )
    )
