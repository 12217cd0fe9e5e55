"""Prompt formatting of nodes, edges, properties and times."""

import json
from datetime import UTC, datetime, timedelta, timezone
from uuid import UUID

import pytest

from shared.graph.prompt_format import (
    edge_line,
    format_age,
    format_utc,
    node_line,
    shorten_properties,
)
from tests.support.case_files import read_cases

CASES = read_cases(__file__)

ID = UUID(int=7)


def test_line_breaks_in_values_are_escaped() -> None:
    line = node_line(ID, "Country", 'A "b"', {"text": "one\ntwo\u2028three\x85four"})
    assert len(line.splitlines()) == 1
    assert line.startswith(f'- [node:{ID}] Country "A \\"b\\"" {{')
    assert json.loads(line[line.index("{") :]) == {"text": "one\ntwo\u2028three\x85four"}


def test_an_edge_line_goes_from_source_to_target() -> None:
    assert edge_line(ID, "borders", "Ghana", "Togo") == f'- [edge:{ID}] "Ghana" -borders-> "Togo"'
    assert edge_line(ID, "borders", "Ghana", "Togo", {"km": 1}).endswith('-> "Togo" {"km": 1}')


def test_properties_are_shortened_with_the_summary_first() -> None:
    brief = shorten_properties({"quote": "q" * 500, "summary": "Short.", "list": ["x" * 300]})
    assert list(brief) == ["summary", "quote", "list"]
    assert brief["quote"] == "q" * 239 + "…"
    assert len(brief["list"][0]) == 240


def test_omitted_properties_are_counted() -> None:
    brief = shorten_properties({f"figure_{number}": "x" * 100 for number in range(50)})
    assert len(json.dumps(brief)) < 1_300
    assert brief["…"] == f"{50 - (len(brief) - 1)} more"


def test_times_are_utc_to_the_second() -> None:
    east = timezone(timedelta(hours=2))
    assert format_utc(datetime(2026, 1, 31, 1, 2, 3, 999, tzinfo=east)) == "2026-01-30T23:02:03Z"
    assert format_utc(datetime(2026, 1, 31, tzinfo=UTC)) == "2026-01-31T00:00:00Z"


@pytest.mark.parametrize(("days", "expected"), CASES["an_age_is_formatted_in_words"])
def test_an_age_is_formatted_in_words(days: int, expected: str) -> None:
    assert format_age(timedelta(days=days, hours=3)) == expected
