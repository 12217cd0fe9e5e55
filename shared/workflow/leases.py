"""Step leases. A lease is a claim that expires; its epoch is the fencing token that rejects a worker that lost it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Final, TypeVar
from uuid import UUID

from shared.billing.call_ledger import Holding
from shared.database.engine import Database
from shared.database.statements import STRICT, BoundQuery, CompiledStatement, Row
from shared.database.tables.agents import BYTES_PER_TOKEN
from shared.database.transaction import Transaction
from shared.database.unit_of_work import UnitOfWork
from shared.durations import LEASE_SECONDS
from shared.enums import StepKind, StepStatus
from shared.errors import TransientError
from shared.workflow.agent_row import AGENT_COLUMNS, AgentRow
from shared.workflow.iterations import STEP_COLUMNS, StepRow

T = TypeVar("T")

RENEWALS_PER_LEASE = 3
"""Renewals per lease duration; all but one may fail before the lease expires."""


class LeaseLostError(TransientError):
    """Another worker has the step, or it has ended; this worker must not write anything any more."""

    is_final = True

    def __init__(self, lease: "Lease") -> None:
        super().__init__(
            f"lost step {lease.step_id}: epoch {lease.epoch} is no longer its own", counts=False
        )


@dataclass(frozen=True)
class Lease:
    step_id: UUID
    iteration_id: UUID | None
    agent_id: UUID
    user_id: UUID
    """The owner of the agent."""
    epoch: int
    owner: str
    seconds: float
    """Duration without renewal."""
    agent: AgentRow = field(compare=False, repr=False)
    """The agent when the step was loaded."""
    bytes_per_token: float = field(default=BYTES_PER_TOKEN, compare=False)
    """See `Agent.bytes_per_token`."""
    holding: Holding = field(default_factory=Holding, compare=False, repr=False)
    """What the step holds for its next calls."""
    unit: UnitOfWork | None = field(default=None, compare=False, repr=False)
    """The unit of work that the worker writes in; None if it uses separate transactions."""
    is_after_wait: bool = field(default=False, compare=False)
    """Whether the step waited for an unavailable provider, and none has answered since."""
    waited_seconds: float = field(default=0.0, compare=False)
    """How long it has waited then."""

    @property
    def is_first(self) -> bool:
        """Whether no worker has had the step before."""
        return self.epoch == 1


# For the journal of the graph, as long as the transaction lasts.
_NAME_STEP_SQL: Final = "set_config('vigil.step_id', cast(:of_step as text), true)"
# "is true" keeps PostgreSQL from looking for the id in the index of all open steps.
_LOCK_STEP: Final = CompiledStatement(f"""
with held as (
  select epoch from steps
  where id = :of_step and (status = '{StepStatus.RUNNING}') is true for no key update
)
select (select epoch from held) as epoch, {_NAME_STEP_SQL},
  case when :strict and (select epoch from held) is distinct from :of_epoch then forbid_commit() end as is_undone
""")
_LOAD: Final = CompiledStatement(f"""
select {STEP_COLUMNS}, epoch, lease_owner, lease_until, retry_at, waiting_since, waits, retried_epoch,
  retry_requested_at > ended_at as is_retry_requested, owner_id, bytes_per_token, clock_timestamp() as now,
  {AGENT_COLUMNS}
from steps join agents on agents.id = steps.agent_id
where steps.id = :of_step
""")
_CLAIM: Final = CompiledStatement(f"""
with claimed as (
  update steps
  set status = '{StepStatus.RUNNING}', epoch = epoch + 1, lease_owner = :owner,
    lease_until = clock_timestamp() + :seconds, started_at = coalesce(started_at, :begun_at)
  where id = :of_step and epoch = cast(:of_epoch as integer) - 1 and (
    (status = '{StepStatus.PENDING}' and coalesce(retry_at, clock_timestamp()) <= clock_timestamp())
    or (status = '{StepStatus.RUNNING}' and lease_until < clock_timestamp())) is true
  returning epoch
)
select (select epoch from claimed) as epoch, {_NAME_STEP_SQL},
  case when :strict and not exists (select from claimed) then forbid_commit() end as is_undone
""")
_REOPEN: Final = CompiledStatement(f"""
update steps
set status = '{StepStatus.PENDING}', attempts = 0, error = null, retry_at = null, waits = 0, ended_at = null,
  retried_epoch = epoch
where id = :of_step and status = '{StepStatus.FAILED}' and retry_requested_at > ended_at
""")
_RETRIED_EPOCH: Final = CompiledStatement("select retried_epoch from steps where id = :of_step")
_RENEW: Final = CompiledStatement(f"""
update steps set lease_until = clock_timestamp() + :seconds
where id = :of_step and epoch = :of_epoch and (status = '{StepStatus.RUNNING}') is true
returning epoch
""")


@dataclass(frozen=True)
class LostWorker:
    """A worker whose lease expired."""

    worker: str | None
    since: datetime
    """When the step was requested, for its first worker; otherwise the latest time at which it was claimed."""
    until: datetime


@dataclass(frozen=True)
class Claimable:
    """The step, and the lease that `claim` takes."""

    lease: Lease
    step: StepRow
    begun_at: datetime
    """When the worker has loaded the step, by the database's clock."""
    claims: int = 1
    """How many workers have claimed it, with this one, since the last manual retry; without those that ended in waiting
    for a provider.
    """
    lost: LostWorker | None = None
    """The worker before, if it neither ended nor released the step."""

    @property
    def waited_seconds(self) -> float:
        """Since the step was first requested."""
        return (self.begun_at - (self.step.first_requested_at or self.begun_at)).total_seconds()


@dataclass(frozen=True)
class AlreadyEnded:
    step: StepRow


@dataclass(frozen=True)
class Unavailable:
    """Another worker has the step, or it is in backoff after a failed attempt."""

    owner: str | None
    seconds_left: float


@dataclass(frozen=True)
class NotFound:
    """The step does not exist: its agent was deleted."""


@dataclass(frozen=True)
class WrongKind:
    """The step is of a kind that this worker does not handle."""

    kind: str


@dataclass(frozen=True)
class RetryRequested:
    """The step has failed, and a user has requested a retry since: see `reopen`."""


LoadedStep = Claimable | AlreadyEnded | Unavailable | NotFound | WrongKind | RetryRequested


def load(
    step_id: UUID,
    owner: str,
    *,
    seconds: float = LEASE_SECONDS,
    kinds: Collection[StepKind] | None = None,
) -> BoundQuery[LoadedStep]:
    """Whether `owner` can claim the step for `seconds`. Nothing is written.

    A step can be claimed if it is pending and not in backoff, or if its lease has expired. Whether its iteration has
    ended makes no difference. A step of a kind not in `kinds` is left alone.
    """

    def read(rows: Sequence[Row]) -> LoadedStep:
        if not rows:
            return NotFound()
        row = rows[0]
        step = StepRow(*row[: len(StepRow._fields)])
        if kinds is not None and step.kind not in kinds:
            return WrongKind(step.kind)
        if step.status == StepStatus.FAILED and row.is_retry_requested:
            return RetryRequested()
        if step.status in (StepStatus.COMPLETED, StepStatus.FAILED):
            return AlreadyEnded(step)
        free_at = row.lease_until if step.status == StepStatus.RUNNING else row.retry_at
        if step.status == StepStatus.PLANNED or (free_at is not None and free_at > row.now):
            return Unavailable(
                row.lease_owner, 0.0 if free_at is None else (free_at - row.now).total_seconds()
            )
        lease = Lease(
            step.id,
            step.iteration_id,
            step.agent_id,
            row.owner_id,
            row.epoch + 1,
            owner=owner,
            seconds=seconds,
            agent=AgentRow(*row[-len(AgentRow._fields) :]),
            bytes_per_token=row.bytes_per_token,
            is_after_wait=row.waiting_since is not None,
            waited_seconds=_seconds_since(row.waiting_since, row.now),
        )
        claims = lease.epoch - row.retried_epoch - row.waits
        return Claimable(lease, step, row.now, claims, _lost_worker(row, step, lease))

    return BoundQuery(_LOAD, {"of_step": step_id}, read)


def _seconds_since(moment: datetime | None, now: datetime) -> float:
    return 0.0 if moment is None else (now - moment).total_seconds()


def _lost_worker(row: Row, step: StepRow, lease: Lease) -> LostWorker | None:
    if step.status != StepStatus.RUNNING or row.lease_until is None:
        return None
    latest_claim = row.lease_until - timedelta(seconds=lease.seconds)
    since = step.first_requested_at if row.epoch == 1 else latest_claim
    return LostWorker(row.lease_owner, since or latest_claim, row.lease_until)


def claim_query(lease: Lease, begun_at: datetime) -> BoundQuery[None]:
    """Claims the step by the lease that `load` has offered, for a worker that began then.

    Its `read` raises LeaseLostError if another worker was faster.
    """
    params = {
        "of_step": lease.step_id,
        "of_epoch": lease.epoch,
        "owner": lease.owner,
        "seconds": timedelta(seconds=lease.seconds),
        "begun_at": begun_at,
        STRICT: False,
    }
    return BoundQuery(_CLAIM, params, partial(_check_epoch, lease))


async def reopen(transaction: Transaction, step_id: UUID) -> None:
    """Makes a failed step pending and resets it, if a retry was requested since it failed.

    Done here and not by the API, because only the service that owns a step's kind may write its status.
    """
    await _REOPEN.run(transaction, {"of_step": step_id})


async def retried_epoch(transaction: Transaction, step_id: UUID) -> int:
    """The step's epoch at the last manual retry request; 0 if there was none."""
    return await _RETRIED_EPOCH.value(transaction, {"of_step": step_id}) or 0


def fence(lease: Lease) -> BoundQuery[None]:
    """Locks the step's row for the transaction. Its `read` raises LeaseLostError.

    The lock does not block inserts that reference the step, which a merge may do for running steps.
    """
    params = {"of_step": lease.step_id, "of_epoch": lease.epoch, STRICT: False}
    return BoundQuery(_LOCK_STEP, params, partial(_check_epoch, lease))


def _check_epoch(lease: Lease, rows: Sequence[Row]) -> None:
    if not rows or rows[0].epoch != lease.epoch:
        raise LeaseLostError(lease)


@asynccontextmanager
async def leased_transaction(database: Database, lease: Lease) -> AsyncIterator[Transaction]:
    """A transaction that requires the lease, and during which no other worker can claim the step.

    If the lease has a unit of work, this is part of it and is committed with it.
    """
    if lease.unit is not None:
        async with lease.unit.transaction() as transaction:
            yield transaction
        return
    async with database.transaction() as transaction:
        await fence(lease).execute(transaction)
        yield transaction


def renewal(lease: Lease) -> BoundQuery[None]:
    """Extends the lease. Its `read` raises LeaseLostError. An expired lease that no other worker claimed is still valid."""
    params = {
        "of_step": lease.step_id,
        "of_epoch": lease.epoch,
        "seconds": timedelta(seconds=lease.seconds),
    }
    return BoundQuery(_RENEW, params, partial(_check_epoch, lease))


async def run_while_renewing(database: Database, lease: Lease, work: Awaitable[T]) -> T:
    """Awaits `work` while renewing the lease; cancels it and raises LeaseLostError if the lease is lost."""
    try:
        async with asyncio.TaskGroup() as group:
            renewal = group.create_task(_renew_forever(database, lease))
            result = await work
            renewal.cancel()
        return result
    except BaseExceptionGroup as errors:
        first = errors.exceptions[0]
        raise first from first.__cause__


async def _renew_forever(database: Database, lease: Lease) -> None:
    while True:
        await asyncio.sleep(lease.seconds / RENEWALS_PER_LEASE)
        try:
            if lease.unit is None or not await lease.unit.commit_claim():
                await database.run(renewal(lease))
        except LeaseLostError:
            raise
        except TransientError:
            # PostgreSQL is unavailable, so the work cannot be written either. Try again at the next renewal.
            continue
