"""Text of a graph in prompts: elements, layout, truncation and embeddings."""

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.graph.prompt_format import (
    Section,
    byte_length,
    edge_line,
    fit_sections,
    format_age,
    format_utc,
    node_line,
    shorten_properties,
    truncate_to_budget,
)
from shared.graph.retrieval import query
from shared.graph.retrieval.embedding_backlog import MAX_TEXT_CHARS, embedding_text
from shared.tools import Json
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


def _section(title: str, rank: int, count: int, keep: int = 2) -> Section:
    return Section(title, [f"- {title} {number}" for number in range(count)], rank, keep)


def _line_count(text: str, title: str) -> int:
    return text.count(f"- {title} ")


sections = st.lists(
    st.builds(
        _section, st.text("abc", min_size=1, max_size=5), st.integers(0, 9), st.integers(0, 30)
    ),
    unique_by=lambda section: section.title,
    max_size=6,
)


def test_with_enough_room_all_lines_are_included_in_order() -> None:
    text = fit_sections([_section("b", 1, 2), _section("empty", 0, 0), _section("a", 0, 1)], 1_000)
    assert text.splitlines() == ["## b", "- b 0", "- b 1", "## a", "- a 0"]


def test_every_section_gets_its_share_before_any_gets_more() -> None:
    two_of_each = len("## a\n- a 0\n- a 1\n## b\n- b 0\n- b 1\n")
    text = fit_sections([_section("a", 0, 50), _section("b", 1, 50)], two_of_each)
    assert (_line_count(text, "a"), _line_count(text, "b")) == (2, 2)


def test_the_remaining_budget_goes_by_rank() -> None:
    text = fit_sections([_section("low", 5, 50), _section("high", 1, 50)], 316)
    assert _line_count(text, "low") == 2
    assert _line_count(text, "high") > 10


def test_nothing_is_shown_without_room() -> None:
    assert fit_sections([_section("a", 0, 3)], 4) == ""


def test_the_newest_lines_are_kept_and_shown_last() -> None:
    newest_first = Section("a", ["- a 3", "- a 2", "- a 1"], 0, oldest_first=True)
    assert fit_sections([newest_first], 1_000).splitlines() == ["## a", "- a 1", "- a 2", "- a 3"]
    assert fit_sections([newest_first], 20).splitlines() == ["## a", "- a 2", "- a 3"]


@given(sections, st.integers(0, 800))
def test_the_budget_holds_and_sections_lose_only_their_last_lines(
    all_sections: list[Section], budget: int
) -> None:
    text = fit_sections(all_sections, budget)
    assert byte_length(text) <= budget
    lines = text.splitlines()
    for section in all_sections:
        if f"## {section.title}" in lines:
            start = lines.index(f"## {section.title}") + 1
            count = next(
                (i for i, line in enumerate(lines[start:]) if line.startswith("## ")),
                len(lines) - start,
            )
            assert count >= 1
            assert lines[start : start + count] == list(section.lines[:count])


def test_the_number_of_omitted_lines_is_stated() -> None:
    assert truncate_to_budget(["a" * 10, "b" * 100, "c" * 10], 40) == (
        "aaaaaaaaaa\ncccccccccc\n(1 more left out for their length)"
    )
    assert truncate_to_budget(["a", "b"], 10) == "a\nb"
    assert truncate_to_budget([], 10) == ""


def test_budgets_count_bytes_and_not_characters() -> None:
    """A Chinese character is a token or so, and has three bytes."""
    assert truncate_to_budget(["锂" * 10], 31) == "锂" * 10
    assert truncate_to_budget(["锂" * 10], 30) == "(1 more left out for their length)"
    assert "锂" not in fit_sections([Section("a", ["- " + "锂" * 10], 0)], 37)
    assert "锂" in fit_sections([Section("a", ["- " + "锂" * 10], 0)], 38)


_texts = st.builds(
    lambda letter, count: letter * count, st.sampled_from("xé中"), st.integers(0, 900)
)
_properties = st.dictionaries(
    st.sampled_from(["summary", "quote", "country", "of"]), st.one_of(_texts, st.integers())
)
_elements = st.lists(
    st.builds(lambda properties: {"properties": properties}, _properties), max_size=60
)


def _bytes(value: object) -> int:
    return len(json.dumps(value, ensure_ascii=False).encode())


def _brief(element: Json) -> Json:
    return {"properties": shorten_properties(element["properties"])}


@given(nodes=_elements, edges=_elements)
def test_as_many_elements_as_fit_are_included_nodes_first(
    nodes: list[Json], edges: list[Json]
) -> None:
    answer = query.truncate_response(nodes, edges, [])
    included: list[Any] = [*answer["nodes"], *answer["edges"]]
    elements = [*nodes, *edges]
    assert _bytes(answer) <= query.MAX_BYTES
    assert all(
        element in (whole, _brief(whole))
        for element, whole in zip(included, elements, strict=False)
    ), "a prefix of all elements, each in full or in short form"
    if len(included) < len(elements):
        brief = [_brief(element) for element in elements[: len(included) + 1]]
        assert _bytes(brief) > query.MAX_BYTES - 500, "the next element does not fit in short form"
        assert f"{len(elements) - len(included)} nodes or edges are left out" in answer["cut"]
    shortened = sum(element != whole for element, whole in zip(included, elements, strict=False))
    if shortened:
        assert f"and {shortened} are shortened" in answer["cut"]
    elif len(included) == len(elements):
        assert "cut" not in answer


def test_as_few_elements_as_possible_are_shortened() -> None:
    long = {"properties": {"summary": "x" * 6_000}}
    answer = query.truncate_response([long, long, long, long], [], ["So it is."])
    assert answer["nodes"][:3] == [long, long, long]
    assert len(answer["nodes"][3]["properties"]["summary"]) < 300
    assert "0 nodes or edges are left out and 1 are shortened" in answer["cut"]
    assert answer["cut"].endswith("So it is.")


@given(nodes=_elements, edges=_elements)
def test_edges_need_not_be_read_if_nodes_fill_the_response(
    nodes: list[Json], edges: list[Json]
) -> None:
    response = query.truncate_response(nodes, edges, [])
    if query.has_room_behind(nodes):
        assert len(response["nodes"]) == len(nodes)
    else:
        assert query.truncate_response(nodes, [], [], unread=len(edges)) == response


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


def test_the_text_is_name_type_summary_and_short_properties() -> None:
    properties = {
        "summary": "Makes trucks.",
        "plants": ["Lyon", "Turin"],
        "founded_in": 1999,
        "listed": True,
        "history": "long " * 100,
        "deep": {"er": 1},
    }
    assert embedding_text("Maker", "Volta", properties) == (
        "Volta; Maker; Makes trucks.; founded in: 1999; listed: yes; plants: Lyon, Turin"
    )


def test_the_order_of_properties_does_not_matter() -> None:
    assert embedding_text("T", "n", {"a": 1, "b": 2}) == embedding_text("T", "n", {"b": 2, "a": 1})


@settings(max_examples=30)
@given(st.text(min_size=1), st.dictionaries(st.text(), JSON))
def test_the_text_is_always_one_short_line(name: str, properties: dict[str, object]) -> None:
    text = embedding_text("Thing", name, properties)
    assert 0 < len(text) <= MAX_TEXT_CHARS
    assert text == " ".join(text.split())
