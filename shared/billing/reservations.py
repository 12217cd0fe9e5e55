"""Reservations: the maximum cost of a call is reserved before it is sent, and its actual cost is booked afterwards.

To avoid deadlocks, every transaction locks an agent's budget rows before the installation's, and an older day's before a
newer day's. It does so at its end, because every paid call needs the lock on the installation's row.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from shared.database.statements import (
    STRICT,
    BoundQuery,
    CompiledStatement,
    Executor,
    Row,
    attempt_query,
    json_text,
)

# Hidden from the planner: it would read the index of the reserved calls, which has an entry for every call until it is
# vacuumed, rather than look up one by its id.
IS_RESERVED: Final = "(calls.reserved_on is not null) is true"
TODAY: Final = "cast(statement_timestamp() at time zone 'UTC' as date)"
CHANGE_CTES: Final = f"""
change as materialized (
  select scope, coalesce(day, {TODAY}) as day, sum(spent_usd) as spent_usd,
    sum(spent_calls) as spent_calls, sum(reserved_usd) as reserved_usd,
    sum(reserved_calls) as reserved_calls, bool_or(reserved_calls > 0) as is_reservation
  from (
    select unnest(array[agent, :installation]) as scope, part.*
    from jsonb_to_recordset(cast(:changes as jsonb)) as part (
      agent uuid, day date, spent_usd numeric, spent_calls integer, reserved_usd numeric,
      reserved_calls integer)
  ) as part
  group by 1, 2
),
changed as (
  insert into budget_days as kept (scope, day, reserved_usd, reserved_calls)
  select scope, day, reserved_usd, reserved_calls from change
  order by scope = :installation, scope, day
  on conflict (scope, day) do update
  set reserved_usd = kept.reserved_usd + excluded.reserved_usd,
    reserved_calls = kept.reserved_calls + excluded.reserved_calls,
    (spent_usd, spent_calls) = (
      select kept.spent_usd + change.spent_usd, kept.spent_calls + change.spent_calls from change
      where change.scope = kept.scope and change.day = kept.day)
  returning scope, day, spent_usd + reserved_usd as usd, spent_calls + reserved_calls as calls
)
"""
"""CTEs that make the changes of `change_params` to the budgets, the agents' before the installation's."""
IS_EXCEEDED: Final = """
exists (
  select from changed join change using (scope, day)
  left join agents on agents.id = scope
  left join installation_budget on scope = :installation
  where is_reservation and (agents.id is null and scope <> :installation
    or (usd <= coalesce(budget_usd_per_day, usd_per_day)
      and calls <= coalesce(budget_calls_per_day, calls_per_day)) is false)
)
"""
"""Whether a cap does not allow what CHANGE_CTES has reserved, or the agent does not exist. Then call `roll_back()`."""

# A join, not a subquery: then the installation's row is locked after the agent's, and updated from its current version.
SETTLE_CTES: Final = """
of_agent as (
  update budget_days
  set spent_usd = spent_usd + :spent_usd, spent_calls = spent_calls + :spent_calls,
    reserved_usd = reserved_usd - :held_usd, reserved_calls = reserved_calls - :held_calls
  from closed where scope = :agent and day = :day
  returning day
),
of_installation as (
  update budget_days
  set spent_usd = spent_usd + :spent_usd, spent_calls = spent_calls + :spent_calls,
    reserved_usd = reserved_usd - :held_usd, reserved_calls = reserved_calls - :held_calls
  from of_agent where budget_days.scope = :installation and budget_days.day = of_agent.day
  returning 1
)
"""
"""CTEs that settle a reservation for the agent and then the installation, if the CTE `closed` has a row."""


INSTALLATION: Final = UUID(int=0)
"""The budget scope of the whole installation."""

Change = Mapping[str, Any]
"""A change of the budgets of an agent and of the installation on one day; today if `day` is None."""
SettleParams = Mapping[str, Any]
"""Parameters of SETTLE_CTES: the attempt that is over and its cost."""

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


@dataclass(frozen=True)
class Reserved:
    """The reserved amount and number of calls of one day."""

    usd: Decimal = _ZERO
    calls: int = 0

    def plus_call(self, usd: Decimal) -> "Reserved":
        return Reserved(self.usd + usd, self.calls + 1)


async def reserve(
    session: Executor,
    agent_id: UUID,
    max_costs: Mapping[UUID, Decimal],
    *,
    day: date | None = None,
) -> Sequence[Attempt] | None:
    """Reserves the maximum cost (USD) of one attempt of each call, for all or none. None if a cap does not allow it.

    The calls must have no reservation (see `write_off_call`). `day` defaults to the database's current day in UTC.
    """
    changes = [reservation(agent_id, usd, day) for usd in max_costs.values()]
    params = {
        **change_params(changes),
        "day": day,
        "ids": list(max_costs),
        "max_costs": list(max_costs.values()),
    }
    rows = await attempt_query(session, BoundQuery(_RESERVE, params, list))
    if rows is None:
        return None
    return [Attempt(row.id, agent_id, row.attempts, row.day, max_costs[row.id]) for row in rows]


def reservation(agent_id: UUID, usd: Decimal, day: date | None = None) -> Change:
    """The change that reserves the maximum cost of one attempt."""
    return {
        "agent": agent_id,
        "day": day,
        "spent_usd": 0,
        "spent_calls": 0,
        "reserved_usd": usd,
        "reserved_calls": 1,
    }


def settlement(closing: SettleParams) -> Change:
    """The change that settles or releases an attempt."""
    return {
        **closing,
        "reserved_usd": -closing["held_usd"],
        "reserved_calls": -closing["held_calls"],
    }


def change_params(changes: Sequence[Change]) -> Mapping[str, Any]:
    """Returns the parameters of CHANGE_CTES."""
    columns = ("agent", "day", "spent_usd", "spent_calls", "reserved_usd", "reserved_calls")
    rows = [{column: change[column] for column in columns} for change in changes]
    return {"installation": INSTALLATION, "changes": json_text(rows)}


async def settle(session: Executor, attempt: Attempt, cost_usd: Decimal | None) -> None:
    """Books an answered call as spent: its cost, or the reserved maximum if the cost is unknown (None).

    Does nothing if the attempt was settled or written off before.
    """
    await close(session, settled_params(attempt, cost_usd))


async def release(session: Executor, attempt: Attempt) -> None:
    """Releases the reservation of a call that certainly was not billed."""
    await close(session, released_params(attempt))


async def close(session: Executor, closing: SettleParams) -> None:
    """Settles or releases an attempt; see `settled_params` and `released_params`."""
    await settle_query(closing).answer(session)


def settle_query(closing: SettleParams) -> BoundQuery[bool]:
    """Returns the query of `close`. Its result is whether the attempt was still open."""
    return BoundQuery(_SETTLE, closing, bool)


def settled_params(attempt: Attempt, cost_usd: Decimal | None) -> SettleParams:
    """Returns the parameters of SETTLE_CTES for an answered call; see `settle`."""
    assumed = attempt.max_cost_usd if cost_usd is None else _ZERO
    cost = attempt.max_cost_usd if cost_usd is None else cost_usd
    return _settle_params(attempt, spent_usd=cost, spent_calls=1, assumed_usd=assumed)


def failed_params(attempt: Attempt, cost_usd: Decimal | None) -> SettleParams:
    """Returns the parameters of SETTLE_CTES for an unusable answer.

    Books its cost as spent, or the reserved maximum if the cost is unknown (None).
    """
    cost = attempt.max_cost_usd if cost_usd is None else cost_usd
    return _settle_params(attempt, spent_usd=cost, spent_calls=1, assumed_usd=cost)


def released_params(attempt: Attempt) -> SettleParams:
    """Returns the parameters of SETTLE_CTES for a call that was not billed; see `release`."""
    return _settle_params(attempt, spent_usd=_ZERO, spent_calls=0, assumed_usd=_ZERO)


async def write_off_call(session: Executor, call_id: UUID) -> None:
    """Books the reserved maximum of a call as spent, because its actual cost may never be known."""
    await spend(
        session,
        await BoundQuery(_WRITE_OFF_CALL, {"which": call_id, STRICT: False}, list).answer(session),
    )


async def write_off_step(session: Executor, step_id: UUID) -> None:
    """Does the same for every call of a step that has ended, so that nothing stays reserved for it."""
    await spend(session, await step_write_off(step_id).answer(session))


def step_write_off(step_id: UUID) -> BoundQuery[Sequence[Row]]:
    """Closes the reservations of a step's calls. `spend` books the rows that it returns."""
    return BoundQuery(_WRITE_OFF_STEP, {"which": step_id, STRICT: False}, list)


async def spend(session: Executor, written_off: Sequence[Row]) -> None:
    """Books the reservations that were written off as spent."""
    reserved: defaultdict[tuple[date, UUID], Reserved] = defaultdict(Reserved)
    for row in written_off:
        reserved[row.day, row.agent_id] = reserved[row.day, row.agent_id].plus_call(row.usd)
    for (day, agent_id), amount in sorted(reserved.items()):
        for scope in (agent_id, INSTALLATION):
            await _spend_reserved(session, scope, day, amount)


async def load_reserved(session: AsyncSession, agent_id: UUID) -> Mapping[date, Reserved]:
    """Returns what is reserved for an agent, by day. No worker may be working on its steps."""
    rows = await session.execute(_SELECT_RESERVED, {"agent": agent_id})
    return {row.day: Reserved(row.usd, row.calls) for row in rows}


async def forget_agent(
    session: AsyncSession, agent_id: UUID, reserved: Mapping[date, Reserved]
) -> None:
    """Deletes the budget rows of a deleted agent. Books what was reserved for it as spent by the installation."""
    await session.execute(_DELETE_DAYS, {"agent": agent_id})
    for day, amount in sorted(reserved.items()):
        await _spend_reserved(session, INSTALLATION, day, amount)


def _settle_params(
    attempt: Attempt, *, spent_usd: Decimal, spent_calls: int, assumed_usd: Decimal
) -> SettleParams:
    return {
        "call": attempt.call_id,
        "number": attempt.number,
        "agent": attempt.agent_id,
        "installation": INSTALLATION,
        "day": attempt.day,
        "held_usd": attempt.max_cost_usd,
        "held_calls": 1,
        "spent_usd": spent_usd,
        "spent_calls": spent_calls,
        "assumed_usd": assumed_usd,
    }


async def _spend_reserved(session: Executor, scope: UUID, day: date, reserved: Reserved) -> None:
    params = {"scope": scope, "day": day, "usd": reserved.usd, "calls": reserved.calls}
    await _SPEND_RESERVED.run(session, params)


_RESERVE: Final = CompiledStatement(f"""
with sent as (
  update calls
  set attempts = calls.attempts + 1, reserved_usd = wanted.usd,
    reserved_on = coalesce(cast(:day as date), {TODAY}), sent_at = clock_timestamp(),
    received_chars = null, progressed_at = null
  from unnest(cast(:ids as uuid[]), cast(:max_costs as numeric[])) as wanted (id, usd)
  where calls.id = wanted.id
  returning calls.id, calls.attempts, calls.reserved_on as day
),
{CHANGE_CTES}
select id, attempts, day,
  case when {IS_EXCEEDED} or (select count(*) from sent) < cardinality(cast(:ids as uuid[]))
    then roll_back() end
from (values (1)) as once left join sent on true
""")

_SETTLE: Final = CompiledStatement(f"""
with closed as (
  update calls
  set reserved_usd = null, reserved_on = null, assumed_usd = assumed_usd + :assumed_usd
  where id = :call and attempts = :number and {IS_RESERVED}
  returning id
),
{SETTLE_CTES}
select id from closed
""")

_SPEND_RESERVED: Final = CompiledStatement("""
update budget_days
set spent_usd = spent_usd + :usd, spent_calls = spent_calls + :calls,
  reserved_usd = reserved_usd - :usd, reserved_calls = reserved_calls - :calls
where scope = :scope and day = :day
""")


def _write_off_query(column: str) -> CompiledStatement:
    return CompiledStatement(f"""
with held as (
  select id, agent_id, reserved_on, reserved_usd from calls
  where {column} = :which and reserved_on is not null
  for update
),
closed as (
  update calls
  set assumed_usd = calls.assumed_usd + held.reserved_usd, reserved_usd = null, reserved_on = null
  from held where calls.id = held.id
  returning held.agent_id, held.reserved_on as day, held.reserved_usd as usd
)
select agent_id, day, usd, case when :strict then roll_back() end from closed
""")


_WRITE_OFF_CALL: Final = _write_off_query("id")
_WRITE_OFF_STEP: Final = _write_off_query("step_id")

_SELECT_RESERVED: Final = text("""
select reserved_on as day, sum(reserved_usd) as usd, count(*) as calls from calls
where agent_id = :agent and reserved_on is not null group by reserved_on
""")

_DELETE_DAYS: Final = text("delete from budget_days where scope = :agent")
