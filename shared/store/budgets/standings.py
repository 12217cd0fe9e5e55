"""How an agent and the installation stand on a day: their caps, what is spent and what is reserved."""

from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from uuid import UUID

from sqlalchemy import Date, cast, func, select
from sqlalchemy.ext.asyncio import AsyncSession

from shared.store.budgets.books import INSTALLATION
from shared.store.budgets.caps import Account, Refusal, Standing, refusal
from shared.store.tables import Agent, BudgetDay, InstallationBudget


@dataclass(frozen=True)
class Caps:
    """What may be spent in a day; None is no cap."""

    usd_per_day: Decimal | None = None
    calls_per_day: int | None = None


async def today(session: AsyncSession) -> date:
    """The day (UTC) by the database's clock."""
    now = func.timezone("UTC", func.statement_timestamp())
    return (await session.execute(select(cast(now, Date)))).scalar_one()


async def caps_of_agent(session: AsyncSession, agent_id: UUID) -> Caps:
    row = (
        await session.execute(
            select(Agent.budget_usd_per_day, Agent.budget_calls_per_day).where(Agent.id == agent_id)
        )
    ).one_or_none()
    return Caps() if row is None else Caps(*row)


async def caps_of_installation(session: AsyncSession) -> Caps:
    row = (
        await session.execute(
            select(InstallationBudget.usd_per_day, InstallationBudget.calls_per_day)
        )
    ).one_or_none()
    return Caps() if row is None else Caps(*row)


async def of_agent(session: AsyncSession, agent_id: UUID, day: date) -> Standing:
    return await _standing(session, agent_id, await caps_of_agent(session, agent_id), day)


async def of_installation(session: AsyncSession, day: date) -> Standing:
    return await _standing(session, INSTALLATION, await caps_of_installation(session), day)


async def in_the_way(
    session: AsyncSession, agent_id: UUID, usd: Decimal, *, day: date | None = None
) -> Refusal | None:
    """The cap that a sending which could cost `usd` is refused by; None where it would not be, now."""
    day = day or await today(session)
    agent = await of_agent(session, agent_id, day)
    installation = await of_installation(session, day)
    return refusal(agent, installation, usd=usd, calls=1, day=day)


async def _standing(session: AsyncSession, scope: UUID, caps: Caps, day: date) -> Standing:
    columns = (
        BudgetDay.spent_usd,
        BudgetDay.reserved_usd,
        BudgetDay.spent_calls,
        BudgetDay.reserved_calls,
    )
    kept = (
        await session.execute(
            select(*columns).where(BudgetDay.scope == scope, BudgetDay.day == day)
        )
    ).one_or_none()
    spent_usd, reserved_usd, spent_calls, reserved_calls = kept or (Decimal(0), Decimal(0), 0, 0)
    most_calls = None if caps.calls_per_day is None else Decimal(caps.calls_per_day)
    return Standing(
        Account(caps.usd_per_day, spent_usd, reserved_usd),
        Account(most_calls, Decimal(spent_calls), Decimal(reserved_calls)),
    )
