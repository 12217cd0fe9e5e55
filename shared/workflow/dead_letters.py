"""Dead letters: stored with their reason until they are retried or discarded.

A retry is a request first: the API records it, the scheduler republishes the message, and only then is the dead letter
deleted. A request is open until the dead letter is stored again, so publishing twice or late retries nothing that was
not requested.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

from shared.database import ids
from shared.database.statements import Batch, BoundQuery, CompiledStatement, Executor, uuid_array
from shared.database.text import error_text
from shared.enums import IterationStatus, StepKind, StepStatus
from shared.events.topology import CONSUMERS
from shared.workflow.iterations import STEP_COLUMNS, StepRow

# The reason is repeated instead of taken from `excluded`, which would require the privilege to read these columns.
_STORE: Final = CompiledStatement("""
insert into dead_letters (id, service, subject, payload, step_id, code, error, attempts)
values (:id, :service, :subject, :payload, :step_id, :code, :error, :attempts)
on conflict (id) do update
set code = :code, error = :error, attempts = :attempts, stored_at = clock_timestamp()
""")
_REQUEST_STEP_RETRIES: Final = CompiledStatement(f"""
update steps set retry_requested_at = clock_timestamp()
where status = '{StepStatus.FAILED}' and id in (
  select step_id from dead_letters where id = any(cast(:ids as uuid[])))
""")
_REQUEST_RETRIES: Final = CompiledStatement("""
update dead_letters set retry_requested_at = clock_timestamp()
where id = any(cast(:ids as uuid[])) and (retry_requested_at > stored_at) is not true
""")
_CANCEL_STEP_RETRIES: Final = CompiledStatement(f"""
update steps set retry_requested_at = null
where status = '{StepStatus.FAILED}' and id in (
  select step_id from dead_letters where id = any(cast(:ids as uuid[])))
""")
_DISCARD: Final = CompiledStatement("delete from dead_letters where id = any(cast(:ids as uuid[]))")
_LIST_RETRY_REQUESTS: Final = CompiledStatement("""
select id from dead_letters where retry_requested_at > stored_at
order by retry_requested_at limit :most
""")
_GET_RETRY_REQUEST: Final = CompiledStatement(f"""
select subject, payload, dead_letters.retry_requested_at, {STEP_COLUMNS}
from dead_letters left join steps on steps.id = dead_letters.step_id
where dead_letters.id = :of_letter and dead_letters.retry_requested_at > stored_at
""")
_DELETE_REPUBLISHED: Final = CompiledStatement("""
delete from dead_letters
where id = :of_letter and retry_requested_at = :requested_at and retry_requested_at > stored_at
""")


class RetryRequest(NamedTuple):
    """A dead letter whose retry was requested, and the step that it belongs to."""

    subject: str
    payload: bytes
    requested_at: datetime
    step: StepRow | None


async def store(
    transaction: Executor,
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
    params = {
        "id": ids.dead_letter_id(subject, payload),
        "service": service,
        "subject": subject,
        "payload": payload,
        "step_id": step_id,
        "code": code,
        "error": error_text(error),
        "attempts": attempts,
    }
    await _STORE.run(transaction, params)


async def request_retries(transaction: Executor, letter_ids: Collection[UUID]) -> None:
    """Requests that the messages are republished, and the failed steps that they belong to retried. Idempotent."""
    await _write_steps_first(transaction, _REQUEST_STEP_RETRIES, _REQUEST_RETRIES, letter_ids)


async def discard(transaction: Executor, letter_ids: Collection[UUID]) -> None:
    """Deletes the dead letters. Open retry requests are cancelled; the failed steps stay failed."""
    await _write_steps_first(transaction, _CANCEL_STEP_RETRIES, _DISCARD, letter_ids)


async def _write_steps_first(
    transaction: Executor,
    of_steps: CompiledStatement,
    of_letters: CompiledStatement,
    letter_ids: Collection[UUID],
) -> None:
    """Locks the steps first, in the same order as deleting an agent: otherwise they could deadlock."""
    params = {"ids": uuid_array(letter_ids)}
    batch = Batch()
    for statement in (of_steps, of_letters):
        batch.add(BoundQuery(statement, params, lambda _: None))
    await batch.execute(transaction)


def list_retry_requests(limit: int) -> BoundQuery[list[UUID]]:
    """Ids of dead letters with an open retry request, oldest request first."""
    return BoundQuery(_LIST_RETRY_REQUESTS, {"most": limit}, lambda rows: [row.id for row in rows])


async def get_retry_request(transaction: Executor, letter_id: UUID) -> RetryRequest | None:
    """None if the dead letter was deleted or has no open retry request."""
    row = await _GET_RETRY_REQUEST.row(transaction, {"of_letter": letter_id})
    if row is None:
        return None
    subject, payload, requested_at, *of_step = row
    step = None if of_step[0] is None else StepRow(*of_step)
    return RetryRequest(subject, payload, requested_at, step)


async def delete_republished(
    transaction: Executor, letter_id: UUID, retry_requested_at: datetime
) -> None:
    """Deletes the dead letter of the request made at `retry_requested_at`, unless it failed or was requested again."""
    params = {"of_letter": letter_id, "requested_at": retry_requested_at}
    await _DELETE_REPUBLISHED.run(transaction, params)


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
