"""Configuring agents: prompts and their versions, requested and recorded."""

from collections.abc import Mapping
from typing import Final
from uuid import UUID

from pydantic import BaseModel, ConfigDict
from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from shared.agents import agents
from shared.database import ids
from shared.database.tables import Agent, PromptVersion, Step
from shared.database.text import error_text, refuse_nul
from shared.enums import PROMPTED, AgentStatus, Phase, PromptMaker, StepKind
from shared.workflow import iterations


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


LONGEST_PROMPT_CHARACTERS: Final = 20_000
"""It is sent with every call of its phase."""


def checked(text: str, *, shortest: int = 1) -> str:
    """`text` as a system prompt. Raises ValueError where it can be none; `shortest` counts characters."""
    prompt = text.strip()
    if not shortest <= len(prompt) <= LONGEST_PROMPT_CHARACTERS:
        raise ValueError(
            f"a system prompt has {shortest} to {LONGEST_PROMPT_CHARACTERS} characters, this one {len(prompt)}"
        )
    return refuse_nul(prompt)


def of_agent(agent: Agent) -> dict[Phase, str]:
    """By phase; empty until the agent is configured."""
    prompts = {phase: agents.system_prompt(agent, phase) for phase in PROMPTED}
    return {phase: prompt for phase, prompt in prompts.items() if prompt}


async def edited_since(session: AsyncSession, agent: Agent, version: int) -> set[Phase]:
    """The phases whose prompts the owner wrote after `version`."""
    phases = await session.scalars(
        select(PromptVersion.phase).where(
            PromptVersion.agent_id == agent.id,
            PromptVersion.version > version,
            PromptVersion.made_by == PromptMaker.OWNER,
        )
    )
    return {Phase(phase) for phase in phases}


async def write(
    session: AsyncSession, agent: Agent, prompts: Mapping[Phase, str], made_by: PromptMaker
) -> None:
    """Makes `prompts` the agent's, as the next version of them all; what is the same already makes none.

    The caller holds the agent's row lock. Phases that run go on with the prompt with which they began.
    """
    before = of_agent(agent)
    changed = {phase: prompt for phase, prompt in prompts.items() if before.get(phase) != prompt}
    if not changed:
        return
    if before and agent.prompts_version == 0:
        # They are older than the history, which begins with them.
        await _keep(session, agent, before, PromptMaker.CONFIGURATION)
    await _keep(session, agent, changed, made_by)
    for phase, prompt in changed.items():
        setattr(agent, f"{phase}_system_prompt", prompt)
    await session.flush()


async def _keep(
    session: AsyncSession, agent: Agent, prompts: Mapping[Phase, str], made_by: PromptMaker
) -> None:
    agent.prompts_version += 1
    rows = [
        {
            "agent_id": agent.id,
            "version": agent.prompts_version,
            "phase": phase,
            "prompt": prompt,
            "made_by": made_by,
        }
        for phase, prompt in prompts.items()
    ]
    await session.execute(insert(PromptVersion).values(rows))
