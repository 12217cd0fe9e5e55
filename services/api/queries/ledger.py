"""The call ledger with what deleted calls cost: the source of every sum of calls over time.

A row is a call, or the calls of one day, kind, phase and model that were deleted because of their age. These count as if all
of them had started when the day did; `is_day` says that nothing is known of their hours.
"""

from typing import Any, Final

from sqlalchemy import ColumnElement, DateTime, case, cast, func, literal, select, union_all

from shared.database.tables import Call, CallDay
from shared.database.tables.billing import PART_COLUMNS
from shared.enums import CallKind

TOKENS: Final = (
    "input_tokens",
    "output_tokens",
    "cached_tokens",
    "reasoning_tokens",
    *PART_COLUMNS,
)
_SUMMED: Final = ("attempts", *TOKENS, "cost_usd", "assumed_usd")
# The first part is read from the index `calls_costs_idx` alone.
LEDGER_SQL: Final = f"""(
  select agent_id, started_at, kind, phase, model, 1 as calls,
    case when kind = 'llm' and cost_usd is null then 1 else 0 end as unpriced, false as is_day,
    {", ".join(_SUMMED)}
  from calls
  union all
  select agent_id, cast(day as timestamp) at time zone 'UTC', kind, phase, nullif(model, ''), calls, unpriced, true,
    {", ".join(_SUMMED)}
  from call_days
)"""


def _columns(source: type[Call] | type[CallDay]) -> list[ColumnElement[Any]]:
    return [getattr(source, name).label(name) for name in _SUMMED]


LEDGER: Final = union_all(
    select(
        Call.agent_id,
        Call.started_at,
        Call.kind,
        Call.phase,
        Call.model,
        literal(1).label("calls"),
        *_columns(Call),
    ),
    select(
        CallDay.agent_id,
        func.timezone("UTC", cast(CallDay.day, DateTime)).label("started_at"),
        CallDay.kind,
        CallDay.phase,
        func.nullif(CallDay.model, "").label("model"),
        CallDay.calls,
        *_columns(CallDay),
    ),
).subquery("ledger")

_IS_UNPRICED: Final = (Call.kind == CallKind.LLM) & Call.cost_usd.is_(None)


def counted_calls(of_calls: ColumnElement[bool], of_days: ColumnElement[bool] | None) -> Any:
    """A subquery of calls and days: kind, phase and model, numbers of calls by whether they were answered, and sums.

    With None for the days, without the deleted calls.
    """
    is_answered = Call.answered_at.is_not(None)
    names = ("input_tokens", "output_tokens", "cost_usd")
    calls = select(
        Call.kind,
        Call.phase,
        Call.model,
        case((is_answered, 1), else_=0).label("answered"),
        case((is_answered, 0), else_=1).label("unanswered"),
        case((is_answered & _IS_UNPRICED, 1), else_=0).label("unpriced"),
        *(getattr(Call, name) for name in names),
    ).where(of_calls)
    if of_days is None:
        return calls.subquery("counted")
    days = select(
        CallDay.kind,
        CallDay.phase,
        func.nullif(CallDay.model, ""),
        CallDay.answered,
        CallDay.calls - CallDay.answered,
        CallDay.answered_unpriced,
        *(getattr(CallDay, name) for name in names),
    ).where(of_days)
    return union_all(calls, days).subquery("counted")
