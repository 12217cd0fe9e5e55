"""Numbers and moments, as people read them."""

from datetime import UTC, datetime, timedelta

import pytest

from services.api.web import filters


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (0.0004, "0 ms"),
        (0.85, "850 ms"),
        (1, "1 s"),
        (12.44, "12.4 s"),
        (59.96, "60 s"),
        (60, "1 min"),
        (200, "3 min 20 s"),
        (3600, "1 h"),
        (5 * 3600 + 120, "5 h 2 min"),
        (86_400, "1 d"),
        (2 * 86_400 + 4 * 3600, "2 d 4 h"),
        (400 * 86_400, "400 d"),
        (timedelta(minutes=3), "3 min"),
        (None, "–"),
    ],
)
def test_a_span_has_at_most_two_units(seconds: float | timedelta | None, told: str) -> None:
    assert filters.duration(seconds) == told


@pytest.mark.parametrize(
    ("amount", "told"),
    [(0, "$0.00"), (0.0004, "$0.0004"), (0.44, "$0.44"), (1234.5, "$1,234.50"), (None, "–")],
)
def test_small_amounts_keep_what_says_something(amount: float | None, told: str) -> None:
    assert filters.usd(amount) == told


def test_a_moment_can_be_put_into_any_zone() -> None:
    at = datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)
    assert (
        filters.time_element(at)
        == '<time datetime="2026-01-02T03:04:05.678Z">2026-01-02 03:04 UTC</time>'
    )


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        "data:text/html,x",
        "//evil.example",
        "",
        "http://[",
        "file:///etc/passwd",
    ],
)
def test_what_would_run_is_no_link(url: str) -> None:
    assert filters.safe_link(url) is None


@pytest.mark.parametrize(("count", "told"), [(1, "1 query"), (3, "3 queries"), (0, "0 queries")])
def test_one_is_not_many(count: int, told: str) -> None:
    assert filters.plural(count, "query", "queries") == told


@pytest.mark.parametrize(("size", "told"), [(5, "5 B"), (2048, "2 KiB"), (3 << 30, "3.0 GiB")])
def test_sizes_have_units(size: int, told: str) -> None:
    assert filters.bytes_of(size) == told
