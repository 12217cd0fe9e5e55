"""Where the money went, by everything at once: one look at the ledger for all the tables of a page."""

from collections import defaultdict
from collections.abc import Mapping
from datetime import date, timedelta
from typing import Any, Final, Literal
from uuid import UUID

from sqlalchemy import ColumnElement, Integer, Text, and_, cast, func, literal, select, tuple_
from sqlalchemy.ext.asyncio import AsyncSession

from shared.store.reading import costs
from shared.store.reading.cost_shapes import CostTotals
from shared.store.reading.shapes import View
from shared.store.tables import Agent, Call
from shared.store.words import CallKind

TableBy = Literal["day", "agent", "phase", "model", "kind"]

_KEYS: Final[Mapping[TableBy, ColumnElement[str]]] = {
    "day": costs.KEYS["day"],
    "agent": cast(Call.agent_id, Text),
    "phase": costs.KEYS["phase"],
    "model": costs.KEYS["model"],
    "kind": cast(Call.kind, Text),
}


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
    by: dict[TableBy, list[CostRow]] = {each: sorted(found[each], key=_dearest) for each in _KEYS}
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
    unpriced = and_(Call.kind == CallKind.LLM, Call.cost_usd.is_(None))
    each = (
        select(
            *(key.label(by) for by, key in _KEYS.items()),
            cast(unpriced, Integer).label("unpriced"),
            literal(1).label("calls"),
            *(getattr(Call, name) for name in _SUMMED),
        )
        .where(begun)
        .subquery()
    )
    columns = [each.c[by] for by in _KEYS]
    rows = await session.execute(
        select(
            *columns,
            func.grouping(*columns).label("left_out"),
            *(
                func.coalesce(func.sum(each.c[name]), 0).label(name)
                for name in ("calls", "unpriced", *_SUMMED)
            ),
        ).group_by(func.grouping_sets(*(tuple_(column) for column in columns), tuple_()))
    )
    found: defaultdict[str, list[CostRow]] = defaultdict(list)
    for row in rows.mappings():
        by = _grouped_by(row["left_out"])
        key = "all" if by is None else row[by]
        found[by or "all"].append(CostRow.model_validate({**row, "key": key}))
    return found


def _grouped_by(left_out: int) -> TableBy | None:
    """`left_out` has a bit for each of _KEYS, the first of them the highest, which is 1 where it is not grouped by."""
    for place, by in enumerate(reversed(list(_KEYS))):
        if not left_out >> place & 1:
            return by
    return None


def _each_day(since: date, until: date, found: Mapping[str, CostRow]) -> list[CostRow]:
    days = [str(since + timedelta(days=place)) for place in range((until - since).days + 1)]
    return [found.get(day) or CostRow.model_validate({**_NOTHING, "key": day}) for day in days]


def _dearest(row: CostRow) -> tuple[float, int, str]:
    return -(row.cost_usd + row.presumed_usd), -row.calls, row.key


_SUMMED: Final = ("sendings", "input_tokens", "output_tokens", "cost_usd", "presumed_usd")
_NOTHING: Final[dict[str, Any]] = dict.fromkeys(("calls", "unpriced", *_SUMMED), 0)
