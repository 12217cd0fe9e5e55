"""How an agent was made: its prompts then and now, and how it went the last time."""

from uuid import UUID

from sqlalchemy import select
from sqlalchemy.dialects.postgresql import distinct_on
from sqlalchemy.ext.asyncio import AsyncSession

from shared.store import prompts
from shared.store.configurations import Wanted, newest_id
from shared.store.reading import calls, interactions
from shared.store.reading.configuring_shapes import (
    ConfigurationDetails,
    PromptedPhase,
    PromptsView,
    PromptView,
)
from shared.store.reading.keyset import Keyset, slice_of
from shared.store.reading.page import Page
from shared.store.reading.page import Wanted as WantedPage
from shared.store.reading.shapes import ConfigurationView
from shared.store.tables import Agent, PromptVersion, Step
from shared.store.words import Phase

_HISTORY = Keyset("prompt_versions", (PromptVersion.version, PromptVersion.phase))


async def newest(session: AsyncSession, agent: Agent) -> ConfigurationView | None:
    step = await _newest_step(session, agent)
    return None if step is None else _view(step)


async def newest_details(session: AsyncSession, agent_id: UUID) -> ConfigurationDetails | None:
    """With what was said to the model."""
    step = await _newest_step(session, await session.get_one(Agent, agent_id))
    if step is None:
        return None
    wanted = Wanted.model_validate(step.input)
    told = await interactions.of_step(session, step.id)
    return ConfigurationDetails(
        **dict(_view(step)),
        mission=wanted.mission,
        keep=[phase.value for phase in wanted.keep],
        interaction=told[0] if told else None,
        running_calls=await calls.running_of_step(session, step.id),
    )


async def current_prompts(session: AsyncSession, agent_id: UUID) -> PromptsView:
    """In the order of the phases."""
    agent = await session.get_one(Agent, agent_id, populate_existing=True)
    rows = await session.scalars(
        select(PromptVersion)
        .where(PromptVersion.agent_id == agent_id)
        .order_by(PromptVersion.phase, PromptVersion.version.desc())
        .ext(distinct_on(PromptVersion.phase))
    )
    known = {Phase(row.phase): row for row in rows}
    items = [
        _prompt(known[phase]) if phase in known else _unrecorded(phase, prompt)
        for phase, prompt in prompts.of_agent(agent).items()
    ]
    return PromptsView(version=agent.prompts_version, items=items)


async def history(
    session: AsyncSession, agent_id: UUID, phase: PromptedPhase | None, wanted: WantedPage
) -> Page[PromptView]:
    """The newest version first; of one phase, where it is named."""
    rows = select(PromptVersion).where(PromptVersion.agent_id == agent_id)
    if phase is not None:
        rows = rows.where(PromptVersion.phase == phase)
    return (await slice_of(session, rows, _HISTORY, wanted)).page(_prompt)


async def _newest_step(session: AsyncSession, agent: Agent) -> Step | None:
    step_id = newest_id(agent)
    return None if step_id is None else await session.get(Step, step_id, populate_existing=True)


def _view(step: Step) -> ConfigurationView:
    return ConfigurationView(
        step_id=step.id,
        status=step.status,
        error=step.error,
        attempts=step.attempts,
        retry_at=step.retry_at,
        waiting_since=step.waiting_since,
        requested_at=step.first_requested_at,
        ended_at=step.ended_at,
    )


def _prompt(row: PromptVersion) -> PromptView:
    return PromptView.model_validate(row)


def _unrecorded(phase: Phase, prompt: str) -> PromptView:
    return PromptView(phase=phase.value, version=0, made_by=None, created_at=None, prompt=prompt)
