"""Agents that wait to be configured, and what became of them."""

from typing import Any
from uuid import UUID

from sqlalchemy import select

from shared import derived_events
from shared.agents import agents, configuration
from shared.agents.configuration import ConfigurationInput
from shared.database.engine import Database
from shared.database.tables import Agent, Step
from shared.enums import Phase, StepStatus
from shared.events.envelope import Event
from shared.graph import types
from shared.graph.scope import GraphScope
from tests.support.making import MISSION, make_owner
from tests.support.waiting import until

NAME = "Battery Makers Lithium Supply"
"""What the sandbox makes of `MISSION`."""


async def order_agent(
    database: Database,
    *,
    owner: str = "owner",
    name: str | None = None,
    mission: str = MISSION,
    active: bool = False,
) -> tuple[Agent, Event]:
    """A new agent, and the event that asks for its configuration; without a name it has a provisional one."""
    owner_id = await make_owner(database, owner)
    async with database.transaction() as session:
        agent = await agents.create_agent(
            session,
            owner_id,
            name=name or f"provisional {await _count(database)}",
            mission=mission,
            interval_seconds=3600,
        )
        agent.active = active
        wanted = ConfigurationInput(mission=mission, provisional_name=None if name else agent.name)
        step = await configuration.request_configuration(session, agent, wanted)
        return agent, derived_events.agent_task_event(step)


async def order_again(
    database: Database,
    agent_id: UUID,
    *,
    mission: str = MISSION,
    keep: tuple[Phase, ...] = (),
) -> Event:
    async with database.transaction() as session:
        agent = await agents.lock_agent(session, agent_id)
        wanted = ConfigurationInput(
            mission=mission, keep=keep, prompts_version=agent.prompts_version
        )
        return derived_events.agent_task_event(
            await configuration.request_configuration(session, agent, wanted)
        )


async def reread(database: Database, agent: Agent) -> Agent:
    async with database.transaction() as session:
        return await session.get_one(Agent, agent.id)


async def configured(database: Database, agent: Agent) -> Step:
    """The step that was ordered last, once it has ended."""

    async def look() -> Step | None:
        async with database.transaction() as session:
            step_id = configuration.newest_step_id(await session.get_one(Agent, agent.id))
            ended = Step.status.in_((StepStatus.COMPLETED, StepStatus.FAILED))
            return await session.scalar(select(Step).where(Step.id == step_id, ended))

    found = await until(look, what=f"{agent.name} to be configured")
    assert found is not None
    return found


async def step_is(database: Database, step_id: Any, status: str) -> Step:
    async def look() -> Step | None:
        async with database.transaction() as session:
            return await session.scalar(
                select(Step).where(Step.id == step_id, Step.status == status)
            )

    found = await until(look, what=f"the step to be {status}")
    assert found is not None
    return found


async def step_of(database: Database, agent: Agent, kind: str, status: str) -> Step:
    async def look() -> Step | None:
        async with database.transaction() as session:
            wanted = select(Step).where(Step.agent_id == agent.id, Step.kind == kind)
            return await session.scalar(wanted.where(Step.status == status))

    found = await until(look, what=f"a step of kind {kind} to be {status}")
    assert found is not None
    return found


async def types_of(
    database: Database, agent: Agent
) -> tuple[list[types.NodeType], list[types.EdgeType]]:
    scope = GraphScope(agent.owner_id, agent.id)
    async with database.transaction() as session:
        return await types.list_node_types(session, scope), await types.list_edge_types(
            session, scope
        )


def says(**answer: Any) -> dict[str, Any]:
    return {"phase": "configuration", **answer}


async def _count(database: Database) -> int:
    async with database.transaction() as session:
        return len((await session.scalars(select(Agent.id))).all())
