"""Reservations of calls and steps: what they hold, of how many tokens, and what is settled."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import select, text

from services.aggregator.handler import Aggregate
from shared.agents import agents
from shared.billing import budgets, call_ledger, reservations, token_lengths
from shared.billing.call_ledger import CallAnswer, CallRequest, OpenedCalls
from shared.billing.reservations import INSTALLATION, Attempt
from shared.billing.token_lengths import REQUEST_BYTES
from shared.database.engine import Database
from shared.database.statements import Batch, CompiledStatement
from shared.database.tables import Agent, Call, Interaction
from shared.database.tables.agents import BYTES_PER_TOKEN
from shared.database.transaction import Transaction
from shared.enums import CallKind, Phase
from shared.graph.scope import GraphScope
from shared.llm.messages import ChatRequest
from shared.llm.phase_run_store import NewRun
from shared.workflow import leases, steps
from shared.workflow.iterations import StartedIteration
from shared.workflow.steps import Pauses
from tests.support.factories import make_agent, make_iteration
from tests.support.lock_probe import has_lock_waiter
from tests.support.spending import (
    NOTHING,
    TODAY,
    TOMORROW,
    Amount,
    LedgerDay,
    Spender,
    all_days,
    cap_all,
    day_of,
    ledger_day,
    ledger_faults,
    nothing_is_reserved,
    usd,
    whole_day,
)
from tests.support.table_rows import add
from tests.support.waiting import wait_until


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


ANSWER = CallAnswer({"said": "done"}, 3, 4, usd("0.02"))
MAX_USD = "0.10"


class Step:
    """The calls of one step, as its worker pays for them."""

    def __init__(self, spender: Spender, interaction_id: UUID) -> None:
        self.spender = spender
        self.database = spender.database
        self._interaction_id = interaction_id

    @classmethod
    async def of(cls, database: Database, name: str = "Watch") -> "Step":
        spender = await Spender.of(database, name)
        run = NewRun(
            database, spender.lease, Phase.OBSERVER, model="m", system_prompt="", request={}
        )
        async with database.transaction() as transaction:
            interaction = await run.open_or_resume(transaction)
        return cls(spender, interaction.id)

    async def pay(
        self, *names: str, answers: Sequence[Attempt] = (), max_usd: Amount = MAX_USD
    ) -> OpenedCalls:
        """Answers what was opened before, and opens other calls, in one commit."""
        rows = [
            call_ledger.new_row(
                self.spender.lease,
                self._interaction_id,
                Phase.OBSERVER,
                CallRequest(CallKind.LLM, {"name": name}, {"of": name}, "m"),
            )
            for name in names
        ]
        paid = [call_ledger.paid_answer(attempt, ANSWER, is_unbilled=False) for attempt in answers]
        batch = Batch()
        opened = call_ledger.pay(
            batch,
            self.spender.lease,
            paid,
            rows,
            {row["id"]: usd(max_usd) for row in rows},
            holding=self.spender.lease.holding,
        )
        async with self.database.transaction() as transaction:
            await batch.execute(transaction)
        assert await ledger_faults(self.database) == []
        return opened.value

    async def open(self, name: str) -> Attempt:
        _, (attempt,) = await self.pay(name)
        return attempt

    async def booked(self) -> LedgerDay:
        """What the budget of the agent shows, with all that its step holds."""
        row = await self._row(
            "select spent_usd, spent_calls, reserved_usd, reserved_calls from budget_days where scope = :agent"
        )
        return LedgerDay((row[0], row[1]), (row[2], row[3]))

    async def budget_version(self) -> object:
        """Changes with each write to the budget of the installation."""
        return await self._row(f"select xmin::text from budget_days where scope = '{INSTALLATION}'")

    async def execute(self, sql: str) -> None:
        async with self.database.transaction() as transaction:
            await transaction.execute(text(sql), {"agent": self.spender.agent.id})

    async def _row(self, sql: str) -> tuple[Any, ...]:
        async with self.database.transaction() as transaction:
            return tuple(
                (await transaction.execute(text(sql), {"agent": self.spender.agent.id})).one()
            )


@pytest.fixture
async def step(database: Database) -> Step:
    return await Step.of(database)


async def test_the_budgets_are_written_once_for_the_calls_of_a_step(step: Step) -> None:
    attempt = await step.open("0")
    assert await step.booked() == ledger_day(
        reserved=call_ledger.NEXT_COSTS * usd(MAX_USD), held=call_ledger.NEXT_CALLS
    )
    version = await step.budget_version()
    for number in range(1, call_ledger.NEXT_CALLS):
        _, (attempt,) = await step.pay(str(number), answers=[attempt], max_usd="0.05")
    assert await step.budget_version() == version
    _, (attempt,) = await step.pay("more", answers=[attempt])
    assert await step.budget_version() != version, "it is topped up"
    await step.pay(answers=[attempt])
    async with step.database.transaction() as transaction:
        await steps.end(transaction, step.spender.lease, {})
    calls = call_ledger.NEXT_CALLS + 1
    assert await step.booked() == ledger_day(usd("0.02") * calls, calls)
    assert await nothing_is_reserved(step.database)


async def test_near_a_cap_only_what_is_opened_is_reserved(step: Step) -> None:
    await step.spender.cap("0.15")
    attempt = await step.open("a")
    assert await step.booked() == ledger_day(reserved=MAX_USD, held=1)
    _, attempts = await step.pay("b", answers=[attempt])
    assert len(attempts) == 1
    _, refused = await step.pay("c")
    assert refused == ()
    assert await step.spender.day(attempt.day) == ledger_day("0.02", 1, MAX_USD, 1)


async def test_what_a_step_holds_does_not_refuse_its_own_call(step: Step) -> None:
    """It holds enough for small calls; a large one takes the rest of the cap, which includes that."""
    first = await step.open("a")
    await step.spender.cap("0.30")
    _, (large,) = await step.pay("b", answers=[first], max_usd="0.28")
    assert await step.spender.day(first.day) == ledger_day("0.02", 1, "0.28", 1)
    await step.pay(answers=[large])
    assert await step.spender.day(first.day) == ledger_day("0.04", 2)


@pytest.mark.parametrize("of_agent", [True, False])
@pytest.mark.parametrize("cap", [("0.05", None), (None, 1)])
async def test_a_cap_that_is_lowered_meanwhile_refuses_the_next_call(
    step: Step, of_agent: bool, cap: tuple[str | None, int | None]
) -> None:
    attempt = await step.open("a")
    if of_agent:
        await step.spender.cap(*cap)
    else:
        await cap_all(step.database, *cap)
    _, refused = await step.pay("b", answers=[attempt])
    assert refused == ()
    assert await step.spender.day(attempt.day) == ledger_day("0.02", 1)


async def test_another_step_sees_what_was_spent(step: Step) -> None:
    """Its agent is suspended if the budget is used up, though the other step has not ended."""
    await step.spender.cap("0.11")
    await step.pay(answers=[await step.open("a")])
    async with step.database.transaction() as transaction:
        exceeded = await budgets.check_caps(transaction, step.spender.agent.id, usd("0.10"))
    assert exceeded is not None
    assert (exceeded.usage.spent, exceeded.is_temporary) == (usd("0.02"), False)


async def test_calls_after_midnight_are_paid_from_the_new_day(step: Step) -> None:
    attempt = await step.open("a")
    # As if it had been opened on the day before.
    await step.execute("alter table steps disable trigger settle_step")
    for change in (
        "update budget_days set day = day - 1",
        "update calls set reserved_on = reserved_on - 1",
        "update steps set reserved_on = reserved_on - 1 where reserved_on is not null",
    ):
        await step.execute(change)
    await step.execute("alter table steps enable trigger settle_step")
    yesterday = Attempt(
        attempt.call_id,
        attempt.agent_id,
        attempt.number,
        attempt.day - timedelta(days=1),
        attempt.max_cost_usd,
    )
    _, (later,) = await step.pay("b", answers=[yesterday])
    assert later.day == attempt.day
    assert await step.spender.day(yesterday.day) == ledger_day("0.02", 1)
    assert await step.spender.day(later.day) == ledger_day(reserved=MAX_USD, held=1)
    await step.pay(answers=[later])
    assert await whole_day(step.database, later.day) == ledger_day("0.02", 1)


async def _release(step: Step) -> None:
    async with step.database.transaction() as transaction:
        await steps.release(transaction, step.spender.lease, "", attempts=0, rest_seconds=0)


async def _wait(step: Step) -> None:
    async with step.database.transaction() as transaction:
        await steps.wait(transaction, step.spender.lease, "away", pauses=Pauses())


async def _fail(step: Step) -> None:
    async with step.database.transaction() as transaction:
        await steps.fail(transaction, step.spender.lease, "broken", attempts=1)


async def _end(step: Step) -> None:
    async with step.database.transaction() as transaction:
        await steps.end(transaction, step.spender.lease, {})


async def _abandon(step: Step) -> None:
    assert step.spender.lease.iteration_id is not None
    await Aggregate(step.database).pass_deadline(step.spender.lease.iteration_id, 60)


async def _end_in_an_earlier_version(step: Step) -> None:
    await step.execute(
        "update steps set status = 'completed', ended_at = now() where agent_id = :agent"
    )


@pytest.mark.parametrize(
    ("stop", "open_attempt"),
    [
        (_release, "reserved"),
        (_wait, "reserved"),
        (_fail, "spent"),
        (_end, "spent"),
        (_abandon, "spent"),
        (_end_in_an_earlier_version, "reserved"),
    ],
)
async def test_a_step_that_does_not_run_holds_nothing(
    step: Step, stop: Callable[[Step], Awaitable[None]], open_attempt: str
) -> None:
    """A call without an answer counts at its maximum once the step has ended; else it may still be answered."""
    first = await step.open("a")
    await step.pay("b", answers=[first])
    await stop(step)
    assert await ledger_faults(step.database) == []
    assert await step.booked() == (
        ledger_day(usd("0.02") + usd(MAX_USD), 2)
        if open_attempt == "spent"
        else ledger_day("0.02", 1, MAX_USD, 1)
    )


async def test_the_next_worker_uses_what_a_dead_one_has_reserved(step: Step) -> None:
    await step.open("a")
    await step.execute(
        "update steps set epoch = epoch + 1, lease_owner = 'next' where agent_id = :agent"
    )
    next_lease = replace(step.spender.lease, epoch=step.spender.lease.epoch + 1)
    step.spender = replace(step.spender, lease=next_lease)
    version = await step.budget_version()
    assert await step.open("b")
    assert await step.budget_version() == version


async def test_a_call_of_an_earlier_version_is_closed_and_its_reservation_used(step: Step) -> None:
    """That version reserves each call on its own."""
    attempt = await step.spender.reserved(MAX_USD, day=None)
    version = await step.budget_version()
    _, (later,) = await step.pay("b", answers=[attempt], max_usd="0.05")
    assert await step.budget_version() != version, (
        "one call was reserved, for one that was answered"
    )
    await step.pay(answers=[later])
    assert await step.spender.day(later.day) == ledger_day("0.04", 2)


async def test_an_earlier_version_closes_a_call_that_a_step_has_paid_for(step: Step) -> None:
    attempt = await step.open("a")
    await step.spender.settle(attempt, "0.03")
    assert await ledger_faults(step.database) == []
    assert await step.spender.day(attempt.day) == ledger_day("0.03", 1)


async def test_what_a_deleted_agent_has_spent_stays_spent(step: Step) -> None:
    first = await step.open("a")
    await step.pay("b", answers=[first])
    async with step.database.transaction() as transaction:
        await agents.delete_agent(transaction, step.spender.agent.id)
    assert await day_of(step.database, INSTALLATION, first.day) == ledger_day(
        usd("0.02") + usd(MAX_USD), 2
    )
    assert await nothing_is_reserved(step.database)


async def test_a_payment_that_was_made_before_changes_nothing(step: Step) -> None:
    first = await step.open("a")
    await step.spender.settle(first, "0.02")
    second = await step.open("b")
    await step.pay(answers=[first, second])
    assert await step.spender.day(first.day) == ledger_day("0.04", 2)
    async with step.database.transaction() as transaction:
        assert (
            await reservations.step_write_off(step.spender.lease.step_id).execute(transaction) == []
        )


@pytest.mark.parametrize("answered_calls", [60, 600])
@pytest.mark.parametrize("statement", [call_ledger._PAY, call_ledger._PAY_AND_RESERVE])
async def test_a_payment_finds_its_calls_by_their_ids(
    step: Step, answered_calls: int, statement: CompiledStatement
) -> None:
    """Also while the table is small, or where almost no call is reserved."""
    await step.open("a")
    async with step.database.transaction() as transaction:
        await transaction.execute(_COPIES, {"copies": answered_calls})
        await transaction.execute(text("analyze calls, budget_days, agents, steps"))
    sql = statement.bind(_AnyParameter()).sql.decode()
    async with step.database.connection() as connection:
        cursor = await connection.execute(f"explain (generic_plan) {sql}".encode())
        plan = "\n".join(row[0] for row in await cursor.fetchall())
    assert "Seq Scan on calls" not in plan, plan
    assert "calls_reserved_idx" not in plan, plan
    assert "Index Scan using calls_pkey on calls" in plan, plan


class _AnyParameter(dict[str, None]):
    def __missing__(self, _: str) -> None:
        return None


_COPIES = text("""
insert into calls (id, agent_id, iteration_id, step_id, interaction_id, kind, phase, model, request_hash, request,
  answered_at)
select gen_random_uuid(), agent_id, iteration_id, step_id, interaction_id, kind, phase, model, cast(number as text), request,
  now()
from generate_series(1, :copies) as number, (select * from calls limit 1) as call
""")


CAP = usd("0.50")


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


class Caller:
    """An observe step whose calls a server has counted."""

    def __init__(self, database: Database, started: StartedIteration) -> None:
        self.database = database
        self.step = started.observe
        self._run_id: UUID | None = None

    async def call(self, request_bytes: int, tokens: int | None, count: int = 1) -> None:
        ids = {
            "agent_id": self.step.agent_id,
            "iteration_id": self.step.iteration_id,
            "step_id": self.step.id,
            "phase": Phase.OBSERVER,
            "model": "m",
        }
        async with self.database.transaction() as session:
            if self._run_id is None:
                self._run_id = uuid4()
                await session.insert(
                    Interaction, **ids, id=self._run_id, system_prompt="Plan.", request={}
                )
            for _ in range(count):
                call = Call(**ids, id=uuid4(), interaction_id=self._run_id, kind=CallKind.LLM)
                call.request_hash = uuid4().hex
                call.request = {REQUEST_BYTES: request_bytes}
                call.input_tokens = tokens
                await add(session, call)

    async def measured(self) -> float:
        await self.database.run(token_lengths.measuring(self.step.agent_id))
        async with self.database.transaction() as session:
            return (
                await session.scalars(
                    select(Agent.bytes_per_token).where(Agent.id == self.step.agent_id)
                )
            ).one()


@pytest.fixture
async def caller(database: Database) -> Caller:
    return Caller(database, await make_iteration(database, await make_agent(database)))


async def test_the_newest_calls_count(caller: Caller) -> None:
    assert await caller.measured() == BYTES_PER_TOKEN
    await caller.call(9_000, 1_000, count=9)
    assert await caller.measured() == BYTES_PER_TOKEN, "too few calls"
    await caller.call(4_000, 1_000, count=60)
    assert await caller.measured() == 4.0


async def test_small_changes_and_implausible_counts_change_nothing(caller: Caller) -> None:
    await caller.call(3_300, 1_000, count=20)
    assert await caller.measured() == BYTES_PER_TOKEN, "a change of 3 %"
    await caller.call(7_000, 1_000, count=60)
    assert await caller.measured() == BYTES_PER_TOKEN, "7 bytes a token"
    await caller.call(4_000, None, count=60)
    await caller.call(4_000, 0, count=60)
    assert await caller.measured() == BYTES_PER_TOKEN


async def test_a_worker_gets_the_budget_of_its_agent(caller: Caller, database: Database) -> None:
    await caller.call(2_000, 1_000, count=20)
    assert await caller.measured() == 2.0
    look = await database.run(leases.load(caller.step.id, "worker"))
    assert isinstance(look, leases.Claimable)
    assert GraphScope.of(look.lease).budget_bytes(1_000) == 2_000


def test_a_chat_request_is_stored_with_its_length() -> None:
    request = ChatRequest("m", ({"role": "user", "content": "Plan. 锂"},))
    call = request.call
    assert call.summary[REQUEST_BYTES] == len(call.canonical)
    assert len(call.canonical) > len("Plan. 锂".encode())
