"""Knowledge acquisition: searches, extracts and the document."""

from typing import Any

from tests.support.sandbox.requests import (
    ACQUISITION,
    EMPTY_GRAPH,
    Body,
    answer,
    arguments,
    next_request,
    query_section,
    request,
)

PAGE = "https://press.example/1"
HIT = {
    "title": "Ghana: Energy",
    "url": PAGE,
    "content": "Ghana exports electricity to Togo.\n…\nGhana burns gas.\n…",
    "published_date": "2026-01-02",
    "score": 0.7,
}


def body(*hints: str) -> Body:
    sections = {
        "mission": "Watch energy",
        "query": query_section("Find out about electricity exports of Ghana.", *hints),
        "graph_context": EMPTY_GRAPH,
    }
    return request(sections, ACQUISITION)


def request_after_search(*results: dict[str, Any]) -> Body:
    request_body = body("Ghana electricity")
    return next_request(request_body, answer(request_body), [{"results": list(results)}])


def test_searches_every_hint_in_one_message_and_no_more_than_three() -> None:
    reply = answer(body("one", "two", "three", "four"))
    assert [params["query"] for params in arguments(reply, "tavilySearch")] == [
        "one",
        "two",
        "three",
    ]


def test_reads_pages_whose_passage_has_gaps() -> None:
    reply = answer(request_after_search(HIT))
    assert arguments(reply, "tavilyExtract") == [{"urls": [PAGE]}]


def test_copies_sentences_verbatim_with_their_source() -> None:
    after_search = request_after_search(HIT)
    text = (
        "Ghana exports electricity to Togo. It rains a lot.\nGhana — Electricity, note: counted in 2024.\n"
        + (" ".join(f"Filler number {number} tells of something else." for number in range(20)))
    )
    after_extract = next_request(
        after_search,
        answer(after_search),
        [{"results": [{"url": PAGE, "content": text}], "failed": []}],
    )
    document = answer(after_extract).text
    assert document.startswith("# Find out about electricity exports of Ghana\n")
    assert (
        f"## Ghana: Energy\nSource: {PAGE}\nPublished: 2026-01-02\n\n- Ghana exports electricity to Togo."
        in document
    )
    assert "It rains" not in document
    assert "counted in 2024" not in document


def test_reports_that_nothing_was_found() -> None:
    request_body = request_after_search()
    assert answer(request_body).text.endswith(
        "Nothing relevant was found for these searches: Ghana electricity."
    )


def test_a_failed_search_is_reported() -> None:
    request_body = body("Ghana electricity")
    after_failure = next_request(
        request_body, answer(request_body), [{"error": "the search is away"}]
    )
    assert "Note: tavilySearch failed: the search is away" in answer(after_failure).text


def test_writes_its_results_if_no_more_calls_are_allowed() -> None:
    request_body = request_after_search(HIT) | {"tool_choice": "none"}
    assert "Ghana exports electricity to Togo." in answer(request_body).text


def test_a_short_page_counts_as_one_sentence() -> None:
    pages = [
        {**HIT, "content": f"{name} sells electricity. It is in Ghana.", "url": f"{PAGE}/{name}"}
        for name in ("Volta", "Tema")
    ]
    document = answer(request_after_search(*pages)).text
    assert "Volta sells electricity." in document
    assert "Tema sells electricity." in document
