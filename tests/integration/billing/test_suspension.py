"""Agents whose budget is used up: suspended until the next day, with one notice, and resumed without intervention."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import func, select, update

from services.scheduler.scheduler import Ticker
from shared.billing import budgets
from shared.billing.budgets import BudgetUsedUpError
from shared.database.engine import Database
from shared.database.tables import Agent, DeadLetter, InboxItem
from shared.enums import IterationStatus
from shared.errors import TransientError
from shared.runtime.bus import Bus
from shared.runtime.settings import Settings
from tests.support.factories import make_agent
from tests.support.running_services import ended_iteration, running_services
from tests.support.sandbox_control import Sandbox
from tests.support.spending import (
    TODAY,
    TOMORROW,
    Spender,
    cap_all,
    caps,
    nothing_is_reserved,
    usd,
)
from tests.support.table_rows import change

MIDNIGHT = datetime(2026, 3, 2, tzinfo=UTC)


@pytest.fixture
async def spender(database: Database) -> Spender:
    return await Spender.of(database)


async def agent_of(spender: Spender) -> Agent:
    async with spender.database.transaction() as session:
        return await session.get_one(Agent, spender.agent.id)


async def inbox(database: Database) -> list[InboxItem]:
    async with database.transaction() as session:
        return list(await session.scalars(select(InboxItem).order_by(InboxItem.created_at)))


async def suspend_or_retry(spender: Spender, **changes: Any) -> BudgetUsedUpError | TransientError:
    async with spender.database.transaction() as session:
        return await budgets.suspend_or_retry(
            session, spender.agent.id, usd("0.10"), **{"day": TODAY, **changes}
        )


async def spend(spender: Spender, amount: str, **options: Any) -> None:
    await spender.settle(await spender.reserved(amount, **options), amount)


async def test_the_owner_gets_one_notice_for_each_cap_and_day(
    spender: Spender, database: Database
) -> None:
    await spend(spender, "0.95", name="a")
    await spend(spender, "0.95", name="b", day=TOMORROW)
    await spender.cap("1.00")
    for _ in range(3):
        assert isinstance(await suspend_or_retry(spender), BudgetUsedUpError)
    assert (await agent_of(spender)).suspended_until == MIDNIGHT
    [notice] = await inbox(database)
    assert (notice.kind, notice.node_id, notice.owner_id) == (
        "notice",
        None,
        spender.agent.owner_id,
    )
    assert notice.title == (
        "Battery watch is suspended until tomorrow: its daily budget of 1 USD is reached"
    )
    assert "0.95 of 1 USD is spent" in notice.summary
    assert "`vigil budget AGENT --usd …`" in notice.summary
    await suspend_or_retry(spender, day=TOMORROW)
    assert (await agent_of(spender)).suspended_until == MIDNIGHT + timedelta(days=1)
    await spender.cap()
    await cap_all(database, calls=1)
    await suspend_or_retry(spender)
    titles = [item.title for item in await inbox(database)]
    assert len(titles) == 3
    assert "the installation's daily budget of 1 call" in titles[2]


async def test_an_agent_that_waits_for_open_reservations_is_not_suspended(
    spender: Spender, database: Database
) -> None:
    await spender.reserve("0.95")
    await spender.cap("1.00")
    error = await suspend_or_retry(spender)
    assert isinstance(error, TransientError)
    assert (error.counts, error.retry_in_seconds) == (False, budgets.RETRY_SECONDS)
    assert ((await agent_of(spender)).suspended_until, await inbox(database)) == (None, [])


async def test_an_agent_refused_before_the_cap_was_raised_is_not_suspended(
    spender: Spender,
) -> None:
    await spend(spender, "0.95")
    await spender.cap("1.00")
    await spender.cap("2.00")
    assert isinstance(await suspend_or_retry(spender), TransientError)
    assert (await agent_of(spender)).suspended_until is None


async def suspend(spender: Spender, *, seconds: float = 3600) -> None:
    async with spender.database.transaction() as session:
        until = func.clock_timestamp() + timedelta(seconds=seconds)
        await session.execute(update(Agent).values(suspended_until=until))


@pytest.mark.parametrize("run_requested", [False, True])
async def test_no_iteration_starts_while_an_agent_is_suspended(
    database: Database, run_requested: bool
) -> None:
    await make_agent(database)
    ticker = Ticker(database, deadline_seconds=600)
    async with database.transaction() as session:
        now = func.clock_timestamp()
        later = now + timedelta(seconds=3600)
        values: dict[str, Any] = {"suspended_until": later}
        if run_requested:
            values |= {"run_requested_at": now, "next_run_at": later}
        await session.execute(update(Agent).values(**values))
    assert await ticker.tick() == []
    async with database.transaction() as session:
        await session.execute(update(Agent).values(suspended_until=func.clock_timestamp()))
    assert len(await ticker.tick()) == 1


async def test_a_higher_cap_ends_the_suspension_where_it_leaves_a_budget(
    sandbox_settings: Settings, database: Database
) -> None:
    spender = await Spender.of(database)
    await spend(spender, "0.50", day=None)
    await suspend(spender)
    await spender.cap("0.50")
    assert (await agent_of(spender)).suspended_until is not None, "the cap leaves nothing"
    await spender.cap("0.60")
    assert (await agent_of(spender)).suspended_until is None
    await suspend(spender)
    await cap_all(database, calls=1)
    assert (await agent_of(spender)).suspended_until is not None
    await spender.cap("9.00")
    assert (await agent_of(spender)).suspended_until is not None, "the installation's is used up"
    await cap_all(database, calls=2)
    assert (await agent_of(spender)).suspended_until is None


async def test_the_whole_loop_stops_at_its_cap_without_a_dead_letter(
    sandbox_settings: Settings, database: Database, sandbox: str, bus: Bus
) -> None:
    agent = await make_agent(database, interval_seconds=1)
    async with database.transaction() as session:
        row = await session.get_one(Agent, agent.id)
        row = await change(session, row, budget_calls_per_day=caps(calls=3).calls_per_day)
    async with running_services(sandbox_settings):
        iteration = await ended_iteration(database, agent, 1)
    assert iteration.status == IterationStatus.FAILED
    assert iteration.errors
    assert all("3 of 3 calls are used" in error for error in iteration.errors)
    assert sum(Sandbox(sandbox).billed().values()) == 3
    assert len(await inbox(database)) == 1
    async with database.transaction() as session:
        assert (await session.scalars(select(DeadLetter))).all() == []
        agent_row = await session.get_one(Agent, agent.id)
    assert agent_row.iterations_started == 1
    assert agent_row.suspended_until is not None
    assert await nothing_is_reserved(database)
