"""Budgets: daily caps, their remaining amounts, and the suspension of agents whose budget is used up."""

import json
from calendar import monthrange
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Final
from uuid import UUID

from shared.billing.reservations import INSTALLATION, TODAY
from shared.database import ids
from shared.database.statements import BoundQuery, CompiledStatement
from shared.database.transaction import Transaction
from shared.enums import InboxKind, Phase, StepStatus
from shared.errors import PermanentError, RetrySoonError


class Scope(StrEnum):
    """Whether a cap applies to one agent or to the whole installation."""

    AGENT = "agent"
    INSTALLATION = "installation"


class Unit(StrEnum):
    USD = "usd"
    CALLS = "calls"


@dataclass(frozen=True)
class CapUsage:
    """A cap (None: no cap), with what is spent and reserved on one day."""

    cap: Decimal | None
    spent: Decimal = Decimal(0)
    reserved: Decimal = Decimal(0)

    @property
    def left(self) -> Decimal | None:
        """What can still be reserved. Never negative, even if the cap was lowered below what is spent."""
        if self.cap is None:
            return None
        return max(self.cap - self.spent - self.reserved, Decimal(0))

    def allows(self, amount: Decimal) -> bool:
        return self.cap is None or self.spent + self.reserved + amount <= self.cap

    def could_allow(self, amount: Decimal) -> bool:
        """Whether the cap would allow `amount` if everything that is reserved turned out to cost nothing."""
        return self.cap is None or self.spent + amount <= self.cap


@dataclass(frozen=True)
class BudgetStatus:
    """Usage of the USD and call caps of an agent, or of the installation, on one day."""

    usd: CapUsage
    calls: CapUsage

    def of(self, unit: Unit) -> CapUsage:
        return self.usd if unit is Unit.USD else self.calls


@dataclass(frozen=True)
class ExceededCap:
    """The cap that does not allow a call that can cost up to `max_cost`."""

    scope: Scope
    unit: Unit
    usage: CapUsage
    max_cost: Decimal
    day: date

    @property
    def is_temporary(self) -> bool:
        """Whether the call may be allowed once other calls are settled; otherwise only on the next day."""
        return self.usage.could_allow(self.max_cost)

    @property
    def cause(self) -> str:
        """Identifier of the exceeded cap."""
        return f"{self.scope}-{self.unit}"


def find_exceeded_cap(
    agent: BudgetStatus, installation: BudgetStatus, *, usd: Decimal, calls: int, day: date
) -> ExceededCap | None:
    """Returns the cap that does not allow `calls` calls of up to `usd` in total; None if all caps allow them.

    Of several, prefers one that stays exceeded until the end of the day.
    """
    costs = {Unit.USD: usd, Unit.CALLS: Decimal(calls)}

    def exceeded_caps() -> Iterator[ExceededCap]:
        for scope, status in ((Scope.AGENT, agent), (Scope.INSTALLATION, installation)):
            for unit, amount in costs.items():
                if not status.of(unit).allows(amount):
                    yield ExceededCap(scope, unit, status.of(unit), amount, day)

    return min(exceeded_caps(), key=lambda exceeded: exceeded.is_temporary, default=None)


def end_of_day(day: date) -> datetime:
    """Returns the midnight (UTC) at which `day` ends."""
    return datetime.combine(day + timedelta(days=1), time(), UTC)


@dataclass(frozen=True)
class Caps:
    """Daily caps. None: no cap."""

    usd_per_day: Decimal | None = None
    calls_per_day: int | None = None


async def today(transaction: Transaction) -> date:
    """Returns the current day (UTC) by the database's clock."""
    day: date = await _TODAY.value(transaction)
    return day


async def load_status(transaction: Transaction, scope: UUID, day: date) -> BudgetStatus:
    """Status of the agent with the id `scope`, or of the INSTALLATION."""
    row = await _STATUS.row(transaction, {"of_scope": scope, "of_day": day})
    usd, calls = (
        CapUsage(None if cap is None else Decimal(cap), Decimal(spent), Decimal(reserved))
        for cap, spent, reserved in (row[:3], row[3:])
    )
    return BudgetStatus(usd, calls)


async def check_caps(
    transaction: Transaction, agent_id: UUID, usd: Decimal, *, day: date | None = None
) -> ExceededCap | None:
    """Returns the cap that does not allow a call of up to `usd` now; None if it is allowed."""
    day = day or await today(transaction)
    agent = await load_status(transaction, agent_id, day)
    installation = await load_status(transaction, INSTALLATION, day)
    return find_exceeded_cap(agent, installation, usd=usd, calls=1, day=day)


async def allows_in_phase(
    transaction: Transaction,
    agent_id: UUID,
    phase: Phase,
    cap_usd: Decimal,
    *,
    call_id: UUID,
    max_cost_usd: Decimal,
) -> bool:
    """Whether a daily cap of one phase of an agent allows this call, or it is answered already.

    Counts the calls that were opened today (UTC), with earlier attempts of this one. Takes a lock until the transaction
    ends, so that what it allows is reserved before another call is judged. The caps of the agent and the installation apply
    besides.
    """
    await _LOCK_PHASE.run(transaction, {"name": f"budget {phase} {agent_id}"})
    params = {
        "of_agent": agent_id,
        "of_phase": phase,
        "of_call": call_id,
        "cap": cap_usd,
        "max_cost": max_cost_usd,
    }
    return bool(await _ALLOWS_IN_PHASE.value(transaction, params))


_TODAY: Final = CompiledStatement(f"select {TODAY}")
_LOCK_PHASE: Final = CompiledStatement(
    "select pg_advisory_xact_lock(hashtextextended(cast(:name as text), 0))"
)
_ALLOWS_IN_PHASE: Final = CompiledStatement("""
select exists (select from calls where id = :of_call and answered_at is not null)
  or coalesce(sum(coalesce(cost_usd, 0) + assumed_usd
      -- A call that is resumed by its reference needs no other reservation.
      + case when id = :of_call and provider_ref is not null then 0 else coalesce(reserved_usd, 0) end), 0)
    + cast(:max_cost as numeric) <= cast(:cap as numeric)
from calls
where agent_id = :of_agent and phase = :of_phase
  and started_at >= date_trunc('day', statement_timestamp() at time zone 'UTC') at time zone 'UTC'
""")


def _running_sql(day: str, condition: str) -> str:
    """SQL that sums the spending of open steps on `day`. Until they end, `budget_days` has it as reserved."""
    return f"""
  select coalesce(sum(spent_usd), 0) as usd, coalesce(sum(spent_calls), 0) as calls from steps
  where status in ('{StepStatus.PENDING}', '{StepStatus.RUNNING}') and reserved_on = {day} and {condition}"""


def spent_today_sql(agent: str) -> str:
    """A query of one row with what an agent has spent today (UTC): `usd` and `calls`. `agent` is an expression of its id."""
    return f"""
select coalesce(spent_usd, 0) + running.usd as usd, coalesce(spent_calls, 0) + running.calls as calls
from ({_running_sql(TODAY, f"agent_id = {agent}")}) as running
left join budget_days on scope = {agent} and day = {TODAY}"""


_STATUS: Final = CompiledStatement(f"""
select usd_per_day, coalesce(spent_usd, 0) + running.usd, coalesce(reserved_usd, 0) - running.usd,
  calls_per_day, coalesce(spent_calls, 0) + running.calls, coalesce(reserved_calls, 0) - running.calls
from ({_running_sql(":of_day", f"(agent_id = :of_scope or :of_scope = '{INSTALLATION}')")}) as running
left join (
  select budget_usd_per_day as usd_per_day, budget_calls_per_day as calls_per_day
  from agents where id = :of_scope
  union all
  select usd_per_day, calls_per_day from installation_budget where :of_scope = '{INSTALLATION}'
) as caps on true
left join budget_days on scope = :of_scope and day = :of_day
""")

_SHOWN: Final = Decimal("0.0001")


def format_amount(value: Decimal, unit: Unit) -> str:
    """Formats an amount: `1.5 USD`, `20 calls`. Rounds to a hundredth of a cent."""
    if unit is Unit.CALLS:
        return f"{value:.0f} {'call' if value == 1 else 'calls'}"
    return f"{_plain(value)} USD"


# PostgreSQL refuses a service that reads the web other notices than these: see `notice_is_known` in the migrations.
def notice_title(name: str, exceeded: ExceededCap) -> str:
    owner = "its" if exceeded.scope is Scope.AGENT else "the installation's"
    cap = format_amount(_cap(exceeded), exceeded.unit)
    return f"{name} is suspended until tomorrow: {owner} daily budget of {cap} is reached"


SUSPENSION_WORDS: Final = "until midnight (UTC)"
"""In every error of a step that a daily budget stopped; in no other."""


def explain_exceeded_cap(exceeded: ExceededCap) -> str:
    """Explains which budget is used up and what to do."""
    owner = (
        "the daily budget of the agent"
        if exceeded.scope is Scope.AGENT
        else "the installation's daily budget"
    )
    cap = format_amount(_cap(exceeded), exceeded.unit)
    if exceeded.unit is Unit.USD:
        next_call = format_amount(exceeded.max_cost, exceeded.unit)
        spent = f"{_plain(exceeded.usage.spent)} of {cap} is spent, and the next call could cost {next_call}"
    else:
        spent = f"{exceeded.usage.spent:.0f} of {cap} {'is' if cap == '1 call' else 'are'} used"
    option = "--usd" if exceeded.unit is Unit.USD else "--calls"
    raised = "AGENT" if exceeded.scope is Scope.AGENT else "--installation"
    return (
        f"{owner} for {exceeded.day} is reached: {spent}. The agent is suspended {SUSPENSION_WORDS}; a"
        f" higher budget (`vigil budget {raised} {option} …`) resumes it immediately"
    )


def _cap(exceeded: ExceededCap) -> Decimal:
    assert exceeded.usage.cap is not None, "without a cap nothing can be exceeded"
    return exceeded.usage.cap


def _plain(value: Decimal) -> str:
    """Formats without an exponent and without trailing zeros."""
    rounded = f"{value.quantize(_SHOWN):f}"
    return rounded.rstrip("0").rstrip(".")


ERROR_CODE: Final = "budget"
RETRY_SECONDS: Final = 1.0
"""Delay of the retry if the budget is only reserved by other calls and may be free again once they are settled."""

# Any fixed number. Suspending an agent takes this advisory lock in shared mode and changing a cap in exclusive mode, so
# that a cap that was raised meanwhile suspends no agent.
_CAPS_LOCK: Final = 0x7669_6275
_SHARE_CAPS_LOCK: Final = CompiledStatement(f"select pg_advisory_xact_lock_shared({_CAPS_LOCK})")
_LOCK_CAPS: Final = CompiledStatement(f"select pg_advisory_xact_lock({_CAPS_LOCK})")


class BudgetUsedUpError(PermanentError):
    """A cap does not allow a call, which was not sent. The agent is suspended, and retrying the step does not help."""

    def __init__(self, message: str) -> None:
        super().__init__(ERROR_CODE, message)


async def suspend_or_retry(
    transaction: Transaction, agent_id: UUID, usd: Decimal, *, day: date | None = None
) -> BudgetUsedUpError | RetrySoonError:
    """Returns the error to raise, once `transaction` is committed, for a call of up to `usd` that no cap allowed.

    BudgetUsedUpError if the budget is used up for the day. Then the agent is suspended until the day ends, and its owner
    gets a notice. RetrySoonError if the call may be allowed soon.
    """
    await _SHARE_CAPS_LOCK.run(transaction)
    day = day or await today(transaction)
    exceeded = await check_caps(transaction, agent_id, usd, day=day)
    if exceeded is None or exceeded.is_temporary:
        return RetrySoonError(
            "running calls may use up the rest of the budget, so no other call can start now",
            retry_in_seconds=RETRY_SECONDS,
        )
    await _suspend(transaction, agent_id, exceeded)
    return BudgetUsedUpError(explain_exceeded_cap(exceeded))


async def lock_caps(transaction: Transaction) -> None:
    """Locks the caps before a change. No agent is suspended until the transaction ends."""
    await _LOCK_CAPS.run(transaction)


async def resume_agents(transaction: Transaction, agent_id: UUID | None = None) -> None:
    """Resumes the suspended agent, or all of them, if its own and the installation's budget have something left today."""
    await _RESUME.run(transaction, {"of_agent": agent_id, "of_day": await today(transaction)})


_SUSPEND: Final = CompiledStatement(
    "update agents set suspended_until = :until where id = :of_agent returning owner_id, name"
)
# Without a conflict target: naming one would need the right to read the inbox.
_NOTE_SUSPENSION: Final = CompiledStatement(f"""
insert into inbox_items (id, owner_id, agent_id, kind, title, summary)
values (:id, :owner_id, :agent_id, '{InboxKind.NOTICE}', :title, :summary)
on conflict do nothing
""")


async def _suspend(transaction: Transaction, agent_id: UUID, exceeded: ExceededCap) -> None:
    params = {"of_agent": agent_id, "until": end_of_day(exceeded.day)}
    for owner_id, name in await _SUSPEND.rows(transaction, params):
        notice = {
            "id": ids.notice_id(agent_id, exceeded.cause, exceeded.day),
            "owner_id": owner_id,
            "agent_id": agent_id,
            "title": notice_title(name, exceeded),
            "summary": explain_exceeded_cap(exceeded),
        }
        await _NOTE_SUSPENSION.run(transaction, notice)


NOTED_SHARES: Final[Mapping[str, Sequence[int]]] = {"day": (50, 80), "month": (50, 80, 100)}
"""Percentages of an agent's budget at which its owner gets a notice. At 100 % of the day the agent is suspended, which has a
notice of its own. The budget of a month is that of its days.
"""
_NOTE_SPENDING: Final = CompiledStatement(f"""
insert into inbox_items (id, owner_id, agent_id, kind, title, summary)
select distinct on (note.period) note.id, agents.owner_id, agents.id, '{InboxKind.NOTICE}',
  agents.name || ' has spent ' || note.percent || ' % of its '
    || case note.period when 'day' then 'daily' else 'monthly' end || ' budget',
  round(used.usd, 2) || ' of ' || trim_scale(round(cap.usd, 2)) || ' USD is spent. '
    || 'An agent whose daily budget is reached is suspended until midnight (UTC). `vigil costs` shows what it was spent on; '
    || '`vigil budget` changes it.'
from jsonb_to_recordset(cast(:notes as jsonb)) as note (id uuid, period text, percent integer, since date, days integer)
join agents on agents.id = :of_agent
cross join lateral (select agents.budget_usd_per_day * note.days as usd) as cap
cross join lateral (
  select coalesce(sum(spent_usd), 0) as usd from budget_days
  where scope = agents.id and day between note.since and :today
) as used
where cap.usd > 0 and used.usd * 100 >= cap.usd * note.percent
order by note.period, note.percent desc
on conflict do nothing
""")


def spending_notices(agent_id: UUID, today: date) -> BoundQuery[None]:
    """Writes a notice for the highest of NOTED_SHARES that the agent has reached, once for each day and month."""
    first = today.replace(day=1)
    periods = {"day": (today, 1), "month": (first, monthrange(today.year, today.month)[1])}
    notes = [
        {
            "id": ids.notice_id(agent_id, f"spent {percent} % of the {period}", since).hex,
            "period": period,
            "percent": percent,
            "since": since.isoformat(),
            "days": days,
        }
        for period, (since, days) in periods.items()
        for percent in NOTED_SHARES[period]
    ]
    params = {"of_agent": agent_id, "today": today, "notes": json.dumps(notes)}
    return BoundQuery(_NOTE_SPENDING, params, lambda _: None)


_RESUME: Final = CompiledStatement(f"""
with room as (
  select agents.id,
    (coalesce(own.spent_usd + own.reserved_usd, 0) < agents.budget_usd_per_day) is not false
    and (coalesce(own.spent_calls + own.reserved_calls, 0) < agents.budget_calls_per_day) is not false
    and (coalesce(all_of.spent_usd + all_of.reserved_usd, 0) < whole.usd_per_day) is not false
    and (coalesce(all_of.spent_calls + all_of.reserved_calls, 0) < whole.calls_per_day) is not false
    as is_there
  from agents
  left join installation_budget as whole on true
  left join budget_days as own on own.scope = agents.id and own.day = :of_day
  left join budget_days as all_of on all_of.scope = '{INSTALLATION}' and all_of.day = :of_day
  where agents.suspended_until is not null
    and (cast(:of_agent as uuid) is null or agents.id = cast(:of_agent as uuid))
)
update agents set suspended_until = null from room where agents.id = room.id and room.is_there
""")


_CAP_AGENT: Final = CompiledStatement("""
update agents set budget_usd_per_day = :usd_per_day, budget_calls_per_day = :calls_per_day where id = :of_agent
""")
_CAP_INSTALLATION: Final = CompiledStatement("""
insert into installation_budget (id, usd_per_day, calls_per_day) values (1, :usd_per_day, :calls_per_day)
on conflict (id) do update set usd_per_day = excluded.usd_per_day, calls_per_day = excluded.calls_per_day
""")


async def cap_agent(transaction: Transaction, agent_id: UUID, caps: Caps) -> None:
    """Sets an agent's caps. Resumes the agent if it is suspended and has budget again."""
    await lock_caps(transaction)
    await _CAP_AGENT.run(transaction, {"of_agent": agent_id, **vars(caps)})
    await resume_agents(transaction, agent_id)


async def cap_installation(transaction: Transaction, caps: Caps) -> None:
    """Sets the installation's caps. Resumes the suspended agents that have budget again."""
    await lock_caps(transaction)
    await _CAP_INSTALLATION.run(transaction, vars(caps))
    await resume_agents(transaction)
