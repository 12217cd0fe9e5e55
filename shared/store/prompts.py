"""An agent's six system prompts: made its own, with what they were before."""

from collections.abc import Mapping
from typing import Final

from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from shared.store import agents
from shared.store.storable import refuse_nul
from shared.store.tables import Agent, PromptVersion
from shared.store.words import PROMPTED, Phase, PromptMaker

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
