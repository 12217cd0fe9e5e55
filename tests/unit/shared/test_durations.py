"""Durations as people write them."""

import pytest

from shared.durations import MAX_SECONDS, format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30 s", 30),
        ("5 min", 300),
        ("5min", 300),
        ("5m", 300),
        (" 1 H ", 3600),
        ("1 d", 86_400),
        ("90", 90),
        ("2 hours", 7200),
        ("1 h 30 min", 5400),
        ("1h30m", 5400),
        ("0 s", 0),
    ],
)
def test_durations_are_read_with_units_and_without(text: str, seconds: int) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not a duration"),
        ("soon", "write 30 s, 5 min, 2 h or 1 d"),
        ("min", "not a duration"),
        ("-5 min", "not a duration"),
        ("1.5 h", "not a duration"),
        ("5 weeks", "not a duration"),
        ("5 min or so", "not a duration"),
        ("5 min 30", "ambiguous"),
        ("5 min 30 min", "ambiguous"),
        ("40000 d", "longer than a hundred years"),
        ("9" * 200, "not a duration"),
    ],
)
def test_other_texts_are_refused_with_the_text_and_an_example(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason) as refused:
        parse_duration(text)
    assert text[:10] in str(refused.value)


@pytest.mark.parametrize(
    "seconds", [0, 1, 59, 60, 61, 3600, 3661, 86_399, 86_400, 90_061, MAX_SECONDS]
)
def test_what_is_written_is_read_as_the_same(seconds: int) -> None:
    assert parse_duration(format_duration(seconds)) == seconds


def test_durations_are_written_in_their_largest_units() -> None:
    assert [format_duration(number) for number in (0, 90, 300, 5400, 86_400)] == [
        "0 s",
        "1 min 30 s",
        "5 min",
        "1 h 30 min",
        "1 d",
    ]
