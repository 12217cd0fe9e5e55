"""Loads what the join decides on, under the iteration's row lock, and carries its commands out in the same transaction."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from uuid import UUID

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
from services.aggregator.loading import Rows, loaded, state_of
from services.aggregator.state import State
from shared.crash_points import CrashPoint, reach
from shared.store import joining
from shared.store.budgets import books
from shared.store.joining import IterationRow, StepRow
from shared.store.words import IterationStatus, StepKind


async def settle(
    session: AsyncSession, iteration_id: UUID, tick_of: Callable[[Rows], Tick]
) -> Rows | None:
    """Joins the tick that `tick_of` sees in the rows into the iteration. Raises what `tick_of` does.

    Returns the rows as they are then, the iteration's locked; None where it is gone.
    """
    iteration = await joining.locked(session, iteration_id)
    if iteration is None:
        return None
    rows = await loaded(session, iteration)
    before = state_of(rows)
    after, commands = join(before, tick_of(rows))
    changed: list[StepRow] = []
    for command in commands:
        changed += await _carry_out(session, rows, command)
    if after.stage != before.stage:
        iteration = await _moved(session, rows, after, commands)
    reach(CrashPoint.STATE_WRITTEN)
    return replace(rows, iteration=iteration, work=_with(rows, changed))


async def _carry_out(session: AsyncSession, rows: Rows, command: Command) -> Sequence[StepRow]:
    """The steps that are new, or other than they were."""
    match command:
        case RequestInsights(step_ids):
            return await joining.ask_for(session, step_ids)
        case RequestQueries(queries):
            return await asking.make_queries(session, rows, queries)
        case RequestAgain(insights):
            return await asking.make_insights(session, rows, insights)
        case RequestAdvice(_, analysis_ids):
            given = {"analysis_ids": [str(analysis_id) for analysis_id in analysis_ids]}
            return [
                await joining.add(session, rows.iteration, StepKind.ADVISE, 0, given, rows.work.now)
            ]
        case AbandonSteps(step_ids, error):
            abandoned = await joining.abandon(session, step_ids, error)
            for step_id in step_ids:
                await books.presume_step(session, step_id)
            return abandoned
        case Complete() | Fail():
            return ()


async def _moved(
    session: AsyncSession, rows: Rows, after: State, commands: Iterable[Command]
) -> IterationRow:
    """The iteration in its new stage, written once and after its steps: it ends when all of them have."""
    for command in commands:
        match command:
            case Complete(errors):
                status = IterationStatus.COMPLETED
            case Fail(errors):
                status = IterationStatus.FAILED
            case _:
                continue
        return await joining.end(session, rows.iteration, status, errors, rows.work.now)
    return await joining.move(session, rows.iteration, after.stage, rows.work.now)


def _with(rows: Rows, changed: Sequence[StepRow]) -> joining.Work:
    fresh = {row.id: row for row in changed}
    kept = [fresh.pop(row.id, row) for row in rows.steps]
    return rows.work._replace(steps=[*kept, *fresh.values()])
