"""Steps: end, fail, release, wait for a provider, and queries by iteration."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, cast
from uuid import UUID

from sqlalchemy import Table, bindparam, func, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from shared.billing import reservations
from shared.database.statements import BoundQuery, CompiledStatement, Executor, Row
from shared.database.tables import Iteration, Step
from shared.database.text import error_text
from shared.enums import StepKind, StepStatus
from shared.errors import DeletedError
from shared.workflow.iterations import IterationRow, StepRow
from shared.workflow.leases import Lease, LeaseLostError

_ITERATIONS: Final = cast(Table, Iteration.__table__)
_STEPS: Final = cast(Table, Step.__table__)
_SELECT_ITERATION: Final = select(*(_ITERATIONS.c[name] for name in IterationRow._fields)).where(
    _ITERATIONS.c.id == bindparam("of_iteration")
)
_ITERATION: Final = CompiledStatement(_SELECT_ITERATION)
_ITERATION_WITH_STEPS: Final = CompiledStatement(
    _SELECT_ITERATION.join(_STEPS, _STEPS.c.iteration_id == _ITERATIONS.c.id)
    .add_columns(*(_STEPS.c[name] for name in StepRow._fields))
    .order_by(_STEPS.c.kind, _STEPS.c.index)
)
_END: Final = CompiledStatement(
    update(_STEPS)
    .where(
        _STEPS.c.id == bindparam("of_step"),
        _STEPS.c.epoch == bindparam("of_epoch"),
        _STEPS.c.status == StepStatus.RUNNING,
    )
    .values(
        lease_owner=None,
        lease_until=None,
        status=StepStatus.COMPLETED,
        error=None,
        waiting_since=None,
        ended_at=func.clock_timestamp(),
    )
    .returning(_STEPS),
    columns=["result"],
)
_WAIT: Final = CompiledStatement(f"""
update steps
set status = '{StepStatus.PENDING}', lease_owner = null, lease_until = null, error = :error,
  waits = waits + 1, waiting_since = coalesce(waiting_since, now.at),
  retry_at = now.at + make_interval(secs => greatest(
    least(:first + coalesce(extract(epoch from now.at - waiting_since), 0), :longest)
      * (1 - :jitter * random()),
    :least))
from (select clock_timestamp() as at) as now
where id = :of_step and epoch = :of_epoch and status = '{StepStatus.RUNNING}'
returning extract(epoch from retry_at - now.at)
""")
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
    max_seconds: float = 300.0
    jitter: float = 0.2


def ending(lease: Lease, result: dict[str, Any]) -> BoundQuery[Step]:
    """Completes the step with `result`. Its `read` returns the step, and raises LeaseLostError."""

    def read(rows: Sequence[Row]) -> Step:
        if not rows:
            raise LeaseLostError(lease)
        return Step(**rows[0]._asdict())

    params = {"of_step": lease.step_id, "of_epoch": lease.epoch, "result": result}
    return BoundQuery(_END, params, read)


async def end(session: AsyncSession, lease: Lease, result: dict[str, Any]) -> Step:
    """Completes the step with `result`; the last write of its transaction. Raises LeaseLostError."""
    step = await ending(lease, result).answer(session)
    await _settle_reservations(session, lease)
    return step


async def fail(session: AsyncSession, lease: Lease, error: str, *, attempts: int) -> Step:
    """Fails the step for good; the last write of its transaction. Raises LeaseLostError."""
    step = await _release(
        session,
        lease,
        status=StepStatus.FAILED,
        error=error_text(error),
        attempts=attempts,
        waiting_since=None,
        ended_at=func.clock_timestamp(),
    )
    await _settle_reservations(session, lease)
    return step


async def release(
    session: AsyncSession,
    lease: Lease,
    error: str,
    *,
    attempts: int,
    rest_seconds: float,
    keeps_waiting: bool = False,
) -> Step:
    """Releases the step so that any worker can claim it after `rest_seconds`. Raises LeaseLostError.

    With `keeps_waiting`, a wait for a provider continues. Reservations of its calls stay open until the step is retried
    or ends.
    """
    return await _release(
        session,
        lease,
        status=StepStatus.PENDING,
        error=error_text(error),
        attempts=attempts,
        retry_at=func.clock_timestamp() + timedelta(seconds=rest_seconds),
        waiting_since=Step.waiting_since if keeps_waiting else None,
    )


async def wait(
    session: AsyncSession,
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
    seconds = await _WAIT.value(session, params)
    if seconds is None:
        raise LeaseLostError(lease)
    return float(seconds)


def wait_ending(lease: Lease) -> BoundQuery[None]:
    """Ends the wait: the provider has answered."""
    params = {"of_step": lease.step_id, "of_epoch": lease.epoch}
    return BoundQuery(_END_WAIT, params, lambda _: None)


async def _settle_reservations(session: AsyncSession, lease: Lease) -> None:
    """Writes open reservations off as spent: after the step has ended they cannot be settled any more."""
    if lease.unit is not None:
        await lease.unit.flush_deferred()
    await reservations.write_off_step(session, lease.step_id)


async def _release(session: AsyncSession, lease: Lease, **values: Any) -> Step:
    step = await session.scalar(
        update(Step)
        .where(
            Step.id == lease.step_id,
            Step.epoch == lease.epoch,
            Step.status == StepStatus.RUNNING,
        )
        .values(lease_owner=None, lease_until=None, **values)
        .returning(Step)
        .execution_options(populate_existing=True)
    )
    if step is None:
        raise LeaseLostError(lease)
    return step


async def list_steps(
    session: AsyncSession, iteration_id: UUID, kind: StepKind | None = None
) -> list[Step]:
    """The iteration's steps, by kind and index."""
    query = select(Step).where(Step.iteration_id == iteration_id).order_by(Step.kind, Step.index)
    if kind is not None:
        query = query.where(Step.kind == kind)
    return list(await session.scalars(query.execution_options(populate_existing=True)))


def plan_query(
    iteration_id: UUID | None,
) -> BoundQuery[tuple[IterationRow, list[StepRow]]]:
    """The iteration, and those of its steps that are part of the plan (round 0).

    Its `read` raises DeletedError if the iteration was deleted with its agent.
    """

    def read(rows: Sequence[Row]) -> tuple[IterationRow, list[StepRow]]:
        if not rows:
            raise _deleted(iteration_id)
        width = len(IterationRow._fields)
        step_rows = [StepRow(*row[width:]) for row in rows]
        return IterationRow(*rows[0][:width]), [row for row in step_rows if not step_round(row)]

    return BoundQuery(_ITERATION_WITH_STEPS, {"of_iteration": iteration_id}, read)


def step_round(step: Step | StepRow) -> int:
    """0 for planned steps; later rounds query data that Analyzers lacked and repeat their insights."""
    number: int = step.input.get("round", 0)
    return number


async def load_iteration(session: Executor, step: Step) -> IterationRow:
    """The iteration of `step`. Raises DeletedError if it was deleted with its agent."""
    return await iteration_query(step).answer(session)


def iteration_query(step: Step) -> BoundQuery[IterationRow]:
    """The statement of `load_iteration`."""
    assert step.iteration_id is not None, f"a step of kind {step.kind} has no iteration"

    def read(rows: Sequence[Row]) -> IterationRow:
        if not rows:
            raise _deleted(step.iteration_id)
        return IterationRow(*rows[0])

    return BoundQuery(_ITERATION, {"of_iteration": step.iteration_id}, read)


def _deleted(iteration_id: UUID | None) -> DeletedError:
    return DeletedError(f"iteration {iteration_id} was deleted")
