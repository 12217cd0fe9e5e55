"""Costs, calls and budgets, from the ledger."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from sqlalchemy import (
    ColumnElement,
    Select,
    Text,
    Uuid,
    and_,
    cast,
    func,
    select,
    true,
)
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import defer

from services.api.queries.ledger import LEDGER, TOKENS, counted_calls
from shared.billing import budgets
from shared.billing import budgets as billing_budgets
from shared.billing.budgets import BudgetStatus
from shared.billing.reservations import INSTALLATION
from shared.database.pagination import Keyset, paginate
from shared.database.tables import Agent, Call, CallDay, Step
from shared.database.text import storable
from shared.enums import CallKind, Phase, StepStatus
from shared.schemas.base import (
    CallGroup,
    CallsSummary,
    CallTotals,
    Page,
    PageRequest,
    RunningCall,
)
from shared.schemas.costs import (
    BudgetResponse,
    BudgetUsage,
    CostGroup,
    CostsBy,
    CostsResponse,
    CostTotals,
)
from shared.schemas.iterations import CallResponse

_NEWEST = Keyset("calls", (Call.started_at, Call.id))


async def agent_call_totals(session: AsyncSession, owner_id: UUID, agent_id: UUID) -> CallsSummary:
    """Returns the totals of all calls that the agent has ever made."""
    owned_agent = (
        select(Agent.id).where(Agent.id == agent_id, Agent.owner_id == owner_id).scalar_subquery()
    )
    return await _count_calls(
        session, Call.agent_id == owned_agent, CallDay.agent_id == owned_agent
    )


async def list_calls(
    session: AsyncSession,
    owner_id: UUID,
    agent_id: UUID,
    page_request: PageRequest,
    *,
    kind: CallKind | None = None,
    phase: Phase | None = None,
) -> Page[CallResponse]:
    """Lists calls, newest first; with `kind` and `phase`, those only."""
    owned_agent = select(Agent.id).where(Agent.id == agent_id, Agent.owner_id == owner_id)
    statement = select(Call).where(Call.agent_id == owned_agent.scalar_subquery())
    if kind is not None:
        statement = statement.where(Call.kind == kind)
    if phase is not None:
        statement = statement.where(Call.phase == phase)
    page_slice = await paginate(
        session, statement.options(defer(Call.answer)), _NEWEST, page_request
    )
    return page_slice.page(CallResponse.model_validate)


async def iteration_call_totals(session: AsyncSession, iteration_id: UUID) -> CallsSummary:
    """Returns the totals of an iteration. The caller has checked that it is the owner's."""
    return await _count_calls(session, Call.iteration_id == iteration_id)


async def running_calls_of_iteration(
    session: AsyncSession, iteration_id: UUID
) -> list[RunningCall]:
    """Returns the running calls of an iteration. The caller has checked that it is the owner's."""
    return await _running_calls(session, Call.iteration_id == iteration_id)


async def running_calls_of_agent(session: AsyncSession, agent_id: UUID) -> list[RunningCall]:
    """Returns the running calls of an agent, including configuration and conversation.

    The caller has checked the owner.
    """
    return await _running_calls(session, Call.agent_id == agent_id)


async def running_calls_of_step(session: AsyncSession, step_id: UUID) -> list[RunningCall]:
    """Returns the running calls of a step. The caller has checked that it is the owner's."""
    return await _running_calls(session, Call.step_id == step_id)


async def _running_calls(
    session: AsyncSession, condition: ColumnElement[bool]
) -> list[RunningCall]:
    """Returns calls with a reservation: they are sent or about to be."""
    rows = await session.execute(
        select(
            Call.step_id,
            Call.phase,
            Call.kind,
            Call.model,
            Call.sent_at,
            Call.received_chars,
            Call.progressed_at,
        )
        .join(Step, Step.id == Call.step_id)
        .where(
            condition,
            Call.answered_at.is_(None),
            Call.reserved_on.is_not(None),
            Call.sent_at.is_not(None),
            Step.status == StepStatus.RUNNING,
        )
        .order_by(Call.sent_at)
    )
    return [RunningCall.model_validate(row) for row in rows]


async def _count_calls(
    session: AsyncSession,
    of_calls: ColumnElement[bool],
    of_days: ColumnElement[bool] | None = None,
) -> CallsSummary:
    counted = counted_calls(of_calls, of_days).c
    keys = (counted.kind, counted.phase, counted.model)
    names = ("answered", "unanswered", "input_tokens", "output_tokens", "cost_usd", "unpriced")
    rows = await session.execute(
        select(*keys, *(func.coalesce(func.sum(counted[name]), 0) for name in names))
        .group_by(*keys)
        .order_by(*keys)
    )
    groups = [CallGroup(**dict(zip(CallGroup.model_fields, row, strict=True))) for row in rows]
    return CallsSummary(totals=_totals(groups), groups=groups)


def _totals(groups: Sequence[CallGroup]) -> CallTotals:
    return CallTotals(
        llm_calls=sum(group.answered for group in groups if group.kind == CallKind.LLM),
        search_calls=sum(group.answered for group in groups if group.kind == CallKind.SEARCH),
        unanswered_calls=sum(group.unanswered for group in groups),
        input_tokens=sum(group.input_tokens for group in groups),
        output_tokens=sum(group.output_tokens for group in groups),
        cost_usd=sum(group.cost_usd for group in groups),
        unpriced_calls=sum(group.unpriced for group in groups),
    )


async def agent_budget(session: AsyncSession, agent_id: UUID) -> BudgetResponse:
    row = await session.get_one(Agent, agent_id, populate_existing=True)
    return BudgetResponse(
        agent_id=row.id,
        agent_name=row.name,
        suspended_until=row.suspended_until,
        usage=await agent_usage(session, row.id),
    )


async def agent_usage(session: AsyncSession, agent_id: UUID) -> BudgetUsage:
    day = await budgets.today(session)
    return _budget_usage(day, await budgets.load_status(session, agent_id, day))


async def installation_usage(session: AsyncSession) -> BudgetUsage:
    day = await budgets.today(session)
    return _budget_usage(day, await budgets.load_status(session, INSTALLATION, day))


def _budget_usage(day: date, status: BudgetStatus) -> BudgetUsage:
    usd, calls = status.usd, status.calls
    return BudgetUsage(
        day=day,
        usd_per_day=_number(usd.cap),
        spent_usd=float(usd.spent),
        reserved_usd=float(usd.reserved),
        left_usd=_number(usd.left),
        calls_per_day=_count(calls.cap),
        spent_calls=int(calls.spent),
        reserved_calls=int(calls.reserved),
        left_calls=_count(calls.left),
    )


def _number(amount: Decimal | None) -> float | None:
    return None if amount is None else float(amount)


def _count(amount: Decimal | None) -> int | None:
    return None if amount is None else int(amount)


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


async def agent_costs(
    session: AsyncSession, agent_id: UUID, cost_query: CostQuery
) -> CostsResponse:
    """Returns the costs of an agent.

    The caller has checked that it is the owner's. Raises TooManyDaysError.
    """
    condition = LEDGER.c.agent_id == agent_id
    usage = await agent_usage(session, agent_id)
    return await _costs_view(session, condition, cost_query, usage)


async def owner_costs(
    session: AsyncSession, owner_id: UUID, cost_query: CostQuery, *, is_operator: bool
) -> CostsResponse:
    """Returns the costs of the owner's present agents; for operators with the installation's
    budget. Raises TooManyDaysError.
    """
    condition = calls_of_owner(owner_id)
    usage = await installation_usage(session) if is_operator else None
    return await _costs_view(session, condition, cost_query, usage)


def calls_of_owner(owner_id: UUID) -> ColumnElement[bool]:
    return LEDGER.c.agent_id.in_(select(Agent.id).where(Agent.owner_id == owner_id))


async def _costs_view(
    session: AsyncSession,
    condition: ColumnElement[bool],
    cost_query: CostQuery,
    usage: BudgetUsage | None,
) -> CostsResponse:
    since, until = await day_range(session, cost_query)
    in_range = and_(condition, began_between(since, until))
    grouped = (
        _by_agent(in_range) if cost_query.by == "agent" else _by_key(KEYS[cost_query.by], in_range)
    )
    rows = (await session.execute(_totals_and_page(grouped, cost_query))).mappings().all()
    cost_groups = [CostGroup.model_validate(dict(row)) for row in rows if row["key"] is not None]
    groups = cost_groups[: cost_query.limit]
    totals = {name: rows[0][f"all_{name}"] for name in CostTotals.model_fields}
    return CostsResponse(
        since=since,
        until=until,
        by=cost_query.by,
        totals=CostTotals.model_validate(totals),
        groups=groups,
        next=groups[-1].key if len(cost_groups) > cost_query.limit else None,
        usage=usage,
    )


def _totals_and_page(grouped: Select[Any], cost_query: CostQuery) -> Select[Any]:
    """Selects at least one row, each with the totals, so that the calls are aggregated once for both."""
    groups = grouped.cte("groups")
    totals = select(
        *(
            func.coalesce(func.sum(groups.c[name]), 0).label(f"all_{name}")
            for name in CostTotals.model_fields
        )
    ).subquery()
    statement = select(groups).order_by(groups.c.key).limit(cost_query.limit + 1)
    if cost_query.cursor is not None:
        statement = statement.where(groups.c.key > storable(cost_query.cursor))
    page = statement.subquery()
    joined = totals.outerjoin(page, true())
    return select(totals, page).select_from(joined).order_by(page.c.key)


def _by_key(key: ColumnElement[str], condition: ColumnElement[bool]) -> Select[Any]:
    agent_id = cast(None, Uuid).label("agent_id")
    columns: tuple[ColumnElement[Any], ...] = (key.label("key"), agent_id, *SUMS)
    return select(*columns).where(condition).group_by("key")


def _by_agent(condition: ColumnElement[bool]) -> Select[Any]:
    """Joins the agents after the aggregation, not for each call."""
    of_agent = LEDGER.c.agent_id
    sums = select(of_agent, *SUMS).where(condition).group_by(of_agent).subquery()
    return select(sums, Agent.name.label("key")).join(Agent, Agent.id == sums.c.agent_id)


async def day_range(session: AsyncSession, cost_query: CostQuery) -> tuple[date, date]:
    """Returns the first and the last day. Raises TooManyDaysError."""
    until = cost_query.until or await billing_budgets.today(session)
    since = cost_query.since or until - timedelta(days=USUAL_DAYS - 1)
    days = (until - since).days + 1
    if not 1 <= days <= MAX_DAYS:
        raise TooManyDaysError(
            f"{since} to {until} is {max(days, 0)} days; request 1 to {MAX_DAYS} days at a time"
        )
    return since, until


def began_between(since: date, until: date) -> ColumnElement[bool]:
    """Returns the condition for calls that began on these days, both inclusive."""
    return and_(
        LEDGER.c.started_at >= _midnight(since),
        LEDGER.c.started_at < _midnight(until + timedelta(days=1)),
    )


def _midnight(day: date) -> datetime:
    """Returns the start of the day in UTC."""
    return datetime.combine(day, time(), UTC)


_SUMMED: Final = ("calls", "attempts", *TOKENS, "cost_usd", "assumed_usd")
SUMS: Final[tuple[ColumnElement[Any], ...]] = tuple(
    func.coalesce(func.sum(LEDGER.c[name]), 0).label(name) for name in _SUMMED
)

KEYS: Final[Mapping[CostsBy, ColumnElement[str]]] = {
    "day": func.to_char(func.timezone("UTC", LEDGER.c.started_at), "YYYY-MM-DD"),
    "phase": cast(LEDGER.c.phase, Text),
    "model": func.coalesce(LEDGER.c.model, cast(LEDGER.c.kind, Text)),
}
