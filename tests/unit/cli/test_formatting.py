"""Formatting of numbers, times and texts."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from cli.config.durations import parse_seconds
from cli.errors import BadInputError
from cli.render.console import ago, cited, clip, counted, duration, interval
from shared.schemas.base import CitationResponse

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
GHANA = UUID(int=1)


@pytest.mark.parametrize(
    ("number", "noun", "expected"),
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
def test_counting(number: int, noun: str, expected: str) -> None:
    assert counted(number, noun) == expected


@pytest.mark.parametrize(
    ("seconds", "expected"),
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
def test_durations_are_formatted_in_a_fitting_unit(seconds: float, expected: str) -> None:
    assert duration(seconds) == expected


def test_times_are_formatted_relative_to_now() -> None:
    assert ago(NOW - timedelta(minutes=5), NOW) == "5 min ago"
    assert ago(NOW + timedelta(hours=3), NOW) == "in 3 h"


@pytest.mark.parametrize(
    ("text", "seconds"), [("30s", 30), ("5m", 300), ("2h", 7200), ("1d", 86_400), ("90", 90)]
)
def test_formatted_durations_can_be_parsed(text: str, seconds: int) -> None:
    assert parse_seconds(text) == seconds
    assert parse_seconds(interval(seconds)) == seconds


@pytest.mark.parametrize("text", ["", "soon", "5 weeks", "-3m", "1.5h"])
def test_an_invalid_duration_is_rejected_with_an_example(text: str) -> None:
    with pytest.raises(BadInputError, match="5m"):
        parse_seconds(text)


def test_clipped_text_is_one_line_of_whole_words() -> None:
    assert clip("a\n b", 10) == "a b"
    assert clip("lithium from Chile and Australia", 24) == "lithium from Chile and…"
    assert len(clip("x" * 100, 20)) == 20


def test_citations_are_replaced_by_names_and_unknown_ones_stay() -> None:
    citation = CitationResponse(kind="node", id=GHANA, type="Country", name="Ghana")
    unknown = CitationResponse(kind="edge", id=UUID(int=2), type=None, name=None)
    content = f"Gold [node:{GHANA}] and more [edge:{unknown.id}]."
    assert cited(content, [citation, unknown]) == f"Gold [Ghana] and more [edge:{unknown.id}]."
