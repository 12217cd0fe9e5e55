"""Answers that take long: they are seen growing, keep their iteration alive, and are paid for once."""

import asyncio
import json
import socket
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import select

from services.aggregator import deadlines as deadlines_module
from services.api.queries import agents, iterations
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
from tests.support.actors import ended_iteration, running
from tests.support.making import make_agent
from tests.support.sandbox.serving import running_app
from tests.support.slow_server import SlowServer
from tests.support.steps import running as running_actor
from tests.support.steps import settled, started
from tests.support.waiting import until

PLAN = json.dumps(
    {"queries": [{"objective": "x", "reasoning": "", "searchHints": []}], "insights": []}
)


@dataclass
class Growing:
    """A provider whose one answer grows when the test says so."""

    characters: asyncio.Queue[int | None] = field(default_factory=asyncio.Queue)
    """None is the end of the answer."""

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


async def test_how_far_an_answer_has_come_is_stored_and_shown(
    settings: Settings, database: Database, bus: Bus
) -> None:
    provider = Growing()
    step = await started(database, bus)
    async with running_actor(observer_app.build(settings, provider)):
        first = await until(lambda: shown(database), what="the call to be sent")
        assert first is not None
        assert first.received_chars is None, "it waits for the first token"
        assert first.progressed_at is None
        assert (first.step_id, first.kind, first.phase) == (step.id, "llm", "observer")
        for characters in (10, 4_321):
            provider.characters.put_nowait(characters)
            found = await until(lambda n=characters: grown(database, n), what="it to grow")  # type: ignore[misc]
            assert found is not None
            assert found.sent_at == first.sent_at
            assert found.progressed_at is not None
            assert await shown_with_the_agent(database) == [found]
        provider.characters.put_nowait(None)
        await until(lambda: settled(bus), what="the message to be acked")
    assert await shown(database) is None
    async with database.transaction() as session:
        [call] = await session.scalars(select(Call))
    assert (call.attempts, call.received_chars) == (1, 4_321)


async def shown(database: Database) -> RunningCall | None:
    """As people see it with the iteration."""
    async with database.transaction() as session:
        agent = (await session.scalars(select(Agent))).one()
        iteration = (await session.scalars(select(Iteration))).one()
        found = await iterations.find_iteration(session, agent.owner_id, iteration.id)
    assert found is not None
    return found.running_calls[0] if found.running_calls else None


async def shown_with_the_agent(database: Database) -> list[RunningCall]:
    async with database.transaction() as session:
        agent = (await session.scalars(select(Agent))).one()
        found = await agents.find_agent(session, agent.owner_id, str(agent.id))
    assert found is not None
    return found.running_calls


async def grown(database: Database, characters: int) -> RunningCall | None:
    call = await shown(database)
    return call if call is not None and call.received_chars == characters else None


async def test_an_answer_goes_on_where_its_progress_cannot_be_stored() -> None:
    away = Database("postgresql://nobody@127.0.0.1:1/none", name="away")
    await call_ledger.report_progress(away, uuid4(), 10)
    await away.close()


IMPATIENCE_SECONDS = 1.5
"""Less than an answer takes: a limit of its length, or of the iteration's, would end it."""


async def test_an_iteration_with_a_slow_server_ends_and_is_paid_once_and_seen_progressing(
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
                "iteration_deadline_seconds": IMPATIENCE_SECONDS,
                "max_attempts": 1,
            }
        )
        async with running(impatient, ("scheduler", "observer", "researcher", "aggregator")):
            seen = await until(lambda: shown_growing(database), what="an answer to grow")
            ended = await ended_iteration(database, agent, 1, seconds=120)
    assert (ended.status, ended.errors) == (IterationStatus.COMPLETED, [])
    assert ended.ended_at is not None
    assert (ended.ended_at - ended.started_at).total_seconds() > 3 * IMPATIENCE_SECONDS
    assert set(server.asked.values()) == {1}, "nothing is asked twice"
    # The model searched nothing: its query is searched for it, and it is asked for the document once more. No page is
    # found, so nothing is constructed.
    assert server.answered == len(server.asked) == 3
    async with database.transaction() as session:
        calls = list(await session.scalars(select(Call)))
        kept = list(await session.scalars(select(BudgetDay)))
    assert [call.attempts for call in calls] == [1] * 4
    assert {(day.spent_calls, day.reserved_calls) for day in kept} == {(4, 0)}
    assert seen > 0
    answers = [call for call in calls if call.kind == CallKind.LLM]
    assert all((call.received_chars or 0) > 100 for call in answers), "each was seen growing"


async def shown_growing(database: Database) -> int:
    """How many characters of an answer that is not whole people are shown."""
    async with database.transaction() as session:
        is_started = (await session.scalars(select(Iteration.id))).first() is not None
    call = await shown(database) if is_started else None
    return 0 if call is None else call.received_chars or 0


async def test_a_search_that_takes_too_long_names_its_setting() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        client = SearchClient(api_key="k", base_url=url, timeout_seconds=0.2)
        with pytest.raises(TransientError, match=r"0\.2 s \(VIGIL_SEARCH_TIMEOUT_SECONDS") as found:
            await client.search("lithium", max_results=1, topic=None, time_range=None)
        await client.close()
    assert not found.value.unbilled
