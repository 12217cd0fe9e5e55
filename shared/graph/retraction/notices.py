"""What an owner is told of doubts: how much is in doubt because of a retraction, what no longer is, and where to look."""

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
from shared.graph.prompt_format import quoted, short
from shared.graph.retraction.doubts import array
from shared.graph.scope import Scope

MOST_NAMED: Final = 5
URL_CHARACTERS: Final = 200


@dataclass(frozen=True)
class Doubted:
    id: UUID
    type: str
    name: str


async def tell_owner(
    session: AsyncSession, scope: Scope, retraction: Retraction, sources: Collection[UUID]
) -> None:
    """Once for each retraction, and only where something is in doubt because of it."""
    doubted = await _doubted(session, sources)
    if not doubted:
        return
    agent = (await session.scalars(select(Agent.name).where(Agent.id == scope.agent_id))).one()
    await _tell(
        session,
        scope,
        f"retraction {retraction.id}",
        retraction.created_at,
        title=f"{_counted(doubted)} of {agent} in doubt",
        summary=_summary(retraction, agent, doubted),
    )


async def tell_lifted(session: AsyncSession, scope: Scope, lifted: Collection[UUID]) -> None:
    """Of the conclusions of these doubts those that are in none any more, where there are any."""
    free = await _no_longer_doubted(session, lifted)
    if not free:
        return
    agent = (await session.scalars(select(Agent.name).where(Agent.id == scope.agent_id))).one()
    last = await session.scalar(
        select(func.max(Doubt.cleared_at)).where(Doubt.id == any_(array(lifted)))
    )
    assert last is not None
    await _tell(
        session,
        scope,
        f"lifted {last.isoformat()} {min(free, key=lambda each: each.id).id}",
        last,
        title=f"{_counted(free)} of {agent} no longer in doubt",
        summary=f"What was retracted is borne out by other pages since: {_named(free)}.",
    )


async def _tell(
    session: AsyncSession, scope: Scope, cause: str, moment: datetime, *, title: str, summary: str
) -> None:
    # Nothing said of what is there already: the same notice twice is one.
    await session.execute(
        insert(InboxItem)
        .values(
            id=ids.notice_id(scope.agent_id, cause, moment.date()),
            owner_id=scope.owner_id,
            agent_id=scope.agent_id,
            kind=InboxKind.NOTICE,
            title=title,
            summary=summary,
        )
        .on_conflict_do_nothing()
    )


async def _doubted(session: AsyncSession, sources: Collection[UUID]) -> list[Doubted]:
    """Those that are in doubt because of these."""
    return await _conclusions(session, Doubt.source_id.in_(sources), Doubt.cleared_at.is_(None))


async def _no_longer_doubted(session: AsyncSession, lifted: Collection[UUID]) -> list[Doubted]:
    another = aliased(Doubt)
    still = exists().where(
        another.conclusion_id == Doubt.conclusion_id, another.cleared_at.is_(None)
    )
    return await _conclusions(session, Doubt.id == any_(array(lifted)), ~still)


async def _conclusions(session: AsyncSession, *where: ColumnElement[bool]) -> list[Doubted]:
    """Advice first, then by name."""
    rows = await session.execute(
        select(GraphNode.id, GraphNode.type, GraphNode.name)
        .join(Doubt, Doubt.conclusion_id == GraphNode.id)
        .where(*where)
        .distinct()
    )
    found = [Doubted(row.id, row.type, row.name) for row in rows]
    return sorted(found, key=lambda each: (each.type != ADVICE_TYPE, each.name, each.id))


def _summary(retraction: Retraction, agent: str, doubted: Sequence[Doubted]) -> str:
    page = short(retraction.url, URL_CHARACTERS)
    return (
        f"{_counted(doubted)} rest on {page}, which was retracted ({retraction.because}): {_named(doubted)}. "
        "If the page is to be believed after all, "
        f"`vigil source restore {retraction.id} --agent {quoted(agent)}` undoes it."
    )


def _named(conclusions: Sequence[Doubted]) -> str:
    named = "; ".join(
        f"{_word(each)} {quoted(each.name)} [node:{each.id}]" for each in conclusions[:MOST_NAMED]
    )
    more = len(conclusions) - MOST_NAMED
    return f"{named}; and {more} more" if more > 0 else named


def _counted(doubted: Sequence[Doubted]) -> str:
    advice = sum(each.type == ADVICE_TYPE for each in doubted)
    analyses = sum(each.type == ANALYSIS_TYPE for each in doubted)
    told = [f"{analyses} {'analysis' if analyses == 1 else 'analyses'}"] if analyses else []
    return " and ".join(told + ([f"{advice} advice"] if advice else []))


def _word(doubted: Doubted) -> str:
    return "advice" if doubted.type == ADVICE_TYPE else "analysis"
