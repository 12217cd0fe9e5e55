"""Figures of the cost pages: what was spent lately, the forecast, and the series of the chart."""

import csv
import io
from calendar import monthrange
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Final, Literal, NamedTuple

from services.api.resources.costs.reports import (
    CostPoint,
    CostReport,
    CostRow,
    Life,
    SpentDay,
    start_of_day,
)
from services.api.web.filters import phase
from shared.enums import Phase
from shared.schemas.costs import BudgetUsage, CostTotals, InputTokens, parts_of_input

Unit = Literal["usd", "tokens"]

DAY: Final = timedelta(days=1)
PACE_DAYS: Final = 7
"""The rate of a forecast is that of the last days."""
MIN_PACE: Final = timedelta(hours=1)
"""Over a shorter time, a single iteration would look like a day of them."""
OTHER: Final = "other"


@dataclass(frozen=True)
class Spent:
    """What was spent in a time that ends now."""

    amount: float
    """Without what is assumed."""
    assumed_usd: float
    calls: int
    lasted: timedelta
    """How much of the time the agent existed."""
    is_whole: bool
    """Whether it existed all the time."""

    @property
    def per_day(self) -> float | None:
        """None where the time is too short for an average."""
        return self.amount / (self.lasted / DAY) if self.lasted >= MIN_PACE else None


@dataclass(frozen=True)
class Forecast:
    """What will have been spent at the end of the day and of the month, at the rate of the last days."""

    day: float
    month: float
    is_capped: bool
    """Whether the budget keeps the day below what the rate would give."""
    is_paused: bool
    """No agent starts iterations, so that nothing is added."""


@dataclass(frozen=True)
class Tiles:
    unit: Unit
    now: datetime
    resets_at: datetime
    """When the day of the budget ends."""
    today: Spent
    week: Spent
    month: Spent
    """Of 30 days."""
    calendar_month: float
    """Since the first day of the month."""
    forecast: Forecast | None
    """None until there is a rate."""


def unit_of(days: Sequence[SpentDay], totals: CostTotals | None = None) -> Unit:
    """Dollars, unless nothing was billed, as by the sandbox."""
    is_billed = any(day.cost_usd + day.assumed_usd > 0 for day in days)
    if totals is not None:
        is_billed = is_billed or totals.cost_usd + totals.assumed_usd > 0
    return "usd" if is_billed else "tokens"


def build_tiles(
    life: Life, days: Sequence[SpentDay], unit: Unit, cap_usd: float | None = None
) -> Tiles:
    """`cap_usd` is the daily budget that limits the forecast, None if there is none."""
    now = life.now.astimezone(UTC)
    midnight = start_of_day(now)
    week = _spent(life, days, unit, midnight - (PACE_DAYS - 1) * DAY)
    today = _spent(life, days, unit, midnight)
    so_far = _spent(life, days, unit, midnight.replace(day=1)).amount
    return Tiles(
        unit=unit,
        now=now,
        resets_at=midnight + DAY,
        today=today,
        week=week,
        month=_spent(life, days, unit, midnight - 29 * DAY),
        calendar_month=so_far,
        forecast=_forecast(life, today, week.per_day, so_far, cap_usd if unit == "usd" else None),
    )


def _spent(life: Life, days: Sequence[SpentDay], unit: Unit, since: datetime) -> Spent:
    now = life.now.astimezone(UTC)
    days = [day for day in days if day.day >= since.date()]
    first = max(since, life.exists_since or now)
    return Spent(
        amount=sum(_in_unit(day, unit) for day in days),
        assumed_usd=sum(day.assumed_usd for day in days),
        calls=sum(day.calls for day in days),
        lasted=now - first,
        is_whole=first == since,
    )


def _in_unit(day: SpentDay, unit: Unit) -> float:
    return day.cost_usd if unit == "usd" else day.tokens


def _forecast(
    life: Life, today: Spent, per_day: float | None, so_far: float, cap: float | None
) -> Forecast | None:
    if not life.is_active:
        return Forecast(today.amount, so_far, is_capped=False, is_paused=True)
    if per_day is None:
        return None
    now = life.now.astimezone(UTC)
    rest_of_day = (start_of_day(now) + DAY - now) / DAY
    day = today.amount + per_day * rest_of_day
    most = day if cap is None else max(cap, today.amount)
    following_days = monthrange(now.year, now.month)[1] - now.day
    following = per_day if cap is None else min(per_day, cap)
    month = so_far + min(day, most) - today.amount + following * following_days
    return Forecast(min(day, most), month, is_capped=day > most, is_paused=False)


class Series(NamedTuple):
    key: str
    name: str
    kind: int
    """Number of its colour."""
    values: list[float]
    """One for each day of the period."""


class ChartRow(NamedTuple):
    day: date
    values: list[float]
    """One for each series."""
    assumed_usd: float
    calls: int
    total: float


@dataclass(frozen=True)
class Chart:
    unit: Unit
    series: list[Series]
    rows: list[ChartRow]
    has_assumed: bool


def build_chart(report: CostReport, unit: Unit) -> Chart:
    """A series for each phase or agent, over all days of the period."""
    days = report.days
    place = {day: number for number, day in enumerate(days)}
    values: dict[str, list[float]] = {}
    assumed, calls = [0.0] * len(days), [0] * len(days)
    for point in report.points:
        number = place[point.day]
        line = values.setdefault(point.key or OTHER, [0.0] * len(days))
        line[number] += _value(point, unit)
        calls[number] += point.calls
        if unit == "usd":
            assumed[number] += point.assumed_usd
    series = _series(report, values)
    rows = [
        ChartRow(
            day,
            [each.values[number] for each in series],
            assumed[number],
            calls[number],
            sum(each.values[number] for each in series),
        )
        for number, day in enumerate(days)
    ]
    return Chart(unit, series, rows, any(assumed))


def _value(point: CostPoint, unit: Unit) -> float:
    return point.cost_usd if unit == "usd" else point.input_tokens + point.output_tokens


_PHASE_KINDS: Final[Mapping[str, int]] = {name: place for place, name in enumerate(Phase, 1)}
"""A phase has the same colour everywhere, however much it costs."""
_OTHER_KIND: Final = 9


def _series(report: CostReport, values: Mapping[str, list[float]]) -> list[Series]:
    ordered = [row.key for row in report.by[report.stacked_by] if row.key in values]
    if OTHER in values:
        ordered.append(OTHER)
    return [
        Series(key, series_name(report, key), _kind(report, key, place), values[key])
        for place, key in enumerate(ordered, 1)
    ]


def _kind(report: CostReport, key: str, place: int) -> int:
    if key == OTHER:
        return _OTHER_KIND
    return _PHASE_KINDS.get(key, place) if report.stacked_by == "phase" else place


def kinds_of(chart: Chart, report: CostReport, by: str) -> Mapping[str, int]:
    """Colours of the rows of a table, where the chart has them too; phases always have theirs."""
    if report.stacked_by == by:
        return {each.key: each.kind for each in chart.series}
    return _PHASE_KINDS if by == "phase" else {}


def series_name(report: CostReport, key: str) -> str:
    if key == OTHER:
        return "Others"
    return phase(key) if report.stacked_by == "phase" else report.agent_names.get(key, key)


class PromptPart(NamedTuple):
    name: str
    kind: int
    tokens: int
    share: float
    """Of all input tokens."""


_PART_KINDS: Final = {
    "system prompts": 1,
    "tools": 4,
    "graph context": 3,
    "results of tools": 2,
    "tasks and answers": 6,
}
"""A part has the same colour everywhere."""

_PART_NAMES: Final = {"results of tools": "tool results"}
"""Names on the page, where they differ from those in the response."""


def prompt_parts(of: InputTokens) -> list[PromptPart]:
    """Input tokens by the part of the request, in the order of a request; empty if they are not known."""
    whole = of.input_tokens
    return [
        PromptPart(
            _PART_NAMES.get(name, name), _PART_KINDS[name], tokens, tokens / whole if whole else 0.0
        )
        for name, tokens in parts_of_input(of).items()
    ]


def budget_share(usage: BudgetUsage) -> float | None:
    """The larger share of today's caps that is spent or reserved, from 0 to 1; None without a cap."""
    shares = [
        min((spent + reserved) / cap, 1.0) if cap else 1.0
        for spent, reserved, cap in (
            (usage.spent_usd, usage.reserved_usd, usage.usd_per_day),
            (usage.spent_calls, usage.reserved_calls, usage.calls_per_day),
        )
        if cap is not None
    ]
    return max(shares, default=None)


def share_of(row: CostRow, totals: CostRow) -> float:
    """The share of a row, from 0 to 1: of the cost, or where nothing was billed of the tokens."""
    whole = totals.cost_usd + totals.assumed_usd
    if whole:
        return (row.cost_usd + row.assumed_usd) / whole
    tokens = totals.input_tokens + totals.output_tokens
    return (row.input_tokens + row.output_tokens) / tokens if tokens else 0.0


_CSV_COLUMNS: Final = ("calls", "input_tokens", "output_tokens", "cost_usd", "assumed_usd")
_FORMULA_STARTS: Final = ("=", "+", "-", "@", "\t", "\r")


def as_csv(report: CostReport) -> str:
    """One line for each day (UTC) and each phase or agent with calls in it."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\r\n")
    writer.writerow(("day_utc", report.stacked_by, *_CSV_COLUMNS))
    for point in sorted(report.points, key=lambda point: (point.day, point.key or "")):
        name = _without_formula(series_name(report, point.key or OTHER))
        writer.writerow((point.day, name, *(getattr(point, column) for column in _CSV_COLUMNS)))
    return buffer.getvalue()


def _without_formula(name: str) -> str:
    """Spreadsheets run a cell that begins like a formula; names come from users and models."""
    return f"'{name}" if name.startswith(_FORMULA_STARTS) else name
