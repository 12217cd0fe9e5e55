"""Payments of several agents in one commit: one statement, exact budgets, and only what does not fit in waits."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from functools import partial

import pytest
from sqlalchemy import text

from shared.billing import call_ledger, reservations
from shared.billing.call_ledger import CallAnswer, CallRequest, OpenedCalls
from shared.billing.reservations import Attempt
from shared.database.engine import Database
from shared.database.statements import Executor, RoundTrip
from shared.database.unit_of_work import Note, UnitOfWork
from shared.enums import CallKind, Phase
from shared.llm.phase_run_store import NewInteraction
from tests.support.fences import EVERYONE
from tests.support.spending import (
    Amount,
    Spender,
    cap_all,
    ledger_day,
    ledger_faults,
    nothing_is_reserved,
    usd,
    whole_day,
)

AGENTS = 4
ANSWER = CallAnswer({"said": "done"}, 3, 4, usd("0.02"))


def _answer(attempt: Attempt, trip: RoundTrip) -> Note:
    return Note(call_ledger.answer_paid_call(trip, attempt, ANSWER, is_billed=True))


class Payer:
    """A step that opens and answers its calls in a unit of work, as its worker does."""

    def __init__(self, spender: Spender, workers: Database) -> None:
        self.spender = spender
        self._unit = UnitOfWork(workers, EVERYONE, agent_id=spender.agent.id)
        self._run = NewInteraction(
            workers, spender.lease, Phase.OBSERVER, model="m", system_prompt="", request={}
        )
        self.opened: OpenedCalls = ((), ())

    async def pay(self, name: str, max_cost: Amount) -> None:
        """Answers what was opened before for 0.02 USD, and opens another call, in one commit."""
        _, attempts = self.opened
        if not attempts:
            self._unit.defer(self._run.write)
        for attempt in attempts:
            self._unit.defer(partial(_answer, attempt))
        request = CallRequest(CallKind.LLM, {"name": name}, {"of": name}, "m")
        row = call_ledger.new_row(self.spender.lease, self._run.record.id, Phase.OBSERVER, request)

        def open_call(trip: RoundTrip) -> Note:
            finish = call_ledger.open_calls(
                trip, self.spender.agent.id, [row], {row["id"]: usd(max_cost)}
            )

            async def note(session: Executor) -> None:
                self.opened = await finish(session)

            return Note(note)

        self._unit.defer(open_call)
        await self._unit.commit()


@pytest.fixture
async def workers(database_url: str) -> AsyncIterator[Database]:
    pool = Database(database_url, name="worker", pool_size=AGENTS)
    yield pool
    await pool.close()


@pytest.fixture
async def payers(database: Database, workers: Database) -> list[Payer]:
    return [
        Payer(await Spender.of(database, name=f"Watch {number}"), workers)
        for number in range(AGENTS)
    ]


async def pay_together(payers: Sequence[Payer], name: str, max_cost: Amount) -> None:
    await asyncio.gather(*(payer.pay(name, max_cost) for payer in payers))


async def commits(database: Database) -> int:
    """The number of transactions that have written the present rows of the calls."""
    async with database.transaction() as session:
        query = text("select count(distinct xmin::text) from calls")
        return int((await session.scalars(query)).one())


def reserved_calls(payers: Sequence[Payer]) -> list[int]:
    return [len(payer.opened[1]) for payer in payers]


async def test_payments_of_several_agents_are_one_commit(
    payers: list[Payer], database: Database
) -> None:
    await pay_together(payers, "a", "0.30")
    assert await commits(database) == 2
    await pay_together(payers, "b", "0.40")
    day = payers[0].opened[1][0].day
    for payer in payers:
        assert await payer.spender.day(day) == ledger_day("0.02", 1, "0.40", 1)
    assert await whole_day(database, day) == ledger_day("0.08", 4, "1.60", 4)
    assert await ledger_faults(database) == []


async def test_an_agent_above_its_cap_takes_nothing_from_the_others(
    payers: list[Payer], database: Database
) -> None:
    await payers[2].spender.cap("0.20")
    await pay_together(payers, "a", "0.30")
    assert reserved_calls(payers) == [1, 1, 0, 1]
    assert await ledger_faults(database) == []


@pytest.mark.parametrize("calls", [True, False])
async def test_the_cap_of_the_installation_is_kept_by_a_group(
    payers: list[Payer], database: Database, calls: bool
) -> None:
    await cap_all(database, *((None, 3) if calls else ("1.00",)))
    await pay_together(payers, "a", "0.30")
    assert sum(reserved_calls(payers)) == 3
    assert await ledger_faults(database) == []


async def test_an_answer_is_recorded_though_the_next_call_is_refused(
    payers: list[Payer], database: Database
) -> None:
    await pay_together(payers, "a", "0.30")
    day = payers[0].opened[1][0].day
    await cap_all(database, "0.10")
    await pay_together(payers, "b", "0.30")
    assert reserved_calls(payers) == [0] * AGENTS
    assert await whole_day(database, day) == ledger_day("0.08", 4)
    assert await nothing_is_reserved(database)


async def test_a_payment_that_was_made_before_changes_no_other_at_the_end_of_a_step(
    payers: list[Payer], database: Database
) -> None:
    """The other call is booked at its cost, not written off at its maximum."""
    payer = payers[0]
    await payer.pay("a", "0.30")
    (first,) = payer.opened[1]
    await payer.spender.settle(first, "0.02")
    second = await payer.spender.reserved("0.40", "b", day=first.day)
    trip = RoundTrip()
    finishes = [
        call_ledger.answer_paid_call(trip, attempt, ANSWER, is_billed=True)
        for attempt in (first, second)
    ]
    written_off = trip.ask(reservations.step_write_off(payer.spender.lease.step_id))
    async with database.transaction() as session:
        await trip.make(session)
        for finish in finishes:
            await finish(session)
    assert written_off.value == []
    assert await payer.spender.day(first.day) == ledger_day("0.04", 2)
    assert await ledger_faults(database) == []


@pytest.mark.parametrize("answered_calls", [60, 600])
async def test_a_payment_finds_its_calls_by_their_ids(
    payers: list[Payer], database: Database, answered_calls: int
) -> None:
    """Also while the table is small, or where almost no call is reserved."""
    await pay_together(payers, "a", "0.30")
    async with database.transaction() as session:
        await session.execute(_COPIES, {"copies": answered_calls})
        await session.execute(text("analyze calls, budget_days, agents"))
    statement = call_ledger._PAY.bind(dict.fromkeys(_PARAMETERS)).sql.decode()
    async with database.connection() as connection:
        cursor = await connection.execute(f"explain (generic_plan) {statement}".encode())
        plan = "\n".join(row[0] for row in await cursor.fetchall())
    assert "Seq Scan on calls" not in plan, plan
    assert "calls_reserved_idx" not in plan, plan
    assert "Index Cond: (id = ANY" in plan, plan


_PARAMETERS = (
    "installation", "changes", "closings", "closings_count", "closed_ids", "openings", "openings_count", "strict",
)  # fmt: skip
_COPIES = text("""
insert into calls (id, agent_id, iteration_id, step_id, interaction_id, kind, phase, model, request_hash, request,
  answered_at)
select gen_random_uuid(), agent_id, iteration_id, step_id, interaction_id, kind, phase, model, cast(number as text), request,
  now()
from generate_series(1, :copies) as number, (select * from calls limit 1) as call
""")
