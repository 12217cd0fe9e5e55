"""Has agents run: starts their iterations as the scheduler does, and hears of their ends."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Final
from uuid import UUID, uuid4

from nats.aio.msg import Msg
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from bench.loop import script
from bench.loop.script import Reference
from shared import derived_events
from shared.agents import agents, configuration
from shared.database import ids
from shared.database.engine import Database
from shared.database.tables import GraphNode, Step
from shared.enums import PROMPTED, AgentStatus, Phase, PromptMaker, StepKind
from shared.events.codec import decode
from shared.events.envelope import Event
from shared.events.models import IterationCompleted, IterationFailed
from shared.events.topology import STREAM
from shared.graph import system_types, types
from shared.graph.scope import Scope
from shared.graph.validation import Validators
from shared.runtime.bus import Bus
from shared.runtime.connections import bus_of, database_of
from shared.runtime.settings import Settings
from shared.workflow import iterations

ITERATION_SECONDS: Final = 60.0
"""One that takes longer has failed."""
DEADLINE_SECONDS: Final = 600.0
PROMPT: Final = "You work for an agent that knows who supplies whom. " * 20
"""Of the length of a written one."""


@dataclass(frozen=True)
class Ran:
    """One iteration, by the database's clock."""

    iteration_id: UUID
    seconds: float


class Driver:
    def __init__(self, database: Database, bus: Bus) -> None:
        self._database = database
        self._bus = bus
        self._ends: dict[UUID, asyncio.Future[Event]] = {}

    @classmethod
    @asynccontextmanager
    async def of(cls, settings: Settings) -> "AsyncIterator[Driver]":
        database = database_of(settings, "bench", pool_size=5)
        bus = bus_of(settings, "bench")
        driver = cls(database, bus)
        await bus.connect()
        for ended in (IterationCompleted, IterationFailed):
            await bus.client.subscribe(ended.subject, cb=driver._hear)
        try:
            yield driver
        finally:
            await bus.close()
            await database.close()

    async def make_agents(self, count: int) -> list[UUID]:
        return [await self._make_agent() for _ in range(count)]

    async def let_run(self, agent_ids: Sequence[UUID], period_seconds: int) -> None:
        """From now on the scheduler starts each of them once in a period; their turns are spread over it evenly."""
        async with self._database.transaction() as session:
            now = await iterations.clock(session)
            for place, agent_id in enumerate(agent_ids):
                agent = await agents.locked(session, agent_id)
                agent.interval_seconds = period_seconds
                agent.next_run_at = now + timedelta(seconds=period_seconds * place / len(agent_ids))
                agent.active = True

    async def let_rest(self, agent_ids: Sequence[UUID]) -> None:
        """None of them is started any more; what runs goes on."""
        async with self._database.transaction() as session:
            for agent_id in agent_ids:
                (await agents.locked(session, agent_id)).active = False

    async def messages(self) -> int:
        """How many the stream has stored so far."""
        return (await self._bus.jetstream.stream_info(STREAM)).state.last_seq

    async def run(self, agent_id: UUID) -> Ran:
        """One iteration. Raises RuntimeError where it fails, or does not do what the script says."""
        async with self._database.transaction() as session:
            agent = await agents.locked(session, agent_id)
            started = await iterations.start(
                session, agent, why="run_now", deadline_seconds=DEADLINE_SECONDS
            )
            told = derived_events.request(started.iteration, started.observe)
        iteration_id = started.iteration.id
        end = self._ends[iteration_id] = asyncio.get_running_loop().create_future()
        await self._bus.publish(told)
        async with asyncio.timeout(ITERATION_SECONDS):
            ended = await end
        del self._ends[iteration_id]
        _refuse_other(ended)
        return Ran(iteration_id, (ended.occurred_at - started.iteration.started_at).total_seconds())

    async def hops(self, iteration_ids: Sequence[UUID]) -> list[float]:
        """For each step: seconds from when it was asked for, in the commit that did, to when it was taken up.

        Raises RuntimeError where a query has not written what the script says.
        """
        async with self._database.transaction() as session:
            steps = list(
                await session.scalars(select(Step).where(Step.iteration_id.in_(iteration_ids)))
            )
        wanted = {"nodes": script.NODES_OF_A_QUERY, "edges": script.NODES_OF_A_QUERY - 1}
        for step in steps:
            if step.kind == StepKind.QUERY and step.result != wanted:
                raise RuntimeError(f"a query did not what the script says: {step.result}")
        return [
            (step.started_at - step.requested_at).total_seconds()
            for step in steps
            if step.started_at is not None and step.requested_at is not None
        ]

    async def _hear(self, message: Msg) -> None:
        event = decode(message.data)
        end = self._ends.get(event.correlation_id)
        if end is not None and not end.done():
            end.set_result(event)

    async def _make_agent(self) -> UUID:
        async with self._database.transaction() as session:
            owner_id = await agents.ensure_user(session, "bench")
            agent = await agents.create(
                session, owner_id, name=f"Bench {uuid4()}", mission="", interval_seconds=3600
            )
            anchors = {
                ids.node_id(agent.id, script.NODE_TYPE, name): name
                for name in ("Anchor one", "Anchor two")
            }
            first, second = anchors
            agent.mission = Reference(agent.id, (first, second)).mission
            agent.status = AgentStatus.READY
            agent.active = False
            given: dict[Phase, str] = dict.fromkeys(PROMPTED, PROMPT)
            await configuration.write(session, agent, given, PromptMaker.OWNER)
            await _make_types(session, Scope(owner_id, agent.id))
            for node_id, name in anchors.items():
                properties = {"summary": "It was there before.", "countries": 1}
                session.add(
                    GraphNode(
                        id=node_id,
                        agent_id=agent.id,
                        type=script.NODE_TYPE,
                        name=name,
                        properties=properties,
                    )
                )
            return agent.id


async def _make_types(session: AsyncSession, scope: Scope) -> None:
    await system_types.ensure(session, scope.agent_id)
    await types.create_node_type(
        session,
        scope,
        Validators(),
        name=script.NODE_TYPE,
        description="A company.",
        properties_schema={
            "type": "object",
            "properties": {"summary": {"type": "string"}, "countries": {"type": "integer"}},
            "required": ["summary"],
        },
        example_properties={"summary": "It makes parts.", "countries": 2},
        created_by="bench",
    )
    await types.create_edge_type(
        session,
        scope,
        name=script.EDGE_TYPE,
        description="The one supplies the other.",
        source_types=[script.NODE_TYPE],
        target_types=[script.NODE_TYPE],
        created_by="bench",
    )


def _refuse_other(ended: Event) -> None:
    """Raises RuntimeError where the iteration is not the script's."""
    if not isinstance(ended, IterationCompleted) or ended.errors:
        raise RuntimeError(f"an iteration failed: {ended.model_dump_json()}")
    done = (ended.queries, ended.insights, ended.analyses, ended.advice)
    if done != (script.QUERIES, script.INSIGHTS, script.INSIGHTS, 0):
        raise RuntimeError(f"an iteration did not what the script says: {ended.model_dump_json()}")
