"""Check that the budget ledger agrees with the calls."""

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from shared.billing.reservations import INSTALLATION


async def faults(session: AsyncSession) -> list[str]:
    """Describe every difference between the reserved amounts and the sums of the open attempts."""
    rows = await session.execute(_DIFFERENCES, {"installation": INSTALLATION})
    return [
        f"{row.scope} on {row.day}: {row.kept_usd} USD for {row.kept_calls} calls are reserved, open attempts reserve"
        f" {row.held_usd} for {row.held_calls}"
        for row in rows
    ]


async def spending_faults(session: AsyncSession) -> list[str]:
    """Describe every agent whose calls, with those that were deleted, cost less than its budgets have booked."""
    return [
        f"{row.scope}: {row.spent} USD are booked as spent, calls cost {row.cost}"
        for row in await session.execute(_UNRECORDED, {"installation": INSTALLATION})
    ]


async def reserved(session: AsyncSession) -> int:
    """Number of attempts with a reservation."""
    return int((await session.execute(_RESERVED)).scalar_one())


_DIFFERENCES = text("""
with held as (
  select agent_id as scope, reserved_on as day, sum(reserved_usd) as usd, count(*) as calls
  from calls where reserved_on is not null group by 1, 2
  union all
  select :installation, reserved_on, sum(reserved_usd), count(*)
  from calls where reserved_on is not null group by 2
)
select coalesce(budget_days.scope, held.scope) as scope, coalesce(budget_days.day, held.day) as day,
  coalesce(reserved_usd, 0) as kept_usd, coalesce(reserved_calls, 0) as kept_calls,
  coalesce(held.usd, 0) as held_usd, coalesce(held.calls, 0) as held_calls
from budget_days full join held on budget_days.scope = held.scope and budget_days.day = held.day
where coalesce(reserved_usd, 0) <> coalesce(held.usd, 0)
  or coalesce(reserved_calls, 0) <> coalesce(held.calls, 0)
""")

_UNRECORDED = text("""
with recorded as (
  select agent_id, sum(cost) as cost from (
    select agent_id, coalesce(cost_usd, 0) + assumed_usd as cost from calls
    union all
    select agent_id, cost_usd + assumed_usd from call_days
  ) as each group by agent_id
)
select scope, sum(spent_usd) as spent, coalesce(max(cost), 0) as cost
from budget_days left join recorded on agent_id = scope
where scope <> :installation group by scope having sum(spent_usd) > coalesce(max(cost), 0)
""")

_RESERVED = text("select count(*) from calls where reserved_on is not null")
