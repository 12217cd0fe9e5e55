"""Agents, as the loop and their owners need them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID, uuid4

from sqlalchemy import case, exists, func, or_, select, update
from sqlalchemy import delete as sql_delete
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from shared.errors import TransientError
from shared.store.tables import Agent, Iteration, Step, User
from shared.store.words import IterationStatus, Phase, StepStatus


@dataclass(frozen=True)
class Prompts:
    """The six system prompts of an agent."""

    conversation: str
    observer: str
    knowledge_acquisition: str
    graph_construction: str
    analysis_generation: str
    advice_generation: str


async def ensure_user(session: AsyncSession, name: str) -> UUID:
    """The user of that name, made where there is none."""
    await session.execute(
        insert(User).values(id=uuid4(), name=name).on_conflict_do_nothing(index_elements=["name"])
    )
    return (await session.scalars(select(User.id).where(User.name == name))).one()


async def create(
    session: AsyncSession,
    owner_id: UUID,
    *,
    name: str,
    mission: str,
    prompts: Prompts,
    interval_seconds: int,
) -> Agent:
    """A new agent, due at once. Raises IntegrityError where the owner has one of that name."""
    agent = Agent(
        id=uuid4(),
        owner_id=owner_id,
        name=name,
        mission=mission,
        conversation_system_prompt=prompts.conversation,
        observer_system_prompt=prompts.observer,
        knowledge_acquisition_system_prompt=prompts.knowledge_acquisition,
        graph_construction_system_prompt=prompts.graph_construction,
        analysis_generation_system_prompt=prompts.analysis_generation,
        advice_generation_system_prompt=prompts.advice_generation,
        interval_seconds=interval_seconds,
    )
    session.add(agent)
    await session.flush()
    await session.refresh(agent)
    return agent


async def due(session: AsyncSession, limit: int) -> Sequence[Agent]:
    """Agents to start now, their rows locked; those that another scheduler looks at are left to it."""
    # Not clock_timestamp(), which may change while the statement runs: no index can be asked for what is before it.
    now = func.statement_timestamp()
    running = exists().where(
        Iteration.agent_id == Agent.id, Iteration.status == IterationStatus.RUNNING
    )
    wanted = or_((Agent.active) & (Agent.next_run_at <= now), Agent.run_requested_at.is_not(None))
    found = await session.scalars(
        select(Agent)
        .where(wanted, ~running)
        .order_by(Agent.next_run_at)
        .limit(limit)
        # Not the key: else whoever writes a row that refers to the agent would hide it.
        .with_for_update(skip_locked=True, key_share=True)
    )
    return list(found)


async def reschedule(session: AsyncSession, agent: Agent) -> None:
    """Puts the next run on the first tick of the agent's own rhythm that is still to come: missed ticks are one."""
    now = func.clock_timestamp()
    late_seconds = func.extract("epoch", now - Agent.next_run_at)
    ticks = func.floor(late_seconds / Agent.interval_seconds) + 1
    next_tick = Agent.next_run_at + ticks * Agent.interval_seconds * timedelta(seconds=1)
    await session.execute(
        update(Agent)
        .where(Agent.id == agent.id)
        .values(
            # A run that was asked for does not move the rhythm.
            next_run_at=case((Agent.next_run_at <= now, next_tick), else_=Agent.next_run_at),
            run_requested_at=None,
        )
        .execution_options(synchronize_session=False)
    )


async def delete(session: AsyncSession, agent_id: UUID) -> None:
    """Deletes the agent and all that is its own, in the middle of an iteration too.

    Waits first for whoever writes, in the order in which the loop takes its locks: a cascade alone would take them in
    another, and deadlock with a worker.
    """
    open_steps = Step.status.not_in((StepStatus.COMPLETED, StepStatus.FAILED))
    for rows in (
        select(Agent.id).where(Agent.id == agent_id),
        select(Iteration.id).where(Iteration.agent_id == agent_id),
        # Planned ones last: whoever ends a step may go on to ask for one of them.
        select(Step.id)
        .where(Step.agent_id == agent_id, open_steps)
        .order_by(Step.status == StepStatus.PLANNED, Step.id),
    ):
        await session.execute(rows.with_for_update(key_share=True))
    await session.execute(sql_delete(Agent).where(Agent.id == agent_id))


async def get(session: AsyncSession, agent_id: UUID) -> Agent:
    """Raises TransientError where the agent was deleted; whoever tries again finds its step gone too."""
    agent = await session.get(Agent, agent_id)
    if agent is None:
        raise TransientError(f"agent {agent_id} was deleted", counts=False)
    return agent


def system_prompt(agent: Agent, phase: Phase) -> str:
    """The agent's prompt for `phase`; each of the six phases has a column of its own."""
    prompt: str = getattr(agent, f"{phase}_system_prompt")
    return prompt


def model(agent: Agent, phase: Phase, default: str) -> str:
    """The model that the agent names for `phase`, or the installation's."""
    named: str = agent.models.get(phase, default)
    return named
