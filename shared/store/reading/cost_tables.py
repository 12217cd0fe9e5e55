"""Where the money went, by everything at once: one look at the ledger for all the tables of a page."""

from collections import defaultdict
from collections.abc import Mapping
from datetime import date, timedelta
from typing import Any, Final, Literal
from uuid import UUID

from sqlalchemy import (
    ColumnElement,
    Select,
    Text,
    and_,
    cast,
    func,
    literal_column,
    select,
    text,
    tuple_,
)
from sqlalchemy.ext.asyncio import AsyncSession

from shared.store.reading import costs
from shared.store.reading.cost_shapes import CostTotals
from shared.store.reading.shapes import View
from shared.store.tables import Agent, Call
from shared.store.words import CallKind

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


async def of_agent(session: AsyncSession, agent_id: UUID, asked: costs.Asked) -> CostTables:
    """The caller has seen to it that the agent is the owner's. Raises TooManyDaysError."""
    return await _told(session, Call.agent_id == agent_id, asked)


async def of_owner(session: AsyncSession, owner_id: UUID, asked: costs.Asked) -> CostTables:
    """Of all agents that the owner has now. Raises TooManyDaysError."""
    return await _told(session, costs.calls_of_owner(owner_id), asked)


async def _told(
    session: AsyncSession, wanted: ColumnElement[bool], asked: costs.Asked
) -> CostTables:
    since, until = await costs.days_of(session, asked)
    found = await _rows(session, and_(wanted, costs.begun_in(since, until)))
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
