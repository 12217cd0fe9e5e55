"""Deliveries: made of inbox items, claimed, recorded, tried again.

Whoever claims one has it until its lease lapses; the epoch refuses what they write later. One that is recorded as
delivered is never claimed again.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final
from uuid import UUID, uuid4

from sqlalchemy import ColumnElement, and_, case, func, or_, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from shared.database import ids
from shared.database.tables import Delivery, Destination, InboxItem
from shared.database.text import error_text
from shared.enums import DeliveryStatus
from shared.errors import TransientError

PATIENCE: Final = timedelta(days=3)
"""For how long what fails is tried again."""


class DeliveryLostError(TransientError):
    """Somebody else has the delivery, or it is gone; nothing of this worker's may be written any more."""

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
    """Those that have failed before this one."""


async def dispatch(session: AsyncSession, limit: int) -> int:
    """Makes a delivery of each inbox item that has none yet, for each active destination that is older than the item.

    Returns how many items that were, at most `limit`. Any number may do it side by side.
    """
    found = await session.scalars(
        select(InboxItem.id)
        .where(InboxItem.dispatched_at.is_(None))
        .order_by(InboxItem.created_at)
        .limit(limit)
        .with_for_update(skip_locked=True, key_share=True)
    )
    items = list(found)
    if not items:
        return 0
    pairs = await session.execute(
        select(Destination.id, InboxItem.id)
        .join(Destination, _is_for_item())
        .where(InboxItem.id.in_(items))
    )
    await _make(session, [(destination, item) for destination, item in pairs])
    await session.execute(
        update(InboxItem)
        .where(InboxItem.id.in_(items))
        .values(dispatched_at=func.clock_timestamp())
        .execution_options(synchronize_session=False)
    )
    return len(items)


def _is_for_item() -> ColumnElement[bool]:
    return and_(
        Destination.owner_id == InboxItem.owner_id,
        or_(Destination.agent_id.is_(None), Destination.agent_id == InboxItem.agent_id),
        Destination.active,
        Destination.created_at <= InboxItem.created_at,
    )


async def _make(session: AsyncSession, pairs: Sequence[tuple[UUID, UUID]]) -> None:
    if not pairs:
        return
    made = [
        {
            "id": ids.delivery_id(destination, item),
            "destination_id": destination,
            "inbox_item_id": item,
            "give_up_at": func.clock_timestamp() + PATIENCE,
        }
        for destination, item in pairs
    ]
    await session.execute(insert(Delivery).values(made).on_conflict_do_nothing())


async def make_test(session: AsyncSession, destination_id: UUID) -> UUID:
    """A delivery of no inbox item, which is tried once; its id."""
    delivery_id = uuid4()
    await session.execute(
        insert(Delivery).values(
            id=delivery_id, destination_id=destination_id, give_up_at=func.clock_timestamp()
        )
    )
    return delivery_id


async def ask_for_retry(session: AsyncSession, delivery_id: UUID) -> bool:
    """Wishes that it be tried again, twice as once; False where it has not failed."""
    wished = await session.scalar(
        update(Delivery)
        .where(Delivery.id == delivery_id, Delivery.status == DeliveryStatus.FAILED)
        .values(retry_requested_at=func.clock_timestamp())
        .returning(Delivery.id)
        .execution_options(synchronize_session=False)
    )
    return wished is not None


async def take_up_retries(session: AsyncSession) -> None:
    """Makes those whose retry was wished pending again, as if they had not been tried yet. A test is still tried once."""
    now = func.clock_timestamp()
    patience = case((Delivery.inbox_item_id.is_(None), timedelta()), else_=PATIENCE)
    await session.execute(
        update(Delivery)
        .where(Delivery.retry_requested_at.is_not(None), Delivery.status == DeliveryStatus.FAILED)
        .values(
            status=DeliveryStatus.PENDING,
            attempts=0,
            next_attempt_at=now,
            give_up_at=now + patience,
            ended_at=None,
            retry_requested_at=None,
        )
        .execution_options(synchronize_session=False)
    )


async def claim(
    session: AsyncSession,
    worker: str,
    *,
    seconds: float,
    limit: int,
    of_one: int,
    held: Mapping[UUID, int],
) -> Sequence[DeliveryLease]:
    """Leases what is due to `worker` for `seconds`, what has waited longest first: at most `limit`, and of each
    destination so many that the worker has `of_one` of it, who has `held` some by destination already.

    Nothing where nothing more is due; fewer than are due where one destination has many: ask again then.
    """
    having, chosen = Counter(held), []
    for delivery_id, destination_id in await _due(session, limit, of_one, held):
        if having[destination_id] < of_one:
            having[destination_id] += 1
            chosen.append(delivery_id)
    if not chosen:
        return []
    claimed = await session.execute(
        update(Delivery)
        .where(Delivery.id.in_(chosen))
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
        .execution_options(synchronize_session=False)
    )
    return [DeliveryLease(*row) for row in claimed]


async def _due(
    session: AsyncSession, limit: int, of_one: int, held: Mapping[UUID, int]
) -> Iterable[tuple[UUID, UUID]]:
    """Deliveries with their destinations, of whom nobody has `of_one` yet. They are locked until the transaction ends."""
    full = [destination for destination, number in held.items() if number >= of_one]
    found = await session.execute(
        select(Delivery.id, Delivery.destination_id)
        .where(
            Delivery.status == DeliveryStatus.PENDING,
            Delivery.next_attempt_at <= func.clock_timestamp(),
            Delivery.destination_id.not_in(full),
        )
        .order_by(Delivery.next_attempt_at)
        .limit(limit)
        .with_for_update(skip_locked=True, key_share=True)
    )
    return [(row.id, row.destination_id) for row in found]


async def delivered(session: AsyncSession, lease: DeliveryLease, status_code: int | None) -> None:
    """Raises DeliveryLostError."""
    await _release(
        session,
        lease,
        status=DeliveryStatus.DELIVERED,
        attempts=Delivery.attempts + 1,
        status_code=status_code,
        error=None,
        ended_at=func.clock_timestamp(),
    )


async def failed(
    session: AsyncSession, lease: DeliveryLease, error: str, status_code: int | None
) -> None:
    """For good, until a person wishes otherwise. Raises DeliveryLostError."""
    await _release(
        session,
        lease,
        status=DeliveryStatus.FAILED,
        attempts=Delivery.attempts + 1,
        status_code=status_code,
        error=error_text(error),
        ended_at=func.clock_timestamp(),
    )


async def failed_once(
    session: AsyncSession,
    lease: DeliveryLease,
    error: str,
    status_code: int | None,
    *,
    rest_seconds: float,
) -> DeliveryStatus:
    """Rests, and is tried again, the last time when its patience ends; failed where that is over.

    Raises DeliveryLostError.
    """
    now = func.clock_timestamp()
    over = Delivery.give_up_at <= now
    rested = now + timedelta(seconds=rest_seconds)
    return await _release(
        session,
        lease,
        status=case((over, DeliveryStatus.FAILED), else_=DeliveryStatus.PENDING),
        attempts=Delivery.attempts + 1,
        next_attempt_at=func.least(rested, Delivery.give_up_at),
        status_code=status_code,
        error=error_text(error),
        ended_at=case((over, now)),
    )


async def give_back(session: AsyncSession, lease: DeliveryLease) -> bool:
    """Lets it be claimed by anybody at once, as if it had not been; False where it is no longer this worker's."""
    return await _written(session, lease, next_attempt_at=func.clock_timestamp()) is not None


async def _release(session: AsyncSession, lease: DeliveryLease, **values: Any) -> DeliveryStatus:
    status = await _written(session, lease, **values)
    if status is None:
        raise DeliveryLostError(lease)
    return DeliveryStatus(status)


async def _written(session: AsyncSession, lease: DeliveryLease, **values: Any) -> str | None:
    status: str | None = await session.scalar(
        update(Delivery)
        .where(
            Delivery.id == lease.delivery_id,
            Delivery.epoch == lease.epoch,
            Delivery.status == DeliveryStatus.PENDING,
        )
        .values(lease_owner=None, **values)
        .returning(Delivery.status)
        .execution_options(synchronize_session=False)
    )
    return status
