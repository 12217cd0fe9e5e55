"""Check that the budget ledger agrees with the calls."""

from sqlalchemy import text

from shared.billing.reservations import INSTALLATION
from shared.database.transaction import Transaction


async def faults(session: Transaction) -> list[str]:
    """Describe every difference between the reserved amounts and the sums of open attempts and of what steps hold, and every
    step that holds something though it does not run.
    """
    rows = await session.execute(_DIFFERENCES, {"installation": INSTALLATION})
    idle_steps = await session.scalars(_IDLE_STEPS)
    return [
        *(
            f"{row.scope} on {row.day}: {row.kept_usd} USD for {row.kept_calls} calls are reserved, open attempts and steps"
            f" hold {row.held_usd} for {row.held_calls}"
            for row in rows
        ),
        *(f"step {step_id} holds a reservation and does not run" for step_id in idle_steps),
    ]


async def spending_faults(session: Transaction) -> list[str]:
    """Describe every agent whose calls, with those that were deleted, cost less than its budgets have booked."""
    return [
        f"{row.scope}: {row.spent} USD are booked as spent, calls cost {row.cost}"
        for row in await session.execute(_UNRECORDED, {"installation": INSTALLATION})
    ]


async def reserved(session: Transaction) -> int:
    """Number of attempts with a reservation."""
    return int((await session.execute(_RESERVED)).scalar_one())


_DIFFERENCES = text("""
with part as (
  select agent_id, reserved_on as day, reserved_usd as usd, 1 as calls from calls where reserved_on is not null
  union all
  select agent_id, reserved_on, reserved_usd + spent_usd, reserved_calls + spent_calls from steps
  where reserved_on is not null
),
held as (
  select scope, day, sum(usd) as usd, sum(calls) as calls
  from part cross join unnest(array[agent_id, cast(:installation as uuid)]) as scope group by 1, 2
)
select coalesce(budget_days.scope, held.scope) as scope, coalesce(budget_days.day, held.day) as day,
  coalesce(reserved_usd, 0) as kept_usd, coalesce(reserved_calls, 0) as kept_calls,
  coalesce(held.usd, 0) as held_usd, coalesce(held.calls, 0) as held_calls
from budget_days full join held on budget_days.scope = held.scope and budget_days.day = held.day
where coalesce(reserved_usd, 0) <> coalesce(held.usd, 0)
  or coalesce(reserved_calls, 0) <> coalesce(held.calls, 0)
""")

_IDLE_STEPS = text("""
select id from steps
where status <> 'running' and (reserved_on is not null or reserved_usd <> 0 or reserved_calls <> 0 or spent_usd <> 0)
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
