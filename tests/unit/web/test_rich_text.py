"""Text written by a model is rendered without active content, even if a page injected it."""

from html.parser import HTMLParser

import pytest

from services.api.web.text import render_markdown
from tests.support.case_files import read_cases

CASES = read_cases(__file__)

HOSTILE = CASES["hostile"]


class _TagParser(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_rendered_without_active_content(text: str) -> None:
    parser = _TagParser()
    parser.feed(render_markdown(text))
    for tag, attributes in parser.tags:
        assert tag in {"p", "code", "pre", "em", "strong"}
        assert not attributes


def test_markdown_headings_are_below_the_headings_of_the_page() -> None:
    html = render_markdown("# One\n\n**two**\n\n| a | b |\n|---|---|\n| 1 | 2 |")
    assert "<h3>One</h3>" in html
    assert "<strong>two</strong>" in html
    assert "<td>1</td>" in html


@pytest.mark.parametrize("text", CASES["links"])
def test_an_address_of_a_model_is_shown_and_is_no_link(text: str) -> None:
    html = render_markdown(text)
    assert "<a" not in html
    assert "evil.example" in html
