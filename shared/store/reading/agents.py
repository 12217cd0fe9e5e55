"""Agents with how they are doing."""

from collections import defaultdict
from collections.abc import Iterable
from uuid import UUID

from sqlalchemy import ColumnElement, and_, func, or_, select, true
from sqlalchemy.ext.asyncio import AsyncSession

from shared.store import agents, prompts
from shared.store.reading import configurations
from shared.store.reading.shapes import AgentDetails, AgentView, IterationView, Trouble
from shared.store.tables import Agent, Iteration, Step
from shared.store.words import IterationStatus, StepStatus

_BEING_TRIED = (StepStatus.PENDING, StepStatus.RUNNING)


async def of_owner(session: AsyncSession, owner_id: UUID) -> list[AgentView]:
    """By name."""
    return await _views(session, owner_id, true())


async def find(session: AsyncSession, owner_id: UUID, reference: str) -> AgentDetails | None:
    """The owner's agent of that id or name, in whatever case; None where there is none."""
    found = await _views(session, owner_id, is_named(reference))
    if not found:
        return None
    row = await agents.get(session, found[0].id)
    return AgentDetails(
        **dict(found[0]),
        prompts={phase.value: prompt for phase, prompt in prompts.of_agent(row).items()},
        prompts_version=row.prompts_version,
        configuration=await configurations.newest(session, row),
    )


def is_named(reference: str) -> ColumnElement[bool]:
    """Whether an agent's id or name is `reference`."""
    by_name = func.lower(Agent.name) == reference.strip().lower()
    try:
        return or_(Agent.id == UUID(reference), by_name)
    except ValueError:
        return by_name


async def _views(
    session: AsyncSession, owner_id: UUID, wanted: ColumnElement[bool]
) -> list[AgentView]:
    newest = and_(Iteration.agent_id == Agent.id, Iteration.number == Agent.iterations_started)
    rows = await session.execute(
        select(Agent, Iteration)
        .outerjoin(Iteration, newest)
        .where(Agent.owner_id == owner_id, wanted)
        .order_by(func.lower(Agent.name))
        .execution_options(populate_existing=True)
    )
    found = [(agent, iteration) for agent, iteration in rows]
    troubles = await _troubles(session, [agent.id for agent, _ in found])
    return [_view(agent, iteration, troubles[agent.id]) for agent, iteration in found]


async def _troubles(
    session: AsyncSession, agent_ids: Iterable[UUID]
) -> defaultdict[UUID, list[Trouble]]:
    rows = await session.execute(
        select(Step, Iteration.number)
        .join(Iteration, Iteration.id == Step.iteration_id)
        .where(
            Step.agent_id.in_(agent_ids),
            Step.status.in_(_BEING_TRIED),
            Step.error.is_not(None),
            Iteration.status == IterationStatus.RUNNING,
        )
        .order_by(Iteration.number, Step.kind, Step.index)
        .execution_options(populate_existing=True)
    )
    troubles: defaultdict[UUID, list[Trouble]] = defaultdict(list)
    for step, number in rows:
        troubles[step.agent_id].append(
            Trouble(
                iteration_number=number,
                step=step.kind,
                index=step.index,
                attempts=step.attempts,
                error=step.error,
                retry_at=step.retry_at,
            )
        )
    return troubles


def _view(agent: Agent, iteration: Iteration | None, trouble: list[Trouble]) -> AgentView:
    return AgentView(
        id=agent.id,
        name=agent.name,
        mission=agent.mission,
        status=agent.status,
        fault=agent.fault,
        interval_seconds=agent.interval_seconds,
        active=agent.active,
        models=agent.models,
        next_run_at=agent.next_run_at,
        run_requested_at=agent.run_requested_at,
        iterations_started=agent.iterations_started,
        created_at=agent.created_at,
        last_iteration=None if iteration is None else IterationView.model_validate(iteration),
        trouble=trouble,
    )
