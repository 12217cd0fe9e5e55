"""Citations in texts of models become links, and nothing else does."""

from uuid import UUID

import pytest

from services.api.web.text import render_cited_line, render_cited_markdown
from shared.schemas.base import CitationView

AGENT = UUID("00000000-0000-4000-8000-000000000001")
NODE = UUID("00000000-0000-4000-8000-000000000002")
KNOWN = CitationView(kind="node", id=NODE, type="Company", name="Halden <b>Energy</b>")
LINK = (
    f'<a class="cite" href="/agents/{AGENT}/nodes/{NODE}" title="Company">'
    "Halden &lt;b&gt;Energy&lt;/b&gt;</a>"
)


def test_a_citation_becomes_a_link_by_name() -> None:
    assert (
        render_cited_markdown(f"*So* [node:{NODE}].", [KNOWN], AGENT)
        == f"<p><em>So</em> {LINK}.</p>\n"
    )


def test_plain_text_is_escaped_around_its_citations() -> None:
    assert render_cited_line(f"a < b [node:{NODE}]", [KNOWN], AGENT) == f"a &lt; b {LINK}"


def test_a_conclusion_has_a_page_of_its_own() -> None:
    conclusion = KNOWN.model_copy(update={"type": "AgentAdvice"})
    told = render_cited_line(f"[node:{NODE}]", [conclusion], AGENT)
    assert f'href="/agents/{AGENT}/conclusions/{NODE}"' in told


def test_what_does_not_exist_is_told_and_leads_nowhere() -> None:
    made_up = CitationView(kind="edge", id=NODE, type=None, name=None)
    told = render_cited_line(f"[edge:{NODE}]", [made_up], AGENT)
    assert "data-missing" in told
    assert "href" not in told


def test_what_nobody_looked_up_stays_as_it_is() -> None:
    assert render_cited_line(f"[node:{NODE}]", [], AGENT) == f"[node:{NODE}]"


@pytest.mark.parametrize(
    "text",
    [
        f'[out](https://out.example "[node:{NODE}]")',
        f"[out](https://out.example/[node:{NODE}])",
        f"[a [node:{NODE}]](https://out.example)",
        f'[out](https://out.example "> [node:{NODE}]")',
    ],
)
def test_within_a_link_a_citation_is_no_link(text: str) -> None:
    assert 'class="cite"' not in render_cited_markdown(text, [KNOWN], AGENT)


def test_behind_a_link_it_is_one_again() -> None:
    told = render_cited_markdown(f"[out](https://out.example) [node:{NODE}]", [KNOWN], AGENT)
    assert told.endswith(f"</a> {LINK}</p>\n")
