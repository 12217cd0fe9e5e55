"""What changed between two texts."""

import pytest

from services.api.web.text import Change, DiffRun, word_diff

LINES = [f"line {number}\n" for number in range(1, 21)]


def told(before: str, after: str) -> list[tuple[str, str]]:
    return [(run.change.value, run.text) for run in word_diff(before, after)]


def without(runs: list[DiffRun], change: Change) -> str:
    return "".join(run.text for run in runs if run.change not in (change, Change.LEFT_OUT))


def test_what_is_the_same_is_told_whole() -> None:
    text = "".join(LINES)
    assert told(text, text) == [("same", text)]
    assert told("", "") == []


def test_words_are_told_within_their_line() -> None:
    assert told("Be brief and kind.\n", "Be thorough and kind.\n") == [
        ("same", "Be"),
        ("gone", " brief"),
        ("new", " thorough"),
        ("same", " and kind.\n"),
    ]


def test_what_has_little_in_common_is_told_as_one_in_the_others_place() -> None:
    before, after = (
        "You weigh what the graph holds and cite it.\n",
        "Be brief there and now, what else.\n",
    )
    assert told(before, after) == [("gone", before), ("new", after)]


def test_what_is_far_from_every_change_is_left_out() -> None:
    after = [*LINES]
    after[9] = "another\n"
    found = word_diff("".join(LINES), "".join(after))
    assert [run.text for run in found if run.change is Change.LEFT_OUT] == [
        "7 lines unchanged",
        "8 lines unchanged",
    ]
    assert "line 8\nline 9\n" in [run.text for run in found]
    assert "line 11\nline 12\n" in [run.text for run in found]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "all new"),
        ("all gone", ""),
        ("one\ntwo\nthree", "one\n2\nthree\nfour"),
        ("a  b\n\n\nc", "a b\n\nc\n"),
    ],
)
def test_nothing_is_lost_of_either(before: str, after: str) -> None:
    found = word_diff(before, after)
    assert without(found, Change.NEW) == before
    assert without(found, Change.GONE) == after
