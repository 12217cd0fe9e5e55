"""Graph sections of a prompt within the token budget."""

from hypothesis import given
from hypothesis import strategies as st

from shared.graph.prompt_format import Section, byte_length, fit_sections, truncate_to_budget


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
