"""How much is open in the whole installation, for who looks after it. Nothing of what agents know or say."""

from dataclasses import dataclass

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession

from shared.store.tables import DeadLetter, Iteration, Step
from shared.store.words import IterationStatus, StepStatus


@dataclass(frozen=True)
class State:
    open_steps: dict[str, int]
    """By kind; a kind of which none is open is not there."""
    dead_letters: int
    running_iterations: int


async def of_installation(session: AsyncSession) -> State:
    """Costs what is open, whatever has ended."""
    open_steps = await session.execute(
        select(Step.kind, func.count())
        .where(Step.status.in_((StepStatus.PENDING, StepStatus.RUNNING)))
        .group_by(Step.kind)
    )
    running = select(func.count()).where(Iteration.status == IterationStatus.RUNNING)
    return State(
        open_steps={row.kind: row[1] for row in open_steps},
        dead_letters=await session.scalar(select(func.count()).select_from(DeadLetter)) or 0,
        running_iterations=await session.scalar(running) or 0,
    )
