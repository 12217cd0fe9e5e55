"""Reservations: the maximum cost of a call is reserved before it is sent, and its actual cost is booked afterwards.

A step reserves for its next calls together: see `call_ledger.pay`. What is reserved on a day is the sum of what its steps
hold, spent and not spent, and of the calls in progress. A call can always be closed on its own, too.

To avoid deadlocks, every transaction locks an agent's budget rows before the installation's, and an older day's before a
newer day's. It does so at its end, because every paid call needs the lock on the installation's row.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from shared.database.statements import (
    STRICT,
    BoundQuery,
    CompiledStatement,
    Executor,
    Row,
    execute_or_undo,
    uuid_array,
)
from shared.database.transaction import Transaction

INSTALLATION: Final = UUID(int=0)
"""The budget scope of the whole installation."""
_INSTALLATION_SQL: Final = f"cast('{INSTALLATION}' as uuid)"
# Hidden from the planner: it would read the index of the reserved calls, which has an entry for every call until it is
# vacuumed, rather than look up one by its id.
IS_RESERVED: Final = "(calls.reserved_on is not null) is true"
TODAY: Final = "cast(statement_timestamp() at time zone 'UTC' as date)"


def budget_ctes(changes_sql: str) -> str:
    """CTEs that make changes to the budgets: of each agent, and of the installation.

    `changes_sql` selects agent, day, spent_usd, spent_calls, reserved_usd, reserved_calls.
    """
    return f"""
change as materialized (
  select scope, day, sum(spent_usd) as spent_usd, sum(spent_calls) as spent_calls,
    sum(reserved_usd) as reserved_usd, sum(reserved_calls) as reserved_calls,
    bool_or(reserved_calls > 0 or reserved_usd > 0) as is_reservation
  from (select unnest(array[agent, {_INSTALLATION_SQL}]) as scope, part.* from ({changes_sql}) as part) as part
  group by 1, 2
),
changed as (
  insert into budget_days as kept (scope, day, reserved_usd, reserved_calls)
  select scope, day, reserved_usd, reserved_calls from change
  order by scope = {_INSTALLATION_SQL}, scope, day
  on conflict (scope, day) do update
  set reserved_usd = kept.reserved_usd + excluded.reserved_usd,
    reserved_calls = kept.reserved_calls + excluded.reserved_calls,
    (spent_usd, spent_calls) = (
      select kept.spent_usd + change.spent_usd, kept.spent_calls + change.spent_calls from change
      where change.scope = kept.scope and change.day = kept.day)
  returning scope, day, spent_usd + reserved_usd as usd, spent_calls + reserved_calls as calls
)
"""


IS_EXCEEDED: Final = f"""
exists (
  select from changed join change using (scope, day)
  left join agents on agents.id = scope
  left join installation_budget on installation_budget.id = 1 and scope = {_INSTALLATION_SQL}
  where is_reservation and (agents.id is null and scope <> {_INSTALLATION_SQL}
    or (usd <= coalesce(budget_usd_per_day, usd_per_day)
      and calls <= coalesce(budget_calls_per_day, calls_per_day)) is false)
)
"""
"""Condition: a cap does not allow the reservations of `budget_ctes`, or the agent does not exist."""


def is_above_caps(
    agent_sql: str, *, usd_sql: str = "0", calls_sql: str = "0", share: int = 1
) -> str:
    """Condition: with so much more, today's spending and reservations exceed a `share`-th of a cap."""
    return f"""
exists (
  select from budget_days
  left join agents on agents.id = scope
  left join installation_budget on installation_budget.id = 1 and scope = {_INSTALLATION_SQL}
  where day = {TODAY} and scope in (cast({agent_sql} as uuid), {_INSTALLATION_SQL})
    and ((spent_usd + reserved_usd + {usd_sql}) * {share} <= coalesce(budget_usd_per_day, usd_per_day)
      and (spent_calls + reserved_calls + {calls_sql}) * {share} <= coalesce(budget_calls_per_day, calls_per_day)
    ) is false
)
"""


CLOSED_CHANGES: Final = """
select agent, day, spent_usd, spent_calls, -held_usd as reserved_usd, -1 as reserved_calls from closed
"""
"""For `budget_ctes`: the changes that close reservations."""

_ZERO: Final = Decimal(0)


@dataclass(frozen=True)
class Attempt:
    """One attempt to send a call, with its reservation on `day`: one call and `max_cost_usd`."""

    call_id: UUID
    agent_id: UUID
    number: int
    """The call's `attempts` at this attempt. An attempt that a later one replaced is settled already."""
    day: date
    max_cost_usd: Decimal


Closing = Mapping[str, Any]
"""What is booked when an attempt is over: parameters of `close_cte`."""


def settled(attempt: Attempt, cost_usd: Decimal | None, assumed_usd: Decimal = _ZERO) -> Closing:
    """Closes an answered call: its cost and what is assumed are spent, or the reserved maximum if the cost is None."""
    if cost_usd is None:
        return failed(attempt, None)
    return _closing(attempt, cost_usd + assumed_usd, assumed_usd=assumed_usd)


def failed(attempt: Attempt, cost_usd: Decimal | None) -> Closing:
    """Closes an attempt with an unusable answer: its cost is spent, or the reserved maximum if that is unknown (None)."""
    cost = attempt.max_cost_usd if cost_usd is None else cost_usd
    return _closing(attempt, cost, assumed_usd=cost)


def released(attempt: Attempt) -> Closing:
    """Closes an attempt that certainly was not billed."""
    return _closing(attempt, _ZERO, spent_calls=0)


def release_hold(step_id: UUID) -> BoundQuery[None]:
    """Books what the answered calls of a step have cost, and releases the rest of what it holds."""
    return BoundQuery(_RELEASE_HOLD, {"of_step": step_id}, lambda _: None)


async def reserve(
    transaction: Executor,
    agent_id: UUID,
    max_costs: Mapping[UUID, Decimal],
    *,
    day: date | None = None,
) -> Sequence[Attempt] | None:
    """Reserves the maximum cost (USD) of one attempt of each call, for all or none. None if a cap does not allow it.

    The calls must have no reservation (see `write_off_call`). `day` defaults to the database's current day in UTC.
    """
    params = {
        "agent": agent_id,
        "day": day,
        "ids": list(max_costs),
        "max_costs": list(max_costs.values()),
    }
    rows = await execute_or_undo(transaction, BoundQuery(_RESERVE, params, list))
    if rows is None:
        return None
    return [Attempt(row.id, agent_id, row.attempts, row.day, max_costs[row.id]) for row in rows]


async def release(transaction: Executor, attempt: Attempt) -> None:
    """Releases the reservation of a call that certainly was not billed."""
    await closing_query(released(attempt)).execute(transaction)


def closing_query(closing: Closing) -> BoundQuery[bool]:
    """Books the closing. Its result is whether the attempt was still open."""
    return BoundQuery(_CLOSE, closing, bool)


async def write_off_call(transaction: Executor, call_id: UUID) -> None:
    """Books the reserved maximum of a call as spent, because its actual cost may never be known."""
    await _write_off(_WRITE_OFF_CALL, [call_id]).execute(transaction)


def step_write_off(*step_ids: UUID) -> BoundQuery[Sequence[Row]]:
    """Does the same for every call of steps of one agent that have ended, so that nothing stays reserved for them.

    Returns the calls. In a round trip that commits, it writes nothing, and forbids the commit if there is something to
    write off: other payments may have locked the budgets by then, in another order.
    """
    return _write_off(_WRITE_OFF_STEPS, step_ids)


async def load_reserved(transaction: Transaction, agent_id: UUID) -> Sequence[Mapping[str, Any]]:
    """Returns what is reserved for an agent, by day, and what of it counts as spent when the agent is deleted. No worker
    may be working on its steps.
    """
    rows = await _SELECT_RESERVED.rows(transaction, {"of_agent": agent_id})
    return [row._asdict() for row in rows]


async def forget_agent(
    transaction: Transaction, agent_id: UUID, reserved: Sequence[Mapping[str, Any]]
) -> None:
    """Deletes the budget rows of a deleted agent. Books what was `reserved` for it as spent by the installation."""
    await _DELETE_DAYS.run(transaction, {"of_agent": agent_id})
    for of_day in reserved:
        await _SPEND_RESERVED.run(transaction, of_day)


def _write_off(statement: CompiledStatement, ids: Collection[UUID]) -> BoundQuery[Sequence[Row]]:
    return BoundQuery(statement, {"ids": uuid_array(ids), STRICT: False}, list)


def _closing(
    attempt: Attempt, spent_usd: Decimal, *, spent_calls: int = 1, assumed_usd: Decimal = _ZERO
) -> Closing:
    """`assumed_usd` is the part of `spent_usd` that the call's own cost does not show."""
    return {
        "call": attempt.call_id,
        "number": attempt.number,
        "agent": attempt.agent_id,
        "day": attempt.day,
        "held_usd": attempt.max_cost_usd,
        "spent_usd": spent_usd,
        "spent_calls": spent_calls,
        "assumed_usd": assumed_usd,
    }


_RESERVE: Final = CompiledStatement(f"""
with sent as (
  update calls
  set attempts = calls.attempts + 1, reserved_usd = wanted.usd,
    reserved_on = coalesce(cast(:day as date), {TODAY}), sent_at = clock_timestamp(),
    received_chars = null, progressed_at = null
  from unnest(cast(:ids as uuid[]), cast(:max_costs as numeric[])) as wanted (id, usd)
  where calls.id = wanted.id
  returning calls.id, calls.attempts, calls.reserved_on as day, wanted.usd
),
{
    budget_ctes('''
  select cast(:agent as uuid) as agent, day, 0 as spent_usd, 0 as spent_calls, usd as reserved_usd,
    1 as reserved_calls
  from sent
''')
}
select id, attempts, day,
  {IS_EXCEEDED} or (select count(*) from sent) < cardinality(cast(:ids as uuid[])) as is_undone
from (values (1)) as once left join sent on true
""")


def close_cte(assignments: str = "") -> str:
    """CTE that closes an attempt unless it was closed before, and then makes `assignments` to the call's row."""
    return f"""
closed as (
  update calls
  set {assignments} reserved_usd = null, reserved_on = null, assumed_usd = assumed_usd + :assumed_usd
  where id = :call and attempts = :number and {IS_RESERVED}
  returning id, agent_id as agent, cast(:day as date) as day, cast(:held_usd as numeric) as held_usd,
    cast(:spent_usd as numeric) as spent_usd, cast(:spent_calls as integer) as spent_calls
)
"""


_CLOSE: Final = CompiledStatement(
    f"with {close_cte()}, {budget_ctes(CLOSED_CHANGES)} select id from closed"
)


def _write_off_statement(column: str) -> CompiledStatement:
    return CompiledStatement(f"""
with held as (
  select id, agent_id, reserved_on, reserved_usd from calls
  where {column} = any(cast(:ids as uuid[])) and reserved_on is not null
  for update
),
closed as (
  update calls
  set assumed_usd = calls.assumed_usd + held.reserved_usd, reserved_usd = null, reserved_on = null
  from held where calls.id = held.id and not :strict
  returning calls.id, held.agent_id as agent, held.reserved_on as day, held.reserved_usd as held_usd,
    held.reserved_usd as spent_usd, 1 as spent_calls
),
{budget_ctes(CLOSED_CHANGES)}
select id, case when :strict then forbid_commit() end as is_undone from held
""")


_WRITE_OFF_CALL: Final = _write_off_statement("id")
_WRITE_OFF_STEPS: Final = _write_off_statement("step_id")

# The trigger `settle_step` of migration 0031 changes the budgets.
_RELEASE_HOLD: Final = CompiledStatement(
    "update steps set reserved_on = null where id = :of_step and reserved_on is not null"
)
_SELECT_RESERVED: Final = CompiledStatement("""
select day, sum(spent_usd) as spent_usd, sum(spent_calls) as spent_calls,
  sum(spent_usd + held_usd) as reserved_usd, sum(spent_calls + held_calls) as reserved_calls
from (
  select reserved_on, reserved_usd, 1, 0, 0 from calls where agent_id = :of_agent and reserved_on is not null
  union all
  select reserved_on, spent_usd, spent_calls, reserved_usd, reserved_calls from steps
  where agent_id = :of_agent and reserved_on is not null
) as open (day, spent_usd, spent_calls, held_usd, held_calls)
group by day order by day
""")
_SPEND_RESERVED: Final = CompiledStatement(f"""
update budget_days
set spent_usd = spent_usd + :spent_usd, spent_calls = spent_calls + :spent_calls,
  reserved_usd = reserved_usd - :reserved_usd, reserved_calls = reserved_calls - :reserved_calls
where scope = {_INSTALLATION_SQL} and day = :day
""")
_DELETE_DAYS: Final = CompiledStatement("delete from budget_days where scope = :of_agent")
