"""Which pages go back to one author."""

from itertools import combinations
from random import Random
from typing import Any

import pytest

from shared.graph.provenance.origins import (
    Origin,
    Publication,
    find_agency,
    find_origins,
    read_origin,
)
from tests.support.case_files import read_cases

CASES = read_cases(__file__)
WORDS = 400


def prose(count: int, seed: int) -> list[str]:
    random = Random(seed)
    vocabulary = [f"word{number}" for number in range(300)]
    return [random.choice(vocabulary) for _ in range(count)]


def page(url: str, text: str) -> Publication:
    return Publication.from_json(url, read_origin(text))


def changed(words: list[str], change: dict[str, int], seed: int) -> str:
    kept = words[: change.get("first", len(words))]
    if "every" in change:
        kept = [
            "other" if place % change["every"] == 0 else word for place, word in enumerate(kept)
        ]
    before, after = (prose(change.get(key, 0), seed + 1) for key in ("before", "after"))
    return " ".join([*before, *kept, *after])


@pytest.mark.parametrize(("text", "agency"), CASES["agencies"])
def test_an_agency_is_found_where_a_page_credits_it(text: str, agency: str | None) -> None:
    assert find_agency(text) == agency


@pytest.mark.parametrize("case", CASES["one_text"], ids=lambda case: case["why"])
def test_pages_with_one_text_have_one_origin(case: dict[str, Any]) -> None:
    for seed in range(30):
        words = prose(WORDS, seed)
        one = page("https://a.example/x", " ".join(words))
        other = page("https://b.example/y", changed(words, case["change"], 1000 + seed))
        found = set(find_origins([one, other]).values())
        both = {Origin(("a.example", "b.example"))}
        assert found == (both if case["same"] else {Origin(("a.example",)), Origin(("b.example",))})


def test_pages_of_one_site_have_one_origin() -> None:
    pages = [page(f"https://{number}.a.example/", f"Text {number}.") for number in range(3)]
    assert set(find_origins(pages).values()) == {Origin(("a.example",))}


def test_pages_that_credit_one_agency_have_one_origin() -> None:
    pages = [
        page("https://a.example/", "BERLIN (Reuters) - The line is sold."),
        page("https://b.example/", "The ferry has a new owner. Source: Reuters"),
        page("https://c.example/", "The ferry has a new owner."),
    ]
    origins = find_origins(pages)
    assert origins["https://a.example/"] == origins["https://b.example/"]
    assert origins["https://c.example/"] == Origin(("c.example",))


def test_short_texts_are_not_one_text() -> None:
    pages = [
        page("https://a.example/", "Ghana is large."),
        page("https://b.example/", "Ghana is large."),
    ]
    assert len(set(find_origins(pages).values())) == 2


@pytest.mark.parametrize(
    "value", [None, {}, 3, {"sketch": "~", "agency": None}, {"sketch": 4, "agency": 5}]
)
def test_only_the_site_counts_of_a_page_without_a_usable_sketch(value: Any) -> None:
    assert Publication.from_json("https://a.example/", value) == Publication("https://a.example/")


def test_origins_do_not_depend_on_the_order_of_pages() -> None:
    random = Random(7)
    texts = [prose(WORDS, seed) for seed in range(3)]
    agencies = ["", "(AFP) - ", "(EFE) - "]
    for _ in range(50):
        pages = [
            page(
                f"https://{random.choice('abcdef')}.example/{number}",
                random.choice(agencies)
                + " ".join(random.choice(texts)[: random.choice((200, 400))]),
            )
            for number in range(6)
        ]
        origins = find_origins(pages)
        assert origins == find_origins(random.sample(pages, len(pages)))
        for one, other in combinations(pages, 2):
            if one.agency is not None and one.agency == other.agency:
                assert origins[one.url] == origins[other.url]
