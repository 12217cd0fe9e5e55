"""Costs, calls and budgets, from the ledger."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final, Literal
from uuid import UUID

from sqlalchemy import (
    ColumnElement,
    Select,
    Text,
    Uuid,
    and_,
    cast,
    func,
    literal_column,
    select,
    text,
    true,
    tuple_,
)
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import defer

from shared.billing import budgets
from shared.billing import budgets as billing_budgets
from shared.billing.budgets import Standing
from shared.database.pagination import Keyset, slice_of
from shared.database.tables import Agent, Call, Step
from shared.database.text import storable
from shared.enums import CallKind, Phase, StepStatus
from shared.schemas.base import CallGroup, CallsView, CallTotals, Page, RunningCall, View, Wanted
from shared.schemas.costs import (
    AllowanceView,
    BudgetView,
    CostGroup,
    CostsBy,
    CostsView,
    CostTotals,
)
from shared.schemas.iterations import CallView

_NEWEST = Keyset("calls", (Call.started_at, Call.id))


async def agent_calls(session: AsyncSession, owner_id: UUID, agent_id: UUID) -> CallsView:
    """Every call that is still in the ledger."""
    owned = select(Agent.id).where(Agent.id == agent_id, Agent.owner_id == owner_id)
    return await _counted(session, Call.agent_id == owned.scalar_subquery())


async def page_of_agent(
    session: AsyncSession,
    owner_id: UUID,
    agent_id: UUID,
    wanted: Wanted,
    *,
    kind: CallKind | None = None,
    phase: Phase | None = None,
) -> Page[CallView]:
    """One by one, the newest first; of that kind and phase where they are given."""
    owned = select(Agent.id).where(Agent.id == agent_id, Agent.owner_id == owner_id)
    statement = select(Call).where(Call.agent_id == owned.scalar_subquery())
    if kind is not None:
        statement = statement.where(Call.kind == kind)
    if phase is not None:
        statement = statement.where(Call.phase == phase)
    found = await slice_of(session, statement.options(defer(Call.answer)), _NEWEST, wanted)
    return found.page(CallView.model_validate)


async def of_iteration(session: AsyncSession, iteration_id: UUID) -> CallsView:
    """The caller has seen to it that the iteration is the owner's."""
    return await _counted(session, Call.iteration_id == iteration_id)


async def running_of_iteration(session: AsyncSession, iteration_id: UUID) -> list[RunningCall]:
    """The caller has seen to it that the iteration is the owner's."""
    return await _running(session, Call.iteration_id == iteration_id)


async def running_of_agent(session: AsyncSession, agent_id: UUID) -> list[RunningCall]:
    """Those of its configuration and conversation too. The caller has seen to it that the agent is the owner's."""
    return await _running(session, Call.agent_id == agent_id)


async def running_of_step(session: AsyncSession, step_id: UUID) -> list[RunningCall]:
    """The caller has seen to it that the step is the owner's."""
    return await _running(session, Call.step_id == step_id)


async def _running(session: AsyncSession, wanted: ColumnElement[bool]) -> list[RunningCall]:
    """What is reserved for was sent, or is about to be."""
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
            wanted,
            Call.answered_at.is_(None),
            Call.reserved_on.is_not(None),
            Call.sent_at.is_not(None),
            Step.status == StepStatus.RUNNING,
        )
        .order_by(Call.sent_at)
    )
    return [RunningCall.model_validate(row) for row in rows]


async def _counted(session: AsyncSession, wanted: ColumnElement[bool]) -> CallsView:
    answered = Call.answered_at.is_not(None)
    rows = await session.execute(
        select(
            Call.kind,
            Call.phase,
            Call.model,
            func.count().filter(answered),
            func.count().filter(~answered),
            func.coalesce(func.sum(Call.input_tokens), 0),
            func.coalesce(func.sum(Call.output_tokens), 0),
            func.coalesce(func.sum(Call.cost_usd), 0),
            func.count().filter(answered, Call.kind == CallKind.LLM, Call.cost_usd.is_(None)),
        )
        .where(wanted)
        .group_by(Call.kind, Call.phase, Call.model)
        .order_by(Call.kind, Call.phase, Call.model)
    )
    groups = [CallGroup(**dict(zip(CallGroup.model_fields, row, strict=True))) for row in rows]
    return CallsView(totals=_totals(groups), groups=groups)


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


async def agent_budget(session: AsyncSession, agent_id: UUID) -> BudgetView:
    row = await session.get_one(Agent, agent_id, populate_existing=True)
    return BudgetView(
        agent_id=row.id,
        agent_name=row.name,
        resting_until=row.resting_until,
        allowance=await allowance_of_agent(session, row.id),
    )


async def allowance_of_agent(session: AsyncSession, agent_id: UUID) -> AllowanceView:
    day = await budgets.today(session)
    return _allowance(day, await budgets.of_agent(session, agent_id, day))


async def allowance_of_installation(session: AsyncSession) -> AllowanceView:
    day = await budgets.today(session)
    return _allowance(day, await budgets.of_installation(session, day))


def _allowance(day: date, standing: Standing) -> AllowanceView:
    usd, calls = standing.usd, standing.calls
    return AllowanceView(
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
MOST_DAYS: Final = 366
GROUPS: Final = 100
MOST_GROUPS: Final = 500


@dataclass(frozen=True)
class Asked:
    """What to tell. Without days: the last USUAL_DAYS of them, today among them."""

    by: CostsBy = "day"
    since: date | None = None
    until: date | None = None
    cursor: str | None = None
    """The last group's key of the page before."""
    limit: int = GROUPS


class TooManyDaysError(ValueError):
    """The days that are asked for are more than MOST_DAYS, or none."""


async def agent_costs(session: AsyncSession, agent_id: UUID, asked: Asked) -> CostsView:
    """The caller has seen to it that the agent is the owner's. Raises TooManyDaysError."""
    wanted = Call.agent_id == agent_id
    allowance = await allowance_of_agent(session, agent_id)
    return await _told(session, wanted, asked, allowance)


async def owner_costs(
    session: AsyncSession, owner_id: UUID, asked: Asked, *, is_operator: bool
) -> CostsView:
    """Of all agents that the owner has now; to operators with what the installation may spend. Raises TooManyDaysError."""
    wanted = calls_of_owner(owner_id)
    allowance = await allowance_of_installation(session) if is_operator else None
    return await _told(session, wanted, asked, allowance)


def calls_of_owner(owner_id: UUID) -> ColumnElement[bool]:
    return Call.agent_id.in_(select(Agent.id).where(Agent.owner_id == owner_id))


async def _told(
    session: AsyncSession,
    wanted: ColumnElement[bool],
    asked: Asked,
    allowance: AllowanceView | None,
) -> CostsView:
    since, until = await days_of(session, asked)
    begun = and_(wanted, begun_in(since, until))
    grouped = _by_agent(begun) if asked.by == "agent" else _by_key(KEYS[asked.by], begun)
    rows = (await session.execute(_totals_and_page(grouped, asked))).mappings().all()
    found = [CostGroup.model_validate(dict(row)) for row in rows if row["key"] is not None]
    groups = found[: asked.limit]
    totals = {name: rows[0][f"all_{name}"] for name in CostTotals.model_fields}
    return CostsView(
        since=since,
        until=until,
        by=asked.by,
        totals=CostTotals.model_validate(totals),
        groups=groups,
        next=groups[-1].key if len(found) > asked.limit else None,
        allowance=allowance,
    )


def _totals_and_page(grouped: Select[Any], asked: Asked) -> Select[Any]:
    """One row or more, each with the totals: so the calls are summed up once for both."""
    groups = grouped.cte("groups")
    totals = select(
        *(
            func.coalesce(func.sum(groups.c[name]), 0).label(f"all_{name}")
            for name in CostTotals.model_fields
        )
    ).subquery()
    wanted = select(groups).order_by(groups.c.key).limit(asked.limit + 1)
    if asked.cursor is not None:
        wanted = wanted.where(groups.c.key > storable(asked.cursor))
    page = wanted.subquery()
    both = totals.outerjoin(page, true())
    return select(totals, page).select_from(both).order_by(page.c.key)


def _by_key(key: ColumnElement[str], begun: ColumnElement[bool]) -> Select[Any]:
    agent_id = cast(None, Uuid).label("agent_id")
    return select(key.label("key"), agent_id, *SUMS).where(begun).group_by("key")


def _by_agent(begun: ColumnElement[bool]) -> Select[Any]:
    """The agents are looked up when their calls are summed, and not for each call."""
    summed = select(Call.agent_id, *SUMS).where(begun).group_by(Call.agent_id).subquery()
    return select(summed, Agent.name.label("key")).join(Agent, Agent.id == summed.c.agent_id)


async def days_of(session: AsyncSession, asked: Asked) -> tuple[date, date]:
    """The first and the last. Raises TooManyDaysError."""
    until = asked.until or await billing_budgets.today(session)
    since = asked.since or until - timedelta(days=USUAL_DAYS - 1)
    days = (until - since).days + 1
    if not 1 <= days <= MOST_DAYS:
        raise TooManyDaysError(
            f"from {since} to {until} are {max(days, 0)} days; ask for 1 to {MOST_DAYS} at a time"
        )
    return since, until


def begun_in(since: date, until: date) -> ColumnElement[bool]:
    """Calls of these days, both included."""
    return and_(
        Call.started_at >= _midnight(since),
        Call.started_at < _midnight(until + timedelta(days=1)),
    )


def _midnight(day: date) -> datetime:
    """At which the day begins."""
    return datetime.combine(day, time(), UTC)


SUMS: Final = (
    func.count().label("calls"),
    func.coalesce(func.sum(Call.sendings), 0).label("sendings"),
    func.coalesce(func.sum(Call.input_tokens), 0).label("input_tokens"),
    func.coalesce(func.sum(Call.output_tokens), 0).label("output_tokens"),
    func.coalesce(func.sum(Call.cost_usd), 0).label("cost_usd"),
    func.coalesce(func.sum(Call.presumed_usd), 0).label("presumed_usd"),
)

KEYS: Final[Mapping[CostsBy, ColumnElement[str]]] = {
    "day": func.to_char(func.timezone("UTC", Call.started_at), "YYYY-MM-DD"),
    "phase": cast(Call.phase, Text),
    "model": func.coalesce(Call.model, cast(Call.kind, Text)),
}


TableBy = Literal["day", "agent", "phase", "model", "kind"]

_BY: Final[tuple[TableBy, ...]] = ("day", "agent", "phase", "model", "kind")


class CostRow(CostTotals):
    """`key` is a day, an agent's id, a phase, a model, or a kind of calls."""

    key: str
    unpriced: int
    """Calls of the model whose cost is not known: unanswered, or the server told no tokens."""


class CostTables(View):
    """Of calls begun from the day `since` to the day `until` (UTC), both included. Deleted agents' are not among them."""

    since: date
    until: date
    totals: CostRow
    by: dict[TableBy, list[CostRow]]
    """Days in their order, each of them; all others by what they cost, the dearest first."""
    agent_names: dict[str, str]


async def agent_cost_tables(session: AsyncSession, agent_id: UUID, asked: Asked) -> CostTables:
    """The caller has seen to it that the agent is the owner's. Raises TooManyDaysError."""
    return await _told_tables(session, Call.agent_id == agent_id, asked)


async def owner_cost_tables(session: AsyncSession, owner_id: UUID, asked: Asked) -> CostTables:
    """Of all agents that the owner has now. Raises TooManyDaysError."""
    return await _told_tables(session, calls_of_owner(owner_id), asked)


async def _told_tables(
    session: AsyncSession, wanted: ColumnElement[bool], asked: Asked
) -> CostTables:
    since, until = await days_of(session, asked)
    found = await _rows(session, and_(wanted, begun_in(since, until)))
    ids = [UUID(row.key) for row in found["agent"]]
    names = await session.execute(select(Agent.id, Agent.name).where(Agent.id.in_(ids)))
    by: dict[TableBy, list[CostRow]] = {each: sorted(found[each], key=_dearest) for each in _BY}
    by["day"] = _each_day(since, until, {row.key: row for row in found["day"]})
    return CostTables(
        since=since,
        until=until,
        totals=found["all"][0],
        by=by,
        agent_names={str(row.id): row.name for row in names},
    )


async def _rows(session: AsyncSession, begun: ColumnElement[bool]) -> Mapping[str, list[CostRow]]:
    """By what they are grouped by, the totals under `all`."""
    # PostgreSQL expects a group of its own for each call, and would sort them all on disk rather than keep those.
    await session.execute(text(f"set local work_mem = '{_MEMORY}'"))
    each = _written(_summed(begun)).subquery()
    columns = [each.c[by] for by in _BY]
    rows = await session.execute(
        select(
            *columns,
            func.grouping(*columns).label("left_out"),
            *(func.coalesce(func.sum(each.c[name]), 0).label(name) for name in _SUMS),
        ).group_by(func.grouping_sets(*(tuple_(column) for column in columns), tuple_()))
    )
    found: defaultdict[str, list[CostRow]] = defaultdict(list)
    for row in rows.mappings():
        by = _grouped_by(row["left_out"])
        key = "all" if by is None else row[by]
        found[by or "all"].append(CostRow.model_validate({**row, "key": key}))
    return found


def _summed(begun: ColumnElement[bool]) -> Select[Any]:
    """The calls, gone through once and made few: by what they are grouped by as it stands in the ledger."""
    unpriced = and_(Call.kind == CallKind.LLM, Call.cost_usd.is_(None))
    grouped = _DAY.label("day"), Call.agent_id, Call.phase, Call.model, Call.kind
    return (
        select(
            *grouped,
            func.count().label("calls"),
            func.count().filter(unpriced).label("unpriced"),
            *(func.sum(getattr(Call, name)).label(name) for name in _SUMMED),
        )
        .where(begun)
        .group_by("day", *grouped[1:])
    )


def _written(summed: Select[Any]) -> Select[Any]:
    """With its keys as they are told."""
    each = summed.subquery().c
    return select(
        func.to_char(func.timezone("UTC", each.day), "YYYY-MM-DD").label("day"),
        cast(each.agent_id, Text).label("agent"),
        cast(each.phase, Text).label("phase"),
        func.coalesce(each.model, cast(each.kind, Text)).label("model"),
        cast(each.kind, Text).label("kind"),
        *(each[name] for name in _SUMS),
    )


def _grouped_by(left_out: int) -> TableBy | None:
    """`left_out` has a bit for each of _BY, the first of them the highest, which is 1 where it is not grouped by."""
    for place, by in enumerate(reversed(_BY)):
        if not left_out >> place & 1:
            return by
    return None


def _each_day(since: date, until: date, found: Mapping[str, CostRow]) -> list[CostRow]:
    days = [str(since + timedelta(days=place)) for place in range((until - since).days + 1)]
    return [found.get(day) or CostRow.model_validate({**_NOTHING, "key": day}) for day in days]


def _dearest(row: CostRow) -> tuple[float, int, str]:
    return -(row.cost_usd + row.presumed_usd), -row.calls, row.key


_SUMMED: Final = ("sendings", "input_tokens", "output_tokens", "cost_usd", "presumed_usd")
_SUMS: Final = ("calls", "unpriced", *_SUMMED)
_NOTHING: Final[dict[str, Any]] = dict.fromkeys(_SUMS, 0)
_DAY: Final = func.date_bin(
    literal_column("interval '1 day'"), Call.started_at, literal_column("timestamptz '2000-01-01Z'")
)
"""When the call's day began (UTC). As a moment: to write it out for each call takes longer than to sum them up."""
_MEMORY: Final = "32MB"
