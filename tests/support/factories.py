"""Rows that many tests need."""

from uuid import UUID, uuid4

from sqlalchemy import text

from shared.agents import agents, configuration
from shared.database.engine import Database
from shared.database.tables import Agent, GraphNode, GraphNodeType
from shared.database.transaction import Transaction
from shared.enums import AgentStatus, Phase, PromptMaker
from shared.workflow import iterations
from shared.workflow.iterations import DueAgent, StartedIteration

MISSION = "Watch battery makers and their lithium supply"

PROMPTS = {
    Phase.CONVERSATION: "You talk for the agent.",
    Phase.OBSERVER: "You plan for the agent.",
    Phase.KNOWLEDGE_ACQUISITION: "You search for the agent.",
    Phase.GRAPH_CONSTRUCTION: "You write the agent's graph.",
    Phase.ANALYSIS_GENERATION: "You analyze for the agent.",
    Phase.ADVICE_GENERATION: "You advise, rarely.",
}


async def make_owner(database: Database, name: str = "owner") -> UUID:
    async with database.transaction() as session:
        return await agents.ensure_user(session, name)


async def make_agent(
    database: Database,
    *,
    name: str = "Battery watch",
    mission: str = MISSION,
    interval_seconds: int = 3600,
    active: bool = True,
) -> Agent:
    """A ready agent with `PROMPTS` and no types; due at once if `active`."""
    owner_id = await make_owner(database)
    async with database.transaction() as session:
        agent = await agents.create_agent(
            session,
            owner_id,
            name=name,
            mission=mission,
            interval_seconds=interval_seconds,
            active=active,
        )
        return await make_ready(session, agent)


async def wake(database: Database, agent: Agent) -> None:
    """Activate an agent."""
    async with database.transaction() as session:
        await session.update(Agent, agent.id, active=True)


async def make_ready(session: Transaction, agent: Agent) -> Agent:
    """Mark the agent as configured, without a model, and return it."""
    await configuration.store_prompts(session, agent, PROMPTS, PromptMaker.CONFIGURATION)
    return await session.update(Agent, agent.id, status=AgentStatus.READY)


async def make_node(database: Database, agent: Agent) -> None:
    """Add a node: with a non-empty graph an Observer may plan nothing."""
    owner = {"agent_id": agent.id}
    type_values = {"description": "A metal", "properties_schema": {}, "created_by": "test"}
    async with database.transaction() as session:
        await session.insert(GraphNodeType, **owner, **type_values, name="Metal")
        await session.insert(
            GraphNode, **owner, id=uuid4(), type="Metal", name="Lithium", properties={}
        )


_DUE_AGENT = text("""
select id, cast(cast(xmin as text) as bigint), iterations_started, 'due' from agents where id = :agent
""")


async def make_iteration(
    database: Database, agent: Agent, *, deadline: float = 600
) -> StartedIteration:
    """The agent's next iteration, as the scheduler starts it."""
    async with database.transaction() as session:
        due = DueAgent(*(await session.execute(_DUE_AGENT, {"agent": agent.id})).one())
        starting = iterations.start_iterations([due], deadline_seconds=deadline)
        [started] = await starting.execute(session)
        return started
