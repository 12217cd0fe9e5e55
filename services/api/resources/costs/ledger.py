"""The call ledger with what deleted calls cost: the source of every sum of calls over time.

A row is a call, or the calls of one day, kind, phase and model that were deleted because of their age. These count as if all
of them had started when the day did.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from sqlalchemy import and_, func

from shared.database.tables import Call
from shared.database.tables.billing import PART_COLUMNS
from shared.enums import CallKind

SUMMED: Final = (
    "attempts",
    "input_tokens",
    "output_tokens",
    "cached_tokens",
    "reasoning_tokens",
    *PART_COLUMNS,
    "cost_usd",
    "assumed_usd",
)
# The first part is read from the index `calls_costs_idx` alone.
LEDGER_SQL: Final = f"""(
  select agent_id, started_at, kind, phase, model, 1 as calls,
    case when kind = 'llm' and cost_usd is null then 1 else 0 end as unpriced,
    {", ".join(SUMMED)}
  from calls
  union all
  select agent_id, cast(day as timestamp) at time zone 'UTC', kind, phase, nullif(model, ''), calls, unpriced,
    {", ".join(SUMMED)}
  from call_days
)"""


def sums_sql(names: Iterable[str], prefix: str = "") -> str:
    """The sums of the columns of those names, 0 where there are no rows, as columns with the prefix."""
    return ", ".join(f"coalesce(sum({name}), 0) as {prefix}{name}" for name in names)


@dataclass(frozen=True)
class CostScope:
    """Whose calls are counted: those of all present agents of the owner, or of one of them."""

    owner_id: UUID
    agent_id: UUID | None = None

    @property
    def parameters(self) -> dict[str, UUID | None]:
        return {"owner": self.owner_id, "agent": self.agent_id}


IN_SCOPE_SQL: Final = """agent_id = any(array(
    select id from agents where owner_id = :owner and (cast(:agent as uuid) is null or id = cast(:agent as uuid))
  ))"""
"""The condition for rows of the ledger, with the parameters of a CostScope."""

SPENT: Final = (
    func.count().label("calls"),
    *(
        func.coalesce(func.sum(getattr(Call, name)), 0).label(name)
        for name in ("input_tokens", "output_tokens", "cost_usd", "assumed_usd")
    ),
    func.count().filter(and_(Call.kind == CallKind.LLM, Call.cost_usd.is_(None))).label("unpriced"),
)
"""The columns of a `CallUsage`, from calls."""
