"""The bytes of a token are measured by what the model servers count, and budgets of contexts follow."""

from uuid import UUID, uuid4

import pytest
from sqlalchemy import select

from shared.billing import token_lengths
from shared.billing.token_lengths import REQUEST_BYTES
from shared.database.engine import Database
from shared.database.tables import Agent, Call, Interaction
from shared.database.tables.agents import BYTES_PER_TOKEN
from shared.enums import CallKind, Phase
from shared.graph.scope import GraphScope
from shared.llm.messages import ChatRequest
from shared.workflow import leases
from shared.workflow.iterations import StartedIteration
from tests.support.factories import make_agent, make_iteration
from tests.support.table_rows import add


class Caller:
    """An observe step whose calls a server has counted."""

    def __init__(self, database: Database, started: StartedIteration) -> None:
        self.database = database
        self.step = started.observe
        self._run_id: UUID | None = None

    async def call(self, request_bytes: int, tokens: int | None, count: int = 1) -> None:
        ids = {
            "agent_id": self.step.agent_id,
            "iteration_id": self.step.iteration_id,
            "step_id": self.step.id,
            "phase": Phase.OBSERVER,
            "model": "m",
        }
        async with self.database.transaction() as session:
            if self._run_id is None:
                self._run_id = uuid4()
                await session.insert(
                    Interaction, **ids, id=self._run_id, system_prompt="Plan.", request={}
                )
            for _ in range(count):
                call = Call(**ids, id=uuid4(), interaction_id=self._run_id, kind=CallKind.LLM)
                call.request_hash = uuid4().hex
                call.request = {REQUEST_BYTES: request_bytes}
                call.input_tokens = tokens
                await add(session, call)

    async def measured(self) -> float:
        await self.database.run(token_lengths.measuring(self.step.agent_id))
        async with self.database.transaction() as session:
            return (
                await session.scalars(
                    select(Agent.bytes_per_token).where(Agent.id == self.step.agent_id)
                )
            ).one()


@pytest.fixture
async def caller(database: Database) -> Caller:
    return Caller(database, await make_iteration(database, await make_agent(database)))


async def test_the_newest_calls_count(caller: Caller) -> None:
    assert await caller.measured() == BYTES_PER_TOKEN
    await caller.call(9_000, 1_000, count=9)
    assert await caller.measured() == BYTES_PER_TOKEN, "too few calls"
    await caller.call(4_000, 1_000, count=60)
    assert await caller.measured() == 4.0


async def test_small_changes_and_implausible_counts_change_nothing(caller: Caller) -> None:
    await caller.call(3_300, 1_000, count=20)
    assert await caller.measured() == BYTES_PER_TOKEN, "a change of 3 %"
    await caller.call(7_000, 1_000, count=60)
    assert await caller.measured() == BYTES_PER_TOKEN, "7 bytes a token"
    await caller.call(4_000, None, count=60)
    await caller.call(4_000, 0, count=60)
    assert await caller.measured() == BYTES_PER_TOKEN


async def test_a_worker_gets_the_budget_of_its_agent(caller: Caller, database: Database) -> None:
    await caller.call(2_000, 1_000, count=20)
    assert await caller.measured() == 2.0
    look = await database.run(leases.load(caller.step.id, "worker"))
    assert isinstance(look, leases.Claimable)
    assert GraphScope.of(look.lease).budget_bytes(1_000) == 2_000


def test_a_chat_request_is_stored_with_its_length() -> None:
    request = ChatRequest("m", ({"role": "user", "content": "Plan. 锂"},))
    call = request.call
    assert call.summary[REQUEST_BYTES] == len(call.canonical)
    assert len(call.canonical) > len("Plan. 锂".encode())
