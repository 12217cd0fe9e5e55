"""Iterations: start, plan, stage transitions, end, and the rows that the aggregator joins."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple
from uuid import UUID

from shared.database import ids
from shared.database.statements import BoundQuery, CompiledStatement, Executor, Row, uuid_array
from shared.enums import IterationStatus, Stage, StepKind, StepStatus


class IterationRow(NamedTuple):
    """The columns of an iteration that the join needs."""

    id: UUID
    agent_id: UUID
    number: int
    why: str
    started_at: datetime
    stage_changed_at: datetime
    status: str = IterationStatus.RUNNING
    stage: str = Stage.OBSERVING
    errors: Sequence[str] = ()
    ended_at: datetime | None = None


class StepRow(NamedTuple):
    """The columns of a step that workers and the join need."""

    id: UUID
    iteration_id: UUID | None
    agent_id: UUID
    kind: str
    index: int  # type: ignore[assignment]  # hides the method of tuples, which nothing uses
    input: dict[str, Any]
    status: str
    result: dict[str, Any] | None = None
    error: str | None = None
    attempts: int = 0
    first_requested_at: datetime | None = None
    ended_at: datetime | None = None


class IterationSteps(NamedTuple):
    """An iteration's steps by kind and index, the database's time, and settings of its agent."""

    steps: list[StepRow]
    feedback_rounds: int
    is_suspended: bool
    now: datetime


QUIET: Final = "quiet"
"""Key in the result of an observe step that found nothing to do."""
STEP_COLUMNS: Final = ", ".join(f"steps.{name}" for name in StepRow._fields)
"""The columns of a StepRow, for statements on `steps`."""
ITERATION_COLUMNS: Final = ", ".join(f"iterations.{name}" for name in IterationRow._fields)
_LOAD_FOR_JOIN: Final = CompiledStatement(f"""
select {ITERATION_COLUMNS}, {STEP_COLUMNS}, agents.feedback_rounds,
  coalesce(agents.suspended_until > statement_timestamp(), false) as is_suspended,
  clock_timestamp() as now
from iterations join agents on agents.id = iterations.agent_id
left join steps on steps.iteration_id = iterations.id
where iterations.id = :of_iteration and not (
  iterations.status = '{IterationStatus.RUNNING}' and exists (
    select from steps as ended
    join steps as other on other.iteration_id = ended.iteration_id and other.kind = ended.kind
      and coalesce(other.input ->> 'round', '0') = coalesce(ended.input ->> 'round', '0')
    where ended.id = :ended_step
      and ended.status in ('{StepStatus.COMPLETED}', '{StepStatus.FAILED}')
      and (other.status in ('{StepStatus.PENDING}', '{StepStatus.RUNNING}')) is true))
order by steps.kind, steps.index
""")


def _added_steps_cte(iteration_cte: str) -> str:
    """CTE that inserts `:added` steps into the iteration that a CTE has returned with its agent and the time."""
    return f"""
added as (
  insert into steps
    (id, iteration_id, agent_id, kind, index, input, status, requested_at, first_requested_at)
  select step.id, iteration.id, iteration.agent_id, kind, index, input, status, asked.at, asked.at
  from {iteration_cte} as iteration
  cross join jsonb_to_recordset(cast(:added as jsonb)) as step
    (id uuid, kind text, index integer, input jsonb, status text)
  cross join lateral (select case status when '{StepStatus.PENDING}' then now end as at) as asked
  on conflict do nothing
)
"""


_MOVE: Final = CompiledStatement(f"""
with moved as (
  update iterations
  set stage = :stage, stage_changed_at = :now, status = :status, errors = cast(:errors as jsonb),
    ended_at = :ended_at,
    graph_root = case when cast(:ended_at as timestamptz) is not null
      then (select hash from graph_head where graph_head.agent_id = iterations.agent_id) end
  where id = :of_iteration and stage = :seen_stage and stage_changed_at = :seen_at
  returning id, agent_id, stage_changed_at as now
),
requested as (
  update steps
  set status = '{StepStatus.PENDING}', requested_at = :now, first_requested_at = :now
  from moved where steps.id = any(cast(:requested as uuid[]))
),
abandoned as (
  update steps
  set status = '{StepStatus.FAILED}', error = :error, epoch = epoch + 1, lease_owner = null,
    lease_until = null, ended_at = :now
  from moved where steps.id = any(cast(:abandoned as uuid[]))
    and steps.status not in ('{StepStatus.COMPLETED}', '{StepStatus.FAILED}')
),
{_added_steps_cte("moved")}
select exists (select from moved) as is_moved
""")


def load_for_join(
    iteration_id: UUID, ended_step: UUID | None
) -> BoundQuery[tuple[IterationRow, IterationSteps] | None]:
    """What a join needs, read without a lock. None if the iteration was deleted, or if `ended_step`, whose end the join
    follows, is not the last open step of its kind.
    """

    def read(rows: Sequence[Row]) -> tuple[IterationRow, IterationSteps] | None:
        if not rows:
            return None
        width = len(IterationRow._fields)
        of_step = slice(width, width + len(StepRow._fields))
        steps = [StepRow(*row[of_step]) for row in rows if row[width] is not None]
        first = rows[0]
        work = IterationSteps(steps, first.feedback_rounds, first.is_suspended, first.now)
        return IterationRow(*first[:width]), work

    return BoundQuery(
        _LOAD_FOR_JOIN, {"of_iteration": iteration_id, "ended_step": ended_step}, read
    )


@dataclass(frozen=True)
class StepChanges:
    """Steps that a transition changes or adds, as they are afterwards."""

    requested: Sequence[StepRow] = ()
    added: Sequence[StepRow] = ()
    abandoned: Sequence[StepRow] = ()
    """Their leases are revoked: the new epoch rejects a worker that still has one."""

    @property
    def rows(self) -> Sequence[StepRow]:
        return [*self.requested, *self.added, *self.abandoned]


def move(seen: IterationRow, moved: IterationRow, changes: StepChanges) -> BoundQuery[bool]:
    """Writes a transition to another stage or to the end, all of it or nothing.

    The result is False, and nothing was written, if another transition was written since `seen` was read. So a join
    needs no lock: it decides again.
    """
    params = {
        "of_iteration": seen.id,
        "seen_stage": seen.stage,
        "seen_at": seen.stage_changed_at,
        "stage": moved.stage,
        "now": moved.stage_changed_at,
        "status": moved.status,
        "errors": json.dumps(moved.errors),
        "ended_at": moved.ended_at,
        "requested": uuid_array(step.id for step in changes.requested),
        "abandoned": uuid_array(step.id for step in changes.abandoned),
        "error": next((step.error for step in changes.abandoned), None),
        "added": _as_json(changes.added),
    }
    return BoundQuery(_MOVE, params, lambda rows: bool(rows[0].is_moved))


def new_step(
    iteration: IterationRow,
    kind: StepKind,
    index: int,
    step_input: dict[str, Any],
    *,
    requested_at: datetime | None = None,
    status: StepStatus = StepStatus.PENDING,
) -> StepRow:
    """A step of the iteration that is not stored yet."""
    return StepRow(
        id=ids.step_id(iteration.id, kind, index),
        iteration_id=iteration.id,
        agent_id=iteration.agent_id,
        kind=kind,
        index=index,
        input=step_input,
        status=status,
        first_requested_at=requested_at,
    )


def _as_json(steps: Iterable[StepRow]) -> str:
    """The columns of new steps that are not the same for all."""
    columns = ("kind", "index", "input", "status")
    return json.dumps(
        [
            {"id": step.id.hex, **{column: getattr(step, column) for column in columns}}
            for step in steps
        ]
    )


_CLOCK: Final[BoundQuery[datetime]] = BoundQuery(
    CompiledStatement("select clock_timestamp()"), {}, lambda rows: rows[0][0]
)
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
_RESTART_DEADLINES: Final = CompiledStatement(f"""
update iterations
set deadline_at = greatest(deadline_at, statement_timestamp() + make_interval(secs => :patience))
where status = '{IterationStatus.RUNNING}'
""")
_PLAN: Final = CompiledStatement(f"""
with planned as (
  update iterations
  set observer_plan = coalesce(cast(:plan as jsonb), observer_plan),
    stage = case when stage = '{Stage.OBSERVING}' and :asks then '{Stage.RESEARCHING}' else stage end,
    stage_changed_at = clock_timestamp()
  where id = :of_iteration
  returning id, agent_id, stage_changed_at as now
),
{_added_steps_cte("planned")}
select now from planned
""")
INTERVAL_GROWTH: Final = 1.5
"""Factor by which the interval grows with each quiet iteration, up to the maximum of the agent."""
MAX_GROWTHS: Final = 20
_START: Final = CompiledStatement(f"""
with due as (
  select agents.id, start.number, start.why, start.iteration, start.step, clock_timestamp() as now
  from jsonb_to_recordset(cast(:starts as jsonb)) as start
    (agent uuid, version xid, number integer, why text, iteration uuid, step uuid)
  join agents on agents.id = start.agent and agents.xmin = start.version
  -- Not the key: otherwise a transaction that writes a row referring to the agent would hide the agent.
  for no key update of agents skip locked
),
counted as (
  update agents
  set iterations_started = due.number, run_requested_at = null,
    -- Several missed runs count as one. A run on request does not shift the schedule.
    next_run_at = case when next_run_at > due.now then next_run_at
      else next_run_at + make_interval(secs => due.seconds *
        (floor(extract(epoch from due.now - next_run_at) / due.seconds) + 1)) end
  from (
    select due.*, case when max_interval_seconds > interval_seconds then least(
      max_interval_seconds, interval_seconds * power({INTERVAL_GROWTH}, (
        -- Quiet iterations after the last one that worked.
        select count(*) from (
          select bool_and(status = '{IterationStatus.QUIET}') over (order by iterations.number desc) as is_quiet
          from (
            select status, iterations.number from iterations where agent_id = due.id
            order by iterations.number desc limit {MAX_GROWTHS}
          ) as iterations
        ) as last where is_quiet
      ))) else interval_seconds end as seconds
    from due join agents on agents.id = due.id
  ) as due
  where agents.id = due.id
  returning due.*
),
started as (
  insert into iterations
    (id, agent_id, number, why, status, stage, started_at, stage_changed_at, deadline_at)
  select iteration, id, number, why, '{IterationStatus.RUNNING}', '{Stage.OBSERVING}', now, now,
    now + make_interval(secs => :deadline_seconds)
  from counted
  returning id
),
requested as (
  insert into steps
    (id, iteration_id, agent_id, kind, index, status, requested_at, first_requested_at)
  select step, iteration, id, '{StepKind.OBSERVE}', 0, '{StepStatus.PENDING}', now, now from counted
)
select iteration, now from counted
""")
_NOTE_ENDS: Final = CompiledStatement("""
update iterations set end_published_at = clock_timestamp()
where id = any(cast(:ids as uuid[])) and ended_at is not null and end_published_at is null
""")


class DueAgent(NamedTuple):
    """An agent that is to run, as it was read without a lock."""

    id: UUID
    version: int
    """Of its row: `xmin`."""
    iterations_started: int
    why: str


class StartedIteration(NamedTuple):
    iteration: IterationRow
    observe: StepRow


def start_iterations(
    agents: Sequence[DueAgent], *, deadline_seconds: float
) -> BoundQuery[list[StartedIteration]]:
    """Starts the next iteration of each agent, with its observe step, and moves its next run to the first future tick of
    its interval.

    An agent is left out if its row is locked, or was changed since it was read: by another scheduler, or by its owner.
    """
    starts = {ids.iteration_id(agent.id, agent.iterations_started + 1): agent for agent in agents}

    def read(rows: Sequence[Row]) -> list[StartedIteration]:
        return [_started(id_, starts[id_], now) for id_, now in rows]

    params = {
        "starts": json.dumps(
            [
                {
                    "agent": agent.id.hex,
                    "version": agent.version,
                    "number": agent.iterations_started + 1,
                    "why": agent.why,
                    "iteration": id_.hex,
                    "step": ids.step_id(id_, StepKind.OBSERVE, 0).hex,
                }
                for id_, agent in starts.items()
            ]
        ),
        "deadline_seconds": deadline_seconds,
    }
    return BoundQuery(_START, params, read)


def _started(iteration_id: UUID, agent: DueAgent, now: datetime) -> StartedIteration:
    iteration = IterationRow(
        id=iteration_id,
        agent_id=agent.id,
        number=agent.iterations_started + 1,
        why=agent.why,
        started_at=now,
        stage_changed_at=now,
    )
    return StartedIteration(
        iteration, new_step(iteration, StepKind.OBSERVE, 0, {}, requested_at=now)
    )


def plan_steps(
    iteration: IterationRow,
    *,
    queries: Sequence[dict[str, Any]],
    insights: Sequence[dict[str, Any]],
    plan: Mapping[str, Any] | None = None,
) -> BoundQuery[list[StepRow]]:
    """Inserts the plan's steps, and returns them: queries are requested at once, insights wait until all queries have
    ended.

    If there are queries, the iteration moves from observing to researching. `plan` is stored with the iteration; None
    leaves the stored plan unchanged.
    """
    steps_by_status = {
        StepStatus.PENDING: (StepKind.QUERY, queries),
        StepStatus.PLANNED: (StepKind.INSIGHT, insights),
    }
    new_steps = [
        new_step(iteration, kind, index, step_input, status=status)
        for status, (kind, inputs) in steps_by_status.items()
        for index, step_input in enumerate(inputs)
    ]

    def read(rows: Sequence[Row]) -> list[StepRow]:
        now = rows[0].now
        return [
            step._replace(first_requested_at=now if step.status == StepStatus.PENDING else None)
            for step in new_steps
        ]

    values = {
        "of_iteration": iteration.id,
        "plan": None if plan is None else json.dumps(plan),
        "asks": bool(queries),
        "added": _as_json(new_steps),
    }
    return BoundQuery(_PLAN, values, read)


def list_stalled(
    patience_seconds: float, *, look_again_seconds: float, limit: int = 100
) -> BoundQuery[list[UUID]]:
    """Ids of running iterations without progress for `patience_seconds`, except while a step waits for a provider.

    Progress is a step that was requested, started or ended, a call that was answered, or streamed text of a response.
    An iteration with progress is checked again at its new deadline, or after `look_again_seconds` while a step waits.
    """
    params = {
        "most": limit,
        "patience": patience_seconds,
        "look_again": look_again_seconds,
    }
    return BoundQuery(_STALLED, params, lambda rows: [row.id for row in rows])


def restart_deadlines(patience_seconds: float) -> BoundQuery[None]:
    """Gives every running iteration its whole time without progress. For a start, before which no service ran."""
    return BoundQuery(_RESTART_DEADLINES, {"patience": patience_seconds}, lambda _: None)


def note_ends_received(iteration_ids: Iterable[UUID]) -> BoundQuery[None]:
    """Records that the events of their ends were received, so that the reconciler does not republish them."""
    return BoundQuery(_NOTE_ENDS, {"ids": uuid_array(iteration_ids)}, lambda _: None)


async def database_time(transaction: Executor) -> datetime:
    """The database's time (UTC), the only clock that all processes share."""
    return await _CLOCK.execute(transaction)
