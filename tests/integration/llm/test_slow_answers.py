"""Slow responses: their progress is shown, they keep the iteration running, and they are paid for once."""

import asyncio
import json
import socket
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import select

from services.aggregator import deadlines as deadlines_module
from services.api.resources.agents import model as agents
from services.api.resources.iterations import model as iterations
from services.observer import app as observer_app
from shared.billing import call_ledger
from shared.billing.resumable_call import ResumableCall
from shared.database.engine import Database
from shared.database.tables import Agent, BudgetDay, Call, Iteration
from shared.enums import CallKind, IterationStatus
from shared.errors import TransientError
from shared.llm import provider as provider_module
from shared.llm.messages import ChatAnswer, ChatRequest, assistant_message
from shared.runtime.bus import Bus
from shared.runtime.settings import Settings
from shared.schemas.base import RunningCall
from shared.web_search.client import SearchClient
from tests.support.api.access import owner_access
from tests.support.factories import make_agent
from tests.support.running_services import ended_iteration, running_services
from tests.support.sandbox.server import running_app
from tests.support.slow_server import SlowServer
from tests.support.steps import observer_is_idle, request_observe_step, running_service
from tests.support.waiting import wait_until

PLAN = json.dumps(
    {"queries": [{"objective": "x", "reasoning": "", "searchHints": []}], "insights": []}
)


@dataclass
class StreamingProvider:
    """A provider whose one response grows under the control of the test."""

    characters: asyncio.Queue[int | None] = field(default_factory=asyncio.Queue)
    """Numbers of characters received so far; None ends the response."""

    async def complete(
        self, request: ChatRequest, in_flight: ResumableCall, on_delta: Any = None
    ) -> ChatAnswer:
        assert in_flight.report_progress is not None
        async with in_flight.attempt():
            while (received := await self.characters.get()) is not None:
                await in_flight.report_progress(received)
        return ChatAnswer(assistant_message(PLAN, []), "stop", 10, 10)

    async def close(self) -> None:
        return


async def test_the_progress_of_a_response_is_stored_and_shown(
    settings: Settings, database: Database, bus: Bus
) -> None:
    provider = StreamingProvider()
    step = await request_observe_step(database, bus)
    async with running_service(observer_app.build(settings, provider)):
        first = await wait_until(lambda: running_call(database), what="the call to be sent")
        assert first is not None
        assert first.received_chars is None, "the first token has not arrived"
        assert first.progressed_at is None
        assert (first.step_id, first.kind, first.phase) == (step.id, "llm", "observer")
        for characters in (10, 4_321):
            provider.characters.put_nowait(characters)
            latest = await wait_until(
                partial(call_of_size, database, characters), what="it to grow"
            )
            assert latest is not None
            assert latest.sent_at == first.sent_at
            assert latest.progressed_at is not None
            assert await running_calls_of_agent(database) == [latest]
        provider.characters.put_nowait(None)
        await wait_until(lambda: observer_is_idle(bus), what="the message to be acked")
    assert await running_call(database) is None
    async with database.transaction() as session:
        [call] = await session.scalars(select(Call))
    assert (call.attempts, call.received_chars) == (1, 4_321)


async def running_call(database: Database) -> RunningCall | None:
    """The iteration's running call, as the API shows it."""
    async with database.transaction() as session:
        agent = (await session.scalars(select(Agent))).one()
        iteration = (await session.scalars(select(Iteration))).one()
        details = await iterations.get_iteration(
            owner_access(session, agent.owner_id), iteration.id
        )
    return details.running_calls[0] if details.running_calls else None


async def running_calls_of_agent(database: Database) -> list[RunningCall]:
    async with database.transaction() as session:
        agent = (await session.scalars(select(Agent))).one()
        details = await agents.get_agent(owner_access(session, agent.owner_id), agent.id)
    assert details is not None
    return details.running_calls


async def call_of_size(database: Database, characters: int) -> RunningCall | None:
    call = await running_call(database)
    return call if call is not None and call.received_chars == characters else None


async def test_a_response_continues_when_its_progress_cannot_be_stored() -> None:
    unreachable = Database("postgresql://nobody@127.0.0.1:1/none", name="away")
    await call_ledger.report_progress(unreachable, uuid4(), 10)
    await unreachable.close()


IMPATIENCE_SECONDS = 1.5
"""Less than one response takes: a limit on the length of a response or an iteration would end it."""


async def test_an_iteration_with_a_slow_server_completes_pays_once_and_shows_progress(
    sandbox_settings: Settings, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deadlines_module, "CHECK_SECONDS", 0.1)
    monkeypatch.setattr(provider_module, "PROGRESS_SECONDS", 0.2)
    server = SlowServer()
    agent = await make_agent(database)
    async with running_app(server.app) as url:
        impatient = sandbox_settings.model_copy(
            update={
                "openai_base_url": f"{url}/v1",
                "llm_timeout_seconds": IMPATIENCE_SECONDS,
                "model_tool_choice": "never",
                "iteration_deadline_seconds": IMPATIENCE_SECONDS,
                "max_attempts": 1,
            }
        )
        async with running_services(
            impatient, ("scheduler", "observer", "researcher", "aggregator")
        ):
            chars = await wait_until(lambda: received_chars(database), what="an answer to grow")
            iteration = await ended_iteration(database, agent, 1, seconds=120)
    assert (iteration.status, iteration.errors) == (IterationStatus.COMPLETED, [])
    assert iteration.ended_at is not None
    assert (iteration.ended_at - iteration.started_at).total_seconds() > 3 * IMPATIENCE_SECONDS
    assert set(server.asked.values()) == {1}, "no request is repeated"
    # The model makes no search: its query is searched on its behalf, and the document is requested once more. No page
    # is found, so nothing is constructed.
    assert server.answered == len(server.asked) == 3
    async with database.transaction() as session:
        calls = list(await session.scalars(select(Call)))
        budget_days = list(await session.scalars(select(BudgetDay)))
    assert [call.attempts for call in calls] == [1] * 4
    assert {(day.spent_calls, day.reserved_calls) for day in budget_days} == {(4, 0)}
    assert chars > 0
    answers = [call for call in calls if call.kind == CallKind.LLM]
    assert all((call.received_chars or 0) > 100 for call in answers), "progress of each was stored"


async def received_chars(database: Database) -> int:
    """The number of characters shown of an incomplete response."""
    async with database.transaction() as session:
        is_started = (await session.scalars(select(Iteration.id))).first() is not None
    call = await running_call(database) if is_started else None
    return 0 if call is None else call.received_chars or 0


async def test_the_error_of_a_search_timeout_names_its_setting() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        client = SearchClient(api_key="k", base_url=url, timeout_seconds=0.2)
        with pytest.raises(TransientError, match=r"0\.2 s \(VIGIL_SEARCH_TIMEOUT_SECONDS") as error:
            await client.search("lithium", max_results=1, topic=None, time_range=None)
        await client.close()
    assert not error.value.unbilled
