"""What a list of agents tells of each besides itself: what waits to be read, and what it has cost today."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from sqlalchemy import Date, bindparam, cast, func, select
from sqlalchemy.ext.asyncio import AsyncSession

from shared.store.tables import BudgetDay, InboxItem


@dataclass(frozen=True)
class Desk:
    unread: int = 0
    """Advice and notices."""
    spent_usd: float = 0.0
    """Of this day (UTC)."""


async def of_agents(session: AsyncSession, agent_ids: Collection[UUID]) -> dict[UUID, Desk]:
    """Each of them. The caller has seen to it that they are the owner's."""
    ids = {"agents": list(agent_ids)}
    unread: dict[UUID, int] = dict((await session.execute(_UNREAD, ids)).all())
    spent = {agent: float(usd) for agent, usd in await session.execute(_SPENT, ids)}
    return {each: Desk(unread.get(each, 0), spent.get(each, 0.0)) for each in agent_ids}


_UNREAD: Final = (
    select(InboxItem.agent_id, func.count())
    .where(InboxItem.agent_id.in_(bindparam("agents", expanding=True)), InboxItem.read_at.is_(None))
    .group_by(InboxItem.agent_id)
)
_TODAY: Final = cast(func.timezone("UTC", func.statement_timestamp()), Date)
_SPENT: Final = select(BudgetDay.scope, BudgetDay.spent_usd).where(
    BudgetDay.scope.in_(bindparam("agents", expanding=True)), BudgetDay.day == _TODAY
)
