"""How agents are configured: asked for, done, or failed. Each time is a step of its own; the newest alone counts."""

from uuid import UUID

from pydantic import BaseModel, ConfigDict
from sqlalchemy.ext.asyncio import AsyncSession

from shared.store import agents, ids, iterations
from shared.store.storable import error_text
from shared.store.tables import Agent, Step
from shared.store.words import AgentStatus, Phase, StepKind


class Wanted(BaseModel):
    """What to configure the agent by; the step's input."""

    model_config = ConfigDict(frozen=True)

    mission: str
    provisional_name: str | None = None
    """The name that Vigil gave and may change, as long as it is still the agent's."""
    keep: tuple[Phase, ...] = ()
    """Phases whose prompts stay as they are."""
    prompts_version: int = 0
    """That of the agent's prompts when this was asked for; what its owner has edited since stays too."""


async def order(session: AsyncSession, agent: Agent, wanted: Wanted) -> Step:
    """The step that configures `agent`, asked for. Whatever was asked for before and has not ended is void.

    The caller holds the agent's row lock. An agent that is ready goes on as it is until the step has ended.
    """
    step = iterations.ordered_step(
        agent.id,
        StepKind.CONFIGURE,
        agent.configurations_ordered,
        await iterations.clock(session),
        wanted.model_dump(mode="json"),
    )
    agent.configurations_ordered += 1
    if agent.status != AgentStatus.READY:
        agent.status = AgentStatus.CONFIGURING
    agent.fault = None
    session.add(step)
    await session.flush()
    return step


async def provisional_name(session: AsyncSession, agent: Agent) -> str | None:
    """The name that Vigil gave an agent that was never ready; None where the name stays."""
    last = newest_id(agent)
    if last is None or agent.status == AgentStatus.READY:
        return None
    return Wanted.model_validate((await session.get_one(Step, last)).input).provisional_name


def newest_id(agent: Agent) -> UUID | None:
    """The step that was asked for last; None for an agent that is older than all this."""
    if agent.configurations_ordered == 0:
        return None
    return ids.step_id(agent.id, StepKind.CONFIGURE, agent.configurations_ordered - 1)


async def failed(session: AsyncSession, step: Step, error: str) -> None:
    """Writes that the step failed for good, unless something newer was asked for."""
    agent = await agents.locked(session, step.agent_id)
    if step.id != newest_id(agent):
        return
    if agent.status == AgentStatus.READY:
        told = f"New prompts could not be made, so the agent goes on with those it has: {error}."
    else:
        agent.status = AgentStatus.FAILED
        told = f"The agent could not be made of its mission: {error}."
    agent.fault = error_text(f"{told} When that is mended, ask again: vigil agent configure")
    await session.flush()
