"""Cost reports for the cost pages: by hour or day, and by phase, agent, model and kind of call.

All figures but those of single iterations come from the index `calls_costs_idx` alone, read for the
period's range of each agent, and from the sums of deleted calls, of which only the day is known.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Final, Literal, NamedTuple
from uuid import UUID

from sqlalchemy import TextClause, text
from sqlalchemy.ext.asyncio import AsyncSession

from services.api.queries.ledger import LEDGER_SQL
from shared.schemas.costs import CostTotals
from shared.schemas.iterations import CallUsage

PeriodStep = Literal["hour", "day"]
StackedBy = Literal["phase", "agent", "model"]
GroupedBy = Literal["phase", "agent", "model", "kind"]

STEPS: Final[Mapping[PeriodStep, timedelta]] = {
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
}
MAX_DAYS: Final = 366
MAX_HOURLY_DAYS: Final = 7
"""The longest period that is divided into hours: more than 168 bars are too narrow to point at."""
MAX_SERIES: Final = 8
"""The most expensive keys have a series each, the others are one together."""


class PeriodError(ValueError):
    """The period is empty, or too long for its step."""


@dataclass(frozen=True)
class Period:
    """Whole hours or days (UTC), from `since` until before `until`."""

    step: PeriodStep
    since: datetime
    until: datetime

    @classmethod
    def ending_now(cls, step: PeriodStep, days: int, now: datetime) -> "Period":
        """The last `days` days, with the present hour or day. Several days by hour begin at midnight: of calls that
        retention has deleted, only the day is known.
        """
        size = STEPS[step]
        start = now.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
        if step == "day":
            start = start.replace(hour=0)
        until = start + size
        since = until - timedelta(days=days)
        return cls(step, since.replace(hour=0) if days > 1 else since, until)

    @classmethod
    def of_days(cls, step: PeriodStep, since: date, until: date) -> "Period":
        """From the day `since` to the day `until`, both inclusive. Raises PeriodError."""
        days = (until - since).days + 1
        limit = MAX_HOURLY_DAYS if step == "hour" else MAX_DAYS
        if days < 1:
            raise PeriodError(f"{since} is after {until}: choose a first day before the last")
        if days > limit:
            raise PeriodError(f"{days} days cannot be shown by {step}: choose at most {limit}")
        start = datetime.combine(since, time(), UTC)
        return cls(step, start, start + timedelta(days=days))

    @property
    def first_day(self) -> date:
        return self.since.date()

    @property
    def last_day(self) -> date:
        return (self.until - STEPS[self.step]).date()

    def starts(self) -> Iterator[datetime]:
        """The starts of the hours or days, in order."""
        start = self.since
        while start < self.until:
            yield start
            start += STEPS[self.step]


@dataclass(frozen=True)
class CostScope:
    """Whose calls are counted: those of all present agents of the owner, or of one of them."""

    owner_id: UUID
    agent_id: UUID | None = None

    @property
    def parameters(self) -> dict[str, UUID | None]:
        return {"owner": self.owner_id, "agent": self.agent_id}


class CostRow(CostTotals):
    """`key` is an agent's id, a phase, a model, or a kind of call."""

    key: str
    unpriced: int
    """Model calls of unknown cost: unanswered, or without token counts from the server."""


class CostPoint(NamedTuple):
    """The calls of one key that began in one hour or day."""

    start: datetime
    key: str | None
    """None: all keys without a series of their own."""
    calls: int
    input_tokens: int
    output_tokens: int
    cost_usd: float
    assumed_usd: float
    is_day: bool = False
    """Deleted calls of which only the day is known, in a report by hour."""


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
    """Calls that began in the period, without those of deleted agents."""

    period: Period
    stacked_by: StackedBy
    totals: CostRow
    by: Mapping[GroupedBy, list[CostRow]]
    """By cost, highest first."""
    points: list[CostPoint]
    recent: list[SpentDay]
    """The last RECENT_DAYS days, whatever the period; without days that have no calls."""
    agent_names: Mapping[str, str]
    """By id."""


RECENT_DAYS: Final = 31
"""Enough for the last 30 days, and for any month so far."""


async def read_life(session: AsyncSession, scope: CostScope) -> Life:
    """The caller has checked that the agent of the scope is the owner's."""
    row = (await session.execute(_LIFE, scope.parameters)).one()
    return Life(row.now, row.exists_since, bool(row.is_active))


async def read_report(
    session: AsyncSession,
    scope: CostScope,
    period: Period,
    stacked_by: StackedBy,
    now: datetime,
    *,
    max_series: int = MAX_SERIES,
) -> CostReport:
    """The caller has checked that the agent of the scope is the owner's."""
    # PostgreSQL estimates one group per call and would sort them all on disk instead of hashing the
    # few that exist.
    await session.execute(_MEMORY)
    recent_since = _start_of_day(now) - timedelta(days=RECENT_DAYS - 1)
    # One pass over the index serves both, unless the period has ended long ago.
    is_recent = period.until >= recent_since
    parameters = {
        **scope.parameters,
        "step": STEPS[period.step],
        "since": period.since,
        "until": period.until,
        "scan_since": min(period.since, recent_since) if is_recent else period.since,
        "scan_until": max(period.until, now) if is_recent else period.until,
        "recent_since": recent_since,
        "stacked_by": stacked_by,
        "max_series": max_series,
    }
    rows: defaultdict[str, list[CostRow]] = defaultdict(list)
    points, recent = [], []
    for row in (await session.execute(_REPORT, parameters)).mappings():
        if row["grouped_by"] == "step":
            points.append(_point(row))
        elif row["grouped_by"] == "recent":
            recent.append(_spent_day(row))
        else:
            rows[row["grouped_by"]].append(CostRow.model_validate(dict(row)))
    if not is_recent:
        days = await session.execute(_RECENT, {**scope.parameters, "since": recent_since})
        recent = [_spent_day(row) for row in days.mappings()]
    by: dict[GroupedBy, list[CostRow]] = {
        name: sorted(rows[name], key=_by_cost) for name in ("phase", "agent", "model", "kind")
    }
    ids = [UUID(row.key) for row in by["agent"]]
    names = await session.execute(_NAMES, {**scope.parameters, "ids": ids})
    return CostReport(
        period,
        stacked_by,
        rows["all"][0],
        by,
        points,
        recent,
        {str(row.id): row.name for row in names},
    )


def _start_of_day(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def _point(row: Mapping[Any, Any]) -> CostPoint:
    return CostPoint(
        row["start"],
        row["key"],
        row["calls"],
        int(row["input_tokens"]),
        int(row["output_tokens"]),
        float(row["cost_usd"]),
        float(row["assumed_usd"]),
        row["is_day"],
    )


def _spent_day(row: Mapping[Any, Any]) -> SpentDay:
    return SpentDay(
        row["start"].astimezone(UTC).date(),
        row["calls"],
        int(row["input_tokens"]) + int(row["output_tokens"]),
        float(row["cost_usd"]),
        float(row["assumed_usd"]),
    )


def _by_cost(row: CostRow) -> tuple[float, int, int, str]:
    tokens = row.input_tokens + row.output_tokens
    return -(row.cost_usd + row.assumed_usd), -tokens, -row.calls, row.key


SAMPLED_ITERATIONS: Final = 300
"""The cost of an iteration is summed from its calls, so that only the newest are looked at."""
_SAMPLED_OF_EACH: Final = 50
"""Of each agent, where there are several."""
SHOWN_ITERATIONS: Final = 8


class CostlyIteration(NamedTuple):
    agent_id: UUID
    agent_name: str
    number: int
    status: str
    started_at: datetime
    spent: CallUsage


async def list_costly_iterations(
    session: AsyncSession, scope: CostScope, period: Period
) -> list[CostlyIteration]:
    """The most expensive of the newest SAMPLED_ITERATIONS that began in the period, most expensive first."""
    parameters = {
        **scope.parameters,
        "since": period.since,
        "until": period.until,
        "of_each": SAMPLED_ITERATIONS if scope.agent_id else _SAMPLED_OF_EACH,
        "sampled": SAMPLED_ITERATIONS,
        "shown": SHOWN_ITERATIONS,
    }
    rows = (await session.execute(_COSTLY, parameters)).mappings()
    return [
        CostlyIteration(
            row["agent_id"],
            row["agent_name"],
            row["number"],
            row["status"],
            row["started_at"],
            CallUsage.model_validate(dict(row)),
        )
        for row in rows
    ]


_MEMORY: Final = text("set local work_mem = '32MB'")
_REPORT: Final[TextClause] = text(f"""
with sums as materialized (
  -- What began before the period is wanted by day only.
  select date_bin(
      case when started_at >= :since then cast(:step as interval) else interval '1 day' end,
      started_at, timestamptz '2000-01-01Z'
    ) as start, agent_id, phase, model, kind,
    is_day and cast(:step as interval) < interval '1 day' as is_day,
    sum(calls) as calls, sum(unpriced) as unpriced,
    sum(attempts) as attempts, sum(input_tokens) as input_tokens, sum(output_tokens) as output_tokens,
    sum(cached_tokens) as cached_tokens, sum(reasoning_tokens) as reasoning_tokens,
    sum(system_tokens) as system_tokens, sum(tools_tokens) as tools_tokens,
    sum(context_tokens) as context_tokens, sum(results_tokens) as results_tokens,
    sum(cost_usd) as cost_usd, sum(assumed_usd) as assumed_usd
  from {LEDGER_SQL} as ledger
  where agent_id = any(array(
      select id from agents
      where owner_id = :owner and (cast(:agent as uuid) is null or id = cast(:agent as uuid))
    ))
    and started_at >= :scan_since and started_at < :scan_until
  group by 1, agent_id, phase, model, kind, 6
), keyed as (
  select *, coalesce(model, kind) as shown_model,
    case cast(:stacked_by as text)
      when 'agent' then cast(agent_id as text) when 'phase' then phase else coalesce(model, kind)
    end as stack_key
  from sums where start >= :since and start < :until
), series as (
  select stack_key from keyed group by stack_key
  order by sum(coalesce(cost_usd, 0) + assumed_usd) desc,
    sum(coalesce(input_tokens, 0) + coalesce(output_tokens, 0)) desc, sum(calls) desc, stack_key
  limit :max_series
)
select case grouping(agent_id, phase, shown_model, kind)
    when 7 then 'agent' when 11 then 'phase' when 13 then 'model' when 14 then 'kind' else 'all'
  end as grouped_by,
  cast(null as timestamptz) as start,
  coalesce(cast(agent_id as text), phase, shown_model, kind, 'all') as key,
  coalesce(sum(calls), 0) as calls, coalesce(sum(unpriced), 0) as unpriced,
  coalesce(sum(attempts), 0) as attempts, coalesce(sum(input_tokens), 0) as input_tokens,
  coalesce(sum(output_tokens), 0) as output_tokens, coalesce(sum(cached_tokens), 0) as cached_tokens,
  coalesce(sum(reasoning_tokens), 0) as reasoning_tokens, coalesce(sum(system_tokens), 0) as system_tokens,
  coalesce(sum(tools_tokens), 0) as tools_tokens, coalesce(sum(context_tokens), 0) as context_tokens,
  coalesce(sum(results_tokens), 0) as results_tokens, coalesce(sum(cost_usd), 0) as cost_usd,
  coalesce(sum(assumed_usd), 0) as assumed_usd, false as is_day
from keyed
group by grouping sets ((agent_id), (phase), (shown_model), (kind), ())
union all
select 'step', start, series.stack_key, sum(calls), 0, 0, coalesce(sum(input_tokens), 0),
  coalesce(sum(output_tokens), 0), 0, 0, 0, 0, 0, 0, coalesce(sum(cost_usd), 0), coalesce(sum(assumed_usd), 0), is_day
from keyed left join series using (stack_key)
group by start, series.stack_key, is_day
union all
select 'recent', date_bin(interval '1 day', start, timestamptz '2000-01-01Z'), null, sum(calls), 0, 0,
  coalesce(sum(input_tokens), 0), coalesce(sum(output_tokens), 0), 0, 0, 0, 0, 0, 0,
  coalesce(sum(cost_usd), 0), coalesce(sum(assumed_usd), 0), false
from sums where start >= :recent_since
group by 2
""")
_NAMES: Final = text(
    "select id, name from agents where owner_id = :owner and id = any(cast(:ids as uuid[]))"
)
_LIFE: Final = text("""
select statement_timestamp() as now, min(created_at) as exists_since,
  bool_or(active and status = 'ready' and suspended_until is null) as is_active
from agents where owner_id = :owner and (cast(:agent as uuid) is null or id = cast(:agent as uuid))
""")
_RECENT: Final = text(f"""
select date_bin(interval '1 day', started_at, timestamptz '2000-01-01Z') as start, cast(sum(calls) as bigint) as calls,
  coalesce(sum(input_tokens), 0) as input_tokens, coalesce(sum(output_tokens), 0) as output_tokens,
  coalesce(sum(cost_usd), 0) as cost_usd, coalesce(sum(assumed_usd), 0) as assumed_usd
from {LEDGER_SQL} as ledger
where agent_id = any(array(
    select id from agents
    where owner_id = :owner and (cast(:agent as uuid) is null or id = cast(:agent as uuid))
  ))
  and started_at >= :since
group by 1
""")
_COSTLY: Final = text("""
with newest as (
  select latest.*, agents.name as agent_name
  from agents cross join lateral (
    select id, agent_id, number, status, started_at from iterations
    where agent_id = agents.id order by number desc limit :of_each
  ) as latest
  where agents.owner_id = :owner and (cast(:agent as uuid) is null or agents.id = cast(:agent as uuid))
    and latest.status <> 'quiet' and latest.started_at >= :since and latest.started_at < :until
  order by latest.started_at desc limit :sampled
)
select newest.*, spent.*
from newest cross join lateral (
  select count(*) as calls, coalesce(sum(input_tokens), 0) as input_tokens,
    coalesce(sum(output_tokens), 0) as output_tokens, coalesce(sum(cost_usd), 0) as cost_usd,
    coalesce(sum(assumed_usd), 0) as assumed_usd,
    count(*) filter (where kind = 'llm' and cost_usd is null) as unpriced
  from calls where calls.iteration_id = newest.id
) as spent
where spent.calls > 0
order by spent.cost_usd + spent.assumed_usd desc, spent.input_tokens + spent.output_tokens desc, newest.started_at desc
limit :shown
""")
