"""Where the money went, from the ledger: by an index that has all of it, over so many days at a time."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Final
from uuid import UUID

from sqlalchemy import ColumnElement, Select, Text, Uuid, and_, cast, func, select, true
from sqlalchemy.ext.asyncio import AsyncSession

from shared.store.budgets import standings
from shared.store.reading import budgets
from shared.store.reading.cost_shapes import (
    AllowanceView,
    CostGroup,
    CostsBy,
    CostsView,
    CostTotals,
)
from shared.store.storable import storable
from shared.store.tables import Agent, Call

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


async def of_agent(session: AsyncSession, agent_id: UUID, asked: Asked) -> CostsView:
    """The caller has seen to it that the agent is the owner's. Raises TooManyDaysError."""
    wanted = Call.agent_id == agent_id
    allowance = await budgets.allowance_of_agent(session, agent_id)
    return await _told(session, wanted, asked, allowance)


async def of_owner(
    session: AsyncSession, owner_id: UUID, asked: Asked, *, is_operator: bool
) -> CostsView:
    """Of all agents that the owner has now; to operators with what the installation may spend. Raises TooManyDaysError."""
    wanted = calls_of_owner(owner_id)
    allowance = await budgets.allowance_of_installation(session) if is_operator else None
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
    until = asked.until or await standings.today(session)
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
