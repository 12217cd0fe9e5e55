"""Creates the agents of the reference iteration and runs their iterations."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Final
from uuid import UUID, uuid4

from nats.aio.msg import Msg
from sqlalchemy import select

from bench.loop import scripted_model
from bench.loop.scripted_model import Reference
from shared import derived_events
from shared.agents import agents, configuration
from shared.database import ids
from shared.database.engine import Database
from shared.database.statements import BoundQuery, CompiledStatement
from shared.database.tables import Agent, GraphNode, Step
from shared.database.transaction import Transaction
from shared.enums import PROMPTED_PHASES, AgentStatus, Phase, PromptMaker, StepKind
from shared.events.codec import decode
from shared.events.envelope import Event
from shared.events.models import IterationCompleted, IterationFailed
from shared.events.topology import STREAM
from shared.graph import system_types, types
from shared.graph.scope import GraphScope
from shared.graph.validation import Validators
from shared.runtime.bus import Bus
from shared.runtime.connections import create_bus, create_database
from shared.runtime.settings import Settings
from shared.workflow import iterations
from shared.workflow.iterations import DueAgent, IterationRow

ITERATION_SECONDS: Final = 60.0
"""Timeout of an iteration."""
DEADLINE_SECONDS: Final = 600.0
RUN_NOW: Final = "run_now"
DUE: Final = "due"
"""Why an iteration is started: by the owner, or by the scheduler."""
PROMPT: Final = "You work for an agent that knows who supplies whom. " * 20
"""As long as a real prompt."""


_AGENT: Final = CompiledStatement("""
select id, cast(cast(xmin as text) as bigint), iterations_started, cast(:why as text) as why
from agents where id = :of_agent
""")


@dataclass(frozen=True)
class IterationRun:
    """An iteration; its duration is by the database's clock."""

    iteration_id: UUID
    seconds: float


class Driver:
    def __init__(self, database: Database, bus: Bus) -> None:
        self._database = database
        self._bus = bus
        self._ends: dict[UUID, asyncio.Future[Event]] = {}

    @classmethod
    @asynccontextmanager
    async def open(cls, settings: Settings) -> "AsyncIterator[Driver]":
        database = create_database(settings, "bench", pool_size=5)
        bus = create_bus(settings, "bench")
        driver = cls(database, bus)
        await bus.connect()
        for event_type in (IterationCompleted, IterationFailed):
            await bus.client.subscribe(event_type.subject, cb=driver._on_iteration_end)
        try:
            yield driver
        finally:
            await bus.close()
            await database.close()

    async def create_agents(self, count: int) -> list[UUID]:
        return [await self._create_agent() for _ in range(count)]

    async def activate(self, agent_ids: Sequence[UUID], period_seconds: int) -> None:
        """Let the scheduler start each agent once per period, spread evenly."""
        async with self._database.transaction() as session:
            now = await iterations.database_time(session)
            for place, agent_id in enumerate(agent_ids):
                agent = await agents.lock_agent(session, agent_id)
                delay = timedelta(seconds=period_seconds * place / len(agent_ids))
                await session.update(
                    Agent,
                    agent.id,
                    interval_seconds=period_seconds,
                    next_run_at=now + delay,
                    active=True,
                )

    async def deactivate(self, agent_ids: Sequence[UUID]) -> None:
        """Stop the scheduler from starting the agents; running iterations continue."""
        async with self._database.transaction() as session:
            for agent_id in agent_ids:
                (await agents.lock_agent(session, agent_id)).active = False

    async def messages(self) -> int:
        """Number of messages in the stream so far."""
        return (await self._bus.jetstream.stream_info(STREAM)).state.last_seq

    async def run(
        self, agent_id: UUID, *, timeout_seconds: float = ITERATION_SECONDS
    ) -> IterationRun:
        """Run one iteration. Raises RuntimeError if it fails or differs from the script."""
        iteration, end = await self._run(agent_id, RUN_NOW, timeout_seconds)
        _check_completed(end)
        return IterationRun(iteration.id, (end.occurred_at - iteration.started_at).total_seconds())

    async def tick(self, agent_id: UUID) -> bool:
        """Run one iteration as the scheduler does; returns whether it was quiet. Raises RuntimeError as `run` does."""
        _, end = await self._run(agent_id, DUE, ITERATION_SECONDS)
        if isinstance(end, IterationCompleted) and end.quiet:
            return True
        _check_completed(end)
        return False

    async def _run(
        self, agent_id: UUID, why: str, timeout_seconds: float
    ) -> tuple[IterationRow, Event]:
        due = await self._database.run(
            BoundQuery(_AGENT, {"of_agent": agent_id, "why": why}, lambda rows: DueAgent(*rows[0]))
        )
        [start] = await self._database.run(
            iterations.start_iterations([due], deadline_seconds=DEADLINE_SECONDS)
        )
        event = derived_events.iteration_step_event(*start)
        iteration_id = start.iteration.id
        end = self._ends[iteration_id] = asyncio.get_running_loop().create_future()
        await self._bus.publish(event)
        async with asyncio.timeout(timeout_seconds):
            end_event = await end
        del self._ends[iteration_id]
        return start.iteration, end_event

    async def hop_seconds(self, iteration_ids: Sequence[UUID]) -> list[float]:
        """Seconds from the commit that requests a step to its start, for each step.

        Raises RuntimeError if a query has not written what the script plans.
        """
        async with self._database.transaction() as session:
            steps = list(
                await session.scalars(select(Step).where(Step.iteration_id.in_(iteration_ids)))
            )
        expected = {
            "nodes": scripted_model.NODES_PER_QUERY,
            "edges": scripted_model.NODES_PER_QUERY - 1,
        }
        for step in steps:
            if step.kind == StepKind.QUERY and step.result != expected:
                raise RuntimeError(f"a query did not follow the script: {step.result}")
        return [
            (step.started_at - step.requested_at).total_seconds()
            for step in steps
            if step.started_at is not None and step.requested_at is not None
        ]

    async def _on_iteration_end(self, message: Msg) -> None:
        event = decode(message.data)
        end = self._ends.get(event.correlation_id)
        if end is not None and not end.done():
            end.set_result(event)

    async def _create_agent(self) -> UUID:
        async with self._database.transaction() as session:
            owner_id = await agents.ensure_user(session, "bench")
            agent = await agents.create_agent(
                session, owner_id, name=f"Bench {uuid4()}", mission="", interval_seconds=3600
            )
            anchors = {
                ids.node_id(agent.id, scripted_model.NODE_TYPE, name): name
                for name in ("Anchor one", "Anchor two")
            }
            first, second = anchors
            agent = await session.update(
                Agent,
                agent.id,
                mission=Reference(agent.id, (first, second)).mission,
                status=AgentStatus.READY,
                active=False,
            )
            prompts: dict[Phase, str] = dict.fromkeys(PROMPTED_PHASES, PROMPT)
            await configuration.store_prompts(session, agent, prompts, PromptMaker.OWNER)
            await _create_types(session, GraphScope(owner_id, agent.id))
            for node_id, name in anchors.items():
                properties = {"summary": "It was there before.", "countries": 1}
                await session.insert(
                    GraphNode,
                    id=node_id,
                    agent_id=agent.id,
                    type=scripted_model.NODE_TYPE,
                    name=name,
                    properties=properties,
                )
            return agent.id


async def _create_types(session: Transaction, scope: GraphScope) -> None:
    await system_types.ensure_system_types(session, scope.agent_id)
    await types.create_node_type(
        session,
        scope,
        Validators(),
        name=scripted_model.NODE_TYPE,
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
        name=scripted_model.EDGE_TYPE,
        description="The one supplies the other.",
        source_types=[scripted_model.NODE_TYPE],
        target_types=[scripted_model.NODE_TYPE],
        created_by="bench",
    )


def _check_completed(event: Event) -> None:
    """Raise RuntimeError if the iteration differs from the script."""
    if not isinstance(event, IterationCompleted) or event.errors:
        raise RuntimeError(f"an iteration failed: {event.model_dump_json()}")
    counts = (event.queries, event.insights, event.analyses, event.advice)
    if counts != (scripted_model.QUERIES, scripted_model.INSIGHTS, scripted_model.INSIGHTS, 0):
        raise RuntimeError(f"an iteration did not follow the script: {event.model_dump_json()}")
