"""Loads what the join decides on, under the iteration's row lock, and carries its commands out in the same transaction."""

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import func, update
from sqlalchemy.ext.asyncio import AsyncSession

from services.aggregator import asking
from services.aggregator.join import (
    AbandonSteps,
    Command,
    Complete,
    Fail,
    RequestAdvice,
    RequestAgain,
    RequestInsights,
    RequestQueries,
    Tick,
    join,
)
from services.aggregator.loading import loaded
from shared.crash_points import CrashPoint, reach
from shared.store import iterations, steps
from shared.store.budgets import books
from shared.store.tables import Iteration, Step
from shared.store.words import IterationStatus, StepKind, StepStatus


async def settle(session: AsyncSession, iteration_id: UUID, tick: Tick) -> Iteration | None:
    """Joins `tick` into the iteration. Returns it as it is then, its row locked; None where it is gone."""
    iteration = await iterations.locked(session, iteration_id)
    if iteration is None:
        return None
    before = await loaded(session, iteration)
    after, commands = join(before, tick)
    if after.stage != before.stage:
        changed_at = await iterations.clock(session)
        iteration.stage, iteration.stage_changed_at = after.stage, changed_at
    for command in commands:
        await _carry_out(session, iteration, command)
    await session.flush()
    reach(CrashPoint.STATE_WRITTEN)
    return iteration


async def _carry_out(session: AsyncSession, iteration: Iteration, command: Command) -> None:
    match command:
        case RequestInsights(step_ids):
            await steps.ask_for(session, step_ids)
        case RequestQueries(queries):
            await asking.make_queries(session, iteration, queries)
        case RequestAgain(insights):
            await asking.make_insights(session, iteration, insights)
        case RequestAdvice(_, analysis_ids):
            given = {"analysis_ids": [str(analysis_id) for analysis_id in analysis_ids]}
            advise = iterations.new_step(
                iteration,
                StepKind.ADVISE,
                0,
                input=given,
                **iterations.asked_for(await iterations.clock(session)),
            )
            session.add(advise)
        case AbandonSteps(step_ids, error):
            await _abandon(session, step_ids, error)
        case Complete(errors):
            await _end(session, iteration, IterationStatus.COMPLETED, errors)
        case Fail(errors):
            await _end(session, iteration, IterationStatus.FAILED, errors)


async def _abandon(session: AsyncSession, step_ids: Sequence[UUID], error: str) -> None:
    """Fails the steps and takes their leases away: the new epoch refuses whoever still works on them."""
    await session.execute(
        update(Step)
        .where(Step.id.in_(step_ids))
        .values(
            status=StepStatus.FAILED,
            error=error,
            epoch=Step.epoch + 1,
            lease_owner=None,
            lease_until=None,
            ended_at=func.clock_timestamp(),
        )
        .execution_options(synchronize_session=False)
    )
    for step_id in step_ids:
        await books.presume_step(session, step_id)


async def _end(
    session: AsyncSession, iteration: Iteration, status: IterationStatus, errors: tuple[str, ...]
) -> None:
    ended_at = await iterations.clock(session)
    iteration.status, iteration.errors, iteration.ended_at = status, list(errors), ended_at
