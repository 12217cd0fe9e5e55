"""Rows that many tests begin with."""

from uuid import UUID

from shared.store import agents, iterations
from shared.store.agents import Prompts
from shared.store.database import Database
from shared.store.iterations import Started
from shared.store.tables import Agent

MISSION = "Watch battery makers and their lithium supply"

PROMPTS = Prompts(
    conversation="You talk for the agent.",
    observer="You plan for the agent.",
    knowledge_acquisition="You search for the agent.",
    graph_construction="You write the agent's graph.",
    analysis_generation="You analyze for the agent.",
    advice_generation="You advise, rarely.",
)


async def make_owner(database: Database, name: str = "owner") -> UUID:
    async with database.transaction() as session:
        return await agents.ensure_user(session, name)


async def make_agent(
    database: Database,
    *,
    name: str = "Battery watch",
    mission: str = MISSION,
    interval_seconds: int = 3600,
) -> Agent:
    owner_id = await make_owner(database)
    async with database.transaction() as session:
        return await agents.create(
            session,
            owner_id,
            name=name,
            mission=mission,
            prompts=PROMPTS,
            interval_seconds=interval_seconds,
        )


async def make_iteration(database: Database, agent: Agent, *, deadline: float = 600) -> Started:
    """The agent's next iteration, as the scheduler starts it."""
    async with database.transaction() as session:
        attached = await session.merge(agent)
        return await iterations.start(session, attached, why="due", deadline_seconds=deadline)
