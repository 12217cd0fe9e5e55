"""Deliveries: created from inbox items, claimed, recorded, retried.

A worker that claims a delivery has it until its lease expires; after that, the epoch rejects its writes. A delivery
that is recorded as delivered is never claimed again.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final
from uuid import UUID, uuid4

from sqlalchemy import ColumnElement, and_, case, func, or_, select, update
from sqlalchemy.dialects.postgresql import insert

from shared.database import ids
from shared.database.statements import BoundQuery, CompiledStatement
from shared.database.tables import Delivery, Destination, InboxItem
from shared.database.text import error_text
from shared.database.transaction import Transaction
from shared.enums import DeliveryStatus
from shared.errors import TransientError

RETRY_PERIOD: Final = timedelta(days=3)
"""For how long failed deliveries are retried."""


class DeliveryLostError(TransientError):
    """Another worker has the delivery, or it is gone; this worker must not write anything any more."""

    def __init__(self, lease: "DeliveryLease") -> None:
        super().__init__(
            f"lost delivery {lease.delivery_id}: epoch {lease.epoch} is no longer its own",
            counts=False,
        )


@dataclass(frozen=True)
class DeliveryLease:
    delivery_id: UUID
    destination_id: UUID
    inbox_item_id: UUID | None
    epoch: int
    attempts: int
    """Failed attempts before this one."""


_NEEDS_WORK: Final = CompiledStatement("""
select exists (select from inbox_items where dispatched_at is null)
  or exists (select from deliveries where status = 'failed' and retry_requested_at is not null)
  or exists (select from deliveries where status = 'pending' and next_attempt_at <= clock_timestamp())
""")


def needs_work() -> BoundQuery[bool]:
    """Whether `dispatch`, `reset_retried` or `claim` have anything to do."""
    return BoundQuery(_NEEDS_WORK, {}, lambda rows: bool(rows[0][0]))


async def dispatch(transaction: Transaction, limit: int) -> int:
    """Creates deliveries of new inbox items, for each active destination that is older than the item.

    Returns the number of items, at most `limit`. Safe to run concurrently.
    """
    item_ids = await transaction.scalars(
        select(InboxItem.id)
        .where(InboxItem.dispatched_at.is_(None))
        .order_by(InboxItem.created_at)
        .limit(limit)
        .with_for_update(skip_locked=True, key_share=True)
    )
    items = list(item_ids)
    if not items:
        return 0
    pairs = await transaction.execute(
        select(Destination.id, InboxItem.id)
        .join(Destination, _is_for_item())
        .where(InboxItem.id.in_(items))
    )
    await _insert(transaction, [(destination, item) for destination, item in pairs])
    await transaction.execute(
        update(InboxItem)
        .where(InboxItem.id.in_(items))
        .values(dispatched_at=func.clock_timestamp())
    )
    return len(items)


def _is_for_item() -> ColumnElement[bool]:
    return and_(
        Destination.owner_id == InboxItem.owner_id,
        or_(Destination.agent_id.is_(None), Destination.agent_id == InboxItem.agent_id),
        Destination.active,
        Destination.created_at <= InboxItem.created_at,
    )


async def _insert(transaction: Transaction, pairs: Sequence[tuple[UUID, UUID]]) -> None:
    if not pairs:
        return
    values = [
        {
            "id": ids.delivery_id(destination, item),
            "destination_id": destination,
            "inbox_item_id": item,
            "give_up_at": func.clock_timestamp() + RETRY_PERIOD,
        }
        for destination, item in pairs
    ]
    await transaction.execute(insert(Delivery).values(values).on_conflict_do_nothing())


async def create_test(transaction: Transaction, destination_id: UUID) -> UUID:
    """Creates a delivery without inbox item, which is tried once; returns its id."""
    delivery_id = uuid4()
    await transaction.execute(
        insert(Delivery).values(
            id=delivery_id, destination_id=destination_id, give_up_at=func.clock_timestamp()
        )
    )
    return delivery_id


async def request_retry(transaction: Transaction, delivery_id: UUID) -> bool:
    """Requests a retry; False if the delivery has not failed. Idempotent."""
    failed_id = await transaction.scalar(
        update(Delivery)
        .where(Delivery.id == delivery_id, Delivery.status == DeliveryStatus.FAILED)
        .values(retry_requested_at=func.clock_timestamp())
        .returning(Delivery.id)
    )
    return failed_id is not None


async def reset_retried(transaction: Transaction) -> None:
    """Makes deliveries with a retry request pending again, and resets them. A test is still tried once."""
    now = func.clock_timestamp()
    retry_period = case((Delivery.inbox_item_id.is_(None), timedelta()), else_=RETRY_PERIOD)
    await transaction.execute(
        update(Delivery)
        .where(Delivery.retry_requested_at.is_not(None), Delivery.status == DeliveryStatus.FAILED)
        .values(
            status=DeliveryStatus.PENDING,
            attempts=0,
            next_attempt_at=now,
            give_up_at=now + retry_period,
            ended_at=None,
            retry_requested_at=None,
        )
    )


async def claim(
    transaction: Transaction,
    worker: str,
    *,
    seconds: float,
    limit: int,
    per_destination: int,
    running_by_destination: Mapping[UUID, int],
) -> Sequence[DeliveryLease]:
    """Leases due deliveries to `worker` for `seconds`, longest overdue first.

    At most `limit`, and at most `per_destination` of one destination, counting those that the worker has already
    (`running_by_destination`). Returns none only if nothing more is due; it may return fewer than are due if one
    destination has many, so call it again.
    """
    count_by_destination, selection = Counter(running_by_destination), []
    for delivery_id, destination_id in await _due(
        transaction, limit, per_destination, running_by_destination
    ):
        if count_by_destination[destination_id] < per_destination:
            count_by_destination[destination_id] += 1
            selection.append(delivery_id)
    if not selection:
        return []
    rows = await transaction.execute(
        update(Delivery)
        .where(Delivery.id.in_(selection))
        .values(
            epoch=Delivery.epoch + 1,
            lease_owner=worker,
            next_attempt_at=func.clock_timestamp() + timedelta(seconds=seconds),
        )
        .returning(
            Delivery.id,
            Delivery.destination_id,
            Delivery.inbox_item_id,
            Delivery.epoch,
            Delivery.attempts,
        )
    )
    return [DeliveryLease(*row) for row in rows]


async def _due(
    transaction: Transaction,
    limit: int,
    per_destination: int,
    running_by_destination: Mapping[UUID, int],
) -> Iterable[tuple[UUID, UUID]]:
    """Due deliveries with their destinations, except destinations at their limit. Locked until the transaction ends."""
    full_destinations = [
        destination
        for destination, number in running_by_destination.items()
        if number >= per_destination
    ]
    rows = await transaction.execute(
        select(Delivery.id, Delivery.destination_id)
        .where(
            Delivery.status == DeliveryStatus.PENDING,
            Delivery.next_attempt_at <= func.clock_timestamp(),
            Delivery.destination_id.not_in(full_destinations),
        )
        .order_by(Delivery.next_attempt_at)
        .limit(limit)
        .with_for_update(skip_locked=True, key_share=True)
    )
    return [(row.id, row.destination_id) for row in rows]


async def record_delivered(
    transaction: Transaction, lease: DeliveryLease, status_code: int | None
) -> None:
    """Records a successful delivery. Raises DeliveryLostError."""
    await _end_attempt(
        transaction,
        lease,
        status=DeliveryStatus.DELIVERED,
        attempts=Delivery.attempts + 1,
        status_code=status_code,
        error=None,
        ended_at=func.clock_timestamp(),
    )


async def record_failed(
    transaction: Transaction, lease: DeliveryLease, error: str, status_code: int | None
) -> None:
    """Records a permanent failure; only a user can request a retry. Raises DeliveryLostError."""
    await _end_attempt(
        transaction,
        lease,
        status=DeliveryStatus.FAILED,
        attempts=Delivery.attempts + 1,
        status_code=status_code,
        error=error_text(error),
        ended_at=func.clock_timestamp(),
    )


async def record_failed_attempt(
    transaction: Transaction,
    lease: DeliveryLease,
    error: str,
    status_code: int | None,
    *,
    delay_seconds: float,
) -> DeliveryStatus:
    """Records a failed attempt and schedules the next: after `delay_seconds`, for the last time at `give_up_at`, and
    none after that.

    Returns the new status. Raises DeliveryLostError.
    """
    now = func.clock_timestamp()
    is_last = Delivery.give_up_at <= now
    next_attempt_at = now + timedelta(seconds=delay_seconds)
    return await _end_attempt(
        transaction,
        lease,
        status=case((is_last, DeliveryStatus.FAILED), else_=DeliveryStatus.PENDING),
        attempts=Delivery.attempts + 1,
        next_attempt_at=func.least(next_attempt_at, Delivery.give_up_at),
        status_code=status_code,
        error=error_text(error),
        ended_at=case((is_last, now)),
    )


async def release(transaction: Transaction, lease: DeliveryLease) -> bool:
    """Releases the delivery as if it had not been claimed; False if this worker has lost it."""
    return (
        await _update_leased(transaction, lease, next_attempt_at=func.clock_timestamp()) is not None
    )


async def _end_attempt(
    transaction: Transaction, lease: DeliveryLease, **values: Any
) -> DeliveryStatus:
    status = await _update_leased(transaction, lease, **values)
    if status is None:
        raise DeliveryLostError(lease)
    return DeliveryStatus(status)


async def _update_leased(
    transaction: Transaction, lease: DeliveryLease, **values: Any
) -> str | None:
    status: str | None = await transaction.scalar(
        update(Delivery)
        .where(
            Delivery.id == lease.delivery_id,
            Delivery.epoch == lease.epoch,
            Delivery.status == DeliveryStatus.PENDING,
        )
        .values(lease_owner=None, **values)
        .returning(Delivery.status)
    )
    return status
