"""The inbox and the notification destinations of an owner."""

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Any, Final
from uuid import UUID

from sqlalchemy import ColumnElement, Select, and_, bindparam, func, or_, select, true, update
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased

from shared.agents import agents
from shared.database.pagination import Keyset, paginate
from shared.database.tables import Agent, Delivery, Destination, GraphNode, InboxItem
from shared.enums import DeliveryStatus, InboxKind, InboxOutcome, InboxView
from shared.graph.conclusions.conclusions import database_date, forecast_fields
from shared.graph.conclusions.queries import replaced_by
from shared.graph.retraction import doubts
from shared.schemas.base import InboxItemResponse, Json, Page, PageRequest
from shared.schemas.notifications import DeliveryResponse, DestinationDetails, DestinationResponse

_SHOWN_AT: Final = func.coalesce(InboxItem.snoozed_until, InboxItem.created_at)
_NEWEST = Keyset("inbox", (_SHOWN_AT, InboxItem.id))
_IS_AWAKE: Final = or_(
    InboxItem.snoozed_until.is_(None), InboxItem.snoozed_until <= func.statement_timestamp()
)
_IS_UNDECIDED: Final = and_(InboxItem.outcome.is_(None), InboxItem.resolved_at.is_(None))
IS_UNREAD: Final = and_(InboxItem.read_at.is_(None), _IS_UNDECIDED, _IS_AWAKE)
_IN_VIEW: Final[Mapping[InboxView, ColumnElement[bool]]] = {
    InboxView.OPEN: and_(_IS_UNDECIDED, _IS_AWAKE),
    InboxView.UNREAD: IS_UNREAD,
    InboxView.SNOOZED: and_(_IS_UNDECIDED, InboxItem.snoozed_until > func.statement_timestamp()),
    InboxView.DONE: or_(InboxItem.outcome.is_not(None), InboxItem.resolved_at.is_not(None)),
    InboxView.ALL: true(),
}
_UNREAD = (
    select(func.count())
    .select_from(InboxItem)
    .where(InboxItem.owner_id == bindparam("of_owner"), IS_UNREAD)
)


async def list_inbox_items(
    session: AsyncSession,
    owner_id: UUID,
    page_request: PageRequest,
    *,
    view: InboxView = InboxView.ALL,
    agent_id: UUID | None = None,
) -> Page[InboxItemResponse]:
    """Lists inbox items, newest first; with `agent_id`, those of one agent.

    An item whose snooze has ended stands at that time.
    """
    statement = _items(owner_id).where(_IN_VIEW[view])
    if agent_id is not None:
        statement = statement.where(InboxItem.agent_id == agent_id)
    page_slice = await paginate(session, statement, _NEWEST, page_request)
    return Page(items=await _inbox_views(session, page_slice.rows), next=page_slice.next)


async def find_inbox_item(
    session: AsyncSession, owner_id: UUID, item_id: UUID
) -> InboxItemResponse | None:
    """Returns the item, or None where the owner has none of that id."""
    row = (await session.execute(_items(owner_id).where(InboxItem.id == item_id))).one_or_none()
    return None if row is None else (await _inbox_views(session, [row]))[0]


async def mark_read(
    session: AsyncSession, owner_id: UUID, item_id: UUID
) -> InboxItemResponse | None:
    """Marks the item as read and returns it; None where the owner has none of that id.

    A second call keeps the first time. A snoozed item stays unread.
    """
    return await _change(
        session,
        owner_id,
        item_id,
        {"read_at": func.clock_timestamp()},
        and_(InboxItem.read_at.is_(None), _IS_AWAKE),
    )


async def mark_unread(
    session: AsyncSession, owner_id: UUID, item_id: UUID
) -> InboxItemResponse | None:
    """Marks the item as unread and returns it; None where the owner has none of that id."""
    return await _change(session, owner_id, item_id, {"read_at": None})


async def decide(
    session: AsyncSession, owner_id: UUID, item_id: UUID, outcome: InboxOutcome
) -> InboxItemResponse | None:
    """Stores what the owner decided, marks the item as read, and returns it; None where there is none.

    Deciding the same again keeps the first time.
    """
    values = {
        "outcome": outcome,
        "answered_at": func.clock_timestamp(),
        "read_at": func.coalesce(InboxItem.read_at, func.clock_timestamp()),
    }
    is_other = InboxItem.outcome.is_distinct_from(outcome)
    return await _change(session, owner_id, item_id, values, is_other, wakes=True)


async def reopen(session: AsyncSession, owner_id: UUID, item_id: UUID) -> InboxItemResponse | None:
    """Takes a decision or a snooze back, and returns the item; None where there is none."""
    values = {
        "outcome": None,
        "snoozed_until": None,
        "answered_at": func.clock_timestamp(),
    }
    return await _change(session, owner_id, item_id, values)


async def snooze(
    session: AsyncSession, owner_id: UUID, item_id: UUID, until: datetime
) -> InboxItemResponse | None:
    """Hides an item until then; it returns as unread. A decision is taken back. None where there is no such item."""
    values = {"snoozed_until": until, "read_at": None, "outcome": None}
    return await _change(session, owner_id, item_id, values)


async def give_feedback(
    session: AsyncSession, owner_id: UUID, item_id: UUID, useful: bool | None, text: str | None
) -> InboxItemResponse | None:
    """Replaces the feedback on an item, and returns it; None where there is none.

    Giving the same again keeps the first time.
    """
    values = {"useful": useful, "feedback": text, "answered_at": func.clock_timestamp()}
    is_other = or_(
        InboxItem.useful.is_distinct_from(useful), InboxItem.feedback.is_distinct_from(text)
    )
    return await _change(session, owner_id, item_id, values, is_other, wakes=True)


async def _change(
    session: AsyncSession,
    owner_id: UUID,
    item_id: UUID,
    values: Mapping[str, Any],
    *where: ColumnElement[bool],
    wakes: bool = False,
) -> InboxItemResponse | None:
    """Updates an item and returns it; None if there is none. With `wakes`, an answer to advice starts an iteration soon."""
    changed = await session.execute(
        update(InboxItem)
        .where(InboxItem.id == item_id, InboxItem.owner_id == owner_id, *where)
        .values(values)
        .returning(InboxItem.agent_id, InboxItem.kind)
        .execution_options(synchronize_session=False)
    )
    for agent_id, kind in changed:
        if wakes and kind == InboxKind.ADVICE:
            await agents.wake(agent_id).answer(session)
    return await find_inbox_item(session, owner_id, item_id)


async def count_unread(session: AsyncSession, owner_id: UUID) -> int:
    count: int | None = await session.scalar(_UNREAD, {"of_owner": owner_id})
    return count or 0


async def count_by_view(
    session: AsyncSession, owner_id: UUID, *, agent_id: UUID | None = None
) -> dict[InboxView, int]:
    """How many items are open, unread and snoozed; with `agent_id`, those of one agent."""
    views = (InboxView.OPEN, InboxView.UNREAD, InboxView.SNOOZED)
    statement = (
        select(*(func.count().filter(_IN_VIEW[view]) for view in views))
        .select_from(InboxItem)
        .where(InboxItem.owner_id == owner_id, _IS_UNDECIDED)
    )
    if agent_id is not None:
        statement = statement.where(InboxItem.agent_id == agent_id)
    counts = (await session.execute(statement)).one()
    return dict(zip(views, counts, strict=True))


async def mark_all_read(session: AsyncSession, owner_id: UUID) -> int:
    """Marks all items as read, except snoozed ones. Returns how many were unread."""
    result = await session.execute(
        update(InboxItem)
        .where(InboxItem.owner_id == owner_id, InboxItem.read_at.is_(None), _IS_AWAKE)
        .values(read_at=func.clock_timestamp())
        .returning(InboxItem.id)
        .execution_options(synchronize_session=False)
    )
    return len(result.all())


def _items(owner_id: UUID) -> Select[InboxItem, str, Json | None]:
    """Selects items with their agent's name and, for advice, the properties of its node."""
    return (
        select(InboxItem, Agent.name, GraphNode.properties)
        .join(Agent, Agent.id == InboxItem.agent_id)
        .outerjoin(GraphNode, GraphNode.id == InboxItem.node_id)
        .where(InboxItem.owner_id == owner_id)
        .execution_options(populate_existing=True)
    )


async def _inbox_views(
    session: AsyncSession, rows: Sequence[tuple[InboxItem, str, Json | None]]
) -> list[InboxItemResponse]:
    day = await database_date(session)
    advice_ids = [item.node_id for item, _, _ in rows if item.node_id is not None]
    doubted = await doubts.doubted_since(session, advice_ids) if advice_ids else {}
    replaced = await replaced_by(session, advice_ids)
    return [_inbox_view(day, doubted, replaced, *row) for row in rows]


def _inbox_view(
    day: date,
    doubted: Mapping[UUID, datetime],
    replaced: Mapping[UUID, str],
    item: InboxItem,
    agent_name: str,
    advice: Json | None,
) -> InboxItemResponse:
    return InboxItemResponse(
        id=item.id,
        kind=item.kind,
        agent_id=item.agent_id,
        agent_name=agent_name,
        node_id=item.node_id,
        action=None if advice is None else advice["action"],
        title=item.title,
        summary=item.summary,
        content="" if advice is None else advice["content"],
        read_at=item.read_at,
        created_at=item.created_at,
        outcome=None if item.outcome is None else InboxOutcome(item.outcome),
        useful=item.useful,
        feedback=item.feedback,
        answered_at=item.answered_at,
        snoozed_until=item.snoozed_until,
        resolved_at=item.resolved_at,
        doubted_since=None if item.node_id is None else doubted.get(item.node_id),
        replaced_by=None if item.node_id is None else replaced.get(item.node_id),
        **forecast_fields(advice, day),
    )


RECENT_DELIVERIES: Final = 10
BY_AGE: Final = Keyset("destinations", (Destination.created_at, Destination.id))
NEWEST_DELIVERIES: Final = Keyset("deliveries", (Delivery.created_at, Delivery.id))


async def list_destinations(
    session: AsyncSession, owner_id: UUID, page_request: PageRequest
) -> Page[DestinationResponse]:
    """Lists destinations, newest first. Raises InvalidCursorError."""
    page_slice = await paginate(session, _destinations(owner_id), BY_AGE, page_request)
    return page_slice.page(_view)


async def find_destination(
    session: AsyncSession, owner_id: UUID, destination_id: UUID
) -> DestinationDetails | None:
    row = (
        await session.execute(
            _destinations(owner_id)
            .where(Destination.id == destination_id)
            .execution_options(populate_existing=True)
        )
    ).one_or_none()
    if row is None:
        return None
    recent = await list_deliveries(session, destination_id, PageRequest(RECENT_DELIVERIES))
    return DestinationDetails(**dict(_view(*row)), deliveries=recent.items)


async def list_deliveries(
    session: AsyncSession,
    destination_id: UUID,
    page_request: PageRequest,
    *,
    status: str | None = None,
) -> Page[DeliveryResponse]:
    """Lists deliveries, newest first; with `status`, those only. Raises InvalidCursorError."""
    statement = _deliveries(destination_id)
    if status is not None:
        statement = statement.where(Delivery.status == status)
    page_slice = await paginate(session, statement, NEWEST_DELIVERIES, page_request)
    return page_slice.page(_delivery_view)


async def find_delivery(
    session: AsyncSession, destination_id: UUID, delivery_id: UUID
) -> DeliveryResponse | None:
    row = (
        await session.execute(
            _deliveries(destination_id)
            .where(Delivery.id == delivery_id)
            .execution_options(populate_existing=True)
        )
    ).one_or_none()
    return None if row is None else _delivery_view(*row)


def _destinations(
    owner_id: UUID,
) -> Select[Destination, str, Delivery, str]:
    own = aliased(Delivery)
    last = (
        select(own.id)
        .where(own.destination_id == Destination.id)
        .order_by(own.created_at.desc(), own.id.desc())
        .limit(1)
        .correlate(Destination)
        .scalar_subquery()
    )
    return (
        select(Destination, Agent.name, Delivery, InboxItem.title)
        .outerjoin(Agent, Agent.id == Destination.agent_id)
        .outerjoin(Delivery, Delivery.id == last)
        .outerjoin(InboxItem, InboxItem.id == Delivery.inbox_item_id)
        .where(Destination.owner_id == owner_id)
    )


def _deliveries(destination_id: UUID) -> Select[Delivery, str]:
    return (
        select(Delivery, InboxItem.title)
        .outerjoin(InboxItem, InboxItem.id == Delivery.inbox_item_id)
        .where(Delivery.destination_id == destination_id)
    )


def _view(
    destination: Destination, agent_name: str | None, last: Delivery | None, title: str | None
) -> DestinationResponse:
    return DestinationResponse(
        id=destination.id,
        kind=destination.kind,
        address=destination.address,
        agent_id=destination.agent_id,
        agent_name=agent_name,
        active=destination.active,
        stop_reason=destination.stop_reason,
        created_at=destination.created_at,
        last_delivery=None if last is None else _delivery_view(last, title),
    )


def _delivery_view(delivery: Delivery, title: str | None) -> DeliveryResponse:
    is_waiting = delivery.status == DeliveryStatus.PENDING and delivery.lease_owner is None
    return DeliveryResponse(
        id=delivery.id,
        destination_id=delivery.destination_id,
        inbox_item_id=delivery.inbox_item_id,
        title=title,
        status=delivery.status,
        attempts=delivery.attempts,
        next_attempt_at=delivery.next_attempt_at if is_waiting else None,
        give_up_at=delivery.give_up_at,
        status_code=delivery.status_code,
        error=delivery.error,
        created_at=delivery.created_at,
        ended_at=delivery.ended_at,
        retry_requested_at=delivery.retry_requested_at,
    )
