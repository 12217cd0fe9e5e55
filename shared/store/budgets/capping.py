"""Caps changed while work goes on: what is spent stands, what is reserved is let end, and who rests may wake."""

from uuid import UUID

from sqlalchemy import update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from shared.store.budgets import resting
from shared.store.budgets.standings import Caps
from shared.store.tables import Agent, InstallationBudget


async def cap_agent(session: AsyncSession, agent_id: UUID, caps: Caps) -> None:
    """Its rest ends where there is something to spend again."""
    await resting.lock_caps(session)
    await session.execute(
        update(Agent)
        .where(Agent.id == agent_id)
        .values(budget_usd_per_day=caps.usd_per_day, budget_calls_per_day=caps.calls_per_day)
        .execution_options(synchronize_session=False)
    )
    await resting.end_rest(session, agent_id)


async def cap_installation(session: AsyncSession, caps: Caps) -> None:
    """Every agent's rest ends that has something to spend again."""
    await resting.lock_caps(session)
    given = {"usd_per_day": caps.usd_per_day, "calls_per_day": caps.calls_per_day}
    await session.execute(
        insert(InstallationBudget)
        .values(id=1, **given)
        .on_conflict_do_update(index_elements=[InstallationBudget.id], set_=given)
    )
    await resting.end_rest(session)
