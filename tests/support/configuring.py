"""Agents whose configuration is requested, and the results."""

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
from tests.support.factories import MISSION, make_owner
from tests.support.waiting import wait_until

NAME = "Battery Makers Lithium Supply"
"""The name that the sandbox gives an agent with `MISSION`."""


async def order_agent(
    database: Database,
    *,
    owner: str = "owner",
    name: str | None = None,
    mission: str = MISSION,
    active: bool = False,
) -> tuple[Agent, Event]:
    """A new agent and the event that requests its configuration; without `name` it has a provisional one."""
    owner_id = await make_owner(database, owner)
    async with database.transaction() as session:
        agent = await agents.create_agent(
            session,
            owner_id,
            name=name or f"provisional {await _count(database)}",
            mission=mission,
            interval_seconds=3600,
            active=active,
        )
        configuration_input = ConfigurationInput(
            mission=mission, provisional_name=None if name else agent.name
        )
        step = await configuration.request_configuration(session, agent, configuration_input)
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
        configuration_input = ConfigurationInput(
            mission=mission, keep=keep, prompts_version=agent.prompts_version
        )
        return derived_events.agent_task_event(
            await configuration.request_configuration(session, agent, configuration_input)
        )


async def reload_agent(database: Database, agent: Agent) -> Agent:
    async with database.transaction() as session:
        return await session.get_one(Agent, agent.id)


async def wait_until_configured(database: Database, agent: Agent) -> Step:
    """Wait for the newest configuration step to end; return it."""

    async def look() -> Step | None:
        async with database.transaction() as session:
            step_id = configuration.newest_step_id(await session.get_one(Agent, agent.id))
            ended = Step.status.in_((StepStatus.COMPLETED, StepStatus.FAILED))
            return await session.scalar(select(Step).where(Step.id == step_id, ended))

    step = await wait_until(look, what=f"{agent.name} to be configured")
    assert step is not None
    return step


async def step_is(database: Database, step_id: Any, status: str) -> Step:
    async def look() -> Step | None:
        async with database.transaction() as session:
            return await session.scalar(
                select(Step).where(Step.id == step_id, Step.status == status)
            )

    step = await wait_until(look, what=f"the step to be {status}")
    assert step is not None
    return step


async def step_of(database: Database, agent: Agent, kind: str, status: str) -> Step:
    async def look() -> Step | None:
        async with database.transaction() as session:
            query = select(Step).where(Step.agent_id == agent.id, Step.kind == kind)
            return await session.scalar(query.where(Step.status == status))

    step = await wait_until(look, what=f"a step of kind {kind} to be {status}")
    assert step is not None
    return step


async def types_of(
    database: Database, agent: Agent
) -> tuple[list[types.NodeType], list[types.EdgeType]]:
    scope = GraphScope(agent.owner_id, agent.id)
    async with database.transaction() as session:
        return await types.list_node_types(session, scope), await types.list_edge_types(
            session, scope
        )


def configuration_response(**answer: Any) -> dict[str, Any]:
    return {"phase": "configuration", **answer}


async def _count(database: Database) -> int:
    async with database.transaction() as session:
        return len((await session.scalars(select(Agent.id))).all())
