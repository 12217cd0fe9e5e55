"""Agents and their names."""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from itertools import count
from typing import Final, cast
from uuid import UUID, uuid4

from sqlalchemy import Table, bindparam, case, exists, func, or_, select, update
from sqlalchemy import delete as sql_delete
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from shared.billing import reservations
from shared.database.statements import Direct
from shared.database.tables import Agent, Iteration, Step, User
from shared.database.text import refuse_nul
from shared.enums import PROMPTED, AgentStatus, IterationStatus, Phase, StepKind, StepStatus
from shared.errors import RetrySoonError

_AGENTS: Final = cast(Table, Agent.__table__)
_READ: Final = Direct(select(_AGENTS).where(_AGENTS.c.id == bindparam("of_agent")))


async def ensure_user(session: AsyncSession, name: str) -> UUID:
    """The user of that name, made where there is none."""
    await session.execute(
        insert(User).values(id=uuid4(), name=name).on_conflict_do_nothing(index_elements=["name"])
    )
    return (await session.scalars(select(User.id).where(User.name == name))).one()


async def create(
    session: AsyncSession, owner_id: UUID, *, name: str, mission: str, interval_seconds: int
) -> Agent:
    """A new agent, to be configured; due as soon as it is. Raises IntegrityError where the owner has one of that name."""
    agent = Agent(
        id=uuid4(),
        owner_id=owner_id,
        name=name,
        mission=mission,
        status=AgentStatus.CONFIGURING,
        interval_seconds=interval_seconds,
        **{f"{phase}_system_prompt": "" for phase in PROMPTED},
    )
    session.add(agent)
    await session.flush()
    await session.refresh(agent)
    return agent


async def locked(session: AsyncSession, agent_id: UUID) -> Agent:
    """The agent, its row locked until the transaction ends. Raises RetrySoonError where it was deleted."""
    agent = await session.scalar(
        select(Agent)
        .where(Agent.id == agent_id)
        # Not the key, which whoever writes a row that refers to the agent holds.
        .with_for_update(key_share=True)
        .execution_options(populate_existing=True)
    )
    return _there(agent, agent_id)


async def due(session: AsyncSession, limit: int) -> Sequence[Agent]:
    """Agents to start now, their rows locked; those that another scheduler looks at are left to it, and those that rest."""
    # Not clock_timestamp(), which may change while the statement runs: no index can be asked for what is before it.
    now = func.statement_timestamp()
    running = exists().where(
        Iteration.agent_id == Agent.id, Iteration.status == IterationStatus.RUNNING
    )
    wanted = or_((Agent.active) & (Agent.next_run_at <= now), Agent.run_requested_at.is_not(None))
    rested = or_(Agent.resting_until.is_(None), Agent.resting_until <= now)
    found = await session.scalars(
        select(Agent)
        .where(wanted, Agent.status == AgentStatus.READY, rested, ~running)
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
    # Whoever works on such a step may go on to lock the agent, or its iteration: a plan moves that on.
    first = or_(Step.iteration_id.is_(None), Step.kind == StepKind.OBSERVE)
    for rows in (
        select(Step.id).where(Step.agent_id == agent_id, first, open_steps).order_by(Step.id),
        select(Agent.id).where(Agent.id == agent_id),
        select(Iteration.id).where(Iteration.agent_id == agent_id),
        # Planned ones last: whoever ends a step may go on to ask for one of them.
        select(Step.id)
        .where(Step.agent_id == agent_id, open_steps)
        .order_by(Step.status == StepStatus.PLANNED, Step.id),
    ):
        await session.execute(rows.with_for_update(key_share=True))
    held = await reservations.held_of(session, agent_id)
    await session.execute(sql_delete(Agent).where(Agent.id == agent_id))
    await reservations.forget(session, agent_id, held)


async def get(session: AsyncSession, agent_id: UUID) -> Agent:
    """Raises RetrySoonError where the agent was deleted; the next try finds its step deleted too."""
    return _there(await session.get(Agent, agent_id), agent_id)


async def read(session: AsyncSession, agent_id: UUID) -> Agent:
    """As `get`, for whoever changes nothing of it: the session does not know it."""
    row = await _READ.row(session, {"of_agent": agent_id})
    return _there(None if row is None else Agent(**row._asdict()), agent_id)


def _there(agent: Agent | None, agent_id: UUID) -> Agent:
    if agent is None:
        raise RetrySoonError(f"agent {agent_id} was deleted")
    return agent


def system_prompt(agent: Agent, phase: Phase) -> str:
    """The agent's prompt for `phase`, one of the six that have a column; empty until it is configured."""
    prompt: str = getattr(agent, f"{phase}_system_prompt")
    return prompt


def model(agent: Agent, phase: Phase, default: str) -> str:
    """The model that the agent names for `phase`, or the installation's."""
    named: str = agent.models.get(phase, default)
    return named


NAME_CHARACTERS: Final = (1, 80)


def checked(text: str) -> str:
    """`text` as an agent's name, its blanks folded. Raises ValueError where it can be none."""
    name = " ".join(text.split())
    shortest, longest = NAME_CHARACTERS
    if not shortest <= len(name) <= longest:
        raise ValueError(f"a name has {shortest} to {longest} characters, this one {len(name)}")
    if "/" in name or not any(character.isalnum() for character in name):
        raise ValueError("a name has a letter or digit and no slash, for it stands in addresses")
    return refuse_nul(name)


async def free(
    session: AsyncSession, owner_id: UUID, wanted: str, *, but: UUID | None = None
) -> str:
    """The first of the names after `wanted` that none of the owner's agents has; that of `but` is not counted.

    Another transaction may take it before this one is committed.
    """
    others = select(func.lower(Agent.name)).where(Agent.owner_id == owner_id)
    if but is not None:
        others = others.where(Agent.id != but)
    taken = set(await session.scalars(others))
    return next(name for name in names_after(wanted) if name.lower() not in taken)


def names_after(name: str) -> Iterator[str]:
    """`name`, then `name 2`, `name 3`, and so on."""
    yield name
    for number in count(2):
        yield f"{name} {number}"
