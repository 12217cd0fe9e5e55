"""Cost reports for the cost pages: by day, and by phase, agent and model.

All figures come from the index `calls_costs_idx` alone, read for the period's range of each agent, and from the sums of
deleted calls.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Final, Literal, NamedTuple
from uuid import UUID

from services.api.resources.costs.ledger import (
    IN_SCOPE_SQL,
    LEDGER_SQL,
    SUMMED,
    CostScope,
    sums_sql,
)
from shared.database.statements import CompiledStatement, Row, uuid_array
from shared.database.transaction import Transaction
from shared.schemas.costs import CostTotals

GroupedBy = Literal["phase", "agent", "model"]
StackedBy = Literal["phase", "agent"]

MAX_SERIES: Final = 8
"""The most expensive keys have a series each, the others are one together."""


class CostRow(CostTotals):
    """`key` is an agent's id, a phase, or a model (`search` for the search service)."""

    key: str
    unpriced: int
    """Model calls of unknown cost: unanswered, or without token counts from the server."""


class CostPoint(NamedTuple):
    """The calls of one key that began on one day (UTC)."""

    day: date
    key: str | None
    """None: all keys without a series of their own."""
    calls: int
    input_tokens: int
    output_tokens: int
    cost_usd: float
    assumed_usd: float


class SpentDay(NamedTuple):
    """The calls that began on one day (UTC)."""

    day: date
    calls: int
    tokens: int
    cost_usd: float
    assumed_usd: float


@dataclass(frozen=True)
class Life:
    """Since when there is something to count, and whether it goes on."""

    now: datetime
    exists_since: datetime | None
    """When the agent, or the first of the present agents, was created; None without any."""
    is_active: bool
    """Whether an agent starts iterations: none does that is paused, suspended or not configured."""


@dataclass(frozen=True)
class CostReport:
    """Calls that began from the day `since` to the day `until`, without those of deleted agents."""

    since: date
    until: date
    stacked_by: StackedBy
    totals: CostRow
    by: Mapping[GroupedBy, list[CostRow]]
    """By cost, highest first."""
    points: list[CostPoint]
    agent_names: Mapping[str, str]
    """By id."""

    @property
    def days(self) -> list[date]:
        count = (self.until - self.since).days + 1
        return [self.since + timedelta(days=place) for place in range(count)]


RECENT_DAYS: Final = 31
"""Enough for the last 30 days, and for any month so far."""


async def read_life(session: Transaction, scope: CostScope) -> Life:
    """The caller has checked that the agent of the scope is the owner's."""
    row = await _LIFE.row(session, scope.parameters)
    return Life(row.now, row.exists_since, bool(row.is_active))


async def read_recent(session: Transaction, scope: CostScope, now: datetime) -> list[SpentDay]:
    """Returns the last RECENT_DAYS days; without days that have no calls."""
    since = start_of_day(now) - timedelta(days=RECENT_DAYS - 1)
    rows = await _RECENT.rows(session, {**scope.parameters, "since": since})
    return [
        SpentDay(
            row.day,
            int(row.calls),
            int(row.input_tokens) + int(row.output_tokens),
            float(row.cost_usd),
            float(row.assumed_usd),
        )
        for row in rows
    ]


async def read_report(
    session: Transaction,
    scope: CostScope,
    days: int,
    stacked_by: StackedBy,
    now: datetime,
    *,
    max_series: int = MAX_SERIES,
) -> CostReport:
    """The last `days` days, with today. The caller has checked that the agent of the scope is the owner's."""
    # PostgreSQL estimates one group per call and would sort them all on disk instead of hashing the
    # few that exist.
    await _MEMORY.run(session)
    since = start_of_day(now) - timedelta(days=days - 1)
    parameters = {
        **scope.parameters,
        "since": since,
        "stacked_by": stacked_by,
        "max_series": max_series,
    }
    rows: defaultdict[str, list[CostRow]] = defaultdict(list)
    points = []
    for row in await _REPORT.rows(session, parameters):
        if row.grouped_by == "day":
            points.append(_point(row))
        else:
            rows[row.grouped_by].append(CostRow.model_validate(row._asdict()))
    by: dict[GroupedBy, list[CostRow]] = {
        name: sorted(rows[name], key=_by_cost) for name in ("phase", "agent", "model")
    }
    ids = uuid_array(UUID(row.key) for row in by["agent"])
    names = await _NAMES.rows(session, {**scope.parameters, "ids": ids})
    return CostReport(
        since.date(),
        now.astimezone(UTC).date(),
        stacked_by,
        rows["all"][0],
        by,
        points,
        {str(row.id): row.name for row in names},
    )


def start_of_day(moment: datetime) -> datetime:
    """Midnight (UTC) before the moment."""
    return datetime.combine(moment.astimezone(UTC).date(), time(), UTC)


def _point(row: Row) -> CostPoint:
    return CostPoint(
        row.day,
        row.key,
        int(row.calls),
        int(row.input_tokens),
        int(row.output_tokens),
        float(row.cost_usd),
        float(row.assumed_usd),
    )


def _by_cost(row: CostRow) -> tuple[float, int, int, str]:
    tokens = row.input_tokens + row.output_tokens
    return -(row.cost_usd + row.assumed_usd), -tokens, -row.calls, row.key


_SUMS: Final = ("calls", "unpriced", *SUMMED)
_DAY_SQL: Final = "cast(started_at at time zone 'UTC' as date)"
_MEMORY: Final = CompiledStatement("set local work_mem = '32MB'")
_REPORT: Final = CompiledStatement(f"""
with sums as materialized (
  select {_DAY_SQL} as day, cast(agent_id as text) as agent, phase, coalesce(model, kind) as model,
    {", ".join(f"sum({name}) as {name}" for name in _SUMS)}
  from {LEDGER_SQL} as ledger where {IN_SCOPE_SQL} and started_at >= :since
  group by 1, 2, 3, 4
), keyed as (
  select *, case cast(:stacked_by as text) when 'agent' then agent else phase end as stack_key from sums
), series as (
  select stack_key from keyed group by stack_key
  order by sum(coalesce(cost_usd, 0) + assumed_usd) desc,
    sum(coalesce(input_tokens, 0) + coalesce(output_tokens, 0)) desc, sum(calls) desc, stack_key
  limit :max_series
)
select case grouping(agent, phase, model)
    when 3 then 'agent' when 5 then 'phase' when 6 then 'model' else 'all'
  end as grouped_by,
  cast(null as date) as day, coalesce(agent, phase, model, 'all') as key, {sums_sql(_SUMS)}
from sums group by grouping sets ((agent), (phase), (model), ())
union all
select 'day', day, series.stack_key, {sums_sql(_SUMS)}
from keyed left join series using (stack_key) group by day, series.stack_key
""")
_NAMES: Final = CompiledStatement(
    "select id, name from agents where owner_id = :owner and id = any(cast(:ids as uuid[]))"
)
_LIFE: Final = CompiledStatement("""
select statement_timestamp() as now, min(created_at) as exists_since,
  bool_or(active and status = 'ready' and suspended_until is null) as is_active
from agents where owner_id = :owner and (cast(:agent as uuid) is null or id = cast(:agent as uuid))
""")
_RECENT: Final = CompiledStatement(f"""
select {_DAY_SQL} as day,
  {sums_sql(("calls", "input_tokens", "output_tokens", "cost_usd", "assumed_usd"))}
from {LEDGER_SQL} as ledger where {IN_SCOPE_SQL} and started_at >= :since
group by 1
""")
