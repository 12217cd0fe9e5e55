"""Reservations: what a call can cost is reserved before it is sent, and settled by its answer.

Every transaction locks the rows of its agent before those of the installation and an older day's before a newer one's,
which is how nobody deadlocks; and it does so last, because everybody who pays waits for the installation's.
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

from shared.database.statements import Asked, Direct, Row

# Limited to the one row that there is: PostgreSQL takes the table to have 1,510, of which it makes so many calls that a
# plan for any values always looks dearer than one for these, and plans anew each time.
_BUDGET: Final = """
  select agents.id, agents.budget_usd_per_day as usd, agents.budget_calls_per_day as calls,
    whole.usd_per_day as whole_usd, whole.calls_per_day as whole_calls,
    coalesce(cast(:day as date), cast(statement_timestamp() at time zone 'UTC' as date)) as day
  from agents left join (select * from installation_budget limit 1) as whole on true
  where agents.id = :agent
"""

RESERVING: Final = """
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
"""What `wanted` says, on the agent's day and the installation's, where `budget` has a row (see `budget_where`)."""


def budget_where(further: str) -> str:
    """The budget that RESERVING keeps to, where `further` holds too; otherwise nothing is reserved."""
    return f"budget as ({_BUDGET} and {further} limit 1)"


# Joined and not looked up in a subquery: so the installation's row waits for the agent's, and is counted on as it is
# when its turn has come.
SETTLING: Final = """
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
"""What becomes of the days, of the agent and then of the installation, where `closed` has a row."""


INSTALLATION: Final = UUID(int=0)
"""The scope of the whole installation."""

Wanted = Mapping[str, Any]
"""What is to be reserved, and for which calls."""
Closing = Mapping[str, Any]
"""Which sending is over, and what it has cost."""

_NOTHING: Final = Decimal(0)


@dataclass(frozen=True)
class Sending:
    """One sending of a call, with what is reserved for it: `bound_usd`, and one call, on `day`."""

    call_id: UUID
    agent_id: UUID
    number: int
    """The call's `sendings`: what a later one has taken the place of is settled already."""
    day: date
    bound_usd: Decimal


@dataclass(frozen=True)
class Held:
    """What is reserved on one day."""

    usd: Decimal = _NOTHING
    calls: int = 0

    def with_one(self, usd: Decimal) -> "Held":
        return Held(self.usd + usd, self.calls + 1)


async def reserve(
    session: AsyncSession,
    agent_id: UUID,
    bounds: Mapping[UUID, Decimal],
    *,
    day: date | None = None,
) -> Sequence[Sending] | None:
    """Reserves what sending each of these calls once can cost (USD), all or none; None where a cap is in the way.

    Nothing may be reserved for them: see `presume_call`. `day` is the database's, in UTC, unless it is given.
    """
    given = wanted(agent_id, bounds, day)
    rows = await _RESERVE.rows(session, given)
    on = await reserved_on(session, given, rows[0])
    if on is None:
        return None
    return [Sending(row.id, agent_id, row.sendings, on, bounds[row.id]) for row in rows]


def wanted(agent_id: UUID, bounds: Mapping[UUID, Decimal], day: date | None = None) -> Wanted:
    """What `days.RESERVING` is given."""
    return {
        "agent": agent_id,
        "installation": INSTALLATION,
        "day": day,
        "usd": sum(bounds.values(), _NOTHING),
        "calls": len(bounds),
        "ids": list(bounds),
        "bounds": list(bounds.values()),
    }


async def reserved_on(session: AsyncSession, given: Wanted, found: Row) -> date | None:
    """The day, by the first row of what `days.RESERVING` has written; None where a cap is in the way.

    What only the installation refuses the agent is given back.
    """
    of_agent: date | None = found.agent_day
    of_installation: date | None = found.installation_day
    if of_agent is not None and of_installation is None:
        await session.execute(_GIVE_BACK, {**given, "day": of_agent})
    return of_installation


async def settle(session: AsyncSession, sending: Sending, cost_usd: Decimal | None) -> None:
    """The call was answered: what it has cost is spent, or where that is not known (None) the most that it can have.

    Does nothing where the sending was settled, or presumed, before.
    """
    await close(session, settled(sending, cost_usd))


async def release(session: AsyncSession, sending: Sending) -> None:
    """The call was certainly not billed."""
    await close(session, released(sending))


async def close(session: AsyncSession, given: Closing) -> None:
    """As `settled` or `released` say."""
    await closed(given).answer(session)


def closed(given: Closing) -> Asked[bool]:
    """The same; whether it was to be done still."""
    return Asked(_CLOSE, given, bool)


def settled(sending: Sending, cost_usd: Decimal | None) -> Closing:
    """What `days.SETTLING` is given: see `settle`."""
    presumed = sending.bound_usd if cost_usd is None else _NOTHING
    spent = sending.bound_usd if cost_usd is None else cost_usd
    return _closing(sending, spent_usd=spent, spent_calls=1, presumed_usd=presumed)


def failed(sending: Sending, cost_usd: Decimal | None) -> Closing:
    """What `days.SETTLING` is given: the call was answered, and the answer is not usable. What it cost is spent, or the most
    that it can have cost (None).
    """
    spent = sending.bound_usd if cost_usd is None else cost_usd
    return _closing(sending, spent_usd=spent, spent_calls=1, presumed_usd=spent)


def released(sending: Sending) -> Closing:
    """What `days.SETTLING` is given: see `release`."""
    return _closing(sending, spent_usd=_NOTHING, spent_calls=0, presumed_usd=_NOTHING)


async def presume_call(session: AsyncSession, call_id: UUID) -> None:
    """Whoever sent this call may never learn what it has cost: the most that it can have counts as spent."""
    await _presume(session, _OF_CALL, call_id)


async def presume_step(session: AsyncSession, step_id: UUID) -> None:
    """The same for every call of a step that has ended: it leaves nothing reserved behind."""
    await _presume(session, _OF_STEP, step_id)


async def held_of(session: AsyncSession, agent_id: UUID) -> Mapping[date, Held]:
    """What is reserved for an agent, by day. Nobody may be at work on its steps."""
    rows = await session.execute(_HELD, {"agent": agent_id})
    return {row.day: Held(row.usd, row.calls) for row in rows}


async def forget(session: AsyncSession, agent_id: UUID, held: Mapping[date, Held]) -> None:
    """The agent is gone, and its days with it; what was reserved for it the installation has spent."""
    await session.execute(_FORGET, {"agent": agent_id})
    for day, amount in sorted(held.items()):
        await _spend_held(session, INSTALLATION, day, amount)


def _closing(
    sending: Sending, *, spent_usd: Decimal, spent_calls: int, presumed_usd: Decimal
) -> Closing:
    return {
        "call": sending.call_id,
        "number": sending.number,
        "agent": sending.agent_id,
        "installation": INSTALLATION,
        "day": sending.day,
        "held_usd": sending.bound_usd,
        "held_calls": 1,
        "spent_usd": spent_usd,
        "spent_calls": spent_calls,
        "presumed_usd": presumed_usd,
    }


async def _presume(session: AsyncSession, statement: Direct, which: UUID) -> None:
    held: defaultdict[tuple[date, UUID], Held] = defaultdict(Held)
    for row in await statement.rows(session, {"which": which}):
        held[row.day, row.agent_id] = held[row.day, row.agent_id].with_one(row.usd)
    for (day, agent_id), amount in sorted(held.items()):
        for scope in (agent_id, INSTALLATION):
            await _spend_held(session, scope, day, amount)


async def _spend_held(session: AsyncSession, scope: UUID, day: date, held: Held) -> None:
    given = {"scope": scope, "day": day, "usd": held.usd, "calls": held.calls}
    await session.execute(_SPEND_HELD, given)


_RESERVE: Final = Direct(f"""
with {budget_where("true")},
{RESERVING},
sent as (
  update calls
  set sendings = calls.sendings + 1, reserved_usd = wanted.usd, reserved_on = of_installation.day,
    sent_at = clock_timestamp(), received_chars = null, progressed_at = null
  from of_installation,
    unnest(cast(:ids as uuid[]), cast(:bounds as numeric[])) as wanted (id, usd)
  where calls.id = wanted.id
  returning calls.id, calls.sendings
)
select of_agent.day as agent_day, of_installation.day as installation_day, sent.id, sent.sendings
from (values (1)) as one
left join of_agent on true left join of_installation on true left join sent on true
""")

_GIVE_BACK: Final = text("""
update budget_days
set reserved_usd = reserved_usd - :usd, reserved_calls = reserved_calls - :calls
where scope = :agent and day = :day
""")

_CLOSE: Final = Direct(f"""
with closed as (
  update calls
  set reserved_usd = null, reserved_on = null, presumed_usd = presumed_usd + :presumed_usd
  where id = :call and sendings = :number and reserved_on is not null
  returning id
),
{SETTLING}
select id from closed
""")

_SPEND_HELD: Final = text("""
update budget_days
set spent_usd = spent_usd + :usd, spent_calls = spent_calls + :calls,
  reserved_usd = reserved_usd - :usd, reserved_calls = reserved_calls - :calls
where scope = :scope and day = :day
""")


def _presuming(which: str) -> Direct:
    return Direct(f"""
with held as (
  select id, agent_id, reserved_on, reserved_usd from calls
  where {which} = :which and reserved_on is not null
  for update
)
update calls
set presumed_usd = calls.presumed_usd + held.reserved_usd, reserved_usd = null, reserved_on = null
from held where calls.id = held.id
returning held.agent_id, held.reserved_on as day, held.reserved_usd as usd
""")


_OF_CALL: Final = _presuming("id")
_OF_STEP: Final = _presuming("step_id")

_HELD: Final = text("""
select reserved_on as day, sum(reserved_usd) as usd, count(*) as calls from calls
where agent_id = :agent and reserved_on is not null group by reserved_on
""")

_FORGET: Final = text("delete from budget_days where scope = :agent")
