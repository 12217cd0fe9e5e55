"""Iterations: start, plan, stage transitions, end, and the rows that the aggregator joins."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple, cast
from uuid import UUID

from sqlalchemy import ARRAY, Table, Uuid, any_, bindparam, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from shared.database import ids
from shared.database.engine import Database
from shared.database.statements import (
    BoundQuery,
    CompiledStatement,
    Executor,
    PendingResult,
    RoundTrip,
)
from shared.database.tables import Agent, Iteration, Step
from shared.enums import IterationStatus, Stage, StepKind, StepStatus


class IterationRow(NamedTuple):
    """The columns of an iteration that the join needs."""

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
    """The columns of a step that the join needs."""

    id: UUID
    iteration_id: UUID
    agent_id: UUID
    kind: str
    input: dict[str, Any]
    status: str
    result: dict[str, Any] | None
    error: str | None
    first_requested_at: datetime | None


class IterationSteps(NamedTuple):
    """An iteration's steps by kind and index, the database's time, and settings of its agent."""

    steps: list[StepRow]
    feedback_rounds: int
    is_suspended: bool
    now: datetime


_STEPS: Final = cast(Table, Step.__table__)
_AGENTS: Final = cast(Table, Agent.__table__)
_STEP_COLUMNS: Final = [_STEPS.c[name] for name in StepRow._fields]
_JOIN_SETTINGS: Final = (
    _AGENTS.c.feedback_rounds,
    func.coalesce(_AGENTS.c.suspended_until > func.statement_timestamp(), False).label(
        "is_suspended"
    ),
    func.clock_timestamp().label("now"),
)
_IS_LISTED: Final = _STEPS.c.id == any_(bindparam("step_ids", type_=ARRAY(Uuid())))

_ITERATIONS: Final = cast(Table, Iteration.__table__)
_LOCK: Final = CompiledStatement(
    select(_ITERATIONS.c.id)
    .where(_ITERATIONS.c.id == bindparam("of_iteration"))
    # Not the key, which is share-locked by inserts of rows that reference the iteration.
    .with_for_update(key_share=True)
)
_LOOK: Final = CompiledStatement(
    select(
        *(_ITERATIONS.c[name].label(f"iteration_{name}") for name in IterationRow._fields),
        *_STEP_COLUMNS,
        *_JOIN_SETTINGS,
    )
    .select_from(
        _ITERATIONS.join(_AGENTS, _AGENTS.c.id == _ITERATIONS.c.agent_id).outerjoin(
            _STEPS, _STEPS.c.iteration_id == _ITERATIONS.c.id
        )
    )
    .where(_ITERATIONS.c.id == bindparam("of_iteration"))
    .order_by(_STEPS.c.kind, _STEPS.c.index)
)
_REQUEST: Final = CompiledStatement(
    update(_STEPS)
    .where(_IS_LISTED, _STEPS.c.status == StepStatus.PLANNED)
    .values(
        status=StepStatus.PENDING,
        requested_at=func.clock_timestamp(),
        first_requested_at=func.clock_timestamp(),
    )
    .returning(*_STEP_COLUMNS)
)
_ADD: Final = CompiledStatement(
    insert(_STEPS)
    .values(status=StepStatus.PENDING, requested_at=bindparam("now"))
    .returning(*_STEP_COLUMNS),
    columns=["id", "iteration_id", "agent_id", "kind", "index", "input", "first_requested_at"],
)
_ABANDON: Final = CompiledStatement(
    update(_STEPS)
    .where(_IS_LISTED)
    .values(
        status=StepStatus.FAILED,
        error=bindparam("why"),
        epoch=_STEPS.c.epoch + 1,
        lease_owner=None,
        lease_until=None,
        ended_at=func.clock_timestamp(),
    )
    .returning(*_STEP_COLUMNS)
)
_SET_STAGE: Final = CompiledStatement(
    update(_ITERATIONS).where(_ITERATIONS.c.id == bindparam("of_iteration")),
    columns=["stage", "stage_changed_at"],
)
_END: Final = CompiledStatement(
    update(_ITERATIONS)
    .where(_ITERATIONS.c.id == bindparam("of_iteration"))
    .values(ended_at=func.clock_timestamp())
    .returning(_ITERATIONS.c.ended_at),
    columns=["stage", "stage_changed_at", "status", "errors"],
)


def ask_locked(
    trip: RoundTrip, iteration_id: UUID
) -> PendingResult[tuple[IterationRow, IterationSteps] | None]:
    """Locks the iteration's row until the transaction ends, so that joins are serialized, and loads what a join needs.

    None if the iteration was deleted.
    """
    trip.ask(BoundQuery(_LOCK, {"of_iteration": iteration_id}, lambda _: None))
    # A separate statement, because a statement that waits for a lock sees all other rows as before the wait.
    return trip.ask(_look(iteration_id))


async def look(
    database: Database, iteration_id: UUID
) -> tuple[IterationRow, IterationSteps] | None:
    """Loads the same without a lock."""
    return await database.read(_look(iteration_id))


def _look(iteration_id: UUID) -> BoundQuery[tuple[IterationRow, IterationSteps] | None]:
    return BoundQuery(_LOOK, {"of_iteration": iteration_id}, _iteration_and_steps)


def _iteration_and_steps(rows: Sequence[Any]) -> tuple[IterationRow, IterationSteps] | None:
    if not rows:
        return None
    width = len(IterationRow._fields)
    of_step = slice(width, width + len(StepRow._fields))
    steps = [StepRow(*row[of_step]) for row in rows if row[width] is not None]
    first = rows[0]
    settings = (first.feedback_rounds, first.is_suspended, first.now)
    return IterationRow(*first[:width]), IterationSteps(steps, *settings)


def request_steps(step_ids: Sequence[UUID]) -> BoundQuery[list[StepRow]]:
    """Makes planned steps pending. Call it before their requests are published, in the transaction that decided it."""
    return BoundQuery(_REQUEST, {"step_ids": list(step_ids)}, _steps)


def add_step(
    iteration: IterationRow,
    kind: StepKind,
    index: int,
    step_input: dict[str, Any],
    now: datetime,
) -> BoundQuery[list[StepRow]]:
    """Inserts a step that was not planned, requested at `now`; the only one of the result."""
    values = {
        "id": ids.step_id(iteration.id, kind, index),
        "iteration_id": iteration.id,
        "agent_id": iteration.agent_id,
        "kind": kind,
        "index": index,
        "input": step_input,
        "first_requested_at": now,
        "now": now,
    }
    return BoundQuery(_ADD, values, _steps)


def abandon_steps(step_ids: Sequence[UUID], why: str) -> BoundQuery[list[StepRow]]:
    """Fails the steps and revokes their leases: the new epoch rejects a worker that still has one."""
    return BoundQuery(_ABANDON, {"step_ids": list(step_ids), "why": why}, _steps)


def set_stage(iteration: IterationRow, stage: Stage, now: datetime) -> BoundQuery[IterationRow]:
    changes: dict[str, Any] = {"stage": stage, "stage_changed_at": now}
    changed = iteration._replace(**changes)
    return BoundQuery(_SET_STAGE, {"of_iteration": iteration.id, **changes}, lambda _: changed)


def end_iteration(
    iteration: IterationRow, status: IterationStatus, errors: Sequence[str], now: datetime
) -> BoundQuery[IterationRow]:
    """Ends the iteration. Its end is later than that of every step that was abandoned for it."""
    changes: dict[str, Any] = {
        "stage": Stage.ENDED,
        "stage_changed_at": now,
        "status": status,
        "errors": list(errors),
    }
    return BoundQuery(
        _END,
        {"of_iteration": iteration.id, **changes},
        lambda rows: iteration._replace(**changes, ended_at=rows[0].ended_at),
    )


def _steps(rows: Iterable[Any]) -> list[StepRow]:
    return [StepRow(*row[: len(StepRow._fields)]) for row in rows]


CLOCK: Final[BoundQuery[datetime]] = BoundQuery(
    CompiledStatement("select clock_timestamp()"), {}, lambda rows: rows[0][0]
)
"""The database's time (UTC), the only clock that all processes share."""
_STALLED: Final = CompiledStatement(f"""
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
"""Only iterations whose deadline has passed are checked: storing the time of progress would add a write to every step
and call.
"""
_PLAN: Final = CompiledStatement(f"""
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
_NOTE_ENDS: Final = CompiledStatement(
    update(_ITERATIONS)
    .where(
        _ITERATIONS.c.id == any_(bindparam("iteration_ids", type_=ARRAY(Uuid()))),
        _ITERATIONS.c.ended_at.is_not(None),
        _ITERATIONS.c.end_published_at.is_(None),
    )
    .values(end_published_at=func.clock_timestamp())
)


@dataclass(frozen=True)
class StartedIteration:
    iteration: Iteration
    observe: Step


async def start_iteration(
    session: AsyncSession, agent: Agent, *, why: str, deadline_seconds: float
) -> StartedIteration:
    """Starts the agent's next iteration with its observe step. The caller holds the agent's row lock."""
    now = await database_time(session)
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
    observe = new_step(iteration, StepKind.OBSERVE, 0, **requested_columns(now))
    session.add(iteration)
    await session.flush()
    session.add(observe)
    await session.flush()
    return StartedIteration(iteration, observe)


def requested_columns(now: datetime) -> dict[str, Any]:
    """Columns of a step that is requested at `now`."""
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


def step_without_iteration(
    agent_id: UUID, kind: StepKind, index: int, now: datetime, step_input: dict[str, Any]
) -> Step:
    """A step without iteration, requested at `now`; `index` numbers the steps of its kind and agent."""
    return Step(
        id=ids.step_id(agent_id, kind, index),
        agent_id=agent_id,
        kind=kind,
        index=index,
        input=step_input,
        **requested_columns(now),
    )


def plan_steps(
    iteration: Iteration | IterationRow,
    *,
    queries: Sequence[dict[str, Any]],
    insights: Sequence[dict[str, Any]],
    plan: Mapping[str, Any] | None = None,
) -> BoundQuery[None]:
    """Inserts the plan's steps: queries are requested at once, insights wait until all queries have ended.

    If there are queries, the iteration moves from observing to researching. `plan` is stored with the iteration; None
    leaves the stored plan unchanged.
    """
    steps_by_kind = {
        StepKind.QUERY: (StepStatus.PENDING, queries),
        StepKind.INSIGHT: (StepStatus.PLANNED, insights),
    }
    steps = [
        {
            "id": ids.step_id(iteration.id, kind, index).hex,
            "kind": kind,
            "index": index,
            "input": step_input,
            "status": status,
        }
        for kind, (status, inputs) in steps_by_kind.items()
        for index, step_input in enumerate(inputs)
    ]
    values = {
        "of_iteration": iteration.id,
        "plan": None if plan is None else json.dumps(plan),
        "asks": bool(queries),
        "steps": json.dumps(steps),
    }
    return BoundQuery(_PLAN, values, lambda _: None)


async def list_stalled(
    session: AsyncSession, patience_seconds: float, *, look_again_seconds: float, limit: int = 100
) -> list[UUID]:
    """Ids of running iterations without progress for `patience_seconds`, except while a step waits for a provider.

    Progress is a step that was requested, started or ended, a call that was answered, or streamed text of a response.
    An iteration with progress is checked again at its new deadline, or after `look_again_seconds` while a step waits.
    """
    params = {
        "most": limit,
        "patience": patience_seconds,
        "look_again": look_again_seconds,
    }
    return [row.id for row in await _STALLED.rows(session, params)]


async def note_ends_received(session: AsyncSession, iteration_ids: Iterable[UUID]) -> None:
    """Records that the events of their ends were received, so that the reconciler does not republish them."""
    await _NOTE_ENDS.run(session, {"iteration_ids": list(iteration_ids)})


async def database_time(session: Executor) -> datetime:
    """The database's time (UTC), see CLOCK."""
    return await CLOCK.answer(session)
