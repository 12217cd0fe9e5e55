"""Durations as people write them."""

import pytest

from shared.durations import MAX_SECONDS, format_duration, parse_duration
from tests.support.case_files import read_cases

CASES = read_cases(__file__)


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
