"""Who may work on a step. A lease is a claim with an end; its epoch refuses whoever lost it."""

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
from shared.database.statements import Direct
from shared.database.tables import Step
from shared.database.unit_of_work import UnitOfWork
from shared.enums import StepKind, StepStatus
from shared.errors import TransientError

T = TypeVar("T")

LEASE_SECONDS = 10.0
"""How long a killed worker's step stays blocked, unless the settings say otherwise."""
RENEWALS_PER_LEASE = 3
"""So many renewals but one may be missed before a lease lapses."""


class LeaseLostError(TransientError):
    """Somebody else has the step, or it has ended; nothing of this worker's may be written any more."""

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
    """How long it lasts without being renewed."""
    unit: UnitOfWork | None = field(default=None, compare=False, repr=False)
    """What its holder writes in; None where every transaction is one of its own."""
    is_after_wait: bool = field(default=False, compare=False)
    """Whether the step waited for a provider that was away, and none has answered since."""


_STEPS: Final = cast(Table, Step.__table__)
_OF_STEP: Final = _STEPS.c.id == bindparam("of_step")
_NOW: Final = func.clock_timestamp()
_HOLD: Final = Direct(
    select(_STEPS.c.epoch)
    .where(_OF_STEP, _STEPS.c.status == StepStatus.RUNNING)
    .with_for_update(key_share=True)
)
_TAKEN: Final = (
    update(_STEPS)
    .where(
        _OF_STEP,
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
_TAKE: Final = Direct(_TAKEN)
_TAKE_OF_KINDS: Final = Direct(
    _TAKEN.where(_STEPS.c.kind == any_(bindparam("kinds", type_=ARRAY(Text))))
)


@dataclass(frozen=True)
class Claimed:
    lease: Lease
    step: Step

    @property
    def waited_seconds(self) -> float:
        """Since the step was first asked for, by the database's clock."""
        asked_at, until = self.step.first_requested_at, self.step.lease_until
        if asked_at is None or until is None:
            return 0.0
        return (until - asked_at).total_seconds() - self.lease.seconds

    def is_again(self, other: "Claim") -> bool:
        """Whether `other` is this claim, made anew after it was undone."""
        return isinstance(other, Claimed) and other.lease == self.lease


@dataclass(frozen=True)
class AlreadyEnded:
    step: Step


@dataclass(frozen=True)
class NotYet:
    """Another worker has it, or it rests after a failed try."""

    owner: str | None
    seconds_left: float


@dataclass(frozen=True)
class Gone:
    """The step is not there: its agent was deleted."""


@dataclass(frozen=True)
class OfAnotherKind:
    """The step is not for this worker at all."""

    kind: str


Claim = Claimed | AlreadyEnded | NotYet | Gone | OfAnotherKind


async def claim(
    session: AsyncSession,
    step_id: UUID,
    owner: str,
    *,
    seconds: float = LEASE_SECONDS,
    kinds: Collection[StepKind] | None = None,
) -> Claim:
    """Tries to lease the step for `owner` and `seconds`: a pending one that does not rest, one whose lease has lapsed,
    or a failed one that a person asked to be tried again. Whether its iteration has ended makes no difference.

    Where `kinds` are given, one of another kind is left alone.
    """
    step = await _take(session, step_id, kinds, owner, seconds)
    if step is None and await _reopen(session, step_id, kinds):
        step = await _take(session, step_id, kinds, owner, seconds)
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
    return await _why_not(session, step_id, kinds)


async def _take(
    session: AsyncSession,
    step_id: UUID,
    kinds: Collection[StepKind] | None,
    owner: str,
    seconds: float,
) -> Step | None:
    statement = _TAKE if kinds is None else _TAKE_OF_KINDS
    given: dict[str, Any] = {
        "of_step": step_id,
        "owner": owner,
        "seconds": timedelta(seconds=seconds),
    }
    if kinds is not None:
        given["kinds"] = [str(kind) for kind in kinds]
    taken = await statement.row(session, given)
    return None if taken is None else Step(**taken._asdict())


async def _reopen(session: AsyncSession, step_id: UUID, kinds: Collection[StepKind] | None) -> bool:
    """Makes the step pending as if it had not been tried yet, where it failed and its retry was asked for since.

    Here, and not where it is asked for: only the actor that owns a step's kind may write its status.
    """
    own = true() if kinds is None else Step.kind.in_(kinds)
    reopened = await session.scalar(
        update(Step)
        .where(Step.id == step_id, own, to_be_retried())
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
    return reopened is not None


def to_be_retried() -> ColumnElement[bool]:
    """Whether a step has failed, and a person has asked since that it be tried again."""
    return and_(Step.status == StepStatus.FAILED, Step.retry_requested_at > Step.ended_at)


async def _why_not(
    session: AsyncSession, step_id: UUID, kinds: Collection[StepKind] | None
) -> Claim:
    step = await session.get(Step, step_id)
    if step is None:
        return Gone()
    if kinds is not None and step.kind not in kinds:
        return OfAnotherKind(step.kind)
    if step.status in (StepStatus.COMPLETED, StepStatus.FAILED):
        return AlreadyEnded(step)
    free_at = func.coalesce(Step.lease_until, Step.retry_at)
    left = await session.scalar(
        select(func.extract("epoch", free_at - func.clock_timestamp())).where(Step.id == step_id)
    )
    return NotYet(step.lease_owner, max(float(left or 0), 0.0))


async def retried_epoch(session: AsyncSession, step_id: UUID) -> int:
    """The step's epoch at the last manual retry request; 0 if there was none."""
    return await session.scalar(select(Step.retried_epoch).where(Step.id == step_id)) or 0


async def ensure_held(session: AsyncSession, lease: Lease) -> None:
    """Locks the step's row for this transaction, or raises LeaseLostError.

    Who writes rows that name the step does not wait for that: a merge moves what running steps have made.
    """
    epoch = await _HOLD.value(session, {"of_step": lease.step_id})
    if epoch != lease.epoch:
        raise LeaseLostError(lease)


@asynccontextmanager
async def leased_transaction(database: Database, lease: Lease) -> AsyncIterator[AsyncSession]:
    """A transaction that only the holder of `lease` can begin, and that nobody can take the step from.

    Where the lease has a unit of work, it is part of that, and committed with it.
    """
    if lease.unit is not None:
        async with lease.unit.transaction() as session:
            yield session
        return
    async with database.transaction() as session:
        await ensure_held(session, lease)
        yield session


async def renew(session: AsyncSession, lease: Lease) -> None:
    """Puts the lease's end off, or raises LeaseLostError. A lapsed lease that nobody took is still its holder's."""
    renewed = await session.scalar(
        update(Step)
        .where(
            Step.id == lease.step_id,
            Step.epoch == lease.epoch,
            Step.status == StepStatus.RUNNING,
        )
        .values(lease_until=func.clock_timestamp() + timedelta(seconds=lease.seconds))
        .returning(Step.id)
    )
    if renewed is None:
        raise LeaseLostError(lease)


async def while_held(database: Database, lease: Lease, work: Awaitable[T]) -> T:
    """Awaits `work` while renewing the lease; cancels it and raises LeaseLostError when the lease is lost."""
    try:
        async with asyncio.TaskGroup() as group:
            keeper = group.create_task(_keep(database, lease))
            result = await work
            keeper.cancel()
        return result
    except BaseExceptionGroup as errors:
        first = errors.exceptions[0]
        raise first from first.__cause__


async def _keep(database: Database, lease: Lease) -> None:
    while True:
        await asyncio.sleep(lease.seconds / RENEWALS_PER_LEASE)
        try:
            async with database.transaction() as session:
                await renew(session, lease)
        except LeaseLostError:
            raise
        except TransientError:
            # Postgres is away: the work cannot be written either; what it says when it is back decides.
            continue
