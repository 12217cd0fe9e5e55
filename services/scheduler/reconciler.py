"""The reconciler: finds steps and iterations whose events were missed, and republishes them."""

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Final
from uuid import UUID

from shared import derived_events
from shared.database.engine import Database
from shared.database.statements import Batch, BoundQuery, CompiledStatement, Row
from shared.database.transaction import Transaction
from shared.enums import IterationStatus, StepStatus
from shared.events.envelope import Event
from shared.workflow import iterations, steps
from shared.workflow.iterations import ITERATION_COLUMNS, STEP_COLUMNS, IterationRow, StepRow

ROWS_PER_QUERY = 200
MAX_DOUBLINGS = 5
"""How often the delay between two republications doubles: a step in a long queue is slow, not lost."""
LEASE_GRACE_SECONDS = 0.5
"""How long a lease must have been expired before its step is offered to other workers."""

_DELAYED: Final = f"""
statement_timestamp() - :resend_after * power(2, least(republish_count, {MAX_DOUBLINGS}))"""
# A running step was claimed in vain: the last republication must have had time to arrive.
_IS_OVERDUE: Final = f"""(
  steps.status = '{StepStatus.PENDING}' and greatest(requested_at, retry_at) < {_DELAYED}
  or steps.status = '{StepStatus.RUNNING}'
    and lease_until < statement_timestamp() - make_interval(secs => {LEASE_GRACE_SECONDS})
    and requested_at < statement_timestamp() - :resend_after / 3)"""

_UNCLAIMED: Final = CompiledStatement(f"""
select {STEP_COLUMNS}, republish_count from steps
where {_IS_OVERDUE} and (iteration_id is null or exists (
  select from iterations
  where id = steps.iteration_id and status = '{IterationStatus.RUNNING}'))
order by requested_at limit {ROWS_PER_QUERY}
""")
"""Steps whose request no worker received, or whose worker died. A renewed lease means the worker is alive."""
_UNRETRIED: Final = CompiledStatement(f"""
select {STEP_COLUMNS}, republish_count from steps
where retry_requested_at is not null and ({_IS_OVERDUE}
  or steps.status = '{StepStatus.FAILED}' and retry_requested_at > ended_at
    and greatest(requested_at, retry_requested_at) < {_DELAYED})
order by requested_at limit {ROWS_PER_QUERY}
""")
"""Steps that are retried after their iteration has ended: not claimed yet, or missed."""
# Materialized first and from partial indexes: a plan that starts with the ended steps would read the whole history.
_UNJOINED: Final = CompiledStatement(f"""
with waiting as materialized (
  select id from iterations where status = '{IterationStatus.RUNNING}' and not exists (
    select from steps where iteration_id = iterations.id
      and status in ('{StepStatus.PENDING}', '{StepStatus.RUNNING}'))
)
select {STEP_COLUMNS}, republish_count from waiting join steps on steps.iteration_id = waiting.id
where ended_at < statement_timestamp() - :resend_after
  and coalesce(requested_at, ended_at) < {_DELAYED}
  and not exists (
    select from steps as later
    where later.iteration_id = steps.iteration_id and later.ended_at > steps.ended_at)
order by requested_at limit {ROWS_PER_QUERY}
""")
"""The last ended steps of iterations without open steps: the aggregator missed the event of their end."""
_UNANNOUNCED: Final = CompiledStatement(f"""
select {ITERATION_COLUMNS}, end_republish_count from iterations
where ended_at is not null and end_published_at is null
  and coalesce(end_republished_at, ended_at) < statement_timestamp()
    - :resend_after * power(2, least(end_republish_count, {MAX_DOUBLINGS}))
order by ended_at limit {ROWS_PER_QUERY}
""")
"""Ended iterations whose end event was not received: the aggregator may have died before publishing it."""
_COUNT_STEP: Final = CompiledStatement("""
update steps set republish_count = :number, requested_at = clock_timestamp()
where id = :row and republish_count = cast(:number as integer) - 1
""")
_COUNT_END: Final = CompiledStatement("""
update iterations set end_republish_count = :number, end_republished_at = clock_timestamp()
where id = :row and end_republish_count = cast(:number as integer) - 1
""")


@dataclass(frozen=True)
class MissedEvent:
    """An event that seems to be missed, derived from one row."""

    row_id: UUID
    iteration_id: UUID | None
    number: int
    """Number of this republication, which makes its message ids unique."""
    load_events: Callable[[Transaction], Awaitable[Sequence[Event]]]
    counter: CompiledStatement


@dataclass(frozen=True)
class Reconciler:
    """Call `find_missed`, then for each result `events`, publish these, and `count`, row by row.

    After a crash or error before `count`, the next run finds the row again with the same number: NATS drops what it has
    stored already, and the delay has not grown for what was never sent. Safe to run concurrently.
    """

    database: Database
    resend_after_seconds: float

    async def find_missed(self, received_ends: Collection[UUID] = ()) -> Sequence[MissedEvent]:
        """Finds missed events. First records the iterations `received_ends`, whose end events were received."""
        batch = Batch()
        if received_ends:
            batch.add(iterations.note_ends_received(received_ends))
        found = [
            batch.add(self._query(_UNCLAIMED, _missed_request)),
            batch.add(self._query(_UNRETRIED, _missed_request)),
            batch.add(self._query(_UNJOINED, _missed_step_end)),
            batch.add(self._query(_UNANNOUNCED, _missed_end)),
        ]
        await self.database.write(batch)
        return [missed for each in found for missed in each.value]

    async def events(self, missed: MissedEvent) -> Sequence[Event]:
        """The events to republish. Raises any error that a broken row causes."""
        async with self.database.transaction() as transaction:
            return await missed.load_events(transaction)

    async def count(self, missed: MissedEvent) -> None:
        """Records that it was republished or cannot be: the delay before the next time grows."""
        params = {"row": missed.row_id, "number": missed.number}
        await self.database.run(BoundQuery(missed.counter, params, lambda _: None))

    def _query(
        self, statement: CompiledStatement, read: Callable[[Row], MissedEvent]
    ) -> BoundQuery[list[MissedEvent]]:
        params = {"resend_after": timedelta(seconds=self.resend_after_seconds)}
        return BoundQuery(statement, params, lambda rows: [read(row) for row in rows])


def _missed_request(row: Row) -> MissedEvent:
    step = StepRow(*row[:-1])

    async def load(transaction: Transaction) -> Sequence[Event]:
        return [await derived_events.step_requested_event(transaction, step)]

    return MissedEvent(step.id, step.iteration_id, row.republish_count + 1, load, _COUNT_STEP)


def _missed_step_end(row: Row) -> MissedEvent:
    step = StepRow(*row[:-1])
    load = partial(derived_events.events_after_step, step=step)
    return MissedEvent(step.id, step.iteration_id, row.republish_count + 1, load, _COUNT_STEP)


def _missed_end(row: Row) -> MissedEvent:
    iteration = IterationRow(*row[:-1])

    async def load(transaction: Transaction) -> Sequence[Event]:
        its_steps = await steps.list_steps(transaction, iteration.id)
        return [await derived_events.iteration_ended_event(transaction, iteration, its_steps)]

    return MissedEvent(iteration.id, iteration.id, row.end_republish_count + 1, load, _COUNT_END)
