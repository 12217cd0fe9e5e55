"""An iteration without what was said in it: what it costs to tell does not grow with the answers."""

from uuid import UUID

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from shared.store import steps as step_store
from shared.store.reading import iteration_sums, runs, written
from shared.store.reading.iteration_shapes import IterationOutline
from shared.store.reading.iterations import LOOP_ORDER
from shared.store.reading.shapes import IterationView, StepView
from shared.store.tables import Agent, Iteration, Step
from shared.store.words import StepKind

_AROUND_ROUNDS = {StepKind.OBSERVE: -1, StepKind.ADVISE: 1}
"""Rounds lie between the plan and the advice."""


async def numbered(
    session: AsyncSession, owner_id: UUID, agent_id: UUID, number: int
) -> IterationOutline | None:
    """None where the owner's agent has no iteration of that number."""
    iteration = await session.scalar(
        select(Iteration)
        .join(Agent, Agent.id == Iteration.agent_id)
        .where(
            Iteration.agent_id == agent_id, Iteration.number == number, Agent.owner_id == owner_id
        )
        .execution_options(populate_existing=True)
    )
    if iteration is None:
        return None
    rows = sorted(await step_store.of_iteration(session, iteration.id), key=_place)
    sums = await iteration_sums.of_iterations(session, [iteration.id])
    return IterationOutline(
        **dict(IterationView.model_validate(iteration)),
        plan=iteration.observer_plan,
        deadline_at=iteration.deadline_at,
        steps=[StepView.model_validate(row) for row in rows],
        runs=await runs.of_iteration(session, iteration.id),
        sums=sums[iteration.id],
        written=await written.of_iteration(session, iteration.id),
    )


def _place(step: Step) -> tuple[int, int, int, int]:
    kind = StepKind(step.kind)
    return _AROUND_ROUNDS.get(kind, 0), step_store.round_of(step), LOOP_ORDER[kind], step.index
