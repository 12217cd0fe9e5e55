"""Notices to the owner: conclusions that came into doubt after a retraction or a check, or no longer are."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

from sqlalchemy import ColumnElement, Row, any_, exists, func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from shared.database import ids
from shared.database.tables import (
    Agent,
    Doubt,
    GraphNode,
    InboxItem,
    RetractedSource,
    Retraction,
)
from shared.enums import ADVICE_TYPE, InboxKind
from shared.graph.prompt_format import quote_name, truncate_text
from shared.graph.retraction.doubts import uuid_array
from shared.graph.scope import GraphScope

MAX_NAMED: Final = 5
MAX_URL_CHARS: Final = 200


Conclusions = Sequence[Row[UUID, str, str]]
"""Id, type and name of each."""


async def notify_new_doubts(
    session: AsyncSession, scope: GraphScope, retraction: Retraction, sources: Collection[UUID]
) -> None:
    """Add one notice per retraction, if it puts any conclusion in doubt."""
    conclusions = await _query_conclusions(
        session, Doubt.source_id.in_(sources), Doubt.resolved_at.is_(None)
    )
    if not conclusions:
        return
    agent = await session.get_one(Agent, scope.agent_id)
    counts, page = _count_by_kind(conclusions), truncate_text(retraction.url, MAX_URL_CHARS)
    await _add_notice(
        session,
        scope,
        _cause(retraction),
        retraction.created_at,
        title=f"In doubt: {counts} of {agent.name}",
        summary=f"{page} was retracted ({retraction.reason}). These conclusions are based on it: "
        f"{_list_names(conclusions)}. To trust the page again, run "
        f"`vigil source restore {quote_name(retraction.url)} --agent {quote_name(agent.name)}`.",
    )


async def notify_contradictions(
    session: AsyncSession, scope: GraphScope, doubt_ids: Collection[UUID]
) -> None:
    """Add a notice about the conclusions that these new doubts put in doubt, if any."""
    if not doubt_ids:
        return
    is_given = Doubt.id == any_(uuid_array(doubt_ids))
    conclusions = await _query_conclusions(session, is_given)
    agent = await session.get_one(Agent, scope.agent_id)
    opened_at = await session.scalar(select(func.max(Doubt.since)).where(is_given))
    assert opened_at is not None
    counts = _count_by_kind(conclusions)
    await _add_notice(
        session,
        scope,
        f"contradicted {opened_at.isoformat()} {min(doubt_ids)}",
        opened_at,
        title=f"In doubt: {counts} of {agent.name}",
        summary=f"An evidence check found that a quote contradicts what these conclusions are based on:"
        f" {_list_names(conclusions)}. Run `vigil verify` with the id of one to see the quote and the result of the check.",
    )


async def notify_resolved_doubts(
    session: AsyncSession, scope: GraphScope, doubt_ids: Collection[UUID]
) -> None:
    """Add a notice about the conclusions of these doubts that have no open doubt left, if any."""
    is_given = Doubt.id == any_(uuid_array(doubt_ids))
    conclusions = await _query_conclusions(session, is_given)
    # Not an anti join: PostgreSQL expects few open doubts, and for each conclusion looks through all just resolved ones.
    doubted = await _query_doubted(session, [row.id for row in conclusions])
    cleared = [row for row in conclusions if row.id not in doubted]
    await resolve_notices(session, scope, await _retractions_of(session, is_given))
    if not cleared:
        return
    agent = await session.get_one(Agent, scope.agent_id)
    closed_at = await session.scalar(select(func.max(Doubt.resolved_at)).where(is_given))
    assert closed_at is not None
    await _add_notice(
        session,
        scope,
        f"lifted {closed_at.isoformat()} {min(row.id for row in cleared)}",
        closed_at,
        title=f"No longer in doubt: {_count_by_kind(cleared)} of {agent.name}",
        summary=f"Other pages now confirm what was retracted or contradicted: {_list_names(cleared)}.",
    )


async def resolve_notices(
    session: AsyncSession, scope: GraphScope, retractions: Sequence[Retraction]
) -> None:
    """Mark the notices of these retractions as no longer so, and as read, where no doubt of theirs is open."""
    for retraction in retractions:
        is_open = exists().where(
            RetractedSource.retraction_id == retraction.id,
            Doubt.source_id == RetractedSource.source_id,
            Doubt.resolved_at.is_(None),
        )
        cause, day = _cause(retraction), retraction.created_at.date()
        await session.execute(
            update(InboxItem)
            .where(
                InboxItem.id == ids.notice_id(scope.agent_id, cause, day),
                InboxItem.resolved_at.is_(None),
                ~is_open,
            )
            .values(
                resolved_at=func.clock_timestamp(),
                read_at=func.coalesce(InboxItem.read_at, func.clock_timestamp()),
            )
            .execution_options(synchronize_session=False)
        )


async def _retractions_of(
    session: AsyncSession, where: ColumnElement[bool]
) -> Sequence[Retraction]:
    """The retractions that caused the doubts of a condition."""
    rows = await session.scalars(
        select(Retraction)
        .join(RetractedSource, RetractedSource.retraction_id == Retraction.id)
        .join(Doubt, Doubt.source_id == RetractedSource.source_id)
        .where(where)
        .distinct()
    )
    return rows.all()


def _cause(retraction: Retraction) -> str:
    return f"retraction {retraction.id}"


async def _add_notice(
    session: AsyncSession,
    scope: GraphScope,
    cause: str,
    caused_at: datetime,
    *,
    title: str,
    summary: str,
) -> None:
    # The id is derived from the cause, so a repeated notice is the same row.
    await session.execute(
        insert(InboxItem)
        .values(
            id=ids.notice_id(scope.agent_id, cause, caused_at.date()),
            owner_id=scope.owner_id,
            agent_id=scope.agent_id,
            kind=InboxKind.NOTICE,
            title=title,
            summary=summary,
        )
        .on_conflict_do_nothing()
    )


async def _query_conclusions(session: AsyncSession, *where: ColumnElement[bool]) -> Conclusions:
    """Advice first, then by name."""
    rows = await session.execute(
        select(GraphNode.id, GraphNode.type, GraphNode.name)
        .join(Doubt, Doubt.conclusion_id == GraphNode.id)
        .where(*where)
        .distinct()
    )
    return sorted(rows, key=lambda row: (row.type != ADVICE_TYPE, row.name, row.id))


async def _query_doubted(session: AsyncSession, conclusion_ids: Collection[UUID]) -> set[UUID]:
    """Those of the conclusions that have an open doubt."""
    is_given = Doubt.conclusion_id == any_(uuid_array(conclusion_ids))
    doubted = await session.scalars(
        select(Doubt.conclusion_id).where(is_given, Doubt.resolved_at.is_(None))
    )
    return set(doubted)


def _list_names(conclusions: Conclusions) -> str:
    listing = "; ".join(
        f"{'advice' if row.type == ADVICE_TYPE else 'analysis'} {quote_name(row.name)} [node:{row.id}]"
        for row in conclusions[:MAX_NAMED]
    )
    more_count = len(conclusions) - MAX_NAMED
    return f"{listing}; and {more_count} more" if more_count > 0 else listing


def _count_by_kind(conclusions: Conclusions) -> str:
    advice = sum(row.type == ADVICE_TYPE for row in conclusions)
    analyses = len(conclusions) - advice
    parts = [f"{analyses} {'analysis' if analyses == 1 else 'analyses'}"] if analyses else []
    return " and ".join(
        parts + ([f"{advice} {'piece' if advice == 1 else 'pieces'} of advice"] if advice else [])
    )
