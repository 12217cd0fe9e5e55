"""Destinations and inbox items beneath what the notifier does."""

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
from tests.support.waiting import until


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
        made = await destinations.create(
            session,
            agent.owner_id,
            kind=kind,
            address=address,
            agent_id=None if all_agents else agent.id,
        )
        assert made is not None
        if secret is not None:
            await destinations.rotate_secret(session, made, secret, overlap=timedelta())
    return made


async def make_items(database: Database, agent: Agent, count: int = 1) -> list[UUID]:
    """Advice in the inbox, as the Adviser writes it; the ids of the items."""
    made = []
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
            session.add(
                GraphNode(
                    id=node, agent_id=agent.id, type=ADVICE_TYPE, name=f"{node}", properties=content
                )
            )
            await session.flush()
            session.add(
                InboxItem(
                    id=item,
                    owner_id=agent.owner_id,
                    agent_id=agent.id,
                    node_id=node,
                    title="HOLD: Wait for Müller",
                    summary="Wait.",
                )
            )
            await session.flush()
            made.append(item)
    return made


async def deliveries_of(database: Database, destination: UUID | None = None) -> Sequence[Delivery]:
    statement = select(Delivery).order_by(Delivery.created_at)
    if destination is not None:
        statement = statement.where(Delivery.destination_id == destination)
    async with database.transaction() as session:
        return (await session.scalars(statement)).all()


async def destination_of(database: Database, destination_id: UUID) -> Destination:
    async with database.transaction() as session:
        return await session.get_one(Destination, destination_id)


async def ended(database: Database, count: int = 1) -> Sequence[Delivery]:
    """All deliveries, once so many of them have ended and no other is left."""

    async def look() -> Sequence[Delivery] | None:
        found = await deliveries_of(database)
        open_ones = [each for each in found if each.status == DeliveryStatus.PENDING]
        return found if len(found) >= count and not open_ones else None

    found = await until(look, what=f"{count} deliveries to end")
    assert found is not None
    return found


async def delivered(database: Database, count: int = 1) -> Sequence[Delivery]:
    """As `ended`, and every one of them delivered."""
    found = await ended(database, count)
    assert {each.status for each in found} == {DeliveryStatus.DELIVERED}
    return found


async def attempted(database: Database, times: int = 1) -> Delivery:
    """The one delivery, resting after so many failures."""

    async def look() -> Delivery | None:
        found = await deliveries_of(database)
        return found[0] if found and found[0].attempts >= times else None

    found = await until(look, what=f"{times} attempts to fail")
    assert found is not None
    return found


async def due_now(database: Database) -> None:
    """Whatever rests, or is leased, is free at once."""
    async with database.transaction() as session:
        await session.execute(update(Delivery).values(next_attempt_at=func.clock_timestamp()))


async def give_up_now(database: Database) -> None:
    async with database.transaction() as session:
        await session.execute(update(Delivery).values(give_up_at=func.clock_timestamp()))


async def ask_for_retry(database: Database, delivery_id: UUID) -> bool:
    async with database.transaction() as session:
        return await deliveries.request_retry(session, delivery_id)
