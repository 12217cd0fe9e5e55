"""The content of a delivery: an inbox item with all that its receiver should know, or a test."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Final, Literal
from uuid import UUID

from pydantic import BaseModel
from sqlalchemy import select

from shared.database.statements import CompiledStatement
from shared.database.tables import Agent, Destination, GraphNode, InboxItem
from shared.database.transaction import Transaction
from shared.graph.conclusions import position_store, readings, rules
from shared.graph.conclusions.citations import without_citations
from shared.graph.scope import GraphScope
from shared.notifications import destinations
from shared.notifications.deliveries import DeliveryLease
from shared.schemas.base import PositionResponse
from shared.wording import NOT_READ, found_in_words
from shared.workflow.agent_clock import AgentClock
from shared.workflow.iterations import database_time

MessageType = Literal["advice.created", "notice.created", "destination.test"]


class ItemData(BaseModel):
    """An inbox item. Fields that only advice has are None in a notice."""

    inbox_item_id: UUID
    agent_id: UUID
    agent_name: str
    title: str
    summary: str
    action: str | None = None
    confidence: float | None = None
    horizon: str | None = None
    """The last day on which the advice holds, as YYYY-MM-DD."""
    invalidation: str | None = None
    """The observation that would prove the advice wrong."""
    advice_id: UUID | None = None
    position: PositionResponse | None = None
    """Whether the advice stands when it is sent."""
    content: str | None = None
    checked: str | None = None
    """Counts by level of verification, as they were when the advice was given."""
    link: str | None = None
    """The page of the web UI that shows the item with its proof."""


class TrialData(BaseModel):
    destination_id: UUID
    title: str = "Test delivery"
    summary: str = "Vigil sends the advice and notices of its agents here."


class Message(BaseModel):
    """`timestamp` is when the inbox item was created."""

    type: MessageType
    timestamp: datetime
    data: ItemData | TrialData


@dataclass(frozen=True)
class Parcel:
    delivery_id: UUID
    address: str
    message: Message
    secrets: Sequence[str]
    """Signing secrets, for webhooks only."""
    iteration_id: UUID | None = None
    """The iteration that gave the advice; None for notices and tests."""


async def pack(
    transaction: Transaction, lease: DeliveryLease, destination: Destination, public_url: str | None
) -> Parcel | None:
    """Loads the content of a delivery; None if the inbox item is gone."""
    iteration_id = None
    if lease.inbox_item_id is None:
        now, data = await database_time(transaction), TrialData(destination_id=destination.id)
        message = Message(type="destination.test", timestamp=now, data=data)
    else:
        row = await _load_item(transaction, lease.inbox_item_id)
        if row is None:
            return None
        item, agent_name, archive_date, advice = row
        position = await _load_position(transaction, item, archive_date)
        checked = None if advice is None else await _describe_checks(transaction, item, advice)
        message = build_message(item, agent_name, advice, public_url, position, checked)
        iteration_id = None if advice is None else advice.iteration_id
    secrets = await destinations.secrets(transaction, destination.id)
    return Parcel(lease.delivery_id, destination.address, message, secrets, iteration_id)


async def _load_item(
    transaction: Transaction, item_id: UUID
) -> tuple[InboxItem, str, date | None, GraphNode | None] | None:
    """The inbox item, name and archive date of its agent, and its advice, if it is one; None if it is gone."""
    row = (
        await transaction.execute(
            select(InboxItem, Agent.name, Agent.archive_date, GraphNode)
            .join(Agent, Agent.id == InboxItem.agent_id)
            .outerjoin(GraphNode, GraphNode.id == InboxItem.node_id)
            .where(InboxItem.id == item_id)
        )
    ).one_or_none()
    return None if row is None else (row[0], row[1], row[2], row[3])


async def _load_position(
    transaction: Transaction, item: InboxItem, archive_date: date | None
) -> PositionResponse | None:
    if item.node_id is None:
        return None
    today = AgentClock(await database_time(transaction), archive_date).today
    positions = await position_store.load_responses(
        transaction, item.owner_id, {item.node_id: item.agent_id}, {item.agent_id: today}
    )
    return positions.get(item.node_id)


# Of the advice, and of the analyses that it cites, directly or not.
_PROVEN: Final = CompiledStatement("""
with recursive chain (id) as (
  select cast(:advice as uuid)
  union
  select cited_id from citations join chain on conclusion_id = chain.id
)
select count(distinct (element_id, source_id, first_byte, end_byte)) as sentences, count(distinct source_id) as pages
from conclusion_proofs where conclusion_id in (select id from chain)
""")


async def _describe_checks(
    transaction: Transaction, item: InboxItem, advice: GraphNode
) -> str | None:
    """`12 sentences found in 5 pages; read by gpt-x: supported`; None for advice whose proof was not stored."""
    if rules.proof_sha256(advice.rules) is None:
        return None
    found = await _PROVEN.row(transaction, {"advice": advice.id})
    scope = GraphScope(item.owner_id, item.agent_id)
    named = [(advice.id, advice.name, advice.properties)]
    verdicts = await readings.load_verdicts(transaction, scope, named)
    reading = readings.summarize(advice.name, advice.properties, verdicts.get(advice.id, ()))
    assert found is not None, "it counts"
    return (
        f"{found_in_words(found.sentences, found.sentences, found.pages)};"
        f" {reading.in_words if reading else NOT_READ}"
    )


def build_message(
    item: InboxItem,
    agent_name: str,
    advice: GraphNode | None,
    public_url: str | None,
    position: PositionResponse | None = None,
    checked: str | None = None,
) -> Message:
    """The message for an inbox item; without `advice` it is a notice. Its texts have no citations: `link` leads to them."""
    link = f"{public_url.rstrip('/')}/inbox?item={item.id}" if public_url else None
    properties = {
        key: without_citations(value) if isinstance(value, str) else value
        for key, value in ({} if advice is None else advice.properties).items()
    }
    terms = {"confidence": properties.get("confidence"), "horizon": properties.get("horizon")}
    if position is not None:
        horizon = position.horizon and position.horizon.isoformat()
        terms = {"confidence": position.confidence, "horizon": horizon}
    data = ItemData(
        inbox_item_id=item.id,
        agent_id=item.agent_id,
        agent_name=agent_name,
        title=without_citations(item.title),
        summary=without_citations(item.summary),
        action=properties.get("action"),
        confidence=terms["confidence"],
        horizon=terms["horizon"],
        invalidation=properties.get("invalidation"),
        advice_id=None if advice is None else advice.id,
        content=properties.get("content"),
        position=position,
        checked=checked,
        link=link,
    )
    kind: MessageType = "notice.created" if advice is None else "advice.created"
    return Message(type=kind, timestamp=item.created_at, data=data)
