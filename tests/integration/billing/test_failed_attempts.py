"""Answers that cannot be used, in the ledger and in the books: recorded, booked at what they cost, and sent anew."""

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
from rich.console import Console
from sqlalchemy import select, update

from cli.render.iterations import show_iteration
from services.api.queries import iterations as reading_iterations
from services.api.queries import transcripts
from shared.billing import budgets
from shared.database.engine import Database
from shared.database.tables import Call, Interaction, Step
from shared.enums import Phase
from shared.errors import PermanentError, TransientError
from shared.llm.answers import AnswerError
from shared.llm.phase_run import PhaseRun
from shared.llm.pricing import read_prices
from shared.llm.tool_loop import ToolLoop
from shared.runtime.providers import create_model
from shared.runtime.settings import Settings
from shared.workflow import leases, steps
from shared.workflow.leases import Claimed
from tests.support.model_server import (
    Connection,
    ModelStandIn,
    Respond,
    canned,
    chunk,
    completion,
    events,
    model_server,
)
from tests.support.spending import Kept, Spender, nothing_is_reserved, whole_day

COST = read_prices().tokens_usd("m", 11, 7)
HTML = b"<html><body>Sign in to the proxy</body></html>"


def answers(*bodies: Any) -> Respond:
    """One after the other, and the last for ever."""
    left = list(bodies)

    async def respond(connection: Connection) -> None:
        body = left.pop(0) if len(left) > 1 else left[0]
        await connection.head(kind="application/json")
        await connection.send(body if isinstance(body, bytes) else json.dumps(body).encode())

    return respond


@dataclass
class Worker:
    """Runs a phase of one step, one worker after the other."""

    settings: Settings
    spender: Spender
    server: ModelStandIn

    async def words(self, **settings: Any) -> str:
        given = {
            "openai_base_url": self.server.url,
            "openai_api_key": SecretStr("key"),
            "model": "m",
            **settings,
        }
        model = create_model(self.settings.model_copy(update=given), self.spender.database)
        run = PhaseRun(model, self.spender.lease, self.spender.agent, Phase.OBSERVER, "Go on.")
        try:
            return await ToolLoop(run, []).run()
        finally:
            await model.provider.close()

    async def another(self) -> None:
        """Takes the step over."""
        async with self.spender.database.transaction() as session:
            await steps.release(session, self.spender.lease, "", attempts=0, rest_seconds=0)
            claim = await leases.claim(session, self.spender.lease.step_id, "another")
        assert isinstance(claim, Claimed)
        self.spender = replace(self.spender, lease=claim.lease)

    async def call(self) -> Call:
        async with self.spender.database.transaction() as session:
            return (await session.scalars(select(Call))).one()

    async def today(self) -> Kept:
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


async def test_an_unusable_answer_is_booked_at_its_usage_and_the_next_is_another_sending(
    sandbox_settings: Settings, database: Database
) -> None:
    respond = answers(completion(None), completion({"content": "Done"}))
    async with working(sandbox_settings, database, respond) as worker:
        with pytest.raises(AnswerError, match="its message is null"):
            await worker.words()
        failed, spent = await worker.call(), await worker.today()
        assert (failed.answered_at, failed.attempts, failed.assumed_usd) == (None, 1, COST)
        assert spent == Kept((COST or Decimal(0), 1), (Decimal(0), 0))
        await worker.another()
        assert await worker.words() == "Done"
        done, spent = await worker.call(), await worker.today()
    [failure] = done.failures
    assert (failure["kind"], failure["input_tokens"], failure["cost_usd"]) == (
        "unusable", 11, str(COST),
    )  # fmt: skip
    assert '"message": null' in failure["said"]
    assert (done.attempts, done.cost_usd, done.assumed_usd) == (2, COST, COST)
    assert COST is not None
    assert spent == Kept((2 * COST, 2), (Decimal(0), 0))
    assert len(worker.server.requests) == 2
    assert worker.server.keys == [str(done.id), f"{done.id}-1"]
    assert await nothing_is_reserved(database)


@pytest.mark.parametrize(
    "usage",
    [
        {"prompt_tokens": -(10**9), "completion_tokens": 7},
        {"prompt_tokens": 11, "completion_tokens": -(10**12)},
        {"prompt_tokens": 10**12, "completion_tokens": 7},
        None,
    ],
)
async def test_usage_that_cannot_be_right_refills_no_budget(
    sandbox_settings: Settings, database: Database, usage: Any
) -> None:
    respond = answers(completion({"content": "Done"}, usage=usage))
    async with working(sandbox_settings, database, respond) as worker:
        assert await worker.words() == "Done"
        call, spent = await worker.call(), await worker.today()
    assert (call.input_tokens, call.output_tokens, call.cost_usd) == (None, None, None)
    assert "usage is not usable" in (call.answer or {})["usage_fault"]
    # At least all the output that was reserved for.
    bound = read_prices().tokens_usd("m", 0, sandbox_settings.most_output_tokens)
    assert bound is not None
    assert call.assumed_usd >= bound
    assert spent == Kept((call.assumed_usd, 1), (Decimal(0), 0))
    assert await nothing_is_reserved(database)


async def test_an_answer_that_costs_more_than_can_be_stored_is_booked_at_its_bound(
    sandbox_settings: Settings, database: Database
) -> None:
    usage = {"prompt_tokens": 999_999_999, "completion_tokens": 999_999_999}
    respond = answers(completion({"content": "Done"}, usage=usage))
    async with working(sandbox_settings, database, respond) as worker:
        assert await worker.words(prices={"m": (9000.0, 9000.0)}) == "Done"
        call = await worker.call()
    assert (call.cost_usd, call.assumed_usd > 0) == (None, True)


async def never(connection: Connection) -> None:
    """Says one word and nothing more."""
    await connection.head()
    await connection.send(events(chunk({"content": "Slow"}), done=False))
    await asyncio.Event().wait()


async def test_a_request_is_given_up_twice_and_no_more_whoever_works_on_it(
    sandbox_settings: Settings, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shared.llm.model_server.QUICK_TRIES", 1)
    async with working(sandbox_settings, database, never) as worker:
        with pytest.raises(TransientError, match="VIGIL_LLM_SILENCE_SECONDS"):
            await worker.words(llm_silence_seconds=0.2)
        await worker.another()
        for _ in range(2):
            with pytest.raises(PermanentError, match=r"VIGIL_LLM_SILENCE_SECONDS.*4 characters"):
                await worker.words(llm_silence_seconds=0.2)
            await worker.another()
        assert len(worker.server.requests) == 2
        call = await worker.call()
        assert [(each["kind"], each["said"]) for each in call.failures] == [("timeout", "Slow")] * 2
        assert await nothing_is_reserved(database)
        # A person has raised the limit, and asked for the step's retry.
        async with database.transaction() as session:
            await session.execute(update(Step).values(retried_epoch=Step.epoch))
        await worker.another()
        with pytest.raises(TransientError, match=r"sent nothing for 0.3 s"):
            await worker.words(llm_silence_seconds=0.3)
    assert len(worker.server.requests) == 3


async def test_within_one_process_it_is_given_up_twice_too(
    sandbox_settings: Settings, database: Database
) -> None:
    async with working(sandbox_settings, database, never) as worker:
        with pytest.raises(PermanentError, match=r"It was sent 2 times and is not sent again") as e:
            await worker.words(llm_silence_seconds=0.2)
    assert e.value.code == "llm_timeout"
    assert len(worker.server.requests) == 2


async def test_what_the_server_said_is_shown(
    sandbox_settings: Settings, database: Database
) -> None:
    async with working(sandbox_settings, database, canned(HTML, kind="text/html")) as worker:
        with pytest.raises(AnswerError, match="Sign in to the proxy"):
            await worker.words()
        agent = worker.spender.agent
        async with database.transaction() as session:
            run_id = (await session.scalars(select(Interaction.id))).one()
            [saying] = await transcripts.list_answers(session, agent.owner_id, run_id) or []
            found = await reading_iterations.find_by_number(session, agent.owner_id, agent.id, 1)
    [failed] = saying.failures
    assert failed.said == HTML.decode()
    assert found is not None
    shown = io.StringIO()
    show_iteration(Console(file=shown, width=200), found, said=True)
    told = " ".join(shown.getvalue().split())
    for words in ("did not answer with JSON", HTML.decode(), "its maximum cost"):
        assert words in told
