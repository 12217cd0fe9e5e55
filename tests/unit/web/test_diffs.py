"""Word differences between two texts."""

import pytest

from services.api.web.text import Change, DiffRun, word_diff

LINES = [f"line {number}\n" for number in range(1, 21)]


def diff(before: str, after: str) -> list[tuple[str, str]]:
    return [(run.change.value, run.text) for run in word_diff(before, after)]


def without(runs: list[DiffRun], change: Change) -> str:
    return "".join(run.text for run in runs if run.change not in (change, Change.LEFT_OUT))


def test_equal_texts_are_one_unchanged_run() -> None:
    text = "".join(LINES)
    assert diff(text, text) == [("same", text)]
    assert diff("", "") == []


def test_changed_words_are_shown_within_their_line() -> None:
    assert diff("Be brief and kind.\n", "Be thorough and kind.\n") == [
        ("same", "Be"),
        ("gone", " brief"),
        ("new", " thorough"),
        ("same", " and kind.\n"),
    ]


def test_dissimilar_texts_are_replaced_as_a_whole() -> None:
    before, after = (
        "You weigh what the graph holds and cite it.\n",
        "Be brief there and now, what else.\n",
    )
    assert diff(before, after) == [("gone", before), ("new", after)]


def test_lines_far_from_every_change_are_left_out() -> None:
    after = [*LINES]
    after[9] = "another\n"
    runs = word_diff("".join(LINES), "".join(after))
    assert [run.text for run in runs if run.change is Change.LEFT_OUT] == [
        "7 lines unchanged",
        "8 lines unchanged",
    ]
    assert "line 8\nline 9\n" in [run.text for run in runs]
    assert "line 11\nline 12\n" in [run.text for run in runs]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "all new"),
        ("all gone", ""),
        ("one\ntwo\nthree", "one\n2\nthree\nfour"),
        ("a  b\n\n\nc", "a b\n\nc\n"),
    ],
)
def test_both_texts_can_be_rebuilt_from_the_diff(before: str, after: str) -> None:
    runs = word_diff(before, after)
    assert without(runs, Change.NEW) == before
    assert without(runs, Change.GONE) == after
