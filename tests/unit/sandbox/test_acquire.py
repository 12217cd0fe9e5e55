"""Knowledge acquisition: searches, extracts and the document."""

from typing import Any

from tests.support.sandbox.asking import (
    ACQUISITION,
    EMPTY_GRAPH,
    Body,
    answer,
    arguments,
    followed,
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


def searched(*results: dict[str, Any]) -> Body:
    asked = body("Ghana electricity")
    return followed(asked, answer(asked), [{"results": list(results)}])


def test_searches_every_hint_in_one_message_and_no_more_than_three() -> None:
    calls = answer(body("one", "two", "three", "four"))
    assert [given["query"] for given in arguments(calls, "tavilySearch")] == ["one", "two", "three"]


def test_reads_pages_whose_passage_has_gaps() -> None:
    calls = answer(searched(HIT))
    assert arguments(calls, "tavilyExtract") == [{"urls": [PAGE]}]


def test_writes_sentences_as_they_stand_with_their_source() -> None:
    asked = searched(HIT)
    text = (
        "Ghana exports electricity to Togo. It rains a lot.\nGhana — Electricity, note: counted in 2024.\n"
        + (" ".join(f"Filler number {number} tells of something else." for number in range(20)))
    )
    given = followed(
        asked, answer(asked), [{"results": [{"url": PAGE, "content": text}], "failed": []}]
    )
    document = answer(given).text
    assert document.startswith("# Find out about electricity exports of Ghana\n")
    assert (
        f"## Ghana: Energy\nSource: {PAGE}\nPublished: 2026-01-02\n\n- Ghana exports electricity to Togo."
        in document
    )
    assert "It rains" not in document
    assert "counted in 2024" not in document


def test_says_when_nothing_was_found() -> None:
    asked = searched()
    assert answer(asked).text.endswith(
        "Nothing was found for this; searched for: Ghana electricity."
    )


def test_a_failed_search_is_told() -> None:
    asked = body("Ghana electricity")
    failed = followed(asked, answer(asked), [{"error": "the search is away"}])
    assert "Note: tavilySearch failed: the search is away" in answer(failed).text


def test_writes_what_it_has_where_no_more_calls_are_allowed() -> None:
    asked = searched(HIT) | {"tool_choice": "none"}
    assert "Ghana exports electricity to Togo." in answer(asked).text


def test_a_short_page_counts_as_one_sentence() -> None:
    pages = [
        {**HIT, "content": f"{name} sells electricity. It is in Ghana.", "url": f"{PAGE}/{name}"}
        for name in ("Volta", "Tema")
    ]
    document = answer(searched(*pages)).text
    assert "Volta sells electricity." in document
    assert "Tema sells electricity." in document
