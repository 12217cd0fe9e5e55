"""The books of budgets: reserved before, settled after, never above a cap, and nothing left behind."""

import asyncio

import pytest

from services.aggregator.reducer import DeadlinePassed
from services.aggregator.transitions import apply_tick
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
    book_faults,
    cap_all,
    kept,
    nothing_is_reserved,
    usd,
    whole_day,
)


@pytest.fixture
async def spender(database: Database) -> Spender:
    return await Spender.of(database)


async def test_what_is_reserved_becomes_what_it_has_cost(
    spender: Spender, database: Database
) -> None:
    sending = await spender.reserved("0.50")
    assert await spender.day() == await whole_day(database) == kept(reserved="0.50", held=1)
    assert await book_faults(database) == []
    await spender.settle(sending, "0.02")
    assert await spender.day() == await whole_day(database) == kept("0.02", 1)
    row = await spender.row(sending.call_id)
    assert row.reserved_on is None
    assert row.assumed_usd == 0
    assert await nothing_is_reserved(database)


async def test_what_was_refused_costs_nothing(spender: Spender, database: Database) -> None:
    await spender.release(await spender.reserved("0.50"))
    assert await spender.day() == await whole_day(database) == NOTHING
    assert await nothing_is_reserved(database)


async def test_an_answer_that_does_not_tell_its_cost_counts_at_its_bound(
    spender: Spender, database: Database
) -> None:
    sending = await spender.reserved("0.50")
    await spender.settle(sending, None)
    assert await spender.day() == await whole_day(database) == kept("0.50", 1)
    assert (await spender.row(sending.call_id)).assumed_usd == usd("0.50")


async def test_what_is_settled_is_settled_once(spender: Spender, database: Database) -> None:
    sending = await spender.reserved("0.50")
    for cost in ("0.10", "0.20", None):
        await spender.settle(sending, cost)
    await spender.release(sending)
    assert await spender.day() == await whole_day(database) == kept("0.10", 1)


async def test_a_call_that_is_sent_again_is_reserved_for_again(
    spender: Spender, database: Database
) -> None:
    """As by another worker, when nobody knows what became of the first sending."""
    first = await spender.reserved("0.50")
    async with database.transaction() as session:
        await reservations.write_off_call(session, first.call_id)
        second = await reservations.reserve(
            session, spender.agent.id, {first.call_id: usd("0.40")}, day=TODAY
        )
    assert second is not None
    assert [each.number for each in second] == [2]
    assert await spender.day() == kept("0.50", 1, "0.40", 1)
    await spender.settle(first, "0.01")
    assert await spender.day() == kept("0.50", 1, "0.40", 1), "the first comes too late"
    await spender.settle(second[0], "0.01")
    assert await spender.day() == await whole_day(database) == kept("0.51", 2)
    assert (await spender.row(first.call_id)).assumed_usd == usd("0.50")


async def test_nothing_passes_the_cap_in_usd(spender: Spender, database: Database) -> None:
    await spender.cap("1.00")
    assert await spender.reserve("1.00000001") is None
    assert await spender.day() == await whole_day(database) == NOTHING
    first = await spender.reserved("0.60", "a")
    assert await spender.reserve("0.60", "b") is None
    await spender.settle(first, "0.40")
    assert await spender.reserve("0.60", "b") is not None, "just as much as there is"
    assert await spender.reserve("0.00000001", "c") is None
    assert await book_faults(database) == []


async def test_nothing_passes_the_cap_in_calls(spender: Spender) -> None:
    await spender.cap(calls=2)
    assert await spender.reserve("0.10", "a", "b", "c") is None, "all or none"
    assert await spender.reserve("0.10", "a", "b") is not None
    assert await spender.reserve("0.10", "c") is None


async def test_a_cap_of_nothing_lets_nothing_through(spender: Spender) -> None:
    await spender.cap(0)
    assert await spender.reserve("0.00000001") is None
    await spender.cap(calls=0)
    assert await spender.reserve("0.00000001") is None


async def test_what_the_installation_refuses_the_agent_is_not_charged(
    spender: Spender, database: Database
) -> None:
    await cap_all(database, "1.00")
    other = await Spender.of(database, "Another")
    assert await other.reserve("0.70") is not None
    assert await spender.reserve("0.70") is None
    assert await spender.day() == NOTHING
    assert (await spender.row(await spender.call())).attempts == 0
    assert await whole_day(database) == kept(reserved="0.70", held=1)
    assert await book_faults(database) == []
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
    assert (await spender.day(), await whole_day(database)) == (kept("0.80", 1),) * 2
    assert await spender.day(TOMORROW) == kept(reserved="0.90", held=1)
    await spender.settle(early, "0.70")
    assert (await spender.day(TOMORROW), await whole_day(database, TOMORROW)) == (
        kept("0.70", 1),
    ) * 2
    assert await nothing_is_reserved(database)


async def test_a_cap_counts_at_once_and_never_backwards(spender: Spender) -> None:
    sending = await spender.reserved("0.90", "a")
    await spender.cap("0.10")
    assert await spender.reserve("0.01", "b") is None
    await spender.settle(sending, "0.85")
    assert await spender.day() == kept("0.85", 1), "what was let through is paid"
    assert await spender.reserve("0.01", "b") is None
    await spender.cap("0.86")
    assert await spender.reserve("0.01", "b") is not None


async def test_without_a_day_given_it_is_the_databases(
    spender: Spender, database: Database
) -> None:
    sending = await spender.reserved("0.10", day=None)
    assert {each.day for each in await all_days(database)} == {sending.day}


@pytest.mark.parametrize("how", ["completed", "failed", "abandoned"])
async def test_a_step_that_ends_leaves_nothing_reserved(
    spender: Spender, database: Database, how: str
) -> None:
    await spender.reserve("0.30", "a", "b")
    await spender.reserve("0.40", "c", day=TOMORROW)
    async with database.transaction() as session:
        match how:
            case "completed":
                await steps.end(session, spender.lease, {})
            case "failed":
                await steps.fail(session, spender.lease, "broken", attempts=1)
            case _:
                assert spender.lease.iteration_id is not None
                await apply_tick(session, spender.lease.iteration_id, lambda _: DeadlinePassed(60))
    assert await spender.day() == await whole_day(database) == kept("0.60", 2)
    assert await whole_day(database, TOMORROW) == kept("0.40", 1)
    assert await nothing_is_reserved(database)


async def test_a_step_that_is_given_back_keeps_what_may_still_be_settled(
    spender: Spender, database: Database
) -> None:
    sending = await spender.reserved("0.30")
    async with database.transaction() as session:
        await steps.release(session, spender.lease, "later", attempts=0, rest_seconds=0)
    assert await spender.day() == kept(reserved="0.30", held=1)
    await spender.settle(sending, "0.10")
    assert await nothing_is_reserved(database)


async def test_a_deleted_agents_open_sendings_stay_spent(
    spender: Spender, database: Database
) -> None:
    await spender.settle(await spender.reserved("0.30", "a"), "0.10")
    under_way = await spender.reserved("0.40", "b")
    yesterdays = await spender.reserved("0.20", "c", day=TOMORROW)
    async with database.transaction() as session:
        await agents.delete_agent(session, spender.agent.id)
    for sending in (under_way, yesterdays):
        await spender.settle(sending, "0.01")
    assert await whole_day(database) == kept("0.50", 2)
    assert await whole_day(database, TOMORROW) == kept("0.20", 1)
    assert await spender.day() == NOTHING
    assert await nothing_is_reserved(database)


async def test_workers_at_the_same_time_share_a_cap_exactly(
    spender: Spender, database: Database
) -> None:
    await spender.cap("1.00", 100)
    calls = [await spender.call(f"{number}") for number in range(40)]

    async def pay(number: int) -> bool:
        async with database.transaction() as session:
            bound = {calls[number]: usd("0.10")}
            reserved = await reservations.reserve(session, spender.agent.id, bound, day=TODAY)
        if reserved is None:
            return False
        async with database.transaction() as session:
            await reservations.settle(session, reserved[0], usd("0.10"))
        return True

    paid = await asyncio.gather(*map(pay, range(40)))
    assert sum(paid) == 10
    assert await spender.day() == await whole_day(database) == kept("1.00", 10)
    assert await nothing_is_reserved(database)


async def test_agents_at_the_same_time_share_the_installations_cap_exactly(
    database: Database,
) -> None:
    await cap_all(database, "1.00")
    spenders = [await Spender.of(database, f"Agent {number}") for number in range(6)]
    calls = [[await spender.call(f"{number}") for number in range(5)] for spender in spenders]

    async def pay(spender: Spender, number: int) -> bool:
        call = calls[spenders.index(spender)][number]
        async with database.transaction() as session:
            bound = {call: usd("0.10")}
            reserved = await reservations.reserve(session, spender.agent.id, bound, day=TODAY)
        if reserved is None:
            return False
        async with database.transaction() as session:
            await reservations.settle(session, reserved[0], usd("0.09"))
        return True

    paid = await asyncio.gather(*(pay(each, number) for each in spenders for number in range(5)))
    spent = await whole_day(database)
    assert spent.spent == (usd("0.09") * sum(paid), sum(paid))
    assert usd("0.90") <= spent.spent[0] <= usd("1.00")
    of_agents = [await each.day() for each in spenders]
    assert sum(each.spent[0] for each in of_agents) == spent.spent[0]
    assert await nothing_is_reserved(database)
