"""Text written by a model is rendered without active content, even if a page injected it."""

from html.parser import HTMLParser

import pytest

from services.api.web.text import render_markdown

HOSTILE = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "[click](javascript:alert(1))",
    "[click](JaVaScRiPt&colon;alert(1))",
    "[click](data:text/html;base64,PHNjcmlwdD4=)",
    "![picture](https://tracker.example/pixel.gif)",
    "<svg/onload=alert(1)>",
    "<a href='https://a.example' onclick='alert(1)'>a</a>",
    "<iframe src=https://a.example></iframe>",
    "<style>*{display:none}</style>",
    "<form action=/sign-out method=post><button>win</button></form>",
    '<div hx-get="/agents" hx-trigger="load">x</div>',
    '[a](https://a.example "title\\" onmouseover=alert(1)")',
    '<https://a.example/"onmouseover=alert(1)>',
    '<math><mtext></form><form><mglyph><svg><mtext><textarea><path id="</textarea><img onerror=alert(1) src=1>">',
    "`<img src=x onerror=alert(1)>`",
    "```html\n<script>alert(1)</script>\n```",
)


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
        assert tag in {"p", "a", "code", "pre", "em", "strong"}
        assert set(attributes) <= {"href", "title", "rel", "target", "class"}
        if tag == "a" and "href" in attributes:
            assert str(attributes["href"]).startswith(("https://", "http://"))


def test_markdown_headings_are_below_the_headings_of_the_page() -> None:
    html = render_markdown(
        "# One\n\n**two** [three](https://a.example)\n\n| a | b |\n|---|---|\n| 1 | 2 |"
    )
    assert "<h3>One</h3>" in html
    assert "<strong>two</strong>" in html
    assert "<td>1</td>" in html
    assert 'rel="noopener noreferrer nofollow"' in html
    assert 'class="leaving"' in html
