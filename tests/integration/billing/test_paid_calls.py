"""Calls in the ledger with their cost: each row is written twice, and a repetition adds nothing."""

from collections.abc import AsyncIterator, Sequence
from uuid import UUID

import psycopg
import pytest
from sqlalchemy import text

from shared.billing import call_ledger, reservations
from shared.billing.call_ledger import (
    CallAnswer,
    CallRequest,
    MaxCosts,
    NewRow,
    OpenedCalls,
    PartTokens,
)
from shared.database.engine import Database
from shared.database.statements import Batch
from shared.database.transaction import Transaction
from shared.database.unit_of_work import UnitOfWork
from shared.enums import CallKind, Phase
from shared.errors import TransientError
from shared.llm.paid_calls import PaidCalls
from shared.llm.phase_run_store import NewInteraction
from tests.support.fences import EVERYONE, FAILURE
from tests.support.spending import (
    NOTHING,
    Amount,
    Spender,
    cap_all,
    ledger_day,
    ledger_faults,
    nothing_is_reserved,
    usd,
    whole_day,
)

ANSWER = CallAnswer(
    {"said": "done"},
    30,
    4,
    usd("0.02"),
    cached_tokens=20,
    reasoning_tokens=3,
    parts=PartTokens(4, 5, 6, 7),
)


class Clerk:
    """Opens calls of one step and records their responses, as its worker does."""

    def __init__(self, spender: Spender, interaction_id: UUID) -> None:
        self.spender = spender
        self.database = spender.database
        self._interaction_id = interaction_id

    def row(self, name: str) -> NewRow:
        request = CallRequest(CallKind.LLM, {"name": name}, {"of": name}, "m")
        return self.row_of(request)

    def row_of(self, request: CallRequest) -> NewRow:
        return call_ledger.new_row(
            self.spender.lease, self._interaction_id, Phase.OBSERVER, request
        )

    async def open(self, max_cost: Amount, *names: str) -> OpenedCalls:
        rows = [self.row(name) for name in names]
        max_costs = {row["id"]: usd(max_cost) for row in rows}
        async with self.database.transaction() as session:
            return await self.open_in(session, rows, max_costs)

    async def answer(
        self, attempt: reservations.Attempt, answer: CallAnswer, *, billed: bool
    ) -> None:
        async with self.database.transaction() as session:
            await self.answer_in(session, attempt, answer, billed=billed)

    async def answer_in(
        self,
        session: Transaction,
        attempt: reservations.Attempt,
        answer: CallAnswer,
        *,
        billed: bool,
    ) -> None:
        batch = Batch()
        paid = call_ledger.paid_answer(attempt, answer, is_billed=billed)
        call_ledger.pay(batch, self.spender.lease, [paid])
        await batch.execute(session)

    async def open_in(
        self, session: Transaction, rows: Sequence[NewRow], max_costs: MaxCosts
    ) -> OpenedCalls:
        batch = Batch()
        opened = call_ledger.pay(batch, self.spender.lease, (), rows, max_costs)
        await batch.execute(session)
        return opened.value

    async def today(self, opened: OpenedCalls) -> object:
        day = opened[1][0].day
        of_agent = await self.spender.day(day)
        assert of_agent == await whole_day(self.database, day)
        return of_agent


@pytest.fixture
async def clerk(database: Database) -> Clerk:
    spender = await Spender.of(database)
    async with database.transaction() as session:
        new_run = NewInteraction(
            database, spender.lease, Phase.OBSERVER, model="m", system_prompt="", request={}
        )
        interaction = await new_run.open_or_resume(session)
    return Clerk(spender, interaction.id)


@pytest.fixture
async def sole(database_url: str) -> AsyncIterator[Database]:
    """A pool of one connection: a backend sees its own statistics at once."""
    pool = Database(database_url, name="sole", pool_size=1)
    yield pool
    await pool.close()


def numbers(opened: OpenedCalls) -> Sequence[int]:
    return [attempt.number for attempt in opened[1]]


async def versions(session: Transaction) -> tuple[int, int]:
    """How many ledger rows this transaction has inserted and updated."""
    result = await session.execute(
        text("select n_tup_ins, n_tup_upd from pg_stat_xact_user_tables where relname = 'calls'")
    )
    inserted, updated = result.one()
    return inserted, updated


async def test_a_call_is_written_once_when_opened_and_once_when_answered(
    clerk: Clerk, sole: Database
) -> None:
    row = clerk.row("a")
    async with sole.transaction() as session:
        opened = await clerk.open_in(session, [row], {row["id"]: usd("0.50")})
        assert await versions(session) == (1, 0)
        await clerk.answer_in(session, opened[1][0], ANSWER, billed=True)
        assert await versions(session) == (1, 1)
    assert await clerk.today(opened) == ledger_day("0.02", 1)
    stored_row = await clerk.spender.row(row["id"])
    assert (stored_row.answer, stored_row.input_tokens, stored_row.output_tokens) == (
        ANSWER.content,
        30,
        4,
    )
    assert (stored_row.cost_usd, stored_row.attempts) == (usd("0.02"), 1)
    assert (stored_row.request, stored_row.model) == ({"of": "a"}, "m")
    assert stored_row.answered_at is not None
    assert await nothing_is_reserved(clerk.database)


async def test_opening_a_call_reserves_its_cost(clerk: Clerk) -> None:
    opened = await clerk.open("0.30", "a", "b")
    assert numbers(opened) == [1, 1]
    assert await clerk.today(opened) == ledger_day(reserved="0.60", held=2)
    assert await ledger_faults(clerk.database) == []


async def test_reopening_a_call_makes_no_second_reservation(clerk: Clerk) -> None:
    """As after the reply to a commit was lost."""
    opened = await clerk.open("0.30", "a")
    again = await clerk.open("0.30", "a")
    assert (numbers(again), [call.attempts for call in again[0]]) == ([], [1])
    assert await clerk.today(opened) == ledger_day(reserved="0.30", held=1)


async def test_only_new_calls_are_reserved(clerk: Clerk) -> None:
    await clerk.open("0.30", "a")
    both = await clerk.open("0.20", "a", "b")
    assert [attempt.call_id for attempt in both[1]] == [clerk.row("b")["id"]]
    assert await clerk.today(both) == ledger_day(reserved="0.50", held=2)
    assert await ledger_faults(clerk.database) == []


async def test_calls_above_the_cap_are_opened_without_a_reservation(clerk: Clerk) -> None:
    await clerk.spender.cap("0.50")
    calls, attempts = await clerk.open("0.30", "a", "b")
    assert ([call.attempts for call in calls], attempts) == ([0, 0], ())
    assert (await clerk.spender.row(calls[0].id)).attempts == 0
    assert await nothing_is_reserved(clerk.database)
    await clerk.spender.cap("0.60")
    later = await clerk.open("0.30", "a", "b")
    assert numbers(later) == [1, 1]
    assert await clerk.today(later) == ledger_day(reserved="0.60", held=2)


async def test_a_refusal_leaves_the_prepared_statements_of_its_connection(
    clerk: Clerk, sole: Database
) -> None:
    """psycopg prepares a statement after it was run five times."""
    await clerk.spender.cap("0.50")
    for number in range(12):
        rows = [clerk.row(f"{name} {number}") for name in ("a", "b")]
        async with sole.transaction() as session:
            _, attempts = await clerk.open_in(
                session, rows, {row["id"]: usd("0.30") for row in rows}
            )
        assert attempts == ()
    assert await nothing_is_reserved(clerk.database)


async def test_an_agent_reservation_is_undone_where_the_installation_cap_refuses(
    clerk: Clerk,
) -> None:
    await cap_all(clerk.database, "0.50")
    calls, attempts = await clerk.open("0.60", "a")
    assert (calls[0].attempts, attempts) == (0, ())
    assert await nothing_is_reserved(clerk.database)
    opened = await clerk.open("0.50", "a")
    assert await clerk.today(opened) == ledger_day(reserved="0.50", held=1)


@pytest.mark.parametrize("billed", [True, False])
async def test_a_repeated_response_changes_nothing(clerk: Clerk, billed: bool) -> None:
    opened = await clerk.open("0.50", "a")
    await clerk.answer(opened[1][0], ANSWER, billed=billed)
    other = CallAnswer({"said": "other"}, 9, 9, usd("0.40"))
    await clerk.answer(opened[1][0], other, billed=True)
    assert await clerk.today(opened) == (ledger_day("0.02", 1) if billed else NOTHING)
    row = await clerk.spender.row(opened[0][0].id)
    assert (row.answer, row.cost_usd) == (ANSWER.content, usd("0.02"))


async def test_the_tokens_of_a_response_are_stored(clerk: Clerk) -> None:
    opened = await clerk.open("0.50", "a")
    await clerk.answer(opened[1][0], ANSWER, billed=True)
    row = await clerk.spender.row(opened[0][0].id)
    tokens = (row.input_tokens, row.output_tokens, row.cached_tokens, row.reasoning_tokens)
    assert tokens == (30, 4, 20, 3)
    parts = (row.system_tokens, row.tools_tokens, row.context_tokens, row.results_tokens)
    assert parts == ANSWER.parts


async def test_a_late_response_is_stored_though_its_attempt_was_written_off(clerk: Clerk) -> None:
    opened = await clerk.open("0.50", "a")
    async with clerk.database.transaction() as session:
        await reservations.write_off_call(session, opened[0][0].id)
    await clerk.answer(opened[1][0], ANSWER, billed=True)
    assert await clerk.today(opened) == ledger_day("0.50", 1)
    row = await clerk.spender.row(opened[0][0].id)
    assert (row.answer, row.cached_tokens) == (ANSWER.content, 20)


async def test_a_response_of_unknown_cost_counts_at_its_maximum_cost(clerk: Clerk) -> None:
    opened = await clerk.open("0.50", "a")
    await clerk.answer(opened[1][0], CallAnswer({"said": "done"}), billed=True)
    assert await clerk.today(opened) == ledger_day("0.50", 1)
    row = await clerk.spender.row(opened[0][0].id)
    assert (row.cost_usd, row.assumed_usd) == (None, usd("0.50"))


async def test_a_reservation_of_a_rolled_back_commit_pays_for_nothing(
    clerk: Clerk, database: Database
) -> None:
    """The second attempt needs its own reservation, which a cap may refuse."""
    unit = UnitOfWork(database, EVERYONE)
    paid_calls = PaidCalls(database, clerk.spender.lease, unit, clerk.row_of, lambda _: usd("0.50"))
    request = CallRequest(CallKind.LLM, {"name": "a"}, {}, "m")

    paid_calls.open_call(request)
    unit.defer_query(FAILURE)
    with pytest.raises(psycopg.errors.DivisionByZero):
        await unit.commit()
    await clerk.spender.cap("0.10")
    call = await paid_calls.get_call(request)
    assert call.attempts == 0
    with (
        unit.external_call_in_progress(),
        pytest.raises(TransientError, match="does not cover the maximum cost"),
    ):
        async with paid_calls.attempt(call, is_needed=False):
            pytest.fail("it must not be sent")
    assert await nothing_is_reserved(database)
