"""Steps: end, fail, release, wait for a provider, and queries by iteration."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from shared.billing import reservations
from shared.database import ids
from shared.database.statements import (
    STRICT,
    Batch,
    BoundQuery,
    CompiledStatement,
    Executor,
    PendingResult,
    Row,
)
from shared.database.text import error_text
from shared.database.transaction import Transaction
from shared.enums import StepKind, StepStatus
from shared.errors import DeletedError
from shared.workflow.iterations import ITERATION_COLUMNS, STEP_COLUMNS, IterationRow, StepRow
from shared.workflow.leases import Lease, LeaseLostError

_ITERATION: Final = CompiledStatement(
    f"select {ITERATION_COLUMNS} from iterations where id = :of_iteration"
)
_PLANNED: Final = CompiledStatement(f"""
select {STEP_COLUMNS}
from iterations left join steps on steps.iteration_id = iterations.id
  and steps.kind in ('{StepKind.QUERY}', '{StepKind.INSIGHT}')
where iterations.id = :of_iteration order by steps.kind, steps.index
""")
_GET: Final = CompiledStatement(f"select {STEP_COLUMNS} from steps where id = :of_step")
_LIST: Final = CompiledStatement(f"""
select {STEP_COLUMNS} from steps
where iteration_id = :of_iteration and (cast(:of_kind as text) is null or kind = cast(:of_kind as text))
order by kind, index
""")
_INSERT_AGENT_TASK: Final = CompiledStatement(f"""
insert into steps (id, agent_id, kind, index, input, status, requested_at, first_requested_at)
values (:id, :agent_id, :kind, :index, cast(:input as jsonb), :status,
  cast(:requested_at as timestamptz), cast(:requested_at as timestamptz))
returning {STEP_COLUMNS}
""")


def _giving_up_lease(
    changes: str, *, source: str = "", result: str = STEP_COLUMNS
) -> CompiledStatement:
    """Changes a step and releases its lease, if the worker still has it."""
    return CompiledStatement(f"""
update steps set lease_owner = null, lease_until = null, {changes}
{source}
where id = :of_step and epoch = :of_epoch and (status = '{StepStatus.RUNNING}') is true
returning {result}
""")


_END: Final = CompiledStatement(f"""
with ended as (
  update steps
  set lease_owner = null, lease_until = null, status = '{StepStatus.COMPLETED}',
    result = cast(:result as jsonb), error = null, waiting_since = null, ended_at = clock_timestamp()
  where id = :of_step and epoch = :of_epoch and (status = '{StepStatus.RUNNING}') is true
  returning {STEP_COLUMNS}
)
select ended.*, case when ended.id is null
    or exists (select from calls where step_id = :of_step and reserved_on is not null)
    then case when :strict then forbid_commit() else true end end as is_undone
from (values (1)) as once left join ended on true
""")
_FAIL: Final = _giving_up_lease(f"""
status = '{StepStatus.FAILED}', error = :error, attempts = :attempts, waiting_since = null,
ended_at = clock_timestamp()
""")
_RELEASE: Final = _giving_up_lease(f"""
status = '{StepStatus.PENDING}', error = :error, attempts = :attempts,
waiting_since = case when :keeps_waiting then waiting_since end,
retry_at = clock_timestamp() + make_interval(secs => :rest_seconds)
""")
_WAIT: Final = _giving_up_lease(
    f"""
status = '{StepStatus.PENDING}', error = :error, waits = waits + 1,
waiting_since = coalesce(waiting_since, now.at),
retry_at = now.at + make_interval(secs => greatest(
  least(:first + coalesce(extract(epoch from now.at - waiting_since), 0), :longest)
    * (1 - :jitter * random()),
  :least))
""",
    source="from (select clock_timestamp() as at) as now",
    result="extract(epoch from retry_at - now.at)",
)
_END_WAIT: Final = CompiledStatement("""
update steps set waiting_since = null, error = null, retry_at = null
where id = :of_step and epoch = :of_epoch and waiting_since is not null
""")


@dataclass(frozen=True)
class Pauses:
    """How long a step waits between two polls of an unavailable provider: doubling from `first_seconds` to
    `max_seconds`, each pause shortened by up to the fraction `jitter`, so that not all steps poll at once.
    """

    first_seconds: float = 2.0
    max_seconds: float = 20.0
    jitter: float = 0.2


def end_with(batch: Batch, lease: Lease, result: dict[str, Any]) -> PendingResult[StepRow]:
    """Completes the step with `result` at the end of `batch`, and writes open reservations off as spent: they cannot be
    settled any more. Raises LeaseLostError.

    In a round trip that commits, it forbids that if there is something to write off: other payments may have locked the
    budgets by then, in another order.
    """

    def read(rows: Sequence[Row]) -> StepRow:
        (row,) = rows
        if row.id is None:
            raise LeaseLostError(lease)
        return StepRow(*row[:-1])

    params = {
        "of_step": lease.step_id,
        "of_epoch": lease.epoch,
        "result": json.dumps(result),
        STRICT: False,
    }
    query = BoundQuery(_END, params, read, checks_lease=True)

    async def write_off_first(transaction: Executor) -> StepRow:
        await reservations.step_write_off(lease.step_id).execute(transaction)
        return await query.execute(transaction)

    return batch.add(query, fallback=write_off_first)


async def end(transaction: Transaction, lease: Lease, result: dict[str, Any]) -> StepRow:
    """Completes the step with `result`; the last write of its transaction. Raises LeaseLostError."""
    if lease.unit is not None:
        await lease.unit.flush_deferred()
    batch = Batch()
    step = end_with(batch, lease, result)
    await batch.execute(transaction)
    return step.value


async def fail(transaction: Transaction, lease: Lease, error: str, *, attempts: int) -> StepRow:
    """Fails the step for good, and writes open reservations off as spent; the last write of its transaction. Raises
    LeaseLostError.
    """
    if lease.unit is not None:
        await lease.unit.flush_deferred()
    failing = _changing(_FAIL, lease, error=error_text(error), attempts=attempts)
    step = await failing.execute(transaction)
    await reservations.step_write_off(lease.step_id).execute(transaction)
    return step


async def release(
    transaction: Transaction,
    lease: Lease,
    error: str,
    *,
    attempts: int,
    rest_seconds: float,
    keeps_waiting: bool = False,
) -> None:
    """Releases the step so that any worker can claim it after `rest_seconds`. Raises LeaseLostError.

    With `keeps_waiting`, a wait for a provider continues. Reservations of its calls stay open until the step is retried
    or ends.
    """
    values = {
        "error": error_text(error),
        "attempts": attempts,
        "rest_seconds": rest_seconds,
        "keeps_waiting": keeps_waiting,
    }
    await _changing(_RELEASE, lease, **values).execute(transaction)


async def wait(
    transaction: Transaction,
    lease: Lease,
    error: str,
    *,
    pauses: Pauses,
    least_seconds: float = 0.0,
) -> float:
    """Releases the step until the provider is to be polled again; returns the pause in seconds, at least
    `least_seconds`. Raises LeaseLostError.

    The pause grows with the time since the provider was first unavailable, which is stored in the row, so it keeps
    growing across workers and restarts.
    """
    params = {
        "of_step": lease.step_id,
        "of_epoch": lease.epoch,
        "error": error_text(error),
        "first": pauses.first_seconds,
        "longest": pauses.max_seconds,
        "jitter": pauses.jitter,
        "least": least_seconds,
    }
    seconds = await _WAIT.value(transaction, params)
    if seconds is None:
        raise LeaseLostError(lease)
    return float(seconds)


def wait_ending(lease: Lease) -> BoundQuery[None]:
    """Ends the wait: the provider has answered."""
    params = {"of_step": lease.step_id, "of_epoch": lease.epoch}
    return BoundQuery(_END_WAIT, params, lambda _: None)


def _changing(statement: CompiledStatement, lease: Lease, **values: Any) -> BoundQuery[StepRow]:
    def read(rows: Sequence[Row]) -> StepRow:
        if not rows:
            raise LeaseLostError(lease)
        return StepRow(*rows[0])

    params = {"of_step": lease.step_id, "of_epoch": lease.epoch, **values}
    return BoundQuery(statement, params, read)


async def insert_agent_task(
    transaction: Executor,
    agent_id: UUID,
    kind: StepKind,
    index: int,
    step_input: dict[str, Any],
    requested_at: datetime | None,
) -> StepRow:
    """Inserts a step without iteration. `index` numbers the steps of its kind and agent. Without `requested_at` it is only
    planned.

    Raises UniqueViolation if there is one with that index.
    """
    status = StepStatus.PLANNED if requested_at is None else StepStatus.PENDING
    params = {
        "id": ids.step_id(agent_id, kind, index),
        "agent_id": agent_id,
        "kind": kind,
        "index": index,
        "input": json.dumps(step_input),
        "status": status,
        "requested_at": requested_at,
    }
    return StepRow(*await _INSERT_AGENT_TASK.row(transaction, params))


async def get_step(transaction: Executor, step_id: UUID) -> StepRow:
    """Raises DeletedError if the step was deleted."""
    row = await _GET.row(transaction, {"of_step": step_id})
    if row is None:
        raise DeletedError(f"step {step_id} was deleted")
    return StepRow(*row)


async def list_steps(
    transaction: Executor, iteration_id: UUID, kind: StepKind | None = None
) -> list[StepRow]:
    """The iteration's steps, by kind and index."""
    params = {"of_iteration": iteration_id, "of_kind": kind}
    return [StepRow(*row) for row in await _LIST.rows(transaction, params)]


async def list_plan(transaction: Executor, iteration_id: UUID) -> list[StepRow]:
    """The iteration's queries and insights that are part of the plan (round 0).

    Raises DeletedError if the iteration was deleted with its agent.
    """
    rows = await _PLANNED.rows(transaction, {"of_iteration": iteration_id})
    if not rows:
        raise DeletedError(f"iteration {iteration_id} was deleted")
    steps = [StepRow(*row) for row in rows if row.id is not None]
    return [step for step in steps if not step_round(step)]


def step_round(step: StepRow) -> int:
    """0 for planned steps; later rounds query data that Analyzers lacked and repeat their insights."""
    number: int = step.input.get("round", 0)
    return number


def iteration_query(step: StepRow) -> BoundQuery[IterationRow]:
    """The iteration of `step`. Its `read` raises DeletedError if it was deleted with its agent."""
    assert step.iteration_id is not None, f"a step of kind {step.kind} has no iteration"

    def read(rows: Sequence[Row]) -> IterationRow:
        if not rows:
            raise DeletedError(f"iteration {step.iteration_id} was deleted")
        return IterationRow(*rows[0])

    return BoundQuery(_ITERATION, {"of_iteration": step.iteration_id}, read)
