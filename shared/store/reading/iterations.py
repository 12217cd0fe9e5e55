"""Iterations: in a row, and one with all that happened in it."""

from uuid import UUID

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from shared.store import steps as step_store
from shared.store.reading import calls, interactions
from shared.store.reading.shapes import IterationDetails, IterationView, StepView
from shared.store.tables import Agent, Iteration, Step
from shared.store.words import StepKind

MAX_LIMIT = 200

LOOP_ORDER = {kind: place for place, kind in enumerate(StepKind)}
"""The kinds stand in the order in which the loop comes to them."""


async def of_agent(
    session: AsyncSession, owner_id: UUID, agent_id: UUID, *, limit: int = 20
) -> list[IterationView]:
    """The newest first."""
    rows = await session.scalars(
        select(Iteration)
        .join(Agent, Agent.id == Iteration.agent_id)
        .where(Agent.owner_id == owner_id, Agent.id == agent_id)
        .order_by(Iteration.number.desc())
        .limit(max(0, min(limit, MAX_LIMIT)))
    )
    return [IterationView.model_validate(row) for row in rows]


async def find(
    session: AsyncSession, owner_id: UUID, iteration_id: UUID
) -> IterationDetails | None:
    """None where the owner has no such iteration."""
    found = (
        await session.execute(
            select(Iteration, Agent.name)
            .join(Agent, Agent.id == Iteration.agent_id)
            .where(Iteration.id == iteration_id, Agent.owner_id == owner_id)
        )
    ).one_or_none()
    if found is None:
        return None
    iteration, agent_name = found
    rows = sorted(await step_store.of_iteration(session, iteration_id), key=_place)
    order = {row.id: place for place, row in enumerate(rows)}
    return IterationDetails(
        **dict(IterationView.model_validate(iteration)),
        agent_name=agent_name,
        plan=iteration.observer_plan,
        deadline_at=iteration.deadline_at,
        steps=[StepView.model_validate(row) for row in rows],
        interactions=await interactions.of_iteration(session, iteration_id, order),
        calls=(await calls.of_iteration(session, iteration_id)).totals,
    )


def _place(step: Step) -> tuple[int, int]:
    return LOOP_ORDER[StepKind(step.kind)], step.index
