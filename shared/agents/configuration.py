"""Configuration of agents: the request for it, its outcome, the prompts and their versions."""

from collections.abc import Mapping
from typing import Final
from uuid import UUID

from pydantic import BaseModel, ConfigDict
from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert

from shared.agents import agents
from shared.database import ids
from shared.database.tables import Agent, PromptVersion
from shared.database.text import error_text, refuse_nul
from shared.database.transaction import Transaction
from shared.enums import PROMPTED_PHASES, AgentStatus, Phase, PromptMaker, StepKind
from shared.workflow import iterations, steps
from shared.workflow.iterations import StepRow


class ConfigurationInput(BaseModel):
    """The input of the step that configures an agent."""

    model_config = ConfigDict(frozen=True)

    mission: str
    provisional_name: str | None = None
    """The generated name, which configuration may replace while the agent still has it."""
    keep: tuple[Phase, ...] = ()
    """Phases whose prompts do not change."""
    prompts_version: int = 0
    """Version of the agent's prompts at the request. Prompts that the owner edited later do not change either."""


async def request_configuration(
    transaction: Transaction, agent: Agent, step_input: ConfigurationInput
) -> StepRow:
    """Creates and requests the step that configures `agent`. It replaces earlier requests that have not ended.

    The caller holds the agent's row lock. An agent that is ready keeps its prompts until the step ends.
    """
    now = await iterations.database_time(transaction)
    is_ready = agent.status == AgentStatus.READY
    await transaction.update(
        Agent,
        agent.id,
        configurations_ordered=agent.configurations_ordered + 1,
        status=AgentStatus.READY if is_ready else AgentStatus.CONFIGURING,
        fault=None,
    )
    return await steps.insert_agent_task(
        transaction,
        agent.id,
        StepKind.CONFIGURE,
        agent.configurations_ordered,
        step_input.model_dump(mode="json"),
        requested_at=now,
    )


async def provisional_name(transaction: Transaction, agent: Agent) -> str | None:
    """Returns the generated name of an agent that was never ready; None if the name is final."""
    last = newest_step_id(agent)
    if last is None or agent.status == AgentStatus.READY:
        return None
    step = await steps.get_step(transaction, last)
    return ConfigurationInput.model_validate(step.input).provisional_name


def newest_step_id(agent: Agent) -> UUID | None:
    """Returns the id of the newest configuration step; None for an agent that never had one."""
    if agent.configurations_ordered == 0:
        return None
    return ids.step_id(agent.id, StepKind.CONFIGURE, agent.configurations_ordered - 1)


async def record_failure(transaction: Transaction, step: StepRow, error: str) -> None:
    """Records that the configuration failed permanently, unless a newer one was requested."""
    agent = await agents.lock_agent(transaction, step.agent_id)
    if step.id != newest_step_id(agent):
        return
    if agent.status == AgentStatus.READY:
        status = AgentStatus.READY
        message = f"New prompts could not be written, so the agent keeps its current ones: {error}."
    else:
        status = AgentStatus.FAILED
        message = f"The agent could not be configured from its mission: {error}."
    fault = error_text(f"{message} After fixing the cause, run: vigil agent configure")
    await transaction.update(Agent, agent.id, status=status, fault=fault)


MAX_PROMPT_CHARS: Final = 20_000
"""Limits the cost: the prompt is sent with every call of its phase."""


def validate_prompt(text: str, *, shortest: int = 1) -> str:
    """Validates `text` as a system prompt. Raises ValueError if it is invalid. `shortest` is the minimum in characters."""
    prompt = text.strip()
    if not shortest <= len(prompt) <= MAX_PROMPT_CHARS:
        raise ValueError(
            f"a system prompt has {shortest} to {MAX_PROMPT_CHARS} characters; this one has {len(prompt)}"
        )
    return refuse_nul(prompt)


def prompts_by_phase(agent: Agent) -> dict[Phase, str]:
    """Returns the agent's prompts by phase. Empty until the agent is configured."""
    prompts = {phase: agents.system_prompt(agent, phase) for phase in PROMPTED_PHASES}
    return {phase: prompt for phase, prompt in prompts.items() if prompt}


async def phases_edited_since(transaction: Transaction, agent: Agent, version: int) -> set[Phase]:
    """Returns the phases whose prompts the owner edited after `version`."""
    phases = await transaction.scalars(
        select(PromptVersion.phase).where(
            PromptVersion.agent_id == agent.id,
            PromptVersion.version > version,
            PromptVersion.made_by == PromptMaker.OWNER,
        )
    )
    return {Phase(phase) for phase in phases}


async def store_prompts(
    transaction: Transaction, agent: Agent, prompts: Mapping[Phase, str], made_by: PromptMaker
) -> None:
    """Stores `prompts` as the agent's, with a new version of those that changed.

    The caller holds the agent's row lock. Phases that are running keep the prompt with which they started.
    """
    current = prompts_by_phase(agent)
    changes = {phase: prompt for phase, prompt in prompts.items() if current.get(phase) != prompt}
    if not changes:
        return
    version = agent.prompts_version
    if current and version == 0:
        # These prompts are older than the version history, so they become its first version.
        version += 1
        await _insert_version(transaction, agent, version, current, PromptMaker.CONFIGURATION)
    version += 1
    columns = {f"{phase}_system_prompt": prompt for phase, prompt in changes.items()}
    await transaction.update(Agent, agent.id, prompts_version=version, **columns)
    await _insert_version(transaction, agent, version, changes, made_by)


async def _insert_version(
    transaction: Transaction,
    agent: Agent,
    version: int,
    prompts: Mapping[Phase, str],
    made_by: PromptMaker,
) -> None:
    rows = [
        {
            "agent_id": agent.id,
            "version": version,
            "phase": phase,
            "prompt": prompt,
            "made_by": made_by,
        }
        for phase, prompt in prompts.items()
    ]
    await transaction.execute(insert(PromptVersion).values(rows))
