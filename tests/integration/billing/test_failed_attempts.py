"""Unusable responses, in the call ledger and in the budget ledger: recorded, booked at their cost, and requested again."""

import asyncio
import io
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import pytest
from pydantic import SecretStr
from sqlalchemy import select, update

from cli.render.console import SafeConsole
from cli.render.iterations import show_iteration
from services.api.resources.iterations import model as reading_iterations
from services.api.resources.iterations import transcripts
from shared.billing import budgets
from shared.database.engine import Database
from shared.database.tables import Call, Interaction, Step
from shared.database.tables.agents import BYTES_PER_TOKEN
from shared.enums import Phase
from shared.errors import PermanentError, TransientError
from shared.llm.answer_errors import AnswerError
from shared.llm.phase_run import PhaseRun
from shared.llm.pricing import read_prices
from shared.llm.tool_loop import ToolLoop
from shared.runtime.providers import create_model
from shared.runtime.settings import Settings
from shared.workflow import steps
from tests.support import claims
from tests.support.api.access import agent_access, owner_access
from tests.support.claims import Claimed
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
from tests.support.spending import LedgerDay, Spender, nothing_is_reserved, whole_day

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
            claim = await claims.claim(session, self.spender.lease.step_id, "another")
        assert isinstance(claim, Claimed)
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
