"""Phases that pay within a budget, over real HTTP: every attempt that may be billed is reserved, and no other."""

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
from shared.workflow import steps
from tests.support import claims
from tests.support.sandbox_control import Sandbox
from tests.support.spending import (
    LedgerDay,
    Spender,
    ledger_day,
    ledger_faults,
    nothing_is_reserved,
    usd,
    whole_day,
)

SEARCH_USD = read_prices().of_operation("search")
CALL_USD = Decimal("0.08")
"""Somewhat above what a call of these phases can cost: 16,000 tokens of output at 4.50 a million, and little input."""


class Payer:
    """Runs a phase with the search tools, as a worker does and as the next worker resumes it."""

    def __init__(self, settings: Settings, spender: Spender) -> None:
        self.settings = settings
        self.spender = spender
        self.database = spender.database

    async def run_phase(self) -> str:
        model, search = (
            create_model(self.settings, self.database),
            create_search_client(self.settings, self.database),
        )
        lease, agent = self.spender.lease, self.spender.agent
        run = PhaseRun(model, lease, agent, Phase.KNOWLEDGE_ACQUISITION, "Go on.")
        try:
            return await ToolLoop(run, knowledge_acquisition(search)).run()
        finally:
            await model.provider.close()
            await search.close()

    async def budget_error(self) -> str:
        """The error at the cap, once no reservation is open that could be released."""
        while True:
            try:
                await self.run_phase()
            except BudgetUsedUpError as error:
                return str(error)
            except TransientError as error:
                if error.counts:
                    raise

    async def change_worker(self) -> None:
        """Another worker takes the step over."""
        async with self.database.transaction() as session:
            await steps.release(session, self.spender.lease, "", attempts=0, rest_seconds=0)
            claim = await claims.claimed(session, self.spender.lease.step_id, "another")
        self.spender = replace(self.spender, lease=claim.lease)

    async def calls(self) -> list[Call]:
        async with self.database.transaction() as session:
            return list(await session.scalars(select(Call).order_by(Call.started_at)))

    async def agent(self) -> Agent:
        async with self.database.transaction() as session:
            return await session.get_one(Agent, self.spender.agent.id)

    async def today(self) -> LedgerDay:
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


async def test_the_budget_ledger_matches_the_sandbox_meter(
    payer: Payer, sandbox_control: Sandbox, database: Database
) -> None:
    sandbox_control.script(searches("lithium", "cobalt"), {"content": "done"})
    await payer.spender.cap("1.00")
    assert await payer.run_phase() == "done"
    assert sandbox_control.billed_usd() > 2 * SEARCH_USD
    assert await payer.today() == ledger_day(sandbox_control.billed_usd(), 4)
    assert sum(call.cost_usd or 0 for call in await payer.calls()) == sandbox_control.billed_usd()
    assert [call.attempts for call in await payer.calls()] == [1, 1, 1, 1]
    assert await nothing_is_reserved(database)


async def test_the_output_token_limit_is_sent_and_applied(
    payer: Payer, sandbox_control: Sandbox
) -> None:
    payer.settings = payer.settings.model_copy(
        update={"max_output_tokens_of_phase": {Phase.KNOWLEDGE_ACQUISITION: 10}}
    )
    sandbox_control.script({"content": "word " * 100})
    assert len(await payer.run_phase()) == 24
    [call] = await payer.calls()
    assert (call.output_tokens, (call.answer or {})["finish_reason"]) == (10, "length")


@pytest.mark.parametrize("model_api", ["chat", "background"])
async def test_at_the_cap_the_next_call_is_not_sent_and_the_agent_is_suspended(
    payer: Payer, sandbox_control: Sandbox, database: Database, model_api: str
) -> None:
    payer.settings = payer.settings.model_copy(update={"model_api": model_api})
    sandbox_control.script(searches("lithium"), {"content": "never said"})
    await payer.spender.cap(CALL_USD)
    with pytest.raises(BudgetUsedUpError, match=r"of 0.08 USD is spent, and the next"):
        await payer.run_phase()
    assert sandbox_control.billed() == {
        "llm": 1,
        "embedding": 0,
        "search": 1,
        "extract": 0,
        "research": 0,
    }
    assert await payer.today() == ledger_day(sandbox_control.billed_usd(), 2)
    assert (await payer.agent()).suspended_until is not None
    assert await nothing_is_reserved(database)


async def test_the_cap_in_calls_holds_in_the_middle_of_a_round(
    payer: Payer, sandbox_control: Sandbox
) -> None:
    sandbox_control.script(searches("lithium", "cobalt", "nickel"), {"content": "never said"})
    await payer.spender.cap(calls=3)
    assert "3 of 3 calls are used" in await payer.budget_error()
    assert sandbox_control.billed()["llm"] + sandbox_control.billed()["search"] == 3


async def test_after_the_cap_is_raised_nothing_is_paid_twice(
    payer: Payer, sandbox_control: Sandbox, database: Database
) -> None:
    sandbox_control.script(searches("lithium", "cobalt"), {"content": "done"})
    await payer.spender.cap(calls=2)
    await payer.budget_error()
    await payer.spender.cap(calls=4)
    assert (await payer.agent()).suspended_until is None
    assert await payer.run_phase() == "done"
    assert (sum(sandbox_control.billed().values()), sandbox_control.repeated()) == (4, 0)
    assert (await payer.today()).spent == (sandbox_control.billed_usd(), 4)
    assert await nothing_is_reserved(database)


async def test_a_rate_limited_attempt_costs_nothing_and_its_retry_uses_the_reservation(
    payer: Payer, sandbox_control: Sandbox, database: Database
) -> None:
    sandbox_control.faults({"kind": "status", "status": 429, "retry_after_seconds": 0})
    sandbox_control.script({"content": "done"})
    await payer.spender.cap(CALL_USD)
    assert await payer.run_phase() == "done"
    assert await payer.today() == ledger_day(sandbox_control.billed_usd(), 1)
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
async def test_a_permanent_or_long_refusal_releases_the_reservation(
    payer: Payer, sandbox_control: Sandbox, database: Database, fault: Any, error: type[Exception]
) -> None:
    sandbox_control.faults({"kind": "status", **fault})
    with pytest.raises(error):
        await payer.run_phase()
    assert await payer.today() == ledger_day()
    assert await nothing_is_reserved(database)


async def test_an_unreachable_server_costs_nothing(payer: Payer, database: Database) -> None:
    payer.settings = payer.settings.model_copy(update={"openai_base_url": "http://127.0.0.1:1/v1"})
    with pytest.raises(TransientError, match="no answer"):
        await payer.run_phase()
    assert await payer.today() == ledger_day()
    assert await nothing_is_reserved(database)


@pytest.mark.parametrize("kind", ["cut", "malformed_json"])
async def test_a_response_lost_in_transit_counts_and_so_does_the_repeated_attempt(
    payer: Payer, sandbox_control: Sandbox, database: Database, kind: str
) -> None:
    """The first attempt is billed, and its cost is never reported."""
    sandbox_control.faults({"kind": kind, "path": "/search"} if kind != "cut" else {"kind": kind})
    sandbox_control.script(
        {"content": "done", "times": 2}
    ) if kind == "cut" else sandbox_control.script(searches("lithium"), {"content": "done"})
    if kind == "malformed_json":
        with pytest.raises(TransientError):
            await payer.run_phase()
    assert await payer.run_phase() == "done"
    lost = next(call for call in await payer.calls() if call.attempts == 2)
    spent, calls = (await payer.today()).spent
    assert lost.assumed_usd > 0
    assert calls == sum(sandbox_control.billed().values())
    assert sandbox_control.billed_usd() <= spent
    assert spent == lost.assumed_usd + sum(call.cost_usd or 0 for call in await payer.calls())
    assert await nothing_is_reserved(database)


async def test_a_second_attempt_is_refused_where_the_first_may_have_used_the_budget(
    payer: Payer, sandbox_control: Sandbox, database: Database
) -> None:
    sandbox_control.faults({"kind": "status", "status": 504})
    await payer.spender.cap(CALL_USD)
    with pytest.raises(BudgetUsedUpError):
        await payer.run_phase()
    assert sandbox_control.billed()["llm"] == 0
    spent, calls = (await payer.today()).spent
    assert (calls, spent < CALL_USD, spent > CALL_USD / 2) == (1, True, True)
    assert await nothing_is_reserved(database)


async def test_a_resuming_worker_assumes_the_previous_attempt_was_billed(
    payer: Payer, sandbox_control: Sandbox, database: Database
) -> None:
    sandbox_control.faults({"kind": "status", "status": 504, "retry_after_seconds": 600})
    sandbox_control.script({"content": "done"})
    with pytest.raises(TransientError):
        await payer.run_phase()
    assert (await payer.today()).reserved[1] == 1, "it may have been billed"
    await payer.change_worker()
    assert await payer.run_phase() == "done"
    [call] = await payer.calls()
    assert (call.attempts, call.assumed_usd > 0) == (2, True)
    assert await payer.today() == ledger_day(call.assumed_usd + sandbox_control.billed_usd(), 2)
    assert await nothing_is_reserved(database)


async def test_a_response_retrieved_by_its_reference_is_booked_at_its_cost(
    payer: Payer, sandbox_control: Sandbox, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    payer.settings = payer.settings.model_copy(update={"model_api": "background"})
    sandbox_control.script({"content": "done"})

    async def fail_to_poll(_: Any) -> Any:
        raise TransientError("nobody looks")

    with monkeypatch.context() as patch:
        patch.setattr("shared.llm.background_provider.poll_until_done", fail_to_poll)
        with pytest.raises(TransientError, match="nobody looks"):
            await payer.run_phase()
    assert (await payer.today()).reserved[1] == 1
    await payer.change_worker()
    assert await payer.run_phase() == "done"
    assert await payer.today() == ledger_day(sandbox_control.billed_usd(), 1)
    assert await nothing_is_reserved(database)


async def test_reservations_of_others_are_waited_for_and_no_agent_is_suspended(
    payer: Payer, sandbox_control: Sandbox, database: Database
) -> None:
    await payer.spender.cap("0.10")
    async with database.transaction() as session:
        day = await budgets.today(session)
    reservation = await payer.spender.reserved("0.09", "another's", day=day)
    sandbox_control.script({"content": "done"})
    with pytest.raises(TransientError, match="running calls may use up") as error:
        await payer.run_phase()
    assert not error.value.counts
    assert (await payer.agent()).suspended_until is None
    await payer.spender.settle(reservation, "0.01")
    assert await payer.run_phase() == "done"
    assert await payer.today() == ledger_day(usd("0.01") + sandbox_control.billed_usd(), 2)


async def test_the_last_tool_round_reserves_only_for_calls_that_are_sent(
    payer: Payer, sandbox_control: Sandbox, database: Database
) -> None:
    searches = [
        {"name": "tavilySearch", "arguments": {"query": f"lithium {number}"}}
        for number in range(MAX_TOOL_ROUNDS)
    ]
    sandbox_control.script(*[{"tool_calls": [search]} for search in searches], {"content": "done"})
    assert await payer.run_phase() == "done"
    assert all(call.answered_at is not None for call in await payer.calls())
    assert await payer.today() == ledger_day(sandbox_control.billed_usd(), 2 * MAX_TOOL_ROUNDS + 1)
    assert await ledger_faults(database) == []
