"""Iterations: started, planned, moved from stage to stage, ended."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, cast
from uuid import UUID

from sqlalchemy import Table, bindparam, func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from shared.store import ids
from shared.store.direct import Direct
from shared.store.round_trip import Asked
from shared.store.tables import Agent, Iteration, Step
from shared.store.words import IterationStatus, Stage, StepKind, StepStatus

_ITERATIONS: Final = cast(Table, Iteration.__table__)
CLOCK: Final[Asked[datetime]] = Asked(
    Direct("select clock_timestamp()"), {}, lambda rows: rows[0][0]
)
"""The database's time (UTC), the only clock that all processes share."""
_OVERDUE: Final = Direct(
    select(Iteration.id)
    .where(
        Iteration.status == IterationStatus.RUNNING,
        Iteration.deadline_at < func.statement_timestamp(),
    )
    .order_by(Iteration.deadline_at)
    .limit(bindparam("most"))
)
_END_HEARD: Final = Direct(
    update(_ITERATIONS)
    .where(
        _ITERATIONS.c.id == bindparam("of_iteration"),
        _ITERATIONS.c.ended_at.is_not(None),
        _ITERATIONS.c.end_told_at.is_(None),
    )
    .values(end_told_at=func.clock_timestamp())
)


@dataclass(frozen=True)
class Started:
    iteration: Iteration
    observe: Step


async def start(
    session: AsyncSession, agent: Agent, *, why: str, deadline_seconds: float
) -> Started:
    """Begins the agent's next iteration with its observe step. The caller holds the agent's row lock."""
    now = await clock(session)
    agent.iterations_started += 1
    iteration = Iteration(
        id=ids.iteration_id(agent.id, agent.iterations_started),
        agent_id=agent.id,
        number=agent.iterations_started,
        why=why,
        status=IterationStatus.RUNNING,
        stage=Stage.OBSERVING,
        started_at=now,
        stage_changed_at=now,
        deadline_at=now + timedelta(seconds=deadline_seconds),
    )
    observe = new_step(iteration, StepKind.OBSERVE, 0, **asked_for(now))
    session.add(iteration)
    await session.flush()
    session.add(observe)
    await session.flush()
    return Started(iteration, observe)


def asked_for(now: datetime | None) -> dict[str, Any]:
    """Columns of a step that is asked for at `now`; one that is not yet asked for where that is None."""
    status = StepStatus.PLANNED if now is None else StepStatus.PENDING
    return {"status": status, "requested_at": now, "first_requested_at": now}


def new_step(iteration: Iteration, kind: StepKind, index: int, **values: Any) -> Step:
    return Step(
        id=ids.step_id(iteration.id, kind, index),
        iteration_id=iteration.id,
        agent_id=iteration.agent_id,
        kind=kind,
        index=index,
        **values,
    )


def ordered_step(
    agent_id: UUID, kind: StepKind, index: int, now: datetime, given: dict[str, Any]
) -> Step:
    """A step that is no iteration's, asked for at `now`; `index` tells it from the others of its kind and agent."""
    return Step(
        id=ids.step_id(agent_id, kind, index),
        agent_id=agent_id,
        kind=kind,
        index=index,
        input=given,
        **asked_for(now),
    )


async def plan_steps(
    session: AsyncSession,
    iteration: Iteration,
    *,
    queries: Sequence[dict[str, Any]],
    insights: Sequence[dict[str, Any]],
) -> None:
    """Writes the plan's steps: queries are asked for at once, insights wait until the queries have ended."""
    now = await clock(session)
    iteration.stage_changed_at = now
    rows = [
        _row(iteration, StepKind.QUERY, index, query, asked_for(now))
        for index, query in enumerate(queries)
    ] + [
        _row(iteration, StepKind.INSIGHT, index, insight, asked_for(None))
        for index, insight in enumerate(insights)
    ]
    if rows:
        await session.execute(insert(Step).values(rows).on_conflict_do_nothing())


def _row(
    iteration: Iteration,
    kind: StepKind,
    index: int,
    given: dict[str, Any],
    asked: dict[str, Any],
) -> dict[str, Any]:
    return {
        "id": ids.step_id(iteration.id, kind, index),
        "iteration_id": iteration.id,
        "agent_id": iteration.agent_id,
        "kind": kind,
        "index": index,
        "input": given,
        **asked,
    }


async def overdue(session: AsyncSession, limit: int = 100) -> list[UUID]:
    """Running iterations whose deadline has passed."""
    return [row.id for row in await _OVERDUE.rows(session, {"most": limit})]


async def end_was_heard(session: AsyncSession, iteration_id: UUID) -> None:
    """Its end was told and has arrived: nobody needs to tell it again."""
    await _END_HEARD.run(session, {"of_iteration": iteration_id})


async def clock(session: AsyncSession) -> datetime:
    """See CLOCK."""
    return await CLOCK.answer(session)
