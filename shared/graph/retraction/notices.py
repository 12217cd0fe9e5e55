"""Notices to the owner: conclusions that came into doubt after a retraction, or no longer are."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from sqlalchemy import ColumnElement, any_, exists, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased

from shared.database import ids
from shared.database.tables import Agent, Doubt, GraphNode, InboxItem, Retraction
from shared.enums import ADVICE_TYPE, ANALYSIS_TYPE, InboxKind
from shared.graph.prompt_format import quote_name, truncate_text
from shared.graph.retraction.doubts import uuid_array
from shared.graph.scope import GraphScope

MAX_NAMED: Final = 5
MAX_URL_CHARS: Final = 200


@dataclass(frozen=True)
class DoubtedConclusion:
    id: UUID
    type: str
    name: str


async def notify_new_doubts(
    session: AsyncSession, scope: GraphScope, retraction: Retraction, sources: Collection[UUID]
) -> None:
    """Add one notice per retraction, if it puts any conclusion in doubt."""
    conclusions = await _doubted_conclusions(session, sources)
    if not conclusions:
        return
    agent_name = (await session.scalars(select(Agent.name).where(Agent.id == scope.agent_id))).one()
    await _add_notice(
        session,
        scope,
        f"retraction {retraction.id}",
        retraction.created_at,
        title=f"{_count_by_kind(conclusions)} of {agent_name} in doubt",
        summary=_summary(retraction, agent_name, conclusions),
    )


async def notify_resolved_doubts(
    session: AsyncSession, scope: GraphScope, doubt_ids: Collection[UUID]
) -> None:
    """Add a notice about the conclusions of these doubts that have no open doubt left, if any."""
    cleared = await _cleared_conclusions(session, doubt_ids)
    if not cleared:
        return
    agent_name = (await session.scalars(select(Agent.name).where(Agent.id == scope.agent_id))).one()
    closed_at = await session.scalar(
        select(func.max(Doubt.resolved_at)).where(Doubt.id == any_(uuid_array(doubt_ids)))
    )
    assert closed_at is not None
    await _add_notice(
        session,
        scope,
        f"lifted {closed_at.isoformat()} {min(cleared, key=lambda conclusion: conclusion.id).id}",
        closed_at,
        title=f"{_count_by_kind(cleared)} of {agent_name} no longer in doubt",
        summary=f"Other pages now confirm what was retracted: {_list_names(cleared)}.",
    )


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


async def _doubted_conclusions(
    session: AsyncSession, sources: Collection[UUID]
) -> list[DoubtedConclusion]:
    """Conclusions with an open doubt because of these sources."""
    return await _query_conclusions(
        session, Doubt.source_id.in_(sources), Doubt.resolved_at.is_(None)
    )


async def _cleared_conclusions(
    session: AsyncSession, doubt_ids: Collection[UUID]
) -> list[DoubtedConclusion]:
    other_doubt = aliased(Doubt)
    is_still_doubted = exists().where(
        other_doubt.conclusion_id == Doubt.conclusion_id, other_doubt.resolved_at.is_(None)
    )
    return await _query_conclusions(
        session, Doubt.id == any_(uuid_array(doubt_ids)), ~is_still_doubted
    )


async def _query_conclusions(
    session: AsyncSession, *where: ColumnElement[bool]
) -> list[DoubtedConclusion]:
    """Advice first, then by name."""
    rows = await session.execute(
        select(GraphNode.id, GraphNode.type, GraphNode.name)
        .join(Doubt, Doubt.conclusion_id == GraphNode.id)
        .where(*where)
        .distinct()
    )
    conclusions = [DoubtedConclusion(row.id, row.type, row.name) for row in rows]
    return sorted(
        conclusions,
        key=lambda conclusion: (conclusion.type != ADVICE_TYPE, conclusion.name, conclusion.id),
    )


def _summary(
    retraction: Retraction, agent_name: str, conclusions: Sequence[DoubtedConclusion]
) -> str:
    page = truncate_text(retraction.url, MAX_URL_CHARS)
    return (
        f"{_count_by_kind(conclusions)} rest on {page}, which was retracted ({retraction.reason}): "
        f"{_list_names(conclusions)}. To trust the page again, run "
        f"`vigil source restore {retraction.id} --agent {quote_name(agent_name)}`."
    )


def _list_names(conclusions: Sequence[DoubtedConclusion]) -> str:
    listing = "; ".join(
        f"{_kind_word(conclusion)} {quote_name(conclusion.name)} [node:{conclusion.id}]"
        for conclusion in conclusions[:MAX_NAMED]
    )
    more_count = len(conclusions) - MAX_NAMED
    return f"{listing}; and {more_count} more" if more_count > 0 else listing


def _count_by_kind(conclusions: Sequence[DoubtedConclusion]) -> str:
    advice = sum(conclusion.type == ADVICE_TYPE for conclusion in conclusions)
    analyses = sum(conclusion.type == ANALYSIS_TYPE for conclusion in conclusions)
    parts = [f"{analyses} {'analysis' if analyses == 1 else 'analyses'}"] if analyses else []
    return " and ".join(parts + ([f"{advice} advice"] if advice else []))


def _kind_word(conclusion: DoubtedConclusion) -> str:
    return "advice" if conclusion.type == ADVICE_TYPE else "analysis"
