"""The daily cap of one phase, within the agent's budget."""

import asyncio
from decimal import Decimal
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text

from shared.billing import budgets, call_ledger, reservations
from shared.billing.call_ledger import CallAnswer
from shared.billing.reservations import Attempt
from shared.database.engine import Database
from shared.database.transaction import Transaction
from shared.enums import Phase
from tests.support.lock_probe import has_lock_waiter
from tests.support.spending import Spender, usd
from tests.support.waiting import wait_until

CAP = usd("0.50")


@pytest.fixture
async def spender(database: Database) -> Spender:
    return await Spender.of(database)


async def _allows(
    session: Transaction, spender: Spender, amount: str, call_id: UUID | None = None
) -> bool:
    return await budgets.allows_in_phase(
        session,
        spender.agent.id,
        Phase.OBSERVER,
        CAP,
        call_id=call_id or uuid4(),
        max_cost_usd=usd(amount),
    )


async def _is_allowed(spender: Spender, amount: str, call_id: UUID | None = None) -> bool:
    async with spender.database.transaction() as session:
        return await _allows(session, spender, amount, call_id)


async def _answer(spender: Spender, attempt: Attempt, cost: str) -> None:
    """Record an answer at this cost."""
    await spender.settle(attempt, cost)
    async with spender.database.transaction() as session:
        answer = CallAnswer({}, cost_usd=usd(cost))
        for query in call_ledger.answer_queries(attempt.call_id, answer):
            await query.execute(session)


async def test_what_is_spent_and_reserved_in_the_phase_counts(spender: Spender) -> None:
    assert await _is_allowed(spender, "0.50")
    assert not await _is_allowed(spender, "0.51")
    [attempt] = await spender.reserve("0.40", day=None) or ()
    assert await _is_allowed(spender, "0.10")
    assert not await _is_allowed(spender, "0.11")
    assert await _is_allowed(spender, "0.10", attempt.call_id)
    assert not await _is_allowed(spender, "0.11", attempt.call_id), "an earlier attempt counts"
    await _answer(spender, attempt, "0.30")
    assert await _is_allowed(spender, "0.20")
    assert not await _is_allowed(spender, "0.21")


async def test_calls_of_yesterday_and_of_other_phases_do_not_count(spender: Spender) -> None:
    [attempt] = await spender.reserve("0.40", day=None) or ()
    await _answer(spender, attempt, "0.40")
    assert not await _is_allowed(spender, "0.50")
    for change in (
        "update calls set started_at = now() - interval '1 day'",
        "update calls set started_at = now(), phase = 'conversation'",
    ):
        async with spender.database.transaction() as session:
            await session.execute(text(change))
        assert await _is_allowed(spender, "0.50")


async def test_a_call_that_is_answered_is_allowed_whatever_is_spent(spender: Spender) -> None:
    [attempt] = await spender.reserve("0.50", day=None) or ()
    await _answer(spender, attempt, "0.50")
    assert not await _is_allowed(spender, "0.10")
    assert await _is_allowed(spender, "0.10", attempt.call_id)


async def test_two_steps_cannot_reserve_the_rest_at_once(spender: Spender) -> None:
    """The second one waits until the reservation of the first is committed."""
    call_id = await spender.call()
    async with spender.database.transaction() as session:
        assert await _allows(session, spender, "0.40", call_id)
        second = asyncio.create_task(_is_allowed(spender, "0.40"))
        await wait_until(lambda: has_lock_waiter(spender.database), what="the second one to wait")
        reserved = await reservations.reserve(session, spender.agent.id, {call_id: Decimal("0.40")})
        assert reserved is not None
    assert not await second
