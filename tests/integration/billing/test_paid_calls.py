"""Calls that are paid once: recorded, failed, priced and charged."""

import asyncio
import io
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from typing import Any
from uuid import UUID

import psycopg
import pytest
from pydantic import SecretStr
from sqlalchemy import func, select, text, update

from cli.render.console import SafeConsole
from cli.render.iterations import show_iteration
from services.api.resources.iterations import model as reading_iterations
from services.api.resources.iterations import transcripts
from shared.billing import budgets, call_ledger, reservations
from shared.billing.call_ledger import (
    CallAnswer,
    CallRequest,
    MaxCosts,
    NewRow,
    OpenedCalls,
    PartTokens,
)
from shared.billing.resumable_call import ResumableCall
from shared.database.engine import Database
from shared.database.statements import Batch
from shared.database.tables import Agent, Call, Interaction, Step
from shared.database.tables.agents import BYTES_PER_TOKEN
from shared.database.text import storable
from shared.database.transaction import Transaction
from shared.database.unit_of_work import UnitOfWork
from shared.enums import CallKind, Phase
from shared.errors import PermanentError, TransientError
from shared.graph.scope import GraphScope
from shared.llm.answer_errors import AnswerError
from shared.llm.paid_calls import PaidCalls
from shared.llm.phase_run import PhaseRun
from shared.llm.phase_run_store import NewRun
from shared.llm.pricing import read_prices
from shared.llm.tool_loop import ToolLoop
from shared.runtime.providers import create_model
from shared.runtime.settings import Settings
from shared.tools import Arguments, Json, PaidTool, StateTool, Tool
from shared.workflow import steps
from shared.workflow.leases import Lease
from tests.support import claims
from tests.support.api.access import agent_access, owner_access
from tests.support.factories import make_agent, make_iteration
from tests.support.fences import EVERYONE, FAILURE
from tests.support.model_server import (
    Connection,
    ModelStandIn,
    Respond,
    chunk,
    completion,
    events,
    fixed_response,
    model_server,
)
from tests.support.sandbox_control import Sandbox
from tests.support.spending import (
    NOTHING,
    Amount,
    LedgerDay,
    Spender,
    cap_all,
    ledger_day,
    ledger_faults,
    nothing_is_reserved,
    usd,
    whole_day,
)
from tests.support.streams import eventually
from tests.support.table_rows import change, replaced

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
        paid = call_ledger.paid_answer(attempt, answer, is_unbilled=not billed)
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
        new_run = NewRun(
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
    call = await paid_calls.commit_call(request)
    assert call.attempts == 0
    with (
        unit.external_call_in_progress(),
        pytest.raises(TransientError, match="does not cover the maximum cost"),
    ):
        async with paid_calls.billable_attempt(call, is_needed=False):
            pytest.fail("it must not be sent")
    assert await nothing_is_reserved(database)


@pytest.fixture
async def phase(sandbox_settings: Settings, database: Database) -> "PhaseMaker":
    agent = await make_agent(database)
    started = await make_iteration(database, agent)
    async with database.transaction() as session:
        claim = await claims.claimed(session, started.observe.id, "test")
    return PhaseMaker(sandbox_settings, database, claim.lease, agent)


class PhaseMaker:
    """Makes runs of one phase of one step, each as a resuming worker would."""

    def __init__(self, settings: Settings, database: Database, lease: Lease, agent: Agent) -> None:
        self.model = create_model(settings, database)
        self.lease = lease
        self._agent = agent

    @property
    def scope(self) -> GraphScope:
        return GraphScope(self._agent.owner_id, self._agent.id, None, self.lease.step_id)

    def run(self, message: str = "Go on.") -> PhaseRun:
        return PhaseRun(self.model, self.lease, self._agent, Phase.OBSERVER, message)

    def loop(self, *tools: Tool) -> ToolLoop:
        return ToolLoop(self.run(), tools)

    def improve_prompt(self) -> None:
        self._agent = replaced(self._agent, observer_system_prompt="Better.")


class Item(Arguments):
    value: str


class Shop:
    """A paid tool whose response has unsorted keys, and a free one; both fail on demand."""

    def __init__(self) -> None:
        self.paid: list[str] = []
        self.failing: set[str] = set()
        self.sell_now = asyncio.Event()
        self.sell_now.set()

    @property
    def tools(self) -> list[Tool]:
        return [
            PaidTool("buy", "Costs.", Item, self.buy, "buy"),
            StateTool("note", "Writes.", Item, self._note),
        ]

    async def buy(self, item: Item, _: ResumableCall) -> Json:
        if item.value in self.failing:
            raise TransientError("the shop is shut")
        await self.sell_now.wait()
        self.paid.append(item.value)
        return {"url": "u", "title": item.value, "score": 0.5, "big": [{"z": 1, "aa": 2}]}

    async def _note(self, _: Any, item: Item) -> Json:
        if item.value in self.failing:
            raise TransientError("the pen is dry")
        return {"noted": item.value, "id": 1}


def calls(*tool_calls: tuple[str, Any]) -> dict[str, Any]:
    return {
        "tool_calls": [{"name": name, "arguments": arguments} for name, arguments in tool_calls]
    }


async def test_results_are_in_call_order_whichever_call_ends_first(
    phase: PhaseMaker, sandbox_control: Sandbox
) -> None:
    """What follows from them would differ from run to run otherwise, also that of a resumed run."""

    async def buy(item: Item, _: ResumableCall) -> Json:
        if item.value == "first":
            await eventually(lambda: bool(loop.results_of("buy")), "the result of the second call")
        return {"bought": item.value}

    tool = PaidTool("buy", "Costs.", Item, buy, "buy")
    sandbox_control.script(
        calls(("buy", {"value": "first"}), ("buy", {"value": "second"})), {"content": "done"}
    )
    for _ in range(2):
        loop = phase.loop(tool)
        assert await loop.run() == "done"
        assert loop.results_of("buy") == [{"bought": "first"}, {"bought": "second"}]


async def test_a_resumed_run_sends_the_same_bytes_and_pays_nothing_twice(
    phase: PhaseMaker, sandbox_control: Sandbox
) -> None:
    shop = Shop()
    sandbox_control.script(
        calls(("buy", {"value": "a"})),
        calls(("note", {"value": "b"})),
        calls(("note", {"value": "c"})),
        {"content": "done"},
    )
    shop.failing = {"c"}
    with pytest.raises(TransientError, match="pen"):
        await phase.loop(*shop.tools).run()
    shop.failing = set()
    resumed = phase.loop(*shop.tools)
    assert await resumed.run() == "done"
    assert (shop.paid, sandbox_control.billed()["llm"]) == (["a"], 4)
    assert [result["noted"] for result in resumed.results_of("note")] == ["b", "c"]


async def test_a_resumed_first_call_keeps_its_request_though_the_graph_has_grown(
    phase: PhaseMaker,
) -> None:
    request = await phase.run("The graph is empty.").begin()
    assert await phase.run("The graph has 3 nodes.").begin() == request


async def test_a_resumed_first_call_keeps_the_form_that_fits_its_message(phase: PhaseMaker) -> None:
    def form_of(message: str) -> dict[str, Any]:
        return {"type": "json_schema", "json_schema": {"name": message.split()[-1]}}

    request = await phase.run("The graph is small").begin(response_format=form_of)
    resumed = await phase.run("The graph is large").begin(response_format=form_of)
    assert resumed.call.hash == request.call.hash


async def test_a_retried_step_uses_the_current_prompt_and_graph(
    phase: PhaseMaker, database: Database
) -> None:
    await phase.run("The graph is empty.").begin()
    phase.improve_prompt()
    async with database.transaction() as session:
        await session.execute(update(Step).values(retried_epoch=1, epoch=2))
    phase.lease = replace(phase.lease, epoch=2)
    request = await phase.run("The graph has 3 nodes.").begin()
    assert [message["content"] for message in request.messages] == [
        "Better.",
        "The graph has 3 nodes.",
    ]


async def test_identical_calls_are_paid_once_and_a_failure_loses_no_other_call(
    phase: PhaseMaker, sandbox_control: Sandbox
) -> None:
    shop = Shop()
    sandbox_control.script(
        calls(*(("buy", {"value": value}) for value in ("bad", "a", "a"))), {"content": "done"}
    )
    shop.failing = {"bad"}
    shop.sell_now.clear()
    asyncio.get_running_loop().call_later(0.2, shop.sell_now.set)
    with pytest.raises(TransientError, match="shut"):
        await phase.loop(*shop.tools).run()
    shop.failing = set()
    assert await phase.loop(*shop.tools).run() == "done"
    assert shop.paid == ["a", "bad"]


async def test_a_response_that_arrives_while_postgres_is_down_is_stored(
    phase: PhaseMaker, sandbox_control: Sandbox, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox_control.script({"content": "done"})
    failures = iter([True, True])
    response_received, transaction = asyncio.Event(), database.transaction
    write = database.write
    complete = phase.model.provider.complete

    async def complete_and_signal(request: Any, in_flight: Any, on_delta: Any) -> Any:
        answer = await complete(request, in_flight, on_delta)
        response_received.set()
        return answer

    def unless_away(begin: Any) -> Any:
        if response_received.is_set() and next(failures, False):
            raise TransientError("PostgreSQL: away", counts=False)
        return begin()

    monkeypatch.setattr(phase.model.provider, "complete", complete_and_signal)
    monkeypatch.setattr(database, "transaction", lambda: unless_away(transaction))
    monkeypatch.setattr(database, "write", lambda *args: unless_away(partial(write, *args)))
    assert await phase.loop().run() == "done"
    assert sandbox_control.billed()["llm"] == 1
    assert next(failures, None) is None, "PostgreSQL was down"


async def test_text_that_no_column_can_hold_causes_no_second_call(
    phase: PhaseMaker, sandbox_control: Sandbox, database: Database
) -> None:
    shop = Shop()
    sandbox_control.script(calls(("buy", '{"value": "a\\u0000b"}')), {"content": "nul: \x00"})
    assert await phase.loop(*shop.tools).run() == "nul: "
    assert shop.paid == ["ab"]
    async with database.transaction() as session:
        open_calls = select(func.count()).where(Call.answered_at.is_(None))
        assert await session.scalar(open_calls) == 0


async def test_storable_values_are_read_back_from_postgres_unchanged(database: Database) -> None:
    value = {
        "b": [1e16, 1.5e300, -0.0, 0.1, 5.0, 7, float("nan")],
        "a\x00": "x\x00y\ud83d",
        "n": None,
    }
    stored = storable(value)
    async with database.transaction() as session:
        started = await make_iteration(database, await make_agent(database))
        step = await session.get_one(Step, started.observe.id)
        step = await change(session, step, result=stored)
    async with database.transaction() as session:
        result = (await session.get_one(Step, started.observe.id)).result
    assert repr(sorted((result or {}).items())) == repr(sorted(stored.items()))


COST = read_prices().tokens_usd("m", 11, 7)
HTML = b"<html><body>Sign in to the proxy</body></html>"


def answers(*bodies: Any) -> Respond:
    """One body after the other, then the last one forever."""
    remaining = list(bodies)

    async def respond(connection: Connection) -> None:
        body = remaining.pop(0) if len(remaining) > 1 else remaining[0]
        await connection.head(kind="application/json")
        await connection.send(body if isinstance(body, bytes) else json.dumps(body).encode())

    return respond


@dataclass
class Worker:
    """Runs a phase of one step, with one worker after the other."""

    settings: Settings
    spender: Spender
    server: ModelStandIn

    async def run_phase(self, **settings: Any) -> str:
        changes = {
            "openai_base_url": self.server.url,
            "openai_api_key": SecretStr("key"),
            "model": "m",
            **settings,
        }
        model = create_model(self.settings.model_copy(update=changes), self.spender.database)
        run = PhaseRun(model, self.spender.lease, self.spender.agent, Phase.OBSERVER, "Go on.")
        try:
            return await ToolLoop(run, []).run()
        finally:
            await model.provider.close()

    async def change_worker(self) -> None:
        """Another worker takes the step over."""
        async with self.spender.database.transaction() as session:
            await steps.release(session, self.spender.lease, "", attempts=0, rest_seconds=0)
            claim = await claims.claimed(session, self.spender.lease.step_id, "another")
        self.spender = replace(self.spender, lease=claim.lease)

    async def call(self) -> Call:
        async with self.spender.database.transaction() as session:
            call: Call = (await session.scalars(select(Call))).one()
        return call

    async def today(self) -> LedgerDay:
        async with self.spender.database.transaction() as session:
            day = await budgets.today(session)
        of_agent = await self.spender.day(day)
        assert of_agent == await whole_day(self.spender.database, day)
        return of_agent


@asynccontextmanager
async def working(
    settings: Settings, database: Database, respond: Respond
) -> AsyncIterator[Worker]:
    spender = await Spender.of(database)
    async with model_server(respond) as server:
        yield Worker(settings, spender, server)


async def test_an_unusable_response_is_booked_at_its_usage_and_requested_in_a_new_attempt(
    sandbox_settings: Settings, database: Database
) -> None:
    respond = answers(completion(None), completion({"content": "Done"}))
    async with working(sandbox_settings, database, respond) as worker:
        with pytest.raises(AnswerError, match="its message is null"):
            await worker.run_phase()
        failed, spent = await worker.call(), await worker.today()
        assert (failed.answered_at, failed.attempts, failed.assumed_usd) == (None, 1, COST)
        assert spent == LedgerDay((COST or Decimal(0), 1), (Decimal(0), 0))
        await worker.change_worker()
        assert await worker.run_phase() == "Done"
        done, spent = await worker.call(), await worker.today()
    [failure] = done.failures
    assert (failure["kind"], failure["input_tokens"], failure["cost_usd"]) == (
        "unusable", 11, str(COST),
    )  # fmt: skip
    assert '"message": null' in failure["response"]
    assert (done.attempts, done.cost_usd, done.assumed_usd) == (2, COST, COST)
    assert COST is not None
    assert spent == LedgerDay((2 * COST, 2), (Decimal(0), 0))
    assert len(worker.server.requests) == 2
    assert worker.server.keys == [str(done.id), f"{done.id}-1"]
    assert await nothing_is_reserved(database)


@pytest.mark.parametrize(
    "usage",
    [
        {"prompt_tokens": -(10**9), "completion_tokens": 7},
        {"prompt_tokens": 11, "completion_tokens": -(10**12)},
        {"prompt_tokens": 10**12, "completion_tokens": 7},
    ],
)
async def test_implausible_usage_does_not_refill_the_budget(
    sandbox_settings: Settings, database: Database, usage: Any
) -> None:
    respond = answers(completion({"content": "Done"}, usage=usage))
    async with working(sandbox_settings, database, respond) as worker:
        assert await worker.run_phase() == "Done"
        call, spent = await worker.call(), await worker.today()
    assert (call.input_tokens, call.output_tokens, call.cost_usd) == (None, None, None)
    assert "usage is not usable" in (call.answer or {})["usage_fault"]
    # At least the maximum output, which was reserved.
    min_cost = read_prices().tokens_usd("m", 0, sandbox_settings.max_output_tokens)
    assert min_cost is not None
    assert call.assumed_usd >= min_cost
    assert spent == LedgerDay((call.assumed_usd, 1), (Decimal(0), 0))
    assert await nothing_is_reserved(database)


@pytest.mark.parametrize("usage", [None, {"prompt_tokens": 0, "completion_tokens": 0}])
async def test_a_response_without_usage_is_booked_at_an_estimate(
    sandbox_settings: Settings, database: Database, usage: Any
) -> None:
    text = "Nothing new. " * 40
    respond = answers(completion({"content": text}, usage=usage))
    async with working(sandbox_settings, database, respond) as worker:
        assert await worker.run_phase() == text
        call, spent = await worker.call(), await worker.today()
    request_bytes = call.request["bytes"]
    assert call.input_tokens == pytest.approx(request_bytes / BYTES_PER_TOKEN, abs=1)
    assert call.output_tokens == pytest.approx(len(text) / BYTES_PER_TOKEN, rel=0.2)
    assert call.output_tokens is not None
    estimate = read_prices().tokens_usd("m", call.input_tokens, call.output_tokens)
    assert call.cost_usd == 0
    assert call.assumed_usd == estimate
    assert spent == LedgerDay((call.assumed_usd, 1), (Decimal(0), 0))
    assert await nothing_is_reserved(database)


async def test_a_cost_too_large_to_store_is_booked_at_the_maximum_cost(
    sandbox_settings: Settings, database: Database
) -> None:
    usage = {"prompt_tokens": 999_999_999, "completion_tokens": 999_999_999}
    respond = answers(completion({"content": "Done"}, usage=usage))
    async with working(sandbox_settings, database, respond) as worker:
        assert await worker.run_phase(prices={"m": (9000.0, 9000.0)}) == "Done"
        call = await worker.call()
    assert (call.cost_usd, call.assumed_usd > 0) == (None, True)


async def stall(connection: Connection) -> None:
    """Sends one word and nothing more."""
    await connection.head()
    await connection.send(events(chunk({"content": "Slow"}), done=False))
    await asyncio.Event().wait()


async def test_a_request_that_times_out_twice_is_sent_by_no_further_worker(
    sandbox_settings: Settings, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shared.llm.model_server.QUICK_TRIES", 1)
    async with working(sandbox_settings, database, stall) as worker:
        with pytest.raises(TransientError, match="VIGIL_LLM_SILENCE_SECONDS"):
            await worker.run_phase(llm_silence_seconds=0.2)
        await worker.change_worker()
        for _ in range(2):
            with pytest.raises(PermanentError, match=r"VIGIL_LLM_SILENCE_SECONDS.*4 characters"):
                await worker.run_phase(llm_silence_seconds=0.2)
            await worker.change_worker()
        assert len(worker.server.requests) == 2
        call = await worker.call()
        assert [(failure["kind"], failure["response"]) for failure in call.failures] == [
            ("timeout", "Slow")
        ] * 2
        assert await nothing_is_reserved(database)
        # A user has raised the limit and requested the step's retry.
        async with database.transaction() as session:
            await session.execute(update(Step).values(retried_epoch=Step.epoch))
        await worker.change_worker()
        with pytest.raises(TransientError, match=r"sent nothing for 0.3 s"):
            await worker.run_phase(llm_silence_seconds=0.3)
    assert len(worker.server.requests) == 3


async def test_within_one_process_a_request_times_out_twice_at_most(
    sandbox_settings: Settings, database: Database
) -> None:
    async with working(sandbox_settings, database, stall) as worker:
        with pytest.raises(
            PermanentError, match=r"The request was sent 2 times and will not be sent again"
        ) as error:
            await worker.run_phase(llm_silence_seconds=0.2)
    assert error.value.code == "llm_timeout"
    assert len(worker.server.requests) == 2


async def test_the_body_of_an_unusable_response_is_shown(
    sandbox_settings: Settings, database: Database
) -> None:
    async with working(
        sandbox_settings, database, fixed_response(HTML, kind="text/html")
    ) as worker:
        with pytest.raises(AnswerError, match="Sign in to the proxy"):
            await worker.run_phase()
        agent = worker.spender.agent
        async with database.transaction() as session:
            run_id = (await session.scalars(select(Interaction.id))).one()
            [response] = await transcripts.list_answers(
                owner_access(session, agent.owner_id), run_id
            )
            iteration = await reading_iterations.get_by_number(
                agent_access(session, agent.owner_id, agent.id), 1
            )
    [failure] = response.failures
    assert failure.response == HTML.decode()
    buffer = io.StringIO()
    show_iteration(SafeConsole(file=buffer, width=200), iteration, show_messages=True)
    output = " ".join(buffer.getvalue().split())
    for words in ("did not return JSON", HTML.decode(), "its maximum cost"):
        assert words in output
