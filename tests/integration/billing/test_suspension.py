"""Agents whose budget is used up: they rest until the next day, their owner is told once, and nobody has to mend it."""

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
from tests.support.actors import ended_iteration, running
from tests.support.levers import Sandbox
from tests.support.making import make_agent
from tests.support.spending import (
    TODAY,
    TOMORROW,
    Spender,
    cap_all,
    caps,
    nothing_is_reserved,
    usd,
)

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


async def refused(spender: Spender, **given: Any) -> BudgetUsedUpError | TransientError:
    async with spender.database.transaction() as session:
        return await budgets.suspend_or_retry(
            session, spender.agent.id, usd("0.10"), **{"day": TODAY, **given}
        )


async def spent(spender: Spender, amount: str, **given: Any) -> None:
    await spender.settle(await spender.reserved(amount, **given), amount)


async def test_the_owner_is_told_once_for_each_cap_and_day(
    spender: Spender, database: Database
) -> None:
    await spent(spender, "0.95", name="a")
    await spent(spender, "0.95", name="b", day=TOMORROW)
    await spender.cap("1.00")
    for _ in range(3):
        assert isinstance(await refused(spender), BudgetUsedUpError)
    assert (await agent_of(spender)).suspended_until == MIDNIGHT
    [told] = await inbox(database)
    assert (told.kind, told.node_id, told.owner_id) == ("notice", None, spender.agent.owner_id)
    assert told.title == (
        "Battery watch rests until tomorrow: its budget of 1 USD a day is used up"
    )
    assert "of 1 USD a day 0.95 USD are spent" in told.summary
    assert "`vigil budget AGENT --usd …`" in told.summary
    await refused(spender, day=TOMORROW)
    assert (await agent_of(spender)).suspended_until == MIDNIGHT + timedelta(days=1)
    await spender.cap()
    await cap_all(database, calls=1)
    await refused(spender)
    titles = [item.title for item in await inbox(database)]
    assert len(titles) == 3
    assert "the installation's budget of 1 call a day" in titles[2]


async def test_who_only_waits_for_others_does_not_rest(
    spender: Spender, database: Database
) -> None:
    await spender.reserve("0.95")
    await spender.cap("1.00")
    error = await refused(spender)
    assert isinstance(error, TransientError)
    assert (error.counts, error.retry_in_seconds) == (False, budgets.RETRY_SECONDS)
    assert ((await agent_of(spender)).suspended_until, await inbox(database)) == (None, [])


async def test_who_was_refused_before_the_cap_was_raised_does_not_rest(spender: Spender) -> None:
    await spent(spender, "0.95")
    await spender.cap("1.00")
    await spender.cap("2.00")
    assert isinstance(await refused(spender), TransientError)
    assert (await agent_of(spender)).suspended_until is None


async def rest(spender: Spender, *, seconds: float = 3600) -> None:
    async with spender.database.transaction() as session:
        until = func.clock_timestamp() + timedelta(seconds=seconds)
        await session.execute(update(Agent).values(suspended_until=until))


@pytest.mark.parametrize("asked_to_run", [False, True])
async def test_no_iteration_is_started_while_an_agent_rests(
    database: Database, asked_to_run: bool
) -> None:
    await make_agent(database)
    ticker = Ticker(database, deadline_seconds=600)
    async with database.transaction() as session:
        now = func.clock_timestamp()
        later = now + timedelta(seconds=3600)
        values: dict[str, Any] = {"suspended_until": later}
        if asked_to_run:
            values |= {"run_requested_at": now, "next_run_at": later}
        await session.execute(update(Agent).values(**values))
    assert await ticker.tick() == []
    async with database.transaction() as session:
        await session.execute(update(Agent).values(suspended_until=func.clock_timestamp()))
    assert len(await ticker.tick()) == 1


async def test_a_higher_cap_ends_the_rest_where_it_leaves_something(
    sandbox_settings: Settings, database: Database
) -> None:
    spender = await Spender.of(database)
    await spent(spender, "0.50", day=None)
    await rest(spender)
    await spender.cap("0.50")
    assert (await agent_of(spender)).suspended_until is not None, "nothing is left of it"
    await spender.cap("0.60")
    assert (await agent_of(spender)).suspended_until is None
    await rest(spender)
    await cap_all(database, calls=1)
    assert (await agent_of(spender)).suspended_until is not None
    await spender.cap("9.00")
    assert (await agent_of(spender)).suspended_until is not None, "the installation's is used up"
    await cap_all(database, calls=2)
    assert (await agent_of(spender)).suspended_until is None


async def test_the_whole_loop_rests_at_its_cap_and_needs_no_mending(
    sandbox_settings: Settings, database: Database, sandbox: str, bus: Bus
) -> None:
    agent = await make_agent(database, interval_seconds=1)
    async with database.transaction() as session:
        row = await session.get_one(Agent, agent.id)
        row.budget_calls_per_day = caps(calls=3).calls_per_day
    async with running(sandbox_settings):
        ended = await ended_iteration(database, agent, 1)
    assert ended.status == IterationStatus.FAILED
    assert ended.errors
    assert all("of 3 calls a day 3 calls are spent" in error for error in ended.errors)
    assert sum(Sandbox(sandbox).billed().values()) == 3
    assert len(await inbox(database)) == 1
    async with database.transaction() as session:
        assert (await session.scalars(select(DeadLetter))).all() == []
        kept = await session.get_one(Agent, agent.id)
    assert kept.iterations_started == 1
    assert kept.suspended_until is not None
    assert await nothing_is_reserved(database)
