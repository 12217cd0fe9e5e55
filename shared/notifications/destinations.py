"""Destinations: create, activate, stop, delete; and the signing secrets of webhooks."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final
from uuid import UUID, uuid4

from sqlalchemy import delete as sql_delete
from sqlalchemy import func, or_, select, update
from sqlalchemy.dialects.postgresql import insert

from shared.database.tables import Destination, WebhookSecret
from shared.database.transaction import Transaction
from shared.enums import DestinationKind

MAX_DESTINATIONS: Final = 20
"""Maximum per owner: each may use two of the notifier's slots."""


async def lock_and_count(transaction: Transaction, owner_id: UUID) -> int:
    """Number of destinations of the owner; locks out other inserts for the owner until the transaction ends."""
    await transaction.execute(
        select(func.pg_advisory_xact_lock(func.hashtextextended(f"destinations:{owner_id}", 0)))
    )
    query = select(func.count()).select_from(Destination).where(Destination.owner_id == owner_id)
    return await transaction.scalar(query) or 0


async def create(
    transaction: Transaction,
    owner_id: UUID,
    *,
    kind: DestinationKind,
    address: str,
    agent_id: UUID | None,
) -> UUID | None:
    """Returns the id of the new destination; None if the owner has the same one already."""
    destination_id: UUID | None = await transaction.scalar(
        insert(Destination)
        .values(id=uuid4(), owner_id=owner_id, kind=kind, address=address, agent_id=agent_id)
        .on_conflict_do_nothing()
        .returning(Destination.id)
    )
    return destination_id


async def set_active(transaction: Transaction, destination_id: UUID, *, active: bool) -> None:
    """Sets whether it is active, on behalf of a user. Clears the reason why it was stopped."""
    await transaction.execute(
        update(Destination)
        .where(Destination.id == destination_id)
        .values(active=active, stop_reason=None)
    )


async def stop(transaction: Transaction, destination_id: UUID, why: str) -> None:
    await transaction.execute(
        update(Destination)
        .where(Destination.id == destination_id, Destination.active)
        .values(active=False, stop_reason=why)
    )


async def delete(transaction: Transaction, destination_id: UUID) -> None:
    """Deletes it with its deliveries; one that is being sent may still arrive."""
    await transaction.execute(sql_delete(Destination).where(Destination.id == destination_id))


async def rotate_secret(
    transaction: Transaction, destination_id: UUID, secret: str, *, overlap: timedelta
) -> None:
    """Signs with `secret` from now on, and for `overlap` with the previous secrets too."""
    now = func.clock_timestamp()
    await transaction.execute(
        sql_delete(WebhookSecret).where(
            WebhookSecret.destination_id == destination_id, WebhookSecret.expires_at <= now
        )
    )
    await transaction.execute(
        update(WebhookSecret)
        .where(WebhookSecret.destination_id == destination_id, WebhookSecret.expires_at.is_(None))
        .values(expires_at=now + overlap)
    )
    await transaction.execute(
        insert(WebhookSecret).values(id=uuid4(), destination_id=destination_id, secret=secret)
    )


async def secrets(transaction: Transaction, destination_id: UUID) -> Sequence[str]:
    """The current signing secrets, newest first."""
    in_use = or_(
        WebhookSecret.expires_at.is_(None), WebhookSecret.expires_at > func.clock_timestamp()
    )
    values = await transaction.scalars(
        select(WebhookSecret.secret)
        .where(WebhookSecret.destination_id == destination_id, in_use)
        .order_by(WebhookSecret.created_at.desc())
    )
    return list(values)
