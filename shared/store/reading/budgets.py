"""Budgets, as people see them."""

from datetime import date
from decimal import Decimal
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession

from shared.store.budgets import standings
from shared.store.budgets.caps import Standing
from shared.store.reading.cost_shapes import AllowanceView, BudgetView
from shared.store.tables import Agent


async def of_agent(session: AsyncSession, agent_id: UUID) -> BudgetView:
    row = await session.get_one(Agent, agent_id, populate_existing=True)
    return BudgetView(
        agent_id=row.id,
        agent_name=row.name,
        resting_until=row.resting_until,
        allowance=await allowance_of_agent(session, row.id),
    )


async def allowance_of_agent(session: AsyncSession, agent_id: UUID) -> AllowanceView:
    day = await standings.today(session)
    return _allowance(day, await standings.of_agent(session, agent_id, day))


async def allowance_of_installation(session: AsyncSession) -> AllowanceView:
    day = await standings.today(session)
    return _allowance(day, await standings.of_installation(session, day))


def _allowance(day: date, standing: Standing) -> AllowanceView:
    usd, calls = standing.usd, standing.calls
    return AllowanceView(
        day=day,
        usd_per_day=_number(usd.cap),
        spent_usd=float(usd.spent),
        reserved_usd=float(usd.reserved),
        left_usd=_number(usd.left),
        calls_per_day=_count(calls.cap),
        spent_calls=int(calls.spent),
        reserved_calls=int(calls.reserved),
        left_calls=_count(calls.left),
    )


def _number(amount: Decimal | None) -> float | None:
    return None if amount is None else float(amount)


def _count(amount: Decimal | None) -> int | None:
    return None if amount is None else int(amount)
