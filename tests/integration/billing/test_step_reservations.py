"""A step reserves for its next calls together; every cap holds, and nothing is left when it does not run."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import text

from services.aggregator.handler import Aggregate
from shared.agents import agents
from shared.billing import budgets, call_ledger, reservations
from shared.billing.call_ledger import CallAnswer, CallRequest, OpenedCalls
from shared.billing.reservations import INSTALLATION, Attempt
from shared.database.engine import Database
from shared.database.statements import Batch, CompiledStatement
from shared.enums import CallKind, Phase
from shared.llm.phase_run_store import NewInteraction
from shared.workflow import steps
from shared.workflow.steps import Pauses
from tests.support.spending import (
    Amount,
    LedgerDay,
    Spender,
    cap_all,
    day_of,
    ledger_day,
    ledger_faults,
    nothing_is_reserved,
    usd,
    whole_day,
)

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
        run = NewInteraction(
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
        paid = [call_ledger.paid_answer(attempt, ANSWER, is_billed=True) for attempt in answers]
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
