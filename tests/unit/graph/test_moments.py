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


NOVEMBER_20 = _at(2026, 11, 20)
WRITTEN_DATES = {
    NOVEMBER_20: (
        *("20.11.2026", "20. 11. 2026", "20/11/2026", "11/20/2026", "20-11-2026", "20-Nov-2026", "2026/11/20"),
        *("20 novembre 2026", "20. November 2026", "20 de noviembre de 2026", "20 de novembro de 2026"),
        *("20 noviembre 2026", "20 november 2026", "le 20 novembre 2026", "20 NOVEMBRE 2026", "20. Nov. 2026"),
        *("2026年11月20日", "November 20th, 2026", "Nov. 20, 2026", "Friday, Nov 20, 2026", "Freitag, 20. November 2026"),
        *("Updated Nov 20, 2026", "Last updated: Nov 20, 2026", "Published on 20 November 2026", "Stand: 20.11.2026"),
        *("1795132800", "1795132800000", "1795132800.0", "20 novembre 2026 à 8h00", "20.11.2026, 08:00 Uhr"),
        # The offset of these zones is not certain, so only the day counts.
        *("Nov 20, 2026 8:00 AM ET", "2026-11-20 08:00 ET", "Fri, 20 Nov 2026 08:00:00 CET", "Nov 20, 2026, 8:00 PM IST"),
    ),
    _at(2026, 11, 20, 13): ("Fri, 20 Nov 2026 08:00:00 EST", "2026-11-20T08:00:00-05:00"),
    _at(2026, 3, 1): ("1er mars 2026", "1 mars 2026", "1. März 2026", "1 marzo 2026", "1 de março de 2026", "mars 2026"),
    _at(2026, 5, 5): ("5/5/2026", "5.5.2026", "05-05-2026"),
    None: (
        *("5/3/2026", "03-05-2026", "31.02.2026", "20.13.2026", "40/11/2026", "3 days ago", "hier", "8:00 AM ET"),
        *("12345", "20 foo 2026", "2026年13月20日", "November", "Nov 20", "x" * 10_000, "1 " * 10_000),
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        pytest.param(text, moment, id=text[:40])
        for moment, texts in WRITTEN_DATES.items()
        for text in texts
    ],
)
def test_written_publication_dates_are_parsed(text: str, moment: datetime | None) -> None:
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
