"""Figures of the cost pages: averages and forecasts over days that existed, series, and CSV."""

from datetime import UTC, date, datetime, timedelta
from uuid import uuid4

import pytest

from services.api.resources.costs.charts import (
    as_csv,
    build_chart,
    build_tiles,
    prompt_parts,
    share_of,
    unit_of,
)
from services.api.resources.costs.reports import (
    CostPoint,
    CostReport,
    CostRow,
    GroupedBy,
    Life,
    SpentDay,
    StackedBy,
)

NOW = datetime(2026, 3, 10, 6, 0, tzinfo=UTC)
MONTHS_AGO = datetime(2025, 12, 1, tzinfo=UTC)
TODAY = date(2026, 3, 10)


def life(since: datetime | None = MONTHS_AGO, *, is_active: bool = True) -> Life:
    return Life(NOW, since, is_active)


def day(days_ago: int, usd: float, tokens: int = 0) -> SpentDay:
    return SpentDay(TODAY - timedelta(days=days_ago), 2, tokens, usd, 0.0)


def row(key: str, usd: float = 0.0, tokens: int = 0, **values: int) -> CostRow:
    totals = {"calls": 1, "attempts": 1, "input_tokens": tokens, "output_tokens": 0, "unpriced": 0}
    return CostRow.model_validate(
        {**totals, "key": key, "cost_usd": usd, "assumed_usd": 0.0, **values}
    )


def report(*points: CostPoint, stacked_by: StackedBy = "phase") -> CostReport:
    """Of the last seven days."""
    keys = dict.fromkeys(point.key for point in points if point.key)
    rows = [row(key, 1.0) for key in keys]
    total = row("all", sum(point.cost_usd for point in points))
    by: dict[GroupedBy, list[CostRow]] = {"phase": [], "agent": [], "model": [], stacked_by: rows}
    since = TODAY - timedelta(days=6)
    return CostReport(since, TODAY, stacked_by, total, by, list(points), {})


def point(key: str | None, usd: float, assumed: float = 0.0, on: date = TODAY) -> CostPoint:
    return CostPoint(on, key, 1, 10, 5, usd, assumed)


def test_an_average_covers_only_the_time_since_the_agent_was_created() -> None:
    tiles = build_tiles(life(NOW - timedelta(days=2)), [day(0, 1.0), day(1, 1.0)], "usd")
    assert (tiles.week.amount, tiles.week.per_day, tiles.week.is_whole) == (2.0, 1.0, False)
    assert tiles.week.lasted == timedelta(days=2)


def test_a_full_week_counts_seven_days_with_today_so_far() -> None:
    tiles = build_tiles(life(), [day(days_ago, 0.625) for days_ago in range(10)], "usd")
    assert (tiles.week.amount, tiles.week.is_whole) == (0.625 * 7, True)
    # Six days and six hours.
    assert tiles.week.per_day == pytest.approx(0.7)
    assert tiles.today.amount == 0.625
    assert tiles.month.amount == pytest.approx(6.25)


def test_a_forecast_adds_the_rate_for_the_rest_of_the_day_and_the_month() -> None:
    tiles = build_tiles(life(NOW - timedelta(days=2)), [day(0, 1.0), day(1, 1.0)], "usd")
    assert tiles.forecast is not None
    assert tiles.forecast.day == pytest.approx(1.0 + 0.75)
    assert tiles.forecast.month == pytest.approx(2.0 + 0.75 + 21)


def test_a_forecast_stays_within_the_budget() -> None:
    tiles = build_tiles(life(NOW - timedelta(days=2)), [day(0, 1.0), day(1, 3.0)], "usd", 1.5)
    assert tiles.forecast is not None
    assert (tiles.forecast.day, tiles.forecast.is_capped) == (1.5, True)
    assert tiles.forecast.month == pytest.approx(4.0 + 0.5 + 21 * 1.5)


def test_a_paused_agent_spends_no_more() -> None:
    tiles = build_tiles(life(is_active=False), [day(0, 1.0), day(1, 2.0)], "usd")
    assert tiles.forecast is not None
    assert (tiles.forecast.day, tiles.forecast.month) == (1.0, 3.0)
    assert tiles.forecast.is_paused


def test_there_is_no_forecast_within_the_first_hour() -> None:
    tiles = build_tiles(life(NOW - timedelta(minutes=59)), [day(0, 1.0)], "usd")
    assert (tiles.forecast, tiles.week.per_day) == (None, None)
    assert build_tiles(life(None), [], "usd").forecast is None


def test_the_month_does_not_include_days_of_the_month_before() -> None:
    tiles = build_tiles(life(), [day(0, 1.0), day(9, 2.0), day(10, 4.0)], "usd")
    assert tiles.calendar_month == 3.0


def test_tokens_are_shown_where_nothing_was_billed() -> None:
    assert unit_of([day(0, 0.0, 500)]) == "tokens"
    assert unit_of([day(0, 0.0), day(9, 0.1)]) == "usd"
    assert unit_of([], report(point("observer", 0.1)).totals) == "usd"
    assert build_tiles(life(), [day(0, 0.0, 500)], "tokens").today.amount == 500


def test_a_chart_has_every_day_and_keeps_what_is_assumed_apart() -> None:
    chart = build_chart(report(point("observer", 0.5, 0.2), point("conversation", 0.25)), "usd")
    assert [each.name for each in chart.series] == ["Observer", "Conversation"]
    assert len(chart.rows) == 7
    assert (chart.rows[-1].values, chart.rows[-1].total) == ([0.5, 0.25], 0.75)
    assert (chart.rows[-1].assumed_usd, chart.rows[0].calls) == (0.2, 0)
    assert chart.has_assumed


def test_a_phase_has_the_same_colour_whatever_it_costs() -> None:
    alone = build_chart(report(point("conversation", 1.0)), "usd")
    after = build_chart(report(point("observer", 1.0), point("conversation", 1.0)), "usd")
    assert alone.series[0].kind == after.series[1].kind


def test_keys_without_a_series_of_their_own_come_last() -> None:
    chart = build_chart(report(point(None, 1.0), point("m", 0.5), stacked_by="agent"), "usd")
    assert [(each.name, each.values[-1]) for each in chart.series] == [("m", 0.5), ("Others", 1.0)]


def test_shares_are_of_the_cost_or_else_of_the_tokens() -> None:
    assert share_of(row("a", 1.0, 5), row("all", 4.0, 10)) == 0.25
    assert share_of(row("a", 0.0, 5), row("all", 0.0, 10)) == 0.5
    assert share_of(row("a"), row("all")) == 0.0


def test_the_parts_of_prompts_add_up_to_all_input_tokens() -> None:
    parts = prompt_parts(row("all", 0.0, 100, system_tokens=40, tools_tokens=10, context_tokens=20))
    assert sum(part.tokens for part in parts) == 100
    assert {part.name: part.share for part in parts}["tasks and answers"] == pytest.approx(0.3)
    assert prompt_parts(row("all", 0.0, 100)) == []


def test_a_csv_file_contains_no_formula() -> None:
    agent_id = str(uuid4())
    shown = report(point(agent_id, 0.5, on=TODAY - timedelta(days=1)), stacked_by="agent")
    shown = CostReport(**{**vars(shown), "agent_names": {agent_id: '=cmd|"calc"'}})
    assert as_csv(shown).splitlines() == [
        "day_utc,agent,calls,input_tokens,output_tokens,cost_usd,assumed_usd",
        '2026-03-09,"\'=cmd|""calc""",1,10,5,0.5,0.0',
    ]
