"""Numbers, money, durations, addresses and long texts in words."""

from datetime import UTC, datetime, timedelta

import pytest

from shared.durations import MAX_SECONDS, format_duration, parse_duration
from shared.urls import urls_in
from shared.wording import ago, bytes_of, clip, duration, plural, usd
from tests.support.case_files import read_cases

CASES = read_cases(__file__)

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.mark.parametrize(("number", "noun", "expected"), CASES["nouns_have_singular_and_plural"])
def test_nouns_have_singular_and_plural(number: int, noun: str, expected: str) -> None:
    assert plural(number, noun) == expected


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (-1, "0 ms"),
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
def test_a_duration_has_at_most_two_units(seconds: float | timedelta | None, expected: str) -> None:
    assert duration(seconds) == expected


def test_times_are_relative_to_now() -> None:
    assert ago(NOW - timedelta(minutes=5), NOW) == "5 min ago"
    assert ago(NOW + timedelta(hours=3), NOW) == "in 3 h"


@pytest.mark.parametrize(
    ("amount", "expected"),
    [(0, "$0.00"), (0.0004, "$0.0004"), (0.44, "$0.44"), (1234.5, "$1,234.50"), (None, "–")],
)
def test_small_amounts_keep_their_significant_digits(amount: float | None, expected: str) -> None:
    assert usd(amount) == expected


@pytest.mark.parametrize(("size", "expected"), [(5, "5 B"), (2048, "2 KiB"), (3 << 30, "3.0 GiB")])
def test_sizes_have_units(size: int, expected: str) -> None:
    assert bytes_of(size) == expected


@pytest.mark.parametrize(
    ("text", "most", "expected"), CASES["a_text_is_cut_between_words_and_ends_with_an_ellipsis"]
)
def test_a_text_is_cut_between_words_and_ends_with_an_ellipsis(
    text: str, most: int, expected: str
) -> None:
    assert clip(text, most) == expected
    assert len(expected) <= most


@pytest.mark.parametrize(("text", "seconds"), CASES["durations_are_read_with_units_and_without"])
def test_durations_are_read_with_units_and_without(text: str, seconds: int) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    ("text", "reason"), CASES["other_texts_are_refused_with_the_text_and_an_example"]
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


ADDRESS = "https://en.wikipedia.org/wiki/Mercury_(planet)"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"Read {ADDRESS}", ADDRESS),
        (f"Read {ADDRESS}.", ADDRESS),
        (f"Read it ({ADDRESS}).", ADDRESS),
        (f"[Mercury]({ADDRESS})", ADDRESS),
        (f"**{ADDRESS}**", ADDRESS),
        (f"`{ADDRESS}`, now", ADDRESS),
        ("[https://example.org/a]", "https://example.org/a"),
        ("https://example.org/a[1]", "https://example.org/a[1]"),
        ("see (https://example.org/a), then", "https://example.org/a"),
        ("https://example.org/a/;", "https://example.org/a/"),
    ],
)
def test_addresses_have_no_punctuation_and_keep_their_own_brackets(
    text: str, expected: str
) -> None:
    assert urls_in(text) == [expected]
