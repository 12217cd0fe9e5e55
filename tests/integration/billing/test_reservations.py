"""Budget reservations: made before a call, settled after it, never above a cap, none left open."""

import asyncio

import pytest

from services.aggregator.handler import Aggregate
from shared.agents import agents
from shared.billing import reservations
from shared.database.engine import Database
from shared.workflow import steps
from tests.support.spending import (
    NOTHING,
    TODAY,
    TOMORROW,
    Spender,
    all_days,
    cap_all,
    ledger_day,
    ledger_faults,
    nothing_is_reserved,
    usd,
    whole_day,
)


@pytest.fixture
async def spender(database: Database) -> Spender:
    return await Spender.of(database)


async def test_a_reservation_is_settled_at_its_actual_cost(
    spender: Spender, database: Database
) -> None:
    attempt = await spender.reserved("0.50")
    assert await spender.day() == await whole_day(database) == ledger_day(reserved="0.50", held=1)
    assert await ledger_faults(database) == []
    await spender.settle(attempt, "0.02")
    assert await spender.day() == await whole_day(database) == ledger_day("0.02", 1)
    row = await spender.row(attempt.call_id)
    assert row.reserved_on is None
    assert row.assumed_usd == 0
    assert await nothing_is_reserved(database)


async def test_a_released_reservation_costs_nothing(spender: Spender, database: Database) -> None:
    await spender.release(await spender.reserved("0.50"))
    assert await spender.day() == await whole_day(database) == NOTHING
    assert await nothing_is_reserved(database)


async def test_a_response_of_unknown_cost_counts_at_its_maximum_cost(
    spender: Spender, database: Database
) -> None:
    attempt = await spender.reserved("0.50")
    await spender.settle(attempt, None)
    assert await spender.day() == await whole_day(database) == ledger_day("0.50", 1)
    assert (await spender.row(attempt.call_id)).assumed_usd == usd("0.50")


async def test_a_reservation_is_settled_once(spender: Spender, database: Database) -> None:
    attempt = await spender.reserved("0.50")
    for cost in ("0.10", "0.20", None):
        await spender.settle(attempt, cost)
    await spender.release(attempt)
    assert await spender.day() == await whole_day(database) == ledger_day("0.10", 1)


async def test_a_second_attempt_gets_its_own_reservation(
    spender: Spender, database: Database
) -> None:
    """As another worker does when the outcome of the first attempt is unknown."""
    first = await spender.reserved("0.50")
    async with database.transaction() as session:
        await reservations.write_off_call(session, first.call_id)
        second = await reservations.reserve(
            session, spender.agent.id, {first.call_id: usd("0.40")}, day=TODAY
        )
    assert second is not None
    assert [attempt.number for attempt in second] == [2]
    assert await spender.day() == ledger_day("0.50", 1, "0.40", 1)
    await spender.settle(first, "0.01")
    assert await spender.day() == ledger_day("0.50", 1, "0.40", 1), "the first comes too late"
    await spender.settle(second[0], "0.01")
    assert await spender.day() == await whole_day(database) == ledger_day("0.51", 2)
    assert (await spender.row(first.call_id)).assumed_usd == usd("0.50")


async def test_the_cap_in_usd_is_never_exceeded(spender: Spender, database: Database) -> None:
    await spender.cap("1.00")
    assert await spender.reserve("1.00000001") is None
    assert await spender.day() == await whole_day(database) == NOTHING
    first = await spender.reserved("0.60", "a")
    assert await spender.reserve("0.60", "b") is None
    await spender.settle(first, "0.40")
    assert await spender.reserve("0.60", "b") is not None, "exactly the remaining amount"
    assert await spender.reserve("0.00000001", "c") is None
    assert await ledger_faults(database) == []


async def test_the_cap_in_calls_is_never_exceeded(spender: Spender) -> None:
    await spender.cap(calls=2)
    assert await spender.reserve("0.10", "a", "b", "c") is None, "all or none"
    assert await spender.reserve("0.10", "a", "b") is not None
    assert await spender.reserve("0.10", "c") is None


async def test_a_cap_of_zero_allows_nothing(spender: Spender) -> None:
    await spender.cap(0)
    assert await spender.reserve("0.00000001") is None
    await spender.cap(calls=0)
    assert await spender.reserve("0.00000001") is None


async def test_an_agent_is_not_charged_for_a_call_the_installation_cap_refuses(
    spender: Spender, database: Database
) -> None:
    await cap_all(database, "1.00")
    other = await Spender.of(database, "Another")
    assert await other.reserve("0.70") is not None
    assert await spender.reserve("0.70") is None
    assert await spender.day() == NOTHING
    assert (await spender.row(await spender.call())).attempts == 0
    assert await whole_day(database) == ledger_day(reserved="0.70", held=1)
    assert await ledger_faults(database) == []
    await cap_all(database, calls=1)
    assert await spender.reserve("0.70") is None
    await cap_all(database, calls=2)
    assert await spender.reserve("0.70") is not None


async def test_a_reservation_belongs_to_the_day_on_which_it_was_made(
    spender: Spender, database: Database
) -> None:
    await spender.cap("1.00")
    late = await spender.reserved("0.90", "a")
    assert await spender.reserve("0.90", "b") is None
    early = await spender.reserved("0.90", "b", day=TOMORROW)
    await spender.settle(late, "0.80")
    assert (await spender.day(), await whole_day(database)) == (ledger_day("0.80", 1),) * 2
    assert await spender.day(TOMORROW) == ledger_day(reserved="0.90", held=1)
    await spender.settle(early, "0.70")
    assert (await spender.day(TOMORROW), await whole_day(database, TOMORROW)) == (
        ledger_day("0.70", 1),
    ) * 2
    assert await nothing_is_reserved(database)


async def test_a_new_cap_applies_at_once_but_not_to_open_reservations(spender: Spender) -> None:
    attempt = await spender.reserved("0.90", "a")
    await spender.cap("0.10")
    assert await spender.reserve("0.01", "b") is None
    await spender.settle(attempt, "0.85")
    assert await spender.day() == ledger_day("0.85", 1), "a call that was allowed is paid"
    assert await spender.reserve("0.01", "b") is None
    await spender.cap("0.86")
    assert await spender.reserve("0.01", "b") is not None


async def test_the_default_day_is_the_databases_day(spender: Spender, database: Database) -> None:
    attempt = await spender.reserved("0.10", day=None)
    assert {row.day for row in await all_days(database)} == {attempt.day}


@pytest.mark.parametrize("how", ["completed", "failed", "abandoned"])
async def test_a_step_that_ends_leaves_nothing_reserved(
    spender: Spender, database: Database, how: str
) -> None:
    await spender.reserve("0.30", "a", "b")
    await spender.reserve("0.40", "c", day=TOMORROW)
    if how == "abandoned":
        assert spender.lease.iteration_id is not None
        await Aggregate(database).pass_deadline(spender.lease.iteration_id, 60)
    else:
        async with database.transaction() as session:
            if how == "completed":
                await steps.end(session, spender.lease, {})
            else:
                await steps.fail(session, spender.lease, "broken", attempts=1)
    assert await spender.day() == await whole_day(database) == ledger_day("0.60", 2)
    assert await whole_day(database, TOMORROW) == ledger_day("0.40", 1)
    assert await nothing_is_reserved(database)


async def test_a_released_step_keeps_its_open_reservations(
    spender: Spender, database: Database
) -> None:
    attempt = await spender.reserved("0.30")
    async with database.transaction() as session:
        await steps.release(session, spender.lease, "later", attempts=0, rest_seconds=0)
    assert await spender.day() == ledger_day(reserved="0.30", held=1)
    await spender.settle(attempt, "0.10")
    assert await nothing_is_reserved(database)


async def test_a_deleted_agents_open_attempts_stay_spent(
    spender: Spender, database: Database
) -> None:
    await spender.settle(await spender.reserved("0.30", "a"), "0.10")
    open_today = await spender.reserved("0.40", "b")
    open_tomorrow = await spender.reserved("0.20", "c", day=TOMORROW)
    async with database.transaction() as session:
        await agents.delete_agent(session, spender.agent.id)
    for attempt in (open_today, open_tomorrow):
        await spender.settle(attempt, "0.01")
    assert await whole_day(database) == ledger_day("0.50", 2)
    assert await whole_day(database, TOMORROW) == ledger_day("0.20", 1)
    assert await spender.day() == NOTHING
    assert await nothing_is_reserved(database)


async def test_concurrent_workers_share_a_cap_exactly(spender: Spender, database: Database) -> None:
    await spender.cap("1.00", 100)
    calls = [await spender.call(f"{number}") for number in range(40)]

    async def pay(number: int) -> bool:
        async with database.transaction() as session:
            max_costs = {calls[number]: usd("0.10")}
            attempts = await reservations.reserve(session, spender.agent.id, max_costs, day=TODAY)
        if attempts is None:
            return False
        await spender.settle(attempts[0], "0.10")
        return True

    paid = await asyncio.gather(*map(pay, range(40)))
    assert sum(paid) == 10
    assert await spender.day() == await whole_day(database) == ledger_day("1.00", 10)
    assert await nothing_is_reserved(database)


async def test_concurrent_agents_share_the_installation_cap_exactly(
    database: Database,
) -> None:
    await cap_all(database, "1.00")
    spenders = [await Spender.of(database, f"Agent {number}") for number in range(6)]
    calls = [[await spender.call(f"{number}") for number in range(5)] for spender in spenders]

    async def pay(spender: Spender, number: int) -> bool:
        call = calls[spenders.index(spender)][number]
        async with database.transaction() as session:
            max_costs = {call: usd("0.10")}
            attempts = await reservations.reserve(session, spender.agent.id, max_costs, day=TODAY)
        if attempts is None:
            return False
        await spender.settle(attempts[0], "0.09")
        return True

    paid = await asyncio.gather(
        *(pay(spender, number) for spender in spenders for number in range(5))
    )
    day = await whole_day(database)
    assert day.spent == (usd("0.09") * sum(paid), sum(paid))
    assert usd("0.90") <= day.spent[0] <= usd("1.00")
    agent_days = [await spender.day() for spender in spenders]
    assert sum(agent_day.spent[0] for agent_day in agent_days) == day.spent[0]
    assert await nothing_is_reserved(database)
