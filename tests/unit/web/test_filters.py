"""Formats of numbers, durations and times on pages."""

from datetime import UTC, date, datetime, timedelta, timezone
from uuid import UUID, uuid4

import pytest
from jinja2 import Environment

from services.api.web import filters
from services.api.web.forms import FormState
from services.api.web.text import render_cited_line, render_cited_markdown, render_conclusion
from shared.hidden_text import without_hidden
from shared.schemas.base import CitationResponse
from shared.schemas.iterations import WrittenElement
from shared.wording import NONE
from tests.support.case_files import read_cases

CASES = read_cases(__file__)


def test_a_time_element_has_its_utc_timestamp() -> None:
    timestamp = datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)
    assert (
        filters.time_element(timestamp)
        == '<time datetime="2026-01-02T03:04:05.678Z">2 Jan 2026, 03:04 UTC</time>'
    )


@pytest.mark.parametrize("url", CASES["an_unsafe_url_is_not_a_link"])
def test_an_unsafe_url_is_not_a_link(url: str) -> None:
    assert filters.safe_link(url) is None


def test_json_is_indented_and_other_text_is_unchanged() -> None:
    assert filters.unpacked('{"a": [1]}') == '{\n  "a": [\n    1\n  ]\n}'
    assert filters.unpacked('{"a": ') == '{"a": '
    assert filters.unpacked("[" * 100_000) == "[" * 100_000


def test_a_truncated_text_says_how_much_is_missing() -> None:
    assert filters.cut("x" * filters.MAX_CHARS) == "x" * filters.MAX_CHARS
    assert filters.cut("x" * 21_500).endswith("x\n… 1,500 more characters")


@pytest.mark.parametrize(("arguments", "summary"), CASES["arguments_of_a_tool_are_summarized"])
def test_arguments_of_a_tool_are_summarized(arguments: str, summary: str) -> None:
    assert filters.argument_summary(arguments) == summary


def test_a_time_of_day_is_converted_by_the_page() -> None:
    moment = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert filters.clock(moment) == (
        '<time datetime="2026-01-02T03:04:05.000Z" data-clock>2 Jan 2026, 03:04 UTC</time>'
    )
    assert filters.clock(None) == NONE


REVERSED = "Halden \u202eAG\u2066!\u2069"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        (REVERSED, "Halden AG!"),
        ("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c", ""),
        ("Ore\u200b is\U000e0041 not\ufe01 sold", "Ore is not sold"),
        ("שלום é", "שלום é"),
        ("می\u200cشود 👨\u200d👩", "می\u200cشود 👨\u200d👩"),
    ],
)
def test_hidden_characters_are_removed(text: str, shown: str) -> None:
    assert without_hidden(text) == shown


def test_pages_show_no_hidden_characters_but_forms_send_them_back() -> None:
    environment = Environment(autoescape=True, finalize=filters.as_shown)
    environment.filters["verbatim"] = filters.Verbatim
    template = environment.from_string(
        "{% macro name(of) %}{{ of }}{% endmacro %}<p title='{{ of }}'>{{ name(of) }}|{{ of|verbatim }}|{{ field }}</p>"
    )
    field = FormState.filled(name=REVERSED).text("name")
    assert template.render(of=REVERSED, field=field) == (
        f"<p title='Halden AG!'>Halden AG!|{REVERSED}|{REVERSED}</p>"
    )


def test_rendered_markdown_and_citations_read_in_one_direction() -> None:
    agent_id = UUID(int=1)
    cited = CitationResponse(kind="node", id=UUID(int=2), type="Maker", name=REVERSED)
    content = f"{REVERSED} &#x202e;&rlm;[node:{cited.id}]"
    for render in (render_cited_markdown, render_cited_line, render_conclusion):
        html = render(content, [cited], agent_id)
        assert html.count("Halden AG!") == 2  # The text, and the name that the number shows.
        assert without_hidden(html) == html


@pytest.mark.parametrize(
    ("of", "iso", "words"),
    [
        (date(2027, 12, 31), "2027-12-31", "31 Dec 2027"),
        (
            datetime(2026, 1, 2, 0, 30, tzinfo=timezone(timedelta(hours=2))),
            "2026-01-01",
            "1 Jan 2026",
        ),
    ],
)
def test_a_day_is_the_same_in_all_time_zones(of: date, iso: str, words: str) -> None:
    assert filters.day(of) == f'<time datetime="{iso}" data-day>{words}</time>'


def test_a_day_in_a_property_is_no_moment() -> None:
    assert filters.time_element_of_text("2027-12-31") == filters.day(date(2027, 12, 31))
    assert "data-day" not in filters.time_element_of_text("2027-12-31T10:00:00Z")
    assert filters.time_element_of_text("some  year") == "some  year"


def test_a_moment_that_limits_something_names_its_time_zone() -> None:
    moment = datetime(2026, 1, 3, tzinfo=UTC)
    assert filters.clock_with_zone(moment) == (
        '<time datetime="2026-01-03T00:00:00.000Z" data-zone>00:00 UTC</time>'
    )


@pytest.mark.parametrize(("name", "words"), CASES["types_are_shown_as_words"])
def test_types_are_shown_as_words(name: str, words: str) -> None:
    assert filters.type_words(name) == words


def test_an_edge_of_a_conclusion_does_not_repeat_its_title() -> None:
    analysis = WrittenElement(
        kind="node", id=uuid4(), type="AgentAnalysis", name="A long → sentence", step_id=None
    )
    assert filters.end_of_edge("A long → sentence → Ghana", [analysis]) == "Ghana"
    assert filters.end_of_edge("Togo → Ghana", [analysis]) is None
