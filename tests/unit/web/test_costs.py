"""Figures of the cost pages: averages and forecasts over days that existed, series, and CSV."""

from datetime import UTC, date, datetime, timedelta
from uuid import uuid4

import pytest

from services.api.queries.cost_reports import (
    CostPoint,
    CostReport,
    CostRow,
    Life,
    Period,
    PeriodError,
    SpentDay,
    StackedBy,
)
from services.api.web.pages.costs import Choice
from services.api.web.presenters.costs import (
    as_csv,
    build_chart,
    build_tiles,
    find_unit,
    prompt_parts,
    share_of,
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


def report(
    *points: CostPoint, stacked_by: StackedBy = "phase", period: Period | None = None
) -> CostReport:
    keys = dict.fromkeys(point.key for point in points if point.key)
    rows = [row(key, 1.0) for key in keys]
    total = row("all", sum(point.cost_usd for point in points))
    return CostReport(
        period or Period.ending_now("day", 7, NOW),
        stacked_by,
        total,
        {"phase": [], "agent": [], "model": [], "kind": [], stacked_by: rows},
        list(points),
        [],
        {},
    )


def point(start: datetime, key: str | None, usd: float, assumed: float = 0.0) -> CostPoint:
    return CostPoint(start, key, 1, 10, 5, usd, assumed)


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
    unbilled = report(point(NOW, "observer", 0.0))
    assert find_unit(unbilled) == "tokens"
    assert find_unit(report(point(NOW, "observer", 0.1))) == "usd"
    assert find_unit(report(point(NOW, "observer", 0.1)), "tokens") == "tokens"
    assert build_tiles(life(), [day(0, 0.0, 500)], "tokens").today.amount == 500


def test_a_chart_has_every_day_and_keeps_what_is_assumed_apart() -> None:
    today = datetime(2026, 3, 10, tzinfo=UTC)
    chart = build_chart(
        report(point(today, "observer", 0.5, 0.2), point(today, "conversation", 0.25)), "usd"
    )
    assert [each.name for each in chart.series] == ["Observer", "Conversation"]
    assert len(chart.rows) == 7
    assert (chart.rows[-1].values, chart.rows[-1].total) == ([0.5, 0.25], 0.75)
    assert (chart.rows[-1].assumed_usd, chart.rows[0].calls) == (0.2, 0)
    assert chart.has_assumed


def test_a_phase_has_the_same_colour_whatever_it_costs() -> None:
    start = datetime(2026, 3, 10, tzinfo=UTC)
    alone = build_chart(report(point(start, "conversation", 1.0)), "usd")
    after = build_chart(
        report(point(start, "observer", 1.0), point(start, "conversation", 1.0)), "usd"
    )
    assert alone.series[0].kind == after.series[1].kind


def test_keys_without_a_series_of_their_own_come_last() -> None:
    start = datetime(2026, 3, 10, tzinfo=UTC)
    chart = build_chart(
        report(point(start, None, 1.0), point(start, "m", 0.5), stacked_by="model"), "usd"
    )
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
    start = datetime(2026, 3, 9, tzinfo=UTC)
    shown = report(point(start, agent_id, 0.5), stacked_by="agent")
    shown = CostReport(**{**vars(shown), "agent_names": {agent_id: '=cmd|"calc"'}})
    assert as_csv(shown).splitlines() == [
        "day_utc,agent,calls,input_tokens,output_tokens,cost_usd,assumed_usd",
        '2026-03-09T00:00:00Z,"\'=cmd|""calc""",1,10,5,0.5,0.0',
    ]


def test_a_period_covers_the_present_hour_or_day() -> None:
    hours = list(Period.ending_now("hour", 1, NOW + timedelta(minutes=20)).starts())
    assert (len(hours), hours[-1]) == (24, NOW)
    assert Period.ending_now("hour", 7, NOW).since.hour == 0
    days = Period.ending_now("day", 30, NOW)
    assert (days.first_day, days.last_day) == (date(2026, 2, 9), TODAY)


@pytest.mark.parametrize(
    ("step", "since", "until", "words"),
    [
        ("day", date(2026, 2, 2), date(2026, 1, 1), "after 2026-01-01"),
        ("day", date(2025, 1, 1), date(2026, 1, 2), "choose at most 366"),
        ("hour", date(2026, 1, 1), date(2026, 1, 8), "choose at most 7"),
    ],
)
def test_a_period_has_at_least_one_day_and_at_most_a_year(
    step: str, since: date, until: date, words: str
) -> None:
    with pytest.raises(PeriodError, match=words):
        Period.of_days(step, since, until)  # type: ignore[arg-type]  # one of its literals


def test_each_way_to_look_at_costs_leads_to_one_that_exists() -> None:
    choice = Choice("day", "90d", "phase", None)
    steps = {option.value: option.query for option in choice.steps}
    assert "range=7d" in steps["hour"]
    assert "range=90d" in steps["day"]
    ranges = {option.value: option.query for option in choice.ranges}
    assert "step=hour" in ranges["24h"]
    assert "step=day" in ranges["7d"]
    assert [option.value for option in choice.stacks(of_agent=True)] == ["phase", "model"]
