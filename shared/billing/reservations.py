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

from shared.database.statements import STRICT, BoundQuery, CompiledStatement, Executor, Row

# The limit tells PostgreSQL that the table has one row. Otherwise it assumes 1,510, finds the generic plan too expensive
# and plans the statement again for every execution.
_BUDGET: Final = """
  select agents.id, agents.budget_usd_per_day as usd, agents.budget_calls_per_day as calls,
    whole.usd_per_day as whole_usd, whole.calls_per_day as whole_calls,
    coalesce(cast(:day as date), cast(statement_timestamp() at time zone 'UTC' as date)) as day
  from agents left join (select * from installation_budget limit 1) as whole on true
  where agents.id = :agent
"""

RESERVE_CTES: Final = """
of_agent as (
  insert into budget_days as kept (scope, day, reserved_usd, reserved_calls)
  select id, day, cast(:usd as numeric), cast(:calls as integer) from budget
  where (:usd <= usd) is not false and (:calls <= calls) is not false
  on conflict (scope, day) do update
  set reserved_usd = kept.reserved_usd + excluded.reserved_usd,
    reserved_calls = kept.reserved_calls + excluded.reserved_calls
  where (kept.spent_usd + kept.reserved_usd + excluded.reserved_usd
      <= (select usd from budget)) is not false
    and (kept.spent_calls + kept.reserved_calls + excluded.reserved_calls
      <= (select calls from budget)) is not false
  returning kept.day
),
of_installation as (
  insert into budget_days as kept (scope, day, reserved_usd, reserved_calls)
  select :installation, of_agent.day, cast(:usd as numeric), cast(:calls as integer)
  from of_agent, budget
  where (:usd <= whole_usd) is not false and (:calls <= whole_calls) is not false
  on conflict (scope, day) do update
  set reserved_usd = kept.reserved_usd + excluded.reserved_usd,
    reserved_calls = kept.reserved_calls + excluded.reserved_calls
  where (kept.spent_usd + kept.reserved_usd + excluded.reserved_usd
      <= (select whole_usd from budget)) is not false
    and (kept.spent_calls + kept.reserved_calls + excluded.reserved_calls
      <= (select whole_calls from budget)) is not false
  returning kept.day
)
"""
"""CTEs that reserve `reservation_params` for the agent and the installation, if `budget` has a row (see `budget_cte`)."""


def budget_cte(further: str) -> str:
    """Returns the CTE with the caps for RESERVE_CTES. Nothing is reserved unless the SQL condition `further` holds."""
    return f"budget as ({_BUDGET} and {further} limit 1)"


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

ReserveParams = Mapping[str, Any]
"""Parameters of RESERVE_CTES: the amounts and calls to reserve for."""
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
    params = reservation_params(agent_id, max_costs, day)
    rows = await _RESERVE.rows(session, params)
    reserved_day = await check_reserved(session, params, rows[0])
    if reserved_day is None:
        return None
    return [
        Attempt(row.id, agent_id, row.attempts, reserved_day, max_costs[row.id]) for row in rows
    ]


def reservation_params(
    agent_id: UUID, max_costs: Mapping[UUID, Decimal], day: date | None = None
) -> ReserveParams:
    """Returns the parameters of RESERVE_CTES."""
    return {
        "agent": agent_id,
        "installation": INSTALLATION,
        "day": day,
        "usd": sum(max_costs.values(), _ZERO),
        "calls": len(max_costs),
        "ids": list(max_costs),
        "bounds": list(max_costs.values()),
    }


async def check_reserved(session: Executor, params: ReserveParams, row: Row) -> date | None:
    """Returns the day of the reservation from the first result row of RESERVE_CTES; None if a cap did not allow it.

    If only the installation's cap did not allow it, releases what was reserved for the agent.
    """
    agent_day: date | None = row.agent_day
    installation_day: date | None = row.installation_day
    if agent_day is not None and installation_day is None:
        await _UNDO_AGENT_RESERVATION.run(session, {**params, "day": agent_day})
    return installation_day


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
with {budget_cte("true")},
{RESERVE_CTES},
sent as (
  update calls
  set attempts = calls.attempts + 1, reserved_usd = wanted.usd, reserved_on = of_installation.day,
    sent_at = clock_timestamp(), received_chars = null, progressed_at = null
  from of_installation,
    unnest(cast(:ids as uuid[]), cast(:bounds as numeric[])) as wanted (id, usd)
  where calls.id = wanted.id
  returning calls.id, calls.attempts
)
select of_agent.day as agent_day, of_installation.day as installation_day, sent.id, sent.attempts
from (values (1)) as one
left join of_agent on true left join of_installation on true left join sent on true
""")

_UNDO_AGENT_RESERVATION: Final = CompiledStatement("""
update budget_days
set reserved_usd = reserved_usd - :usd, reserved_calls = reserved_calls - :calls
where scope = :agent and day = :day
""")

_SETTLE: Final = CompiledStatement(f"""
with closed as (
  update calls
  set reserved_usd = null, reserved_on = null, assumed_usd = assumed_usd + :assumed_usd
  where id = :call and attempts = :number and reserved_on is not null
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
