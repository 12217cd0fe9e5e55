"""Step leases. A lease is a claim that expires; its epoch is the fencing token that rejects a worker that lost it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final, TypeVar, cast
from uuid import UUID

from sqlalchemy import (
    ARRAY,
    ColumnElement,
    Interval,
    Table,
    Text,
    and_,
    any_,
    bindparam,
    func,
    or_,
    select,
    true,
    update,
)
from sqlalchemy.ext.asyncio import AsyncSession

from shared.database.engine import Database
from shared.database.statements import CompiledStatement
from shared.database.tables import Step
from shared.database.unit_of_work import UnitOfWork
from shared.enums import StepKind, StepStatus
from shared.errors import TransientError

T = TypeVar("T")

LEASE_SECONDS = 10.0
"""Default duration of a lease: how long the step of a killed worker stays blocked."""
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
    epoch: int
    owner: str
    seconds: float
    """Duration without renewal."""
    unit: UnitOfWork | None = field(default=None, compare=False, repr=False)
    """The unit of work that the worker writes in; None if it uses separate transactions."""
    is_after_wait: bool = field(default=False, compare=False)
    """Whether the step waited for an unavailable provider, and none has answered since."""


_STEPS: Final = cast(Table, Step.__table__)
_STEP_ID: Final = _STEPS.c.id == bindparam("of_step")
_NOW: Final = func.clock_timestamp()
_LOCK_STEP: Final = CompiledStatement(
    select(_STEPS.c.epoch)
    .where(_STEP_ID, _STEPS.c.status == StepStatus.RUNNING)
    .with_for_update(key_share=True)
)
_CLAIM_UPDATE: Final = (
    update(_STEPS)
    .where(
        _STEP_ID,
        or_(
            (_STEPS.c.status == StepStatus.PENDING)
            & (func.coalesce(_STEPS.c.retry_at, _NOW) <= _NOW),
            (_STEPS.c.status == StepStatus.RUNNING) & (_STEPS.c.lease_until < _NOW),
        ),
    )
    .values(
        status=StepStatus.RUNNING,
        epoch=_STEPS.c.epoch + 1,
        lease_owner=bindparam("owner"),
        lease_until=_NOW + bindparam("seconds", type_=Interval),
        started_at=func.coalesce(_STEPS.c.started_at, _NOW),
    )
    .returning(_STEPS)
)
_CLAIM: Final = CompiledStatement(_CLAIM_UPDATE)
_CLAIM_OF_KINDS: Final = CompiledStatement(
    _CLAIM_UPDATE.where(_STEPS.c.kind == any_(bindparam("kinds", type_=ARRAY(Text))))
)


@dataclass(frozen=True)
class Claimed:
    lease: Lease
    step: Step

    @property
    def waited_seconds(self) -> float:
        """Time since the step was first requested, by the database's clock."""
        requested_at, until = self.step.first_requested_at, self.step.lease_until
        if requested_at is None or until is None:
            return 0.0
        return (until - requested_at).total_seconds() - self.lease.seconds

    def is_same(self, other_claim: "Claim") -> bool:
        """Whether `other_claim` is the same claim, repeated after a rollback."""
        return isinstance(other_claim, Claimed) and other_claim.lease == self.lease


@dataclass(frozen=True)
class AlreadyEnded:
    step: Step


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


Claim = Claimed | AlreadyEnded | Unavailable | NotFound | WrongKind


async def claim(
    session: AsyncSession,
    step_id: UUID,
    owner: str,
    *,
    seconds: float = LEASE_SECONDS,
    kinds: Collection[StepKind] | None = None,
) -> Claim:
    """Tries to lease a step for `owner` and `seconds`.

    A step can be claimed if it is pending and not in backoff, if its lease has expired, or if it failed and a user
    requested a retry. Whether its iteration has ended makes no difference. A step of a kind not in `kinds` is left
    alone.
    """
    step = await _claim_step(session, step_id, kinds, owner, seconds)
    if step is None and await _reopen(session, step_id, kinds):
        step = await _claim_step(session, step_id, kinds, owner, seconds)
    if step is not None:
        lease = Lease(
            step.id,
            step.iteration_id,
            step.agent_id,
            step.epoch,
            owner=owner,
            seconds=seconds,
            is_after_wait=step.waiting_since is not None,
        )
        return Claimed(lease, step)
    return await _rejection(session, step_id, kinds)


async def _claim_step(
    session: AsyncSession,
    step_id: UUID,
    kinds: Collection[StepKind] | None,
    owner: str,
    seconds: float,
) -> Step | None:
    statement = _CLAIM if kinds is None else _CLAIM_OF_KINDS
    params: dict[str, Any] = {
        "of_step": step_id,
        "owner": owner,
        "seconds": timedelta(seconds=seconds),
    }
    if kinds is not None:
        params["kinds"] = [str(kind) for kind in kinds]
    row = await statement.row(session, params)
    return None if row is None else Step(**row._asdict())


async def _reopen(session: AsyncSession, step_id: UUID, kinds: Collection[StepKind] | None) -> bool:
    """Makes a failed step pending and resets it, if a retry was requested since it failed.

    Done here and not by the API, because only the service that owns a step's kind may write its status.
    """
    is_own_kind = true() if kinds is None else Step.kind.in_(kinds)
    reopened_id = await session.scalar(
        update(Step)
        .where(Step.id == step_id, is_own_kind, is_retry_requested())
        .values(
            status=StepStatus.PENDING,
            attempts=0,
            error=None,
            retry_at=None,
            waits=0,
            ended_at=None,
            retried_epoch=Step.epoch,
        )
        .returning(Step.id)
        .execution_options(synchronize_session=False)
    )
    return reopened_id is not None


def is_retry_requested() -> ColumnElement[bool]:
    """Whether a step has failed and a user has requested a retry since."""
    return and_(Step.status == StepStatus.FAILED, Step.retry_requested_at > Step.ended_at)


async def _rejection(
    session: AsyncSession, step_id: UUID, kinds: Collection[StepKind] | None
) -> Claim:
    step = await session.get(Step, step_id)
    if step is None:
        return NotFound()
    if kinds is not None and step.kind not in kinds:
        return WrongKind(step.kind)
    if step.status in (StepStatus.COMPLETED, StepStatus.FAILED):
        return AlreadyEnded(step)
    free_at = func.coalesce(Step.lease_until, Step.retry_at)
    seconds_left = await session.scalar(
        select(func.extract("epoch", free_at - func.clock_timestamp())).where(Step.id == step_id)
    )
    return Unavailable(step.lease_owner, max(float(seconds_left or 0), 0.0))


async def retried_epoch(session: AsyncSession, step_id: UUID) -> int:
    """The step's epoch at the last manual retry request; 0 if there was none."""
    return await session.scalar(select(Step.retried_epoch).where(Step.id == step_id)) or 0


async def lock_leased_step(session: AsyncSession, lease: Lease) -> None:
    """Locks the step's row for this transaction. Raises LeaseLostError.

    The lock does not block inserts that reference the step, which a merge may do for running steps.
    """
    epoch = await _LOCK_STEP.value(session, {"of_step": lease.step_id})
    if epoch != lease.epoch:
        raise LeaseLostError(lease)


@asynccontextmanager
async def leased_transaction(database: Database, lease: Lease) -> AsyncIterator[AsyncSession]:
    """A transaction that requires the lease, and during which no other worker can claim the step.

    If the lease has a unit of work, this is part of it and is committed with it.
    """
    if lease.unit is not None:
        async with lease.unit.transaction() as session:
            yield session
        return
    async with database.transaction() as session:
        await lock_leased_step(session, lease)
        yield session


async def renew(session: AsyncSession, lease: Lease) -> None:
    """Extends the lease. Raises LeaseLostError. An expired lease that no other worker claimed is still valid."""
    renewed_id = await session.scalar(
        update(Step)
        .where(
            Step.id == lease.step_id,
            Step.epoch == lease.epoch,
            Step.status == StepStatus.RUNNING,
        )
        .values(lease_until=func.clock_timestamp() + timedelta(seconds=lease.seconds))
        .returning(Step.id)
    )
    if renewed_id is None:
        raise LeaseLostError(lease)


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
            async with database.transaction() as session:
                await renew(session, lease)
        except LeaseLostError:
            raise
        except TransientError:
            # PostgreSQL is unavailable, so the work cannot be written either. Try again at the next renewal.
            continue
