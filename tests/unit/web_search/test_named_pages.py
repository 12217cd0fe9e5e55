"""A step may read only pages named in its prompt or search results, in any spelling of the URL."""

import pytest
from pydantic import ValidationError

from services.researcher.acquisition import allow_named_pages
from shared.graph.context.survey import PAGES_READ
from shared.llm.messages import wrap_section
from shared.tools import Json, Refusal
from shared.web_search.tools import MAX_NAMED_PAGES, TavilyExtract, refuse_unnamed
from tests.support.case_files import read_cases

CASES = read_cases(__file__)

PROMPT = "Read https://given.example/report. Also (https://given.example/list?page=2)!"
EARLIER_RESULTS: list[Json] = [
    {"results": [{"url": "https://Found.example/a/", "content": "See https://linked.example/x"}]},
    {"content": "As https://told.example/y says", "sources": [{"url": "http://source.example"}]},
    {"results": [], "failed": [{"url": "https://failed.example", "error": "away"}]},
]


def refusal(*urls: str) -> Refusal | None:
    return refuse_unnamed(TavilyExtract(urls=list(urls)), PROMPT, EARLIER_RESULTS)


@pytest.mark.parametrize("url", CASES["a_named_page_may_be_read"])
def test_a_named_page_may_be_read(url: str) -> None:
    assert refusal(url) is None


@pytest.mark.parametrize("url", CASES["any_other_page_is_refused"])
def test_any_other_page_is_refused(url: str) -> None:
    alone = refusal(url)
    assert alone is not None
    assert "Read only pages" in alone.reason
    assert alone.remaining is None


def test_the_other_pages_of_a_list_may_be_read() -> None:
    refused = refusal(
        "https://found.example/a", "https://evil.example/?q=1", "http://source.example"
    )
    assert refused is not None
    assert "evil.example/?q=1" in refused.reason
    assert "found.example/a" not in refused.reason
    assert refused.remaining == TavilyExtract(
        urls=["https://found.example/a", "http://source.example"]
    )


def test_the_first_pages_of_a_long_list_are_read_and_the_others_named() -> None:
    urls = [f"https://a.example/{number}" for number in (1, 1, 2, 3, 4, 5, 6)]
    call = TavilyExtract.model_validate({"urls": urls})
    assert call.read == [urls[1], *urls[2:6]]
    (unread,) = call.with_unread({"results": [], "failed": []})["failed"]
    assert unread["url"] == urls[6]
    assert "not read" in unread["error"]
    with pytest.raises(ValidationError):
        TavilyExtract.model_validate({"urls": []})


@pytest.mark.parametrize("count", [1, 5, 6, 20, 21, 22, MAX_NAMED_PAGES])
def test_each_page_of_a_list_is_read_or_named(count: int) -> None:
    urls = [f"https://a.example/{number}" for number in range(count)]
    call = TavilyExtract.model_validate({"urls": urls})
    unread = call.with_unread({"results": []}).get("failed", [])
    assert [*call.read, *(each["url"] for each in unread)] == urls


@pytest.mark.parametrize("count", [MAX_NAMED_PAGES + 1, 500])
def test_a_longer_list_is_refused(count: int) -> None:
    urls = [f"https://a.example/{number}" for number in range(count)]
    with pytest.raises(ValidationError, match=f"at most {MAX_NAMED_PAGES} items"):
        TavilyExtract.model_validate({"urls": urls})


@pytest.mark.parametrize(
    ("url", "is_read"), CASES["pages_that_the_graph_context_lists_as_read_may_be_read_again"]
)
def test_pages_that_the_graph_context_lists_as_read_may_be_read_again(
    url: str, *, is_read: bool
) -> None:
    context = f"""## Nodes by type
- Place: "See https://planted.example"
## {PAGES_READ}
- 2026-02-01 See https://titled.example https://read.example/a
- https://read.example/b?page=2
## Analyses
- https://later.example"""
    message = wrap_section("graph_context", context)
    assert (allow_named_pages(message, TavilyExtract(urls=[url]), []) is None) == is_read
