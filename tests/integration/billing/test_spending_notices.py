"""A notice is sent when half, and most, of a budget is spent: once for each day and month."""

from datetime import date
from decimal import Decimal

import pytest
from sqlalchemy import select, update

from shared.billing.budgets import spending_notices
from shared.database.engine import Database
from shared.database.tables import Agent, BudgetDay, InboxItem
from shared.enums import InboxKind
from tests.support.factories import make_agent

TODAY = date(2026, 11, 27)


class Spender:
    def __init__(self, database: Database, agent: Agent) -> None:
        self.database = database
        self.agent = agent

    async def spend(self, usd: str, day: date = TODAY) -> None:
        async with self.database.transaction() as session:
            key = (self.agent.id, day)
            if await session.get(BudgetDay, key) is None:
                await session.insert(BudgetDay, scope=self.agent.id, day=day)
            await session.update(BudgetDay, key, spent_usd=Decimal(usd), spent_calls=1)

    async def titles(self, today: date = TODAY) -> list[str]:
        """The titles of all notices, after a tick."""
        await self.database.run(spending_notices(self.agent.id, today))
        async with self.database.transaction() as session:
            rows = await session.scalars(
                select(InboxItem.title)
                .where(InboxItem.kind == InboxKind.NOTICE)
                .order_by(InboxItem.created_at, InboxItem.title)
            )
            return list(rows)


@pytest.fixture
async def spender(database: Database) -> Spender:
    agent = await make_agent(database, name="Watch")
    async with database.transaction() as session:
        await session.execute(update(Agent).values(budget_usd_per_day=Decimal(5)))
    return Spender(database, agent)


def of(period: str, percent: int) -> str:
    name = {"day": "daily", "month": "monthly"}[period]
    return f"Watch has spent {percent} % of its {name} budget"


async def test_each_share_of_a_day_has_one_notice(spender: Spender) -> None:
    await spender.spend("2.49")
    assert await spender.titles() == []
    await spender.spend("2.50")
    assert await spender.titles() == [of("day", 50)]
    assert await spender.titles() == [of("day", 50)]
    await spender.spend("4.20")
    assert await spender.titles() == [of("day", 50), of("day", 80)]


async def test_only_the_highest_share_is_noted(spender: Spender) -> None:
    await spender.spend("4.20")
    assert await spender.titles() == [of("day", 80)]


async def test_the_next_day_has_notices_of_its_own(spender: Spender) -> None:
    await spender.spend("3")
    await spender.titles()
    tomorrow = date(2026, 11, 28)
    assert await spender.titles(tomorrow) == [of("day", 50)]
    await spender.spend("3", tomorrow)
    assert await spender.titles(tomorrow) == [of("day", 50)] * 2


async def test_a_month_has_the_budget_of_its_days(spender: Spender) -> None:
    for day in range(1, 16):
        await spender.spend("5", date(2026, 11, day))
    assert await spender.titles() == [of("month", 50)]
    await spender.spend("5", date(2026, 10, 31))
    for day in range(16, 25):
        await spender.spend("5", date(2026, 11, day))
    assert await spender.titles() == [of("month", 50), of("month", 80)]


async def test_without_a_cap_nothing_is_noted(spender: Spender) -> None:
    async with spender.database.transaction() as session:
        await session.execute(update(Agent).values(budget_usd_per_day=None))
    await spender.spend("100")
    assert await spender.titles() == []
