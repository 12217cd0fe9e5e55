"""What is delivered: an inbox item with all that its receiver should know, or a test."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

from pydantic import BaseModel
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from shared.database.tables import Agent, Destination, GraphNode, InboxItem
from shared.notifications import destinations
from shared.notifications.deliveries import DeliveryLease
from shared.workflow.iterations import clock

MessageType = Literal["advice.created", "notice.created", "destination.test"]


class ItemData(BaseModel):
    """An inbox item. What only advice has is None in a notice."""

    inbox_item_id: UUID
    agent_id: UUID
    agent_name: str
    title: str
    summary: str
    action: str | None = None
    confidence: float | None = None
    horizon: str | None = None
    """The last day on which it holds, as YYYY-MM-DD."""
    invalidation: str | None = None
    """What would prove it wrong."""
    advice_id: UUID | None = None
    content: str | None = None
    link: str | None = None


class TrialData(BaseModel):
    destination_id: UUID
    title: str = "Test of a destination"
    summary: str = "Vigil delivers here what its agents advise."


class Message(BaseModel):
    """`timestamp` says when the item came into the inbox."""

    type: MessageType
    timestamp: datetime
    data: ItemData | TrialData


@dataclass(frozen=True)
class Parcel:
    delivery_id: UUID
    address: str
    message: Message
    secrets: Sequence[str]
    """To sign with; of a webhook only."""


async def pack(
    session: AsyncSession, lease: DeliveryLease, to: Destination, public_url: str | None
) -> Parcel | None:
    """None where the inbox item is gone."""
    message = (
        await _test(session, to)
        if lease.inbox_item_id is None
        else await _of_item(session, lease.inbox_item_id, public_url)
    )
    if message is None:
        return None
    secrets = await destinations.secrets(session, to.id)
    return Parcel(lease.delivery_id, to.address, message, secrets)


async def _test(session: AsyncSession, to: Destination) -> Message:
    data = TrialData(destination_id=to.id)
    return Message(type="destination.test", timestamp=await clock(session), data=data)


async def _of_item(session: AsyncSession, item_id: UUID, public_url: str | None) -> Message | None:
    found = (
        await session.execute(
            select(InboxItem, Agent.name, GraphNode)
            .join(Agent, Agent.id == InboxItem.agent_id)
            .outerjoin(GraphNode, GraphNode.id == InboxItem.node_id)
            .where(InboxItem.id == item_id)
        )
    ).one_or_none()
    return None if found is None else message_of(*found, public_url)


def message_of(
    item: InboxItem, agent_name: str, advice: GraphNode | None, public_url: str | None
) -> Message:
    """Without advice the item is a notice."""
    link = f"{public_url.rstrip('/')}/api/v1/inbox/{item.id}" if public_url else None
    told = {} if advice is None else advice.properties
    data = ItemData(
        inbox_item_id=item.id,
        agent_id=item.agent_id,
        agent_name=agent_name,
        title=item.title,
        summary=item.summary,
        action=told.get("action"),
        confidence=told.get("confidence"),
        horizon=told.get("horizon"),
        invalidation=told.get("invalidation"),
        advice_id=None if advice is None else advice.id,
        content=told.get("content"),
        link=link,
    )
    kind: MessageType = "notice.created" if advice is None else "advice.created"
    return Message(type=kind, timestamp=item.created_at, data=data)
