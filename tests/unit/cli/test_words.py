"""Numbers, times and texts for people."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from cli.config.durations import parse_seconds
from cli.errors import BadInputError
from cli.render.console import ago, cited, clip, counted, duration, interval
from shared.schemas.base import CitationView

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
GHANA = UUID(int=1)


@pytest.mark.parametrize(
    ("number", "noun", "told"),
    [
        (0, "node", "no nodes"),
        (1, "node", "1 node"),
        (2, "query", "2 queries"),
        (3, "analysis", "3 analyses"),
        (2, "search", "2 searches"),
        (0, "advice", "no advice"),
        (1, "advice", "1 piece of advice"),
        (2, "advice", "2 pieces of advice"),
    ],
)
def test_counting(number: int, noun: str, told: str) -> None:
    assert counted(number, noun) == told


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (0.04, "0.0 s"),
        (1.25, "1.2 s"),
        (42, "42 s"),
        (119, "119 s"),
        (300, "5 min"),
        (7200, "2 h"),
        (200_000, "2 d"),
    ],
)
def test_durations_are_told_in_the_unit_that_fits(seconds: float, told: str) -> None:
    assert duration(seconds) == told


def test_moments_are_told_from_now() -> None:
    assert ago(NOW - timedelta(minutes=5), NOW) == "5 min ago"
    assert ago(NOW + timedelta(hours=3), NOW) == "in 3 h"


@pytest.mark.parametrize(
    ("written", "seconds"), [("30s", 30), ("5m", 300), ("2h", 7200), ("1d", 86_400), ("90", 90)]
)
def test_durations_are_read_as_they_are_told(written: str, seconds: int) -> None:
    assert parse_seconds(written) == seconds
    assert parse_seconds(interval(seconds)) == seconds


@pytest.mark.parametrize("written", ["", "soon", "5 weeks", "-3m", "1.5h"])
def test_what_is_no_duration_is_refused_with_an_example(written: str) -> None:
    with pytest.raises(BadInputError, match="5m"):
        parse_seconds(written)


def test_clipping_keeps_to_one_line_and_to_words() -> None:
    assert clip("a\n b", 10) == "a b"
    assert clip("lithium from Chile and Australia", 24) == "lithium from Chile and…"
    assert len(clip("x" * 100, 20)) == 20


def test_citations_are_read_by_name_and_unknown_ones_stay() -> None:
    known = CitationView(kind="node", id=GHANA, type="Country", name="Ghana")
    gone = CitationView(kind="edge", id=UUID(int=2), type=None, name=None)
    content = f"Gold [node:{GHANA}] and more [edge:{gone.id}]."
    assert cited(content, [known, gone]) == f"Gold [Ghana] and more [edge:{gone.id}]."
