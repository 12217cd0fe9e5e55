"""What a join reads and writes, as few statements and plain rows: it is done after each step of each iteration."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple, cast
from uuid import UUID

from sqlalchemy import ARRAY, Table, Uuid, any_, bindparam, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from shared.store import ids
from shared.store.direct import Direct
from shared.store.tables import Agent, Iteration, Step
from shared.store.words import IterationStatus, Stage, StepKind, StepStatus


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


_ITERATIONS: Final = cast(Table, Iteration.__table__)
_STEPS: Final = cast(Table, Step.__table__)
_AGENTS: Final = cast(Table, Agent.__table__)
_STEP: Final = [_STEPS.c[name] for name in StepRow._fields]
_THESE: Final = _STEPS.c.id == any_(bindparam("step_ids", type_=ARRAY(Uuid())))

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
