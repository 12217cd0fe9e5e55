"""Destinations, inbox items and deliveries in the database, for the notifier tests."""

from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID, uuid4

from sqlalchemy import func, select, update

from shared.database.engine import Database
from shared.database.tables import Agent, Delivery, Destination, GraphNode, InboxItem
from shared.enums import ADVICE_TYPE, DeliveryStatus, DestinationKind
from shared.graph import system_types
from shared.notifications import deliveries, destinations
from shared.notifications.webhooks import new_secret
from tests.support.waiting import wait_until


async def make_webhook(
    database: Database,
    agent: Agent,
    url: str,
    *,
    secret: str | None = None,
    all_agents: bool = True,
) -> UUID:
    return await _make(
        database, agent, DestinationKind.WEBHOOK, url, secret or new_secret(), all_agents
    )


async def make_mail(database: Database, agent: Agent, address: str) -> UUID:
    return await _make(database, agent, DestinationKind.MAIL, address, None, True)


async def _make(
    database: Database,
    agent: Agent,
    kind: DestinationKind,
    address: str,
    secret: str | None,
    all_agents: bool,
) -> UUID:
    async with database.transaction() as session:
        destination_id = await destinations.create(
            session,
            agent.owner_id,
            kind=kind,
            address=address,
            agent_id=None if all_agents else agent.id,
        )
        assert destination_id is not None
        if secret is not None:
            await destinations.rotate_secret(session, destination_id, secret, overlap=timedelta())
    return destination_id


async def make_items(database: Database, agent: Agent, count: int = 1) -> list[UUID]:
    """Advice in the inbox, as the Adviser writes it; the ids of the items."""
    item_ids = []
    async with database.transaction() as session:
        await system_types.ensure_system_types(session, agent.id)
        for number in range(count):
            node, item = uuid4(), uuid4()
            content = {
                "action": "HOLD",
                "summary": "Wait.",
                "content": f"Nothing changed ({number}).",
                "confidence": 0.8,
                "horizon": "2026-04-30",
                "invalidation": "Orders that fall by a tenth.",
                "generated_at": "2026-01-01T00:00:00Z",
            }
            await session.insert(
                GraphNode,
                id=node,
                agent_id=agent.id,
                type=ADVICE_TYPE,
                name=f"{node}",
                properties=content,
            )
            await session.insert(
                InboxItem,
                id=item,
                owner_id=agent.owner_id,
                agent_id=agent.id,
                node_id=node,
                title="HOLD: Wait for Müller",
                summary="Wait.",
            )
            item_ids.append(item)
    return item_ids


async def list_deliveries(
    database: Database, destination: UUID | None = None
) -> Sequence[Delivery]:
    statement = select(Delivery).order_by(Delivery.created_at)
    if destination is not None:
        statement = statement.where(Delivery.destination_id == destination)
    async with database.transaction() as session:
        return (await session.scalars(statement)).all()


async def load_destination(database: Database, destination_id: UUID) -> Destination:
    async with database.transaction() as session:
        return await session.get_one(Destination, destination_id)


async def wait_until_ended(database: Database, count: int = 1) -> Sequence[Delivery]:
    """All deliveries, once so many of them have ended and none is pending."""

    async def load_ended() -> Sequence[Delivery] | None:
        rows = await list_deliveries(database)
        pending = [row for row in rows if row.status == DeliveryStatus.PENDING]
        return rows if len(rows) >= count and not pending else None

    rows = await wait_until(load_ended, what=f"{count} deliveries to end")
    assert rows is not None
    return rows


async def wait_until_delivered(database: Database, count: int = 1) -> Sequence[Delivery]:
    """As `wait_until_ended`; asserts that all of them were delivered."""
    rows = await wait_until_ended(database, count)
    assert {row.status for row in rows} == {DeliveryStatus.DELIVERED}
    return rows


async def wait_for_attempts(database: Database, times: int = 1) -> Delivery:
    """The first delivery, once it has had so many failed attempts."""

    async def load_attempted() -> Delivery | None:
        rows = await list_deliveries(database)
        return rows[0] if rows and rows[0].attempts >= times else None

    row = await wait_until(load_attempted, what=f"{times} attempts to fail")
    assert row is not None
    return row


async def make_due(database: Database) -> None:
    """Makes every delivery due at once, whether it waits or is leased."""
    async with database.transaction() as session:
        await session.execute(update(Delivery).values(next_attempt_at=func.clock_timestamp()))


async def expire_deliveries(database: Database) -> None:
    async with database.transaction() as session:
        await session.execute(update(Delivery).values(give_up_at=func.clock_timestamp()))


async def request_retry(database: Database, delivery_id: UUID) -> bool:
    async with database.transaction() as session:
        return await deliveries.request_retry(session, delivery_id)
