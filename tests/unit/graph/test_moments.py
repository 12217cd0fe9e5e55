"""Dates as pages and models write them."""

from datetime import UTC, datetime

import pytest

from shared.graph.provenance.claims import parse_period_end, parse_period_start, parse_published


def _at(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[arg-type, misc]  # year, month, day, hour, minute


MAY = _at(2024, 5, 1)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2024-05-01", MAY),
        ("2024-05", MAY),
        ("2024", _at(2024, 1, 1)),
        ("2024-05-01T02:00:00+02:00", MAY),
        ("2024-05-01T00:00:00Z", MAY),
        ("2024-05-01 00:00:00", MAY),
        ("Wed, 01 May 2024 00:00:00 GMT", MAY),
        ("Wed, 01 May 2024 02:00:00 +0200", MAY),
        ("May 1, 2024", MAY),
        ("1 May 2024", MAY),
        (" 2024/05/01\n", MAY),
        ("May 2024", MAY),
        *((text, None) for text in ("", "yesterday", "2024-13-01", "31.12.", "0000-01-01")),
        ("Fri, 31 Dec 9999 23:59:59 -2300", None),
        (None, None),
    ],
)
def test_publication_dates_are_parsed(text: str | None, moment: datetime | None) -> None:
    assert parse_published(text) == moment


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("2023", _at(2023, 1, 1), _at(2024, 1, 1)),
        ("2023-12", _at(2023, 12, 1), _at(2024, 1, 1)),
        ("2024-02", _at(2024, 2, 1), _at(2024, 3, 1)),
        ("2024-02-29", _at(2024, 2, 29), _at(2024, 3, 1)),
        ("2024-05-01T10:30:00Z", _at(2024, 5, 1, 10, 30), _at(2024, 5, 1, 10, 30)),
        ("2024-05-01T10:30", _at(2024, 5, 1, 10, 30), _at(2024, 5, 1, 10, 30)),
    ],
)
def test_periods_have_a_start_and_an_end(text: str, start: datetime, end: datetime) -> None:
    assert parse_period_start(text) == start
    assert parse_period_end(text) == end


@pytest.mark.parametrize("text", ["", "soon", "2023-13", "2023-02-30", "23", "2023-2"])
def test_an_invalid_period_is_an_error(text: str) -> None:
    for parse in (parse_period_start, parse_period_end):
        with pytest.raises(ValueError, match=r".+"):
            parse(text)
