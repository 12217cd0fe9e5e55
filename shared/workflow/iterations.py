"""Iterations and their joins: started, planned, moved from stage to stage, ended."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple, cast
from uuid import UUID

from sqlalchemy import ARRAY, Table, Uuid, any_, bindparam, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from shared.database import ids
from shared.database.statements import Asked, Direct
from shared.database.tables import Agent, Iteration, Step
from shared.enums import IterationStatus, Stage, StepKind, StepStatus


class IterationRow(NamedTuple):
    """What a join needs of an iteration."""

    id: UUID
    agent_id: UUID
    number: int
    why: str
    status: str
    stage: str
    errors: list[str]
    started_at: datetime
    stage_changed_at: datetime
    ended_at: datetime | None


class StepRow(NamedTuple):
    """What a join needs of a step."""

    id: UUID
    iteration_id: UUID
    agent_id: UUID
    kind: str
    input: dict[str, Any]
    status: str
    result: dict[str, Any] | None
    error: str | None
    first_requested_at: datetime | None


class Work(NamedTuple):
    """An iteration's steps, by kind and index, at the time that the database's clock shows, and what its agent allows."""

    steps: list[StepRow]
    feedback_rounds: int
    rests: bool
    now: datetime


_STEPS: Final = cast(Table, Step.__table__)
_AGENTS: Final = cast(Table, Agent.__table__)
_STEP: Final = [_STEPS.c[name] for name in StepRow._fields]
_THESE: Final = _STEPS.c.id == any_(bindparam("step_ids", type_=ARRAY(Uuid())))

_ITERATIONS: Final = cast(Table, Iteration.__table__)
_LOCKED: Final = Direct(
    select(*(_ITERATIONS.c[name] for name in IterationRow._fields))
    .where(_ITERATIONS.c.id == bindparam("of_iteration"))
    # Not the key, which every row that refers to the iteration holds while it is written.
    .with_for_update(key_share=True)
)
_WORK: Final = Direct(
    select(
        *_STEP,
        _AGENTS.c.feedback_rounds,
        func.coalesce(_AGENTS.c.resting_until > func.statement_timestamp(), False).label("rests"),
        func.clock_timestamp().label("now"),
    )
    .select_from(_AGENTS.outerjoin(_STEPS, _STEPS.c.iteration_id == bindparam("of_iteration")))
    .where(_AGENTS.c.id == bindparam("of_agent"))
    .order_by(_STEPS.c.kind, _STEPS.c.index)
)
_ASK: Final = Direct(
    update(_STEPS)
    .where(_THESE, _STEPS.c.status == StepStatus.PLANNED)
    .values(
        status=StepStatus.PENDING,
        requested_at=func.clock_timestamp(),
        first_requested_at=func.clock_timestamp(),
    )
    .returning(*_STEP)
)
_ADD: Final = Direct(
    insert(_STEPS)
    .values(status=StepStatus.PENDING, requested_at=bindparam("now"))
    .returning(*_STEP),
    columns=["id", "iteration_id", "agent_id", "kind", "index", "input", "first_requested_at"],
)
_ABANDON: Final = Direct(
    update(_STEPS)
    .where(_THESE)
    .values(
        status=StepStatus.FAILED,
        error=bindparam("why"),
        epoch=_STEPS.c.epoch + 1,
        lease_owner=None,
        lease_until=None,
        ended_at=func.clock_timestamp(),
    )
    .returning(*_STEP)
)
_MOVE: Final = Direct(
    update(_ITERATIONS).where(_ITERATIONS.c.id == bindparam("of_iteration")),
    columns=["stage", "stage_changed_at"],
)
_END: Final = Direct(
    update(_ITERATIONS)
    .where(_ITERATIONS.c.id == bindparam("of_iteration"))
    .values(ended_at=func.clock_timestamp())
    .returning(_ITERATIONS.c.ended_at),
    columns=["stage", "stage_changed_at", "status", "errors"],
)


async def locked(session: AsyncSession, iteration_id: UUID) -> IterationRow | None:
    """The iteration, its row locked until the transaction ends: what makes a join see every part."""
    found = await _LOCKED.row(session, {"of_iteration": iteration_id})
    return None if found is None else IterationRow(*found)


async def work(session: AsyncSession, iteration: IterationRow) -> Work:
    """Call it with the iteration locked.

    It is a statement of its own because one that waits for the lock sees all else as it was before it waited.
    """
    given = {"of_iteration": iteration.id, "of_agent": iteration.agent_id}
    rows = await _WORK.rows(session, given)
    first = rows[0]
    found = [_step(row) for row in rows if row.id is not None]
    return Work(found, first.feedback_rounds, first.rests, first.now)


async def ask_for(session: AsyncSession, step_ids: Sequence[UUID]) -> list[StepRow]:
    """Planned steps become pending. Call before the request is published, in the transaction that decided it."""
    return _steps(await _ASK.rows(session, {"step_ids": list(step_ids)}))


async def add(
    session: AsyncSession,
    iteration: IterationRow,
    kind: StepKind,
    index: int,
    given: dict[str, Any],
    now: datetime,
) -> StepRow:
    """A step that was not planned, asked for at `now`."""
    values = {
        "id": ids.step_id(iteration.id, kind, index),
        "iteration_id": iteration.id,
        "agent_id": iteration.agent_id,
        "kind": kind,
        "index": index,
        "input": given,
        "first_requested_at": now,
        "now": now,
    }
    return _step(await _ADD.row(session, values))


async def abandon(session: AsyncSession, step_ids: Sequence[UUID], why: str) -> list[StepRow]:
    """Fails the steps and takes their leases away: the new epoch refuses whoever still works on them."""
    given = {"step_ids": list(step_ids), "why": why}
    return _steps(await _ABANDON.rows(session, given))


async def move(
    session: AsyncSession, iteration: IterationRow, stage: Stage, now: datetime
) -> IterationRow:
    changed: dict[str, Any] = {"stage": stage, "stage_changed_at": now}
    await _MOVE.run(session, {"of_iteration": iteration.id, **changed})
    return iteration._replace(**changed)


async def end(
    session: AsyncSession,
    iteration: IterationRow,
    status: IterationStatus,
    errors: Sequence[str],
    now: datetime,
) -> IterationRow:
    """Its end is later than that of every step that was abandoned for it."""
    changed: dict[str, Any] = {
        "stage": Stage.ENDED,
        "stage_changed_at": now,
        "status": status,
        "errors": list(errors),
    }
    ended_at = await _END.value(session, {"of_iteration": iteration.id, **changed})
    return iteration._replace(**changed, ended_at=ended_at)


def _steps(rows: Iterable[Any]) -> list[StepRow]:
    return [_step(row) for row in rows]


def _step(row: Any) -> StepRow:
    return StepRow(*row[: len(StepRow._fields)])


CLOCK: Final[Asked[datetime]] = Asked(
    Direct("select clock_timestamp()"), {}, lambda rows: rows[0][0]
)
"""The database's time (UTC), the only clock that all processes share."""
_STALLED: Final = Direct(f"""
with due as (
  select id, greatest(started_at, stage_changed_at) as at from iterations
  where status = '{IterationStatus.RUNNING}' and deadline_at < statement_timestamp()
  order by deadline_at limit :most
),
seen as (
  select due.id, coalesce(of_steps.waits, false) as waits,
    greatest(due.at, of_steps.at, of_calls.at) + make_interval(secs => :patience) as deadline_at
  from due
  cross join lateral (
    select max(greatest(first_requested_at, started_at, ended_at)) as at,
      bool_or(waiting_since is not null and status in
        ('{StepStatus.PENDING}', '{StepStatus.RUNNING}')) as waits
    from steps where iteration_id = due.id
  ) as of_steps
  cross join lateral (
    select max(greatest(answered_at, progressed_at)) as at
    from calls where iteration_id = due.id
  ) as of_calls
),
put_off as (
  update iterations
  set deadline_at = case when seen.waits
    then greatest(seen.deadline_at, statement_timestamp() + make_interval(secs => :look_again))
    else seen.deadline_at end
  from seen
  where iterations.id = seen.id and (seen.waits or seen.deadline_at >= statement_timestamp())
  returning iterations.id
)
select id from seen where id not in (select id from put_off)
""")
"""Only iterations whose deadline has passed are looked at: to keep a time of progress in the row would be another write
with every step and call."""
_PLAN: Final = Direct(f"""
with planned as (
  update iterations
  set observer_plan = coalesce(cast(:plan as jsonb), observer_plan),
    stage = case when stage = '{Stage.OBSERVING}' and :asks then '{Stage.RESEARCHING}' else stage end,
    stage_changed_at = clock_timestamp()
  where id = :of_iteration
  returning id, agent_id, stage_changed_at as now
)
insert into steps
  (id, iteration_id, agent_id, kind, index, input, status, requested_at, first_requested_at)
select step.id, planned.id, planned.agent_id, step.kind, step.index, step.input, step.status,
  asked.at, asked.at
from planned
cross join jsonb_to_recordset(cast(:steps as jsonb)) as step
  (id uuid, kind text, index integer, input jsonb, status text)
cross join lateral (select case step.status when '{StepStatus.PENDING}' then now end as at) as asked
on conflict do nothing
""")
_ENDS_HEARD: Final = Direct(
    update(_ITERATIONS)
    .where(
        _ITERATIONS.c.id == any_(bindparam("iteration_ids", type_=ARRAY(Uuid()))),
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


def asked_for(now: datetime) -> dict[str, Any]:
    """Columns of a step that is asked for at `now`."""
    return {"status": StepStatus.PENDING, "requested_at": now, "first_requested_at": now}


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
    iteration: Iteration | IterationRow,
    *,
    queries: Sequence[dict[str, Any]],
    insights: Sequence[dict[str, Any]],
    plan: Mapping[str, Any] | None = None,
) -> None:
    """Writes the plan's steps: queries are asked for at once, insights wait until the queries have ended.

    With queries, an iteration that was observed is researched from now on. `plan` is all of it, as the iteration keeps
    it; without one the iteration's own stays.
    """
    planned = {
        StepKind.QUERY: (StepStatus.PENDING, queries),
        StepKind.INSIGHT: (StepStatus.PLANNED, insights),
    }
    steps = [
        {
            "id": ids.step_id(iteration.id, kind, index).hex,
            "kind": kind,
            "index": index,
            "input": given,
            "status": status,
        }
        for kind, (status, inputs) in planned.items()
        for index, given in enumerate(inputs)
    ]
    values = {
        "of_iteration": iteration.id,
        "plan": None if plan is None else json.dumps(plan),
        "asks": bool(queries),
        "steps": json.dumps(steps),
    }
    await _PLAN.run(session, values)


async def stalled(
    session: AsyncSession, patience_seconds: float, *, look_again_seconds: float, limit: int = 100
) -> list[UUID]:
    """Running iterations in which nothing has progressed for so long, though no step waits for a provider.

    Progress is a step that was asked for, begun or ended, a call that was answered, or a part of an answer that was
    streamed. What has progressed is looked at again when its new deadline has passed; where a step waits, after
    `look_again_seconds`.
    """
    given = {
        "most": limit,
        "patience": patience_seconds,
        "look_again": look_again_seconds,
    }
    return [row.id for row in await _STALLED.rows(session, given)]


async def ends_were_heard(session: AsyncSession, iteration_ids: Iterable[UUID]) -> None:
    """Their ends were told and have arrived: nobody needs to tell them again."""
    await _ENDS_HEARD.run(session, {"iteration_ids": list(iteration_ids)})


async def clock(session: AsyncSession) -> datetime:
    """See CLOCK."""
    return await CLOCK.answer(session)
