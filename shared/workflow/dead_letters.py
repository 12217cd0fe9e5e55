"""Dead letters: stored with their reason until they are retried or discarded.

A retry is a request first: the API records it, the scheduler republishes the message, and only then is the dead letter
deleted. A request is open until the dead letter is stored again, so publishing twice or late retries nothing that was
not requested.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from sqlalchemy import ColumnElement, Update, delete, func, select, update
from sqlalchemy.dialects.postgresql import insert

from shared.database import ids
from shared.database.statements import BoundQuery, CompiledStatement
from shared.database.tables import DeadLetter, Step
from shared.database.text import error_text
from shared.database.transaction import Transaction
from shared.enums import IterationStatus, StepKind, StepStatus
from shared.events.topology import CONSUMERS

_RETRY_REQUESTS: Final = CompiledStatement("""
select id from dead_letters where retry_requested_at > stored_at
order by retry_requested_at limit :most
""")


async def store(
    transaction: Transaction,
    *,
    service: str,
    subject: str,
    payload: bytes,
    code: str,
    error: str,
    attempts: int,
    step_id: UUID | None = None,
) -> None:
    """Stores a dead letter, one per message, however often it is delivered."""
    reason = {"code": code, "error": error_text(error), "attempts": attempts}
    await transaction.execute(
        insert(DeadLetter)
        .values(
            id=ids.dead_letter_id(subject, payload),
            service=service,
            subject=subject,
            payload=payload,
            step_id=step_id,
            **reason,
        )
        .on_conflict_do_update(
            index_elements=[DeadLetter.id],
            # Repeated instead of taken from `excluded`, which would require the privilege to read these columns.
            set_={**reason, "stored_at": func.clock_timestamp()},
        )
    )


async def request_retry(transaction: Transaction, dead_letter: DeadLetter) -> None:
    """Requests that the message is republished, and the failed step that it belongs to retried. Idempotent."""
    now = func.clock_timestamp()
    # The step first, in the same order as deleting an agent: otherwise they could deadlock.
    if dead_letter.step_id is not None:
        await transaction.execute(_failed(dead_letter.step_id).values(retry_requested_at=now))
    await transaction.execute(
        update(DeadLetter)
        .where(DeadLetter.id == dead_letter.id, ~is_retry_requested())
        .values(retry_requested_at=now)
    )


async def discard(transaction: Transaction, dead_letter: DeadLetter) -> None:
    """Deletes the dead letter. An open retry request is cancelled; the failed step stays failed."""
    if dead_letter.step_id is not None:
        await transaction.execute(_failed(dead_letter.step_id).values(retry_requested_at=None))
    await transaction.execute(delete(DeadLetter).where(DeadLetter.id == dead_letter.id))


def list_retry_requests(limit: int) -> BoundQuery[list[UUID]]:
    """Ids of dead letters with an open retry request, oldest request first."""
    return BoundQuery(_RETRY_REQUESTS, {"most": limit}, lambda rows: [row.id for row in rows])


async def get_retry_request(transaction: Transaction, letter_id: UUID) -> DeadLetter | None:
    """The dead letter, or None if it was deleted or has no open retry request."""
    return await transaction.scalar(
        select(DeadLetter).where(DeadLetter.id == letter_id, is_retry_requested())
    )


async def delete_republished(
    transaction: Transaction, letter_id: UUID, retry_requested_at: datetime
) -> None:
    """Deletes the dead letter of the request made at `retry_requested_at`, unless it failed or was requested again."""
    await transaction.execute(
        delete(DeadLetter).where(
            DeadLetter.id == letter_id,
            DeadLetter.retry_requested_at == retry_requested_at,
            is_retry_requested(),
        )
    )


def is_retry_requested() -> ColumnElement[bool]:
    """Whether a retry was requested and the message has not failed again since."""
    return func.coalesce(DeadLetter.retry_requested_at > DeadLetter.stored_at, False)


def _failed(step_id: UUID) -> Update:
    return update(Step).where(Step.id == step_id, Step.status == StepStatus.FAILED)


MODEL_RESPONSE_CODES: Final = frozenset({"empty_answer", "invalid_answer"})
"""Error codes that depend on a stored response of the model: a retry would read the same response again."""


@dataclass(frozen=True)
class FailedStep:
    """The step of an iteration that a dead letter belongs to."""

    kind: StepKind
    iteration_number: int
    iteration_status: IterationStatus
    agent_name: str


def retry_refusal(service: str, subject: str, code: str, step: FailedStep | None) -> str | None:
    """Why a dead letter cannot be retried now, and what to do instead; None if it can."""
    if step is None:
        # Otherwise a service that can store dead letters could have events published that it may not publish.
        is_consumed = service in CONSUMERS and subject in CONSUMERS[service].subjects
        return (
            None if is_consumed else f"no {service} of this version consumes {subject}: discard it"
        )
    iteration = f"iteration {step.iteration_number} of {step.agent_name}"
    agent = f'"{step.agent_name}"' if " " in step.agent_name else step.agent_name
    run_again = f"run the agent again with `vigil run {agent}`"
    if step.kind is StepKind.OBSERVE:
        return f"{iteration} has ended without a plan, and a plan made now would be too late: {run_again}"
    if step.iteration_status is IterationStatus.RUNNING:
        return f"{iteration} is still running and continues without this step: retry it when the iteration has ended"
    if code in MODEL_RESPONSE_CODES:
        return f"the model's response is stored with the step and would be used again: {run_again}"
    return None
