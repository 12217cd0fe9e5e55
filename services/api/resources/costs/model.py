"""Costs, calls and budgets, from the ledger."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Final
from uuid import UUID

from sqlalchemy import bindparam, select, text

from services.api.auth.dependencies import OwnedAgent
from services.api.http.dependencies import Page, PageQuery
from services.api.reading import columns_of, read_page
from services.api.resources.costs.ledger import (
    IN_SCOPE_SQL,
    LEDGER_SQL,
    SUMMED,
    CostScope,
    sums_sql,
)
from shared.billing import budgets
from shared.billing.reservations import INSTALLATION
from shared.database.pagination import Keyset
from shared.database.statements import CompiledStatement, Row
from shared.database.tables import Agent, Call, Step
from shared.database.text import storable
from shared.database.transaction import Transaction
from shared.enums import CallKind, Phase, StepStatus
from shared.graph.scope import OWNED_AGENT_ID_SQL
from shared.schemas.base import CallGroup, CallsSummary, CallTotals, RunningCall
from shared.schemas.costs import (
    BudgetResponse,
    BudgetUsage,
    CostGroup,
    CostsBy,
    CostsResponse,
    CostTotals,
)
from shared.schemas.iterations import CallResponse

_NEWEST: Final = Keyset("calls", (Call.started_at, Call.id))


async def list_calls(
    access: OwnedAgent,
    page_request: PageQuery,
    kind: CallKind | None = None,
    phase: Phase | None = None,
) -> Page[CallResponse]:
    """Lists calls, newest first."""
    statement = select(*columns_of(Call, CallResponse)).where(
        Call.agent_id == access.scope.owned_agent_id()
    )
    if kind is not None:
        statement = statement.where(Call.kind == kind)
    if phase is not None:
        statement = statement.where(Call.phase == phase)
    return await read_page(access.session, CallResponse, statement, _NEWEST, page_request)


async def list_running_calls(session: Transaction, agent_id: UUID) -> list[RunningCall]:
    """Returns calls that are sent or about to be. The caller has checked that the agent is the owner's."""
    rows = await RUNNING_CALLS.rows(session, {"of_agent": agent_id})
    return [RunningCall.model_validate(row) for row in rows]


RUNNING_CALLS: Final = CompiledStatement(
    select(*columns_of(Call, RunningCall))
    .join(Step, Step.id == Call.step_id)
    .where(
        Call.agent_id == bindparam("of_agent"),
        Call.answered_at.is_(None),
        Call.reserved_on.is_not(None),
        Call.sent_at.is_not(None),
        Step.status == StepStatus.RUNNING,
    )
    .order_by(Call.sent_at)
)


_COUNTED: Final = (
    "answered",
    "unanswered",
    "input_tokens",
    "output_tokens",
    "cost_usd",
    "unpriced",
    "assumed_usd",
)
_COUNTED_CALLS_SQL: Final = """
  select kind, phase, model, cast(answered_at is not null as integer) as answered,
    cast(answered_at is null as integer) as unanswered,
    cast(answered_at is not null and kind = 'llm' and cost_usd is null as integer) as unpriced,
    input_tokens, output_tokens, cost_usd, assumed_usd
  from calls"""


def _count_statement(counted: str) -> CompiledStatement:
    return CompiledStatement(
        f"select kind, phase, model, {sums_sql(_COUNTED)} from ({counted}) as counted"
        " group by kind, phase, model order by kind, phase, model"
    )


CALLS_OF_ITERATION: Final = _count_statement(
    f"{_COUNTED_CALLS_SQL} where iteration_id = :of_iteration"
)
_CALLS_OF_AGENT: Final = _count_statement(f"""
  {_COUNTED_CALLS_SQL} where agent_id = {OWNED_AGENT_ID_SQL} union all
  select kind, phase, nullif(model, ''), answered, calls - answered, answered_unpriced,
    input_tokens, output_tokens, cost_usd, assumed_usd
  from call_days where agent_id = {OWNED_AGENT_ID_SQL}""")


async def summarize_calls(access: OwnedAgent) -> CallsSummary:
    """Counts calls of the model and the search service, with their known cost."""
    return summary_of(await _CALLS_OF_AGENT.rows(access.session, access.scope.sql_params))


async def iteration_call_totals(session: Transaction, iteration_id: UUID) -> CallsSummary:
    """Returns the totals of an iteration. The caller has checked that it is the owner's."""
    return summary_of(await CALLS_OF_ITERATION.rows(session, {"of_iteration": iteration_id}))


def summary_of(rows: Sequence[Row]) -> CallsSummary:
    """`rows` are those of a statement that counts calls."""
    groups = [CallGroup.model_validate(row) for row in rows]
    totals = CallTotals(
        llm_calls=sum(group.answered for group in groups if group.kind == CallKind.LLM),
        search_calls=sum(group.answered for group in groups if group.kind == CallKind.SEARCH),
        unanswered_calls=sum(group.unanswered for group in groups),
        input_tokens=sum(group.input_tokens for group in groups),
        output_tokens=sum(group.output_tokens for group in groups),
        cost_usd=sum(group.cost_usd for group in groups),
        assumed_usd=sum(group.assumed_usd for group in groups),
        unpriced_calls=sum(group.unpriced for group in groups),
    )
    return CallsSummary(totals=totals, groups=groups)


async def agent_budget(session: Transaction, agent_id: UUID) -> BudgetResponse:
    """Raises NoResultFound if the agent was deleted. The caller has checked that it is the owner's."""
    columns = Agent.id, Agent.name, Agent.suspended_until
    row = (await session.execute(select(*columns).where(Agent.id == agent_id))).one()
    usage = await budget_usage(session, agent_id)
    return BudgetResponse(
        agent_id=row.id, agent_name=row.name, suspended_until=row.suspended_until, usage=usage
    )


async def budget_usage(session: Transaction, scope: UUID = INSTALLATION) -> BudgetUsage:
    """Returns today's use of the budget of an agent, or of the installation."""
    day = await budgets.today(session)
    status = await budgets.load_status(session, scope, day)
    usd, calls = status.usd, status.calls
    return BudgetUsage.model_validate(
        {
            "day": day,
            "usd_per_day": usd.cap,
            "spent_usd": usd.spent,
            "reserved_usd": usd.reserved,
            "left_usd": usd.left,
            "calls_per_day": calls.cap,
            "spent_calls": calls.spent,
            "reserved_calls": calls.reserved,
            "left_calls": calls.left,
        }
    )


USUAL_DAYS: Final = 30
MAX_DAYS: Final = 366
DEFAULT_GROUPS: Final = 100
MAX_GROUPS: Final = 500


@dataclass(frozen=True)
class CostQuery:
    """Parameters of a cost report. Without days: the last USUAL_DAYS days, including today."""

    by: CostsBy = "day"
    since: date | None = None
    until: date | None = None
    cursor: str | None = None
    """The key of the previous page's last group."""
    limit: int = DEFAULT_GROUPS


class TooManyDaysError(ValueError):
    """The requested range of days is empty, or longer than MAX_DAYS."""


_SUMS: Final = ("calls", *SUMMED)
_IN_RANGE_SQL: Final = f"""from {LEDGER_SQL} as ledger
  where {IN_SCOPE_SQL} and started_at >= :since and started_at < :until"""


def _grouped_sql(key: str) -> str:
    return f"select {key} as key, null as agent_id, {sums_sql(_SUMS)} {_IN_RANGE_SQL} group by 1"


_GROUPED_SQL: Final[Mapping[CostsBy, str]] = {
    "day": _grouped_sql("to_char(started_at at time zone 'UTC', 'YYYY-MM-DD')"),
    "phase": _grouped_sql("phase"),
    "model": _grouped_sql("coalesce(model, kind)"),
    # Joins the agents after the aggregation, not for each call.
    "agent": f"""select agents.name as key, sums.* from
      (select agent_id, {sums_sql(_SUMS)} {_IN_RANGE_SQL} group by agent_id) as sums
      join agents on agents.id = sums.agent_id""",
}
_COSTS: Final = {
    by: text(f"""
with groups as ({grouped}), totals as (
  select {sums_sql(_SUMS, "all_")} from groups
), page as (
  select * from groups where cast(:cursor as text) is null or key > :cursor order by key limit :most
)
select totals.*, page.* from totals left join page on true order by key
""")
    for by, grouped in _GROUPED_SQL.items()
}
"""At least one row, each with the totals, so that the calls are aggregated once for both."""


async def read_costs(
    session: Transaction, scope: CostScope, cost_query: CostQuery, usage: BudgetUsage | None
) -> CostsResponse:
    """The caller has checked that the agent of the scope is the owner's. Raises TooManyDaysError."""
    until = cost_query.until or await budgets.today(session)
    since = cost_query.since or until - timedelta(days=USUAL_DAYS - 1)
    days = (until - since).days + 1
    if not 1 <= days <= MAX_DAYS:
        raise TooManyDaysError(
            f"{since} to {until} is {max(days, 0)} days; request 1 to {MAX_DAYS} days at a time"
        )
    parameters = {
        **scope.parameters,
        "since": datetime.combine(since, time(), UTC),
        "until": datetime.combine(until + timedelta(days=1), time(), UTC),
        "cursor": None if cost_query.cursor is None else storable(cost_query.cursor),
        "most": cost_query.limit + 1,
    }
    rows = (await session.execute(_COSTS[cost_query.by], parameters)).mappings().all()
    found = [CostGroup.model_validate(dict(row)) for row in rows if row["key"] is not None]
    groups = found[: cost_query.limit]
    totals = {name: rows[0][f"all_{name}"] for name in CostTotals.model_fields}
    return CostsResponse(
        since=since,
        until=until,
        by=cost_query.by,
        totals=CostTotals.model_validate(totals),
        groups=groups,
        next=groups[-1].key if len(found) > cost_query.limit else None,
        usage=usage,
    )
