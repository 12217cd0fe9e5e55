"""The inbox of an owner: items, and what the owner does with them."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final
from uuid import UUID

from fastapi import Body, Query
from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict
from sqlalchemy import ColumnElement, Select, and_, func, or_, select, true, update

from services.api.auth.dependencies import Access, OwnedAccess
from services.api.http.dependencies import Page, PageQuery
from services.api.http.problem_details import ConflictError, NotFoundError
from services.api.http.texts import length_in_schema
from services.api.reading import columns_of, paginate_rows
from shared.agents import agents
from shared.agents.feedback import MAX_FEEDBACK_CHARS
from shared.database.pagination import Keyset
from shared.database.tables import Agent, GraphNode, InboxItem
from shared.database.text import refuse_nul
from shared.database.transaction import Transaction
from shared.enums import InboxKind, InboxOutcome, InboxView
from shared.graph.conclusions import position_store
from shared.graph.conclusions.conclusions import forecast_fields
from shared.graph.retraction import doubts
from shared.schemas.base import InboxItemResponse
from shared.schemas.iterations import Marked
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


MAX_SNOOZE: Final = timedelta(days=366)


def _soon(moment: datetime) -> datetime:
    if not timedelta(0) < moment - datetime.now(UTC) <= MAX_SNOOZE:
        raise ValueError("enter a time within the next year")
    return moment


class NewSnooze(BaseModel):
    """Until when an item is hidden."""

    model_config = ConfigDict(extra="forbid")

    until: Annotated[AwareDatetime, AfterValidator(_soon)]


def _feedback(text: str | None) -> str | None:
    """One paragraph; None if nothing is said."""
    words = " ".join((text or "").split())
    if len(words) > MAX_FEEDBACK_CHARS:
        raise ValueError(
            f"it has {len(words)} characters; at most {MAX_FEEDBACK_CHARS} are allowed"
        )
    return refuse_nul(words) or None


FeedbackText = Annotated[
    str | None, AfterValidator(_feedback), length_in_schema(0, MAX_FEEDBACK_CHARS)
]


class NewFeedback(BaseModel):
    """What the owner says about an item. What is left out is deleted."""

    model_config = ConfigDict(extra="forbid")

    useful: bool | None = None
    text: FeedbackText = None


async def list_inbox_items(
    access: OwnedAccess,
    page_request: PageQuery,
    unread: bool = False,
    agent_id: UUID | None = None,
    view: Annotated[
        InboxView,
        Query(description="Open, unread, snoozed, done or all items"),
    ] = InboxView.ALL,
) -> Page[InboxItemResponse]:
    """Lists inbox items, newest first; optionally of one agent. `unread` is the same as the view of unread items."""
    # An item whose snooze has ended stands at that time.
    statement = _items(access).where(_IN_VIEW[InboxView.UNREAD if unread else view])
    if agent_id is not None:
        statement = statement.where(InboxItem.agent_id == agent_id)
    rows, following = await paginate_rows(access.session, statement, _NEWEST, page_request)
    return Page(items=await _views(access.session, rows), next=following)


async def get_inbox_item(access: OwnedAccess, item_id: UUID) -> InboxItemResponse:
    """An inbox item; it is not marked as read."""
    rows = await access.session.execute(_items(access).where(InboxItem.id == item_id))
    views = await _views(access.session, [dict(row) for row in rows.mappings()])
    if not views:
        raise NotFoundError("inbox item", item_id)
    return views[0]


async def mark_read(access: OwnedAccess, item_id: UUID) -> InboxItemResponse:
    """Marks an inbox item as read; a second call keeps the first time."""
    # A snoozed item stays unread.
    is_unread = and_(InboxItem.read_at.is_(None), _IS_AWAKE)
    return await _change(access, item_id, {"read_at": func.clock_timestamp()}, is_unread)


async def mark_unread(access: OwnedAccess, item_id: UUID) -> InboxItemResponse:
    return await _change(access, item_id, {"read_at": None})


async def accept(access: OwnedAccess, item_id: UUID) -> InboxItemResponse:
    """Accepts an advice. The agent's next phases see the decision. A notice cannot be accepted."""
    item = await get_inbox_item(access, item_id)
    if item.kind != InboxKind.ADVICE:
        raise ConflictError(
            "not-advice", "This is a notice, which cannot be accepted: dismiss it instead."
        )
    return await _decide(access, item_id, InboxOutcome.ACCEPTED)


async def dismiss(access: OwnedAccess, item_id: UUID) -> InboxItemResponse:
    """Dismisses an inbox item. If it is an advice, the agent's next phases see the decision."""
    return await _decide(access, item_id, InboxOutcome.DISMISSED)


async def _decide(access: Access, item_id: UUID, outcome: InboxOutcome) -> InboxItemResponse:
    """Stores the decision and marks the item as read. Deciding the same again keeps the first time."""
    values = {
        "outcome": outcome,
        "answered_at": func.clock_timestamp(),
        "read_at": func.coalesce(InboxItem.read_at, func.clock_timestamp()),
    }
    is_other = InboxItem.outcome.is_distinct_from(outcome)
    return await _change(access, item_id, values, is_other, wakes=True)


async def reopen(access: OwnedAccess, item_id: UUID) -> InboxItemResponse:
    """Takes a decision or a snooze back."""
    values = {"outcome": None, "snoozed_until": None, "answered_at": func.clock_timestamp()}
    return await _change(access, item_id, values)


async def snooze(
    access: OwnedAccess, item_id: UUID, body: Annotated[NewSnooze, Body()]
) -> InboxItemResponse:
    """Hides an inbox item until a time, at which it returns as unread."""
    values = {"snoozed_until": body.until, "read_at": None, "outcome": None}
    return await _change(access, item_id, values)


async def give_feedback(
    access: OwnedAccess, item_id: UUID, body: Annotated[NewFeedback, Body()]
) -> InboxItemResponse:
    """Replaces your feedback on an inbox item. If it is an advice, the agent's next phases see it."""
    values = {
        "useful": body.useful,
        "feedback": body.text,
        "answered_at": func.clock_timestamp(),
    }
    # Giving the same again keeps the first time.
    is_other = or_(
        InboxItem.useful.is_distinct_from(body.useful),
        InboxItem.feedback.is_distinct_from(body.text),
    )
    return await _change(access, item_id, values, is_other, wakes=True)


async def _change(
    access: Access,
    item_id: UUID,
    values: Mapping[str, Any],
    *where: ColumnElement[bool],
    wakes: bool = False,
) -> InboxItemResponse:
    """Updates an item and returns it. With `wakes`, an answer to advice starts an iteration soon. Raises NotFoundError."""
    changed = await access.session.execute(
        update(InboxItem)
        .where(InboxItem.id == item_id, InboxItem.owner_id == access.owner_id, *where)
        .values(values)
        .returning(InboxItem.agent_id, InboxItem.kind)
    )
    for agent_id, kind in changed:
        if wakes and kind == InboxKind.ADVICE:
            await agents.wake(agent_id).execute(access.session)
    return await get_inbox_item(access, item_id)


async def count_by_view(access: Access, *, agent_id: UUID | None = None) -> dict[InboxView, int]:
    """How many items are open, unread and snoozed; with `agent_id`, those of one agent."""
    views = (InboxView.OPEN, InboxView.UNREAD, InboxView.SNOOZED)
    statement = (
        select(*(func.count().filter(_IN_VIEW[view]) for view in views))
        .select_from(InboxItem)
        .where(InboxItem.owner_id == access.owner_id, _IS_UNDECIDED)
    )
    if agent_id is not None:
        statement = statement.where(InboxItem.agent_id == agent_id)
    counts = (await access.session.execute(statement)).one()
    return dict(zip(views, counts, strict=True))


async def mark_all_read(access: OwnedAccess) -> Marked:
    """Marks every present inbox item as read."""
    # A snoozed item stays unread.
    result = await access.session.execute(
        update(InboxItem)
        .where(InboxItem.owner_id == access.owner_id, InboxItem.read_at.is_(None), _IS_AWAKE)
        .values(read_at=func.clock_timestamp())
        .returning(InboxItem.id)
    )
    return Marked(marked=len(result.all()))


_ITEM: Final = columns_of(
    InboxItem,
    InboxItemResponse,
    agent_name=Agent.name,
    archive_date=Agent.archive_date,
    owner_id=InboxItem.owner_id,
    advice=GraphNode.properties,
)


def _items(access: Access) -> Select[*tuple[Any, ...]]:
    """Selects items with their agent's name and archive date and, for advice, the properties of its node."""
    return (
        select(*_ITEM)
        .join(Agent, Agent.id == InboxItem.agent_id)
        .outerjoin(GraphNode, GraphNode.id == InboxItem.node_id)
        .where(InboxItem.owner_id == access.owner_id)
    )


async def _views(
    session: Transaction, rows: Sequence[Mapping[str, Any]]
) -> list[InboxItemResponse]:
    """The `rows` are items of one owner."""
    now = await database_time(session)
    today_of = {row["agent_id"]: AgentClock(now, row["archive_date"]).today for row in rows}
    advice = {row["node_id"]: row["agent_id"] for row in rows if row["node_id"] is not None}
    doubted = await doubts.doubted_since(session, advice) if advice else {}
    positions = (
        await position_store.load_responses(session, rows[0]["owner_id"], advice, today_of)
        if advice
        else {}
    )
    return [
        InboxItemResponse.model_validate(
            {
                **row,
                "action": row["advice"] and row["advice"]["action"],
                "content": row["advice"]["content"] if row["advice"] else "",
                "doubted_since": doubted.get(row["node_id"]),
                **forecast_fields(
                    row["advice"], today_of[row["agent_id"]], positions.get(row["node_id"])
                ),
            }
        )
        for row in rows
    ]
