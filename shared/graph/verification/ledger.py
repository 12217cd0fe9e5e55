"""Verification of what an agent has done and spent: what is missing of it was deleted by Vigil because of its age.

Iterations are numbered without gaps, and a call that was paid for counts in a budget. `pruned_iterations` and `call_days`
say what the scheduler has deleted; the journal of the graph covers both.
"""

from typing import Final

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from shared.graph.scope import GraphScope
from shared.graph.verification.checks import Fault, FaultKind

_MOST: Final = 5
"""Calls that are named."""
_NUMBERS: Final = text("""
with known as (
  select coalesce((select numbers from pruned_iterations where agent_id = :agent), '{}') as deleted,
    coalesce((select transcripts from pruned_iterations where agent_id = :agent), '{}') as without_texts,
    (select iterations_started from agents where id = :agent) as started
), present as (
  select coalesce(range_agg(int4range(number, number, '[]')), '{}') as numbers,
    coalesce(range_agg(int4range(number, number, '[]')) filter (where transcripts_deleted_at is not null), '{}')
      as without_texts
  from iterations where agent_id = :agent
)
select
  cast(int4multirange(int4range(1, started + 1)) - present.numbers - deleted as text) as missing,
  cast(present.numbers * deleted as text) as restored,
  cast(present.without_texts - known.without_texts + (known.without_texts - present.without_texts) * present.numbers as text)
    as differently_marked
from known, present
""")
_EMPTIED: Final = text(f"""
select id from calls
where agent_id = :agent and answered_at is not null and answer is null
  and not exists (select from iterations where id = calls.iteration_id and transcripts_deleted_at is not null)
limit {_MOST}
""")
_COSTS: Final = text("""
select coalesce((select sum(spent_usd) from budget_days where scope = :agent), 0) as spent,
  coalesce((select sum(coalesce(cost_usd, 0) + assumed_usd) from calls where agent_id = :agent), 0)
  + coalesce((select sum(cost_usd + assumed_usd) from call_days where agent_id = :agent), 0) as recorded
""")
_NOTHING: Final = "{}"


async def check_ledger(session: AsyncSession, scope: GraphScope) -> list[Fault]:
    """Whether iterations, texts or calls are missing that Vigil has not deleted."""
    agent = {"agent": scope.agent_id}
    numbers = (await session.execute(_NUMBERS, agent)).one()
    faults = []
    if numbers.missing != _NOTHING:
        faults.append(
            f"the iterations {numbers.missing} were deleted by something that is not Vigil"
        )
    if numbers.restored != _NOTHING:
        faults.append(
            f"the iterations {numbers.restored} were added by something that is not Vigil"
        )
    if numbers.differently_marked != _NOTHING:
        faults.append(
            f"whether the iterations {numbers.differently_marked} have transcripts was changed by something that is not"
            " Vigil"
        )
    faults += [
        f"the answer of the call {call_id} was deleted by something that is not Vigil"
        for call_id in await session.scalars(_EMPTIED, agent)
    ]
    costs = (await session.execute(_COSTS, agent)).one()
    # The other way round it may be: an answer that came after its reservation was written off.
    if costs.recorded < costs.spent:
        faults.append(
            f"{costs.spent} USD were spent, but the calls cost {costs.recorded}:"
            " some were deleted, or changed, by something that is not Vigil"
        )
    return [Fault(FaultKind.LEDGER, fault) for fault in faults]
