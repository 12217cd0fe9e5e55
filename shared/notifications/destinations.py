"""Destinations: made, stopped, deleted; and the secrets that webhooks are signed with."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final
from uuid import UUID, uuid4

from sqlalchemy import delete as sql_delete
from sqlalchemy import func, or_, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from shared.database.tables import Destination, WebhookSecret
from shared.enums import DestinationKind

MOST: Final = 20
"""Of one owner: each may hold up to two of the notifier's slots."""


async def count(session: AsyncSession, owner_id: UUID) -> int:
    """How many the owner has; nobody else makes one of theirs until this transaction ends."""
    await session.execute(
        select(func.pg_advisory_xact_lock(func.hashtextextended(f"destinations:{owner_id}", 0)))
    )
    found = select(func.count()).select_from(Destination).where(Destination.owner_id == owner_id)
    return await session.scalar(found) or 0


async def create(
    session: AsyncSession,
    owner_id: UUID,
    *,
    kind: DestinationKind,
    address: str,
    agent_id: UUID | None,
) -> UUID | None:
    """The id of the new destination; None where the owner has the same one already."""
    made: UUID | None = await session.scalar(
        insert(Destination)
        .values(id=uuid4(), owner_id=owner_id, kind=kind, address=address, agent_id=agent_id)
        .on_conflict_do_nothing()
        .returning(Destination.id)
    )
    return made


async def activate(session: AsyncSession, destination_id: UUID, *, active: bool) -> None:
    """As a person wishes it. Why it was stopped is then no more."""
    await session.execute(
        update(Destination)
        .where(Destination.id == destination_id)
        .values(active=active, stopped_because=None)
        .execution_options(synchronize_session=False)
    )


async def stop(session: AsyncSession, destination_id: UUID, why: str) -> None:
    await session.execute(
        update(Destination)
        .where(Destination.id == destination_id, Destination.active)
        .values(active=False, stopped_because=why)
        .execution_options(synchronize_session=False)
    )


async def delete(session: AsyncSession, destination_id: UUID) -> None:
    """With its deliveries; one that is being sent may still arrive."""
    await session.execute(sql_delete(Destination).where(Destination.id == destination_id))


async def give_secret(
    session: AsyncSession, destination_id: UUID, secret: str, *, overlap: timedelta
) -> None:
    """Signs with `secret` from now on, and for `overlap` with the ones before it too."""
    now = func.clock_timestamp()
    await session.execute(
        sql_delete(WebhookSecret).where(
            WebhookSecret.destination_id == destination_id, WebhookSecret.expires_at <= now
        )
    )
    await session.execute(
        update(WebhookSecret)
        .where(WebhookSecret.destination_id == destination_id, WebhookSecret.expires_at.is_(None))
        .values(expires_at=now + overlap)
        .execution_options(synchronize_session=False)
    )
    await session.execute(
        insert(WebhookSecret).values(id=uuid4(), destination_id=destination_id, secret=secret)
    )


async def secrets(session: AsyncSession, destination_id: UUID) -> Sequence[str]:
    """What to sign with now, the newest first."""
    in_use = or_(
        WebhookSecret.expires_at.is_(None), WebhookSecret.expires_at > func.clock_timestamp()
    )
    found = await session.scalars(
        select(WebhookSecret.secret)
        .where(WebhookSecret.destination_id == destination_id, in_use)
        .order_by(WebhookSecret.created_at.desc())
    )
    return list(found)
