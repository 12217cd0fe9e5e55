"""Labelled figures and lists, tables, amounts, the terms of a mission."""

import pytest

from sandbox.text.figures import parse_amount
from sandbox.text.labels import Entry, parse_label, sentences, table_lines
from sandbox.text.missions import Mission, parse_mission
from sandbox.text.tokens import stems
from tests.support.case_files import read_cases

CASES = read_cases(__file__)


def test_sentences_are_parts_of_their_text() -> None:
    text = 'It works today. She said 3.5% was "low." Really?\n- An item\nNo end'
    assert sentences(text) == [
        "It works today.",
        'She said 3.5% was "low."',
        "Really?",
        "An item",
        "No end",
    ]


def test_a_long_sentence_is_split_at_its_semicolons() -> None:
    text = "; ".join([f"clause {number} is of some length indeed" for number in range(20)]) + "."
    parts = sentences(text)
    assert len(parts) > 1
    assert all(part in text and len(part) <= 320 for part in parts)


@pytest.mark.parametrize(("line", "label", "figure"), CASES["a_labelled_line_has_a_figure_or_none"])
def test_a_labelled_line_has_a_figure_or_none(line: str, label: str, figure: str) -> None:
    parsed = parse_label(line)
    assert parsed is not None
    assert (parsed.label, parsed.figure) == (label, figure)
    assert figure in line


@pytest.mark.parametrize("prose", CASES["prose_is_no_labelled_line"])
def test_prose_is_no_labelled_line(prose: str) -> None:
    assert parse_label(prose) is None


@pytest.mark.parametrize(("value", "expected"), CASES["the_entries_of_a_list"])
def test_the_entries_of_a_list(value: str, expected: list[tuple[str, str]]) -> None:
    line = parse_label(f"Togo — Exports - partners: {value}.")
    assert line is not None
    assert (line.subject, line.key) == ("Togo", "Exports - partners")
    assert list(line.entries) == [Entry(*each) for each in expected]


def test_the_cells_of_a_table_are_labelled_lines() -> None:
    rows = [
        ["Company", "Revenue 2025", "Staff"],
        ["Northvale", "$1.1 billion", ""],
        ["Kestrel", "$2 billion", "12"],
    ]
    assert table_lines(rows) == [
        "Northvale — Revenue 2025: $1.1 billion",
        "Kestrel — Revenue 2025: $2 billion",
        "Kestrel — Staff: 12",
    ]


@pytest.mark.parametrize(("value", "number", "unit"), CASES["amounts"])
def test_amounts(value: str, number: float, unit: str) -> None:
    amount = parse_amount(value)
    assert amount is not None
    assert amount.number == pytest.approx(number)
    assert amount.unit == unit


@pytest.mark.parametrize(("mission", "topics", "names"), CASES["the_terms_of_a_mission"])
def test_the_terms_of_a_mission(mission: str, topics: list[str], names: list[str]) -> None:
    assert parse_mission(mission) == Mission(tuple(topics), tuple(names))


def test_forms_of_a_word_have_the_same_stem() -> None:
    assert stems("Economies' exports") == stems("the economy export")
