"""What statements that write calls have in common: how the days' rows are written beside them.

The agent's row before the installation's, always: see `books`.
"""

from typing import Final

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
