"""Citations in texts of a model become links, and no other text does."""

import re
from html import unescape
from uuid import UUID

import pytest

from services.api.web.text import render_cited_line, render_cited_markdown, render_conclusion
from shared.schemas.base import CitationResponse
from tests.support.case_files import read_cases

CASES = read_cases(__file__)
AGENT = UUID("00000000-0000-4000-8000-000000000001")
NODE = UUID("00000000-0000-4000-8000-000000000002")
CITATION = CitationResponse(kind="node", id=NODE, type="Company", name="Halden <b>Energy</b>")
LINK = (
    f'<a class="cite" href="/agents/{AGENT}/nodes/{NODE}"'
    ' title="Company Halden &lt;b&gt;Energy&lt;/b&gt;">[1]</a>'
)


def test_a_citation_becomes_a_numbered_link() -> None:
    assert (
        render_cited_markdown(f"*So* [node:{NODE}].", [CITATION], AGENT)
        == f"<p><em>So</em> {LINK}.</p>\n"
    )


def test_a_name_is_no_word_of_a_conclusion() -> None:
    """No reader has compared it: a node may be named "not"."""
    misleading = CITATION.model_copy(update={"name": "not"})
    text = f"Halden has [node:{NODE}] withdrawn.\n\n[node:{NODE}]"
    html = render_conclusion(text, [misleading], AGENT)
    assert re.sub("<[^>]*>", "", html) == "Halden has [1] withdrawn.\n[1]\n"


@pytest.mark.parametrize("line", CASES["one_line_each"])
def test_a_conclusion_shows_each_line_as_its_reader_has_read_it(line: str) -> None:
    html = render_conclusion(f"Before.\n{line}\nAfter.", [], AGENT)
    shown = [each.strip() for each in unescape(re.sub("<[^>]*>", "", html)).splitlines()]
    assert [each for each in shown if each] == ["Before.", line, "After."]


def test_a_conclusion_has_headings_and_lists() -> None:
    html = render_conclusion("# One\n\n- **two**\n- three\n\n1. four", [], AGENT)
    assert "<h3>One</h3>" in html
    assert "<li><strong>two</strong></li>" in html
    assert "<ol>" in html


def test_plain_text_is_escaped_around_its_citations() -> None:
    assert render_cited_line(f"a < b [node:{NODE}]", [CITATION], AGENT) == f"a &lt; b {LINK}"


def test_a_conclusion_is_linked_to_its_own_page() -> None:
    conclusion = CITATION.model_copy(update={"type": "AgentAdvice"})
    html = render_cited_line(f"[node:{NODE}]", [conclusion], AGENT)
    assert f'href="/agents/{AGENT}/conclusions/{NODE}"' in html


def test_a_citation_of_a_missing_element_is_marked_and_not_linked() -> None:
    missing = CitationResponse(kind="edge", id=NODE, type=None, name=None)
    html = render_cited_line(f"[edge:{NODE}]", [missing], AGENT)
    assert "data-missing" in html
    assert "href" not in html


def test_an_unresolved_citation_is_unchanged() -> None:
    assert render_cited_line(f"[node:{NODE}]", [], AGENT) == f"[node:{NODE}]"


@pytest.mark.parametrize(
    "text",
    [
        f"[node:{NODE}](https://out.example)",
        f"[a [node:{NODE}]](https://out.example)",
        f'[out](https://out.example "[node:{NODE}]")',
    ],
)
def test_the_only_link_is_the_citation_beside_an_address(text: str) -> None:
    html = render_cited_markdown(text, [CITATION], AGENT)
    assert (LINK in html, html.count("<a ")) == (True, 1)
    assert "https://out.example" in html
