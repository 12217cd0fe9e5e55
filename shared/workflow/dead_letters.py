"""Dead letters: kept with their reason until they are retried or discarded.

To retry is a wish first: the api writes it, the scheduler publishes, and only then is the letter gone. The wish is open
while the letter has not been kept again since: who publishes twice, or late, retries nothing that was not asked for.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from sqlalchemy import ColumnElement, Update, delete, func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from shared.database import ids
from shared.database.tables import DeadLetter, Step
from shared.database.text import error_text
from shared.enums import IterationStatus, StepKind, StepStatus
from shared.events.topology import CONSUMERS


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
    reason = {"code": code, "error": error_text(error), "attempts": attempts}
    letter = {
        "id": ids.dead_letter_id(subject, payload),
        "actor": actor,
        "subject": subject,
        "payload": payload,
        "step_id": step_id,
        **reason,
    }
    await session.execute(
        insert(DeadLetter)
        .values(letter)
        .on_conflict_do_update(
            index_elements=[DeadLetter.id],
            # Said again rather than taken from `excluded`, which asks for the right to read these columns.
            set_={**reason, "kept_at": func.clock_timestamp()},
        )
    )


async def ask_for_retry(session: AsyncSession, letter: DeadLetter) -> None:
    """Wishes the letter published again, and the failed step that it is about tried again; twice is as once."""
    now = func.clock_timestamp()
    # The step first, as where an agent is deleted: the other order could deadlock with it.
    if letter.step_id is not None:
        await session.execute(_failed(letter.step_id).values(retry_requested_at=now))
    await session.execute(
        update(DeadLetter)
        .where(DeadLetter.id == letter.id, ~wished())
        .values(retry_requested_at=now)
        .execution_options(synchronize_session=False)
    )


async def discard(session: AsyncSession, letter: DeadLetter) -> None:
    """Deletes the letter. A retry that nobody has taken up yet is off; the step that failed stays failed."""
    if letter.step_id is not None:
        await session.execute(_failed(letter.step_id).values(retry_requested_at=None))
    await session.execute(delete(DeadLetter).where(DeadLetter.id == letter.id))


async def wanted(session: AsyncSession, limit: int) -> Sequence[UUID]:
    """Letters that are to be published again, the longest wished first."""
    found = await session.scalars(
        select(DeadLetter.id).where(wished()).order_by(DeadLetter.retry_requested_at).limit(limit)
    )
    return list(found)


async def find_wanted(session: AsyncSession, letter_id: UUID) -> DeadLetter | None:
    """None where it is gone, or its retry is no longer wished."""
    return await session.scalar(select(DeadLetter).where(DeadLetter.id == letter_id, wished()))


async def published(session: AsyncSession, letter_id: UUID, wished_at: datetime) -> None:
    """Deletes the letter that was wished at that time, unless its message has failed again or was wished anew."""
    await session.execute(
        delete(DeadLetter).where(
            DeadLetter.id == letter_id, DeadLetter.retry_requested_at == wished_at, wished()
        )
    )


def wished() -> ColumnElement[bool]:
    """Whether a letter's retry is wished and has not been answered by another failure."""
    return func.coalesce(DeadLetter.retry_requested_at > DeadLetter.kept_at, False)


def _failed(step_id: UUID) -> Update:
    return (
        update(Step)
        .where(Step.id == step_id, Step.status == StepStatus.FAILED)
        .execution_options(synchronize_session=False)
    )


ANSWERED: Final = frozenset({"empty_answer", "invalid_answer"})
"""Codes of steps that failed on what the model answered, which the ledger keeps and a retry would be given again."""


@dataclass(frozen=True)
class FailedStep:
    """What a letter is about, where it is about a step of an iteration."""

    kind: StepKind
    iteration_number: int
    iteration_status: IterationStatus
    agent_name: str


def refusal(actor: str, subject: str, code: str, step: FailedStep | None) -> str | None:
    """Why a letter cannot be retried now, and what to do instead; None where it can."""
    if step is None:
        # Else whoever can keep a letter could have others told what they hear from nobody else.
        heard = actor in CONSUMERS and subject in CONSUMERS[actor].subjects
        return None if heard else f"no {actor} of this version hears {subject}: discard it"
    iteration = f"iteration {step.iteration_number} of {step.agent_name}"
    run_again = f"run the agent again with `vigil run {_quoted(step.agent_name)}`"
    if step.kind is StepKind.OBSERVE:
        return f"{iteration} has ended without a plan, and one made now would come too late: {run_again}"
    if step.iteration_status is IterationStatus.RUNNING:
        return f"{iteration} still runs, and goes on without this step: retry it when the iteration has ended"
    if code in ANSWERED:
        return f"the model's answer is kept with the step, and would be read again: {run_again}"
    return None


def _quoted(name: str) -> str:
    return f'"{name}"' if " " in name else name
