"""Iterations: in a row, and one with all that happened in it."""

from uuid import UUID

from sqlalchemy import ColumnElement, and_, select
from sqlalchemy.ext.asyncio import AsyncSession

from shared.store import steps as step_store
from shared.store.reading import calls, interactions
from shared.store.reading.keyset import Keyset, slice_of
from shared.store.reading.page import Page, Wanted
from shared.store.reading.shapes import IterationDetails, IterationView, StepView
from shared.store.tables import Agent, Iteration, Step
from shared.store.words import IterationStatus, StepKind

_NEWEST = Keyset("iterations", (Iteration.number,))

LOOP_ORDER = {kind: place for place, kind in enumerate(StepKind)}
"""The kinds stand in the order in which the loop comes to them."""


async def of_agent(
    session: AsyncSession,
    owner_id: UUID,
    agent_id: UUID,
    wanted: Wanted,
    *,
    status: IterationStatus | None = None,
) -> Page[IterationView]:
    """The newest first; of that status where it is given."""
    owned = select(Agent.id).where(Agent.id == agent_id, Agent.owner_id == owner_id)
    statement = select(Iteration).where(Iteration.agent_id == owned.scalar_subquery())
    if status is not None:
        statement = statement.where(Iteration.status == status)
    found = await slice_of(session, statement, _NEWEST, wanted)
    return found.page(IterationView.model_validate)


async def find(
    session: AsyncSession, owner_id: UUID, iteration_id: UUID
) -> IterationDetails | None:
    """None where the owner has no such iteration."""
    return await _found(session, owner_id, Iteration.id == iteration_id)


async def numbered(
    session: AsyncSession, owner_id: UUID, agent_id: UUID, number: int
) -> IterationDetails | None:
    """None where the owner's agent has no iteration of that number."""
    wanted = and_(Iteration.agent_id == agent_id, Iteration.number == number)
    return await _found(session, owner_id, wanted)


async def head(
    session: AsyncSession, owner_id: UUID, agent_id: UUID, number: int
) -> IterationView | None:
    """The same without what happened in it."""
    row = await session.scalar(
        select(Iteration)
        .join(Agent, Agent.id == Iteration.agent_id)
        .where(
            Iteration.agent_id == agent_id, Iteration.number == number, Agent.owner_id == owner_id
        )
    )
    return None if row is None else IterationView.model_validate(row)


async def _found(
    session: AsyncSession, owner_id: UUID, wanted: ColumnElement[bool]
) -> IterationDetails | None:
    found = (
        await session.execute(
            select(Iteration, Agent.name)
            .join(Agent, Agent.id == Iteration.agent_id)
            .where(wanted, Agent.owner_id == owner_id)
        )
    ).one_or_none()
    if found is None:
        return None
    iteration, agent_name = found
    rows = sorted(await step_store.of_iteration(session, iteration.id), key=_place)
    order = {row.id: place for place, row in enumerate(rows)}
    return IterationDetails(
        **dict(IterationView.model_validate(iteration)),
        agent_name=agent_name,
        plan=iteration.observer_plan,
        deadline_at=iteration.deadline_at,
        steps=[StepView.model_validate(row) for row in rows],
        interactions=await interactions.of_iteration(session, iteration.id, order),
        calls=(await calls.of_iteration(session, iteration.id)).totals,
        running_calls=await calls.running_of_iteration(session, iteration.id),
    )


def _place(step: Step) -> tuple[int, int]:
    return LOOP_ORDER[StepKind(step.kind)], step.index
