"""Phases that pay within a budget, over real HTTP: every sending that may be billed is reserved for, and no other."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from sqlalchemy import select

from shared.billing import budgets
from shared.billing.budgets import BudgetUsedUpError
from shared.database.engine import Database
from shared.database.tables import Agent, Call
from shared.enums import Phase
from shared.errors import PermanentError, TransientError
from shared.llm.phase_run import PhaseRun
from shared.llm.pricing import read_prices
from shared.llm.tool_loop import MAX_TOOL_ROUNDS, ToolLoop
from shared.runtime.providers import create_model, create_search_client
from shared.runtime.settings import Settings
from shared.web_search.tools import knowledge_acquisition
from shared.workflow import leases, steps
from shared.workflow.leases import Claimed
from tests.support.levers import Sandbox
from tests.support.spending import (
    Kept,
    Spender,
    book_faults,
    kept,
    nothing_is_reserved,
    usd,
    whole_day,
)

SEARCH_USD = read_prices().of_operation("search")
CALL_USD = Decimal("0.08")
"""Somewhat above what a call of these phases can cost: 16,000 tokens of output at 4.50 a million, and little input."""


class Payer:
    """A phase with the search tools, as a worker runs it, and as the next one resumes it."""

    def __init__(self, settings: Settings, spender: Spender) -> None:
        self.settings = settings
        self.spender = spender
        self.database = spender.database

    async def words(self) -> str:
        model, search = (
            create_model(self.settings, self.database),
            create_search_client(self.settings),
        )
        lease, agent = self.spender.lease, self.spender.agent
        run = PhaseRun(model, lease, agent, Phase.KNOWLEDGE_ACQUISITION, "Go on.")
        try:
            return await ToolLoop(run, knowledge_acquisition(search)).run()
        finally:
            await model.provider.close()
            await search.close()

    async def refusal(self) -> str:
        """What is said at the cap, once nothing is under way that could leave something of the budget."""
        while True:
            try:
                await self.words()
            except BudgetUsedUpError as error:
                return str(error)
            except TransientError as error:
                if error.counts:
                    raise

    async def another_worker(self) -> None:
        """Takes the step over from whoever had it."""
        async with self.database.transaction() as session:
            await steps.release(session, self.spender.lease, "", attempts=0, rest_seconds=0)
            claim = await leases.claim(session, self.spender.lease.step_id, "another")
        assert isinstance(claim, Claimed)
        self.spender = replace(self.spender, lease=claim.lease)

    async def calls(self) -> list[Call]:
        async with self.database.transaction() as session:
            return list(await session.scalars(select(Call).order_by(Call.started_at)))

    async def agent(self) -> Agent:
        async with self.database.transaction() as session:
            return await session.get_one(Agent, self.spender.agent.id)

    async def today(self) -> Kept:
        async with self.database.transaction() as session:
            day = await budgets.today(session)
        of_agent = await self.spender.day(day)
        assert of_agent == await whole_day(self.database, day)
        return of_agent


@pytest.fixture
async def payer(sandbox_settings: Settings, database: Database) -> Payer:
    return Payer(sandbox_settings, await Spender.of(database))


def searches(*queries: str) -> dict[str, Any]:
    return {"tool_calls": [{"name": "tavilySearch", "arguments": {"query": q}} for q in queries]}


async def test_the_books_say_what_the_meter_says(
    payer: Payer, levers: Sandbox, database: Database
) -> None:
    levers.script(searches("lithium", "cobalt"), {"content": "done"})
    await payer.spender.cap("1.00")
    assert await payer.words() == "done"
    assert levers.billed_usd() > 2 * SEARCH_USD
    assert await payer.today() == kept(levers.billed_usd(), 4)
    assert sum(call.cost_usd or 0 for call in await payer.calls()) == levers.billed_usd()
    assert [call.attempts for call in await payer.calls()] == [1, 1, 1, 1]
    assert await nothing_is_reserved(database)


async def test_the_limit_of_an_answer_is_sent_and_kept(payer: Payer, levers: Sandbox) -> None:
    payer.settings = payer.settings.model_copy(
        update={"most_output_tokens_of_phase": {Phase.KNOWLEDGE_ACQUISITION: 10}}
    )
    levers.script({"content": "word " * 100})
    assert len(await payer.words()) == 24
    [call] = await payer.calls()
    assert (call.output_tokens, (call.answer or {})["finish_reason"]) == (10, "length")


@pytest.mark.parametrize("model_api", ["chat", "background"])
async def test_at_the_cap_the_next_call_is_not_sent_and_the_agent_rests(
    payer: Payer, levers: Sandbox, database: Database, model_api: str
) -> None:
    payer.settings = payer.settings.model_copy(update={"model_api": model_api})
    levers.script(searches("lithium"), {"content": "never said"})
    await payer.spender.cap(CALL_USD)
    with pytest.raises(BudgetUsedUpError, match=r"of 0.08 USD a day .* are spent, and the next"):
        await payer.words()
    assert levers.billed() == {"llm": 1, "embedding": 0, "search": 1, "extract": 0, "research": 0}
    assert await payer.today() == kept(levers.billed_usd(), 2)
    assert (await payer.agent()).suspended_until is not None
    assert await nothing_is_reserved(database)


async def test_the_cap_in_calls_is_kept_in_the_middle_of_a_round(
    payer: Payer, levers: Sandbox
) -> None:
    levers.script(searches("lithium", "cobalt", "nickel"), {"content": "never said"})
    await payer.spender.cap(calls=3)
    assert "of 3 calls a day 3 calls are spent" in await payer.refusal()
    assert levers.billed()["llm"] + levers.billed()["search"] == 3


async def test_once_there_is_a_budget_again_nothing_is_paid_twice(
    payer: Payer, levers: Sandbox, database: Database
) -> None:
    levers.script(searches("lithium", "cobalt"), {"content": "done"})
    await payer.spender.cap(calls=2)
    await payer.refusal()
    await payer.spender.cap(calls=4)
    assert (await payer.agent()).suspended_until is None
    assert await payer.words() == "done"
    assert (sum(levers.billed().values()), levers.repeated()) == (4, 0)
    assert (await payer.today()).spent == (levers.billed_usd(), 4)
    assert await nothing_is_reserved(database)


async def test_a_refusal_costs_nothing_and_its_retry_uses_what_was_reserved(
    payer: Payer, levers: Sandbox, database: Database
) -> None:
    levers.faults({"kind": "status", "status": 429, "retry_after_seconds": 0})
    levers.script({"content": "done"})
    await payer.spender.cap(CALL_USD)
    assert await payer.words() == "done"
    assert await payer.today() == kept(levers.billed_usd(), 1)
    assert [call.attempts for call in await payer.calls()] == [1]
    assert await nothing_is_reserved(database)


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ({"status": 401}, PermanentError),
        ({"status": 429, "retry_after_seconds": 600}, TransientError),
        ({"status": 500, "retry_after_seconds": 600}, TransientError),
        ({"status": 503, "retry_after_seconds": 600}, TransientError),
    ],
)
async def test_what_is_refused_for_good_or_for_long_is_released(
    payer: Payer, levers: Sandbox, database: Database, fault: Any, error: type[Exception]
) -> None:
    levers.faults({"kind": "status", **fault})
    with pytest.raises(error):
        await payer.words()
    assert await payer.today() == kept()
    assert await nothing_is_reserved(database)


async def test_a_server_that_is_not_there_costs_nothing(payer: Payer, database: Database) -> None:
    payer.settings = payer.settings.model_copy(update={"openai_base_url": "http://127.0.0.1:1/v1"})
    with pytest.raises(TransientError, match="no answer"):
        await payer.words()
    assert await payer.today() == kept()
    assert await nothing_is_reserved(database)


@pytest.mark.parametrize("kind", ["cut", "malformed_json"])
async def test_an_answer_that_is_lost_on_the_way_counts_and_so_does_the_next(
    payer: Payer, levers: Sandbox, database: Database, kind: str
) -> None:
    """The first is billed, and what it has cost is never told."""
    levers.faults({"kind": kind, "path": "/search"} if kind != "cut" else {"kind": kind})
    levers.script({"content": "done", "times": 2}) if kind == "cut" else levers.script(
        searches("lithium"), {"content": "done"}
    )
    if kind == "malformed_json":
        with pytest.raises(TransientError):
            await payer.words()
    assert await payer.words() == "done"
    lost = next(call for call in await payer.calls() if call.attempts == 2)
    spent, calls = (await payer.today()).spent
    assert lost.assumed_usd > 0
    assert calls == sum(levers.billed().values())
    assert levers.billed_usd() <= spent
    assert spent == lost.assumed_usd + sum(call.cost_usd or 0 for call in await payer.calls())
    assert await nothing_is_reserved(database)


async def test_a_sending_again_is_refused_where_the_first_may_have_used_the_budget_up(
    payer: Payer, levers: Sandbox, database: Database
) -> None:
    levers.faults({"kind": "status", "status": 504})
    await payer.spender.cap(CALL_USD)
    with pytest.raises(BudgetUsedUpError):
        await payer.words()
    assert levers.billed()["llm"] == 0
    spent, calls = (await payer.today()).spent
    assert (calls, spent < CALL_USD, spent > CALL_USD / 2) == (1, True, True)
    assert await nothing_is_reserved(database)


async def test_a_worker_that_resumes_presumes_what_the_one_before_has_sent(
    payer: Payer, levers: Sandbox, database: Database
) -> None:
    levers.faults({"kind": "status", "status": 504, "retry_after_seconds": 600})
    levers.script({"content": "done"})
    with pytest.raises(TransientError):
        await payer.words()
    assert (await payer.today()).reserved[1] == 1, "perhaps it was billed"
    await payer.another_worker()
    assert await payer.words() == "done"
    [call] = await payer.calls()
    assert (call.attempts, call.assumed_usd > 0) == (2, True)
    assert await payer.today() == kept(call.assumed_usd + levers.billed_usd(), 2)
    assert await nothing_is_reserved(database)


async def test_an_answer_found_again_by_its_name_costs_what_it_has_cost(
    payer: Payer, levers: Sandbox, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    payer.settings = payer.settings.model_copy(update={"model_api": "background"})
    levers.script({"content": "done"})

    async def looks_in_vain(_: Any) -> Any:
        raise TransientError("nobody looks")

    with monkeypatch.context() as patch:
        patch.setattr("shared.llm.background_provider.poll_until_done", looks_in_vain)
        with pytest.raises(TransientError, match="nobody looks"):
            await payer.words()
    assert (await payer.today()).reserved[1] == 1
    await payer.another_worker()
    assert await payer.words() == "done"
    assert await payer.today() == kept(levers.billed_usd(), 1)
    assert await nothing_is_reserved(database)


async def test_what_others_have_reserved_is_waited_for_and_nobody_rests(
    payer: Payer, levers: Sandbox, database: Database
) -> None:
    await payer.spender.cap("0.10")
    async with database.transaction() as session:
        day = await budgets.today(session)
    other = await payer.spender.reserved("0.09", "another's", day=day)
    levers.script({"content": "done"})
    with pytest.raises(TransientError, match="under way") as held:
        await payer.words()
    assert not held.value.counts
    assert (await payer.agent()).suspended_until is None
    await payer.spender.settle(other, "0.01")
    assert await payer.words() == "done"
    assert await payer.today() == kept(usd("0.01") + levers.billed_usd(), 2)


async def test_the_last_of_all_rounds_reserves_for_nothing_that_is_not_sent(
    payer: Payer, levers: Sandbox, database: Database
) -> None:
    wrong = {"tool_calls": [{"name": "noSuchTool", "arguments": {}}], "times": MAX_TOOL_ROUNDS}
    levers.script(wrong, {"content": "done"})
    assert await payer.words() == "done"
    assert all(call.answered_at is not None for call in await payer.calls())
    assert await payer.today() == kept(levers.billed_usd(), MAX_TOOL_ROUNDS + 1)
    assert await book_faults(database) == []
