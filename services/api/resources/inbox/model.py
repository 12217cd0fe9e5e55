"""The inbox of an owner."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from sqlalchemy import ColumnElement, Select, and_, bindparam, func, or_, select, true, update

from services.api.reading import columns_of, paginate_rows
from shared.agents import agents
from shared.database.pagination import Keyset
from shared.database.tables import Agent, GraphNode, InboxItem
from shared.database.transaction import Transaction
from shared.enums import InboxKind, InboxOutcome, InboxView
from shared.graph.conclusions.conclusions import forecast_fields
from shared.graph.conclusions.queries import replaced_by
from shared.graph.retraction import doubts
from shared.schemas.base import InboxItemResponse, Page, PageRequest
from shared.workflow.agent_clock import AgentClock
from shared.workflow.iterations import database_time

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
    session: Transaction,
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
    rows, following = await paginate_rows(session, statement, _NEWEST, page_request)
    return Page(items=await _views(session, rows), next=following)


async def find_inbox_item(
    session: Transaction, owner_id: UUID, item_id: UUID
) -> InboxItemResponse | None:
    """Returns the item, or None where the owner has none of that id."""
    rows = await session.execute(_items(owner_id).where(InboxItem.id == item_id))
    views = await _views(session, [dict(row) for row in rows.mappings()])
    return views[0] if views else None


async def mark_read(
    session: Transaction, owner_id: UUID, item_id: UUID
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
    session: Transaction, owner_id: UUID, item_id: UUID
) -> InboxItemResponse | None:
    """Marks the item as unread and returns it; None where the owner has none of that id."""
    return await _change(session, owner_id, item_id, {"read_at": None})


async def decide(
    session: Transaction, owner_id: UUID, item_id: UUID, outcome: InboxOutcome
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


async def reopen(session: Transaction, owner_id: UUID, item_id: UUID) -> InboxItemResponse | None:
    """Takes a decision or a snooze back, and returns the item; None where there is none."""
    values = {
        "outcome": None,
        "snoozed_until": None,
        "answered_at": func.clock_timestamp(),
    }
    return await _change(session, owner_id, item_id, values)


async def snooze(
    session: Transaction, owner_id: UUID, item_id: UUID, until: datetime
) -> InboxItemResponse | None:
    """Hides an item until then; it returns as unread. A decision is taken back. None where there is no such item."""
    values = {"snoozed_until": until, "read_at": None, "outcome": None}
    return await _change(session, owner_id, item_id, values)


async def give_feedback(
    session: Transaction, owner_id: UUID, item_id: UUID, useful: bool | None, text: str | None
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
    session: Transaction,
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
    )
    for agent_id, kind in changed:
        if wakes and kind == InboxKind.ADVICE:
            await agents.wake(agent_id).execute(session)
    return await find_inbox_item(session, owner_id, item_id)


async def count_unread(session: Transaction, owner_id: UUID) -> int:
    count: int | None = await session.scalar(_UNREAD, {"of_owner": owner_id})
    return count or 0


async def count_by_view(
    session: Transaction, owner_id: UUID, *, agent_id: UUID | None = None
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


async def mark_all_read(session: Transaction, owner_id: UUID) -> int:
    """Marks all items as read, except snoozed ones. Returns how many were unread."""
    result = await session.execute(
        update(InboxItem)
        .where(InboxItem.owner_id == owner_id, InboxItem.read_at.is_(None), _IS_AWAKE)
        .values(read_at=func.clock_timestamp())
        .returning(InboxItem.id)
    )
    return len(result.all())


_ITEM: Final = columns_of(
    InboxItem,
    InboxItemResponse,
    agent_name=Agent.name,
    archive_date=Agent.archive_date,
    advice=GraphNode.properties,
)


def _items(owner_id: UUID) -> Select[*tuple[Any, ...]]:
    """Selects items with their agent's name and archive date and, for advice, the properties of its node."""
    return (
        select(*_ITEM)
        .join(Agent, Agent.id == InboxItem.agent_id)
        .outerjoin(GraphNode, GraphNode.id == InboxItem.node_id)
        .where(InboxItem.owner_id == owner_id)
    )


async def _views(
    session: Transaction, rows: Sequence[Mapping[str, Any]]
) -> list[InboxItemResponse]:
    now = await database_time(session)
    advice_ids = [row["node_id"] for row in rows if row["node_id"] is not None]
    doubted = await doubts.doubted_since(session, advice_ids) if advice_ids else {}
    replaced = await replaced_by(session, advice_ids)
    return [
        InboxItemResponse.model_validate(
            {
                **row,
                "action": row["advice"] and row["advice"]["action"],
                "content": row["advice"]["content"] if row["advice"] else "",
                "doubted_since": doubted.get(row["node_id"]),
                "replaced_by": replaced.get(row["node_id"]),
                **forecast_fields(row["advice"], AgentClock(now, row["archive_date"]).today),
            }
        )
        for row in rows
    ]
