"""Pages are read and shown as numbered sentences, which a document cites."""

import json
import random
import re
from dataclasses import asdict

import pytest

from shared.graph.provenance.numbered_pages import (
    CALL_CHARS,
    OWN_WORDS,
    WHOLE_CHARS,
    RunPages,
    fill_in,
)
from shared.graph.provenance.page_reading import PageReading, Span, read_page
from shared.tools import Json, Shown
from tests.support.graph.shown_pages import shown_pages

GHANA: Json = {
    "url": "https://a.example/ghana",
    "title": "Ghana",
    "content": "# Economy\n\nGhana exports cocoa. In Jan. 2024 it sold 5.3 million tonnes to J. R. Smith Ltd. for cash.\n"
    "- Its capital is Accra.\n",
}
TOGO: Json = {"url": "https://a.example/togo", "content": "Togo is small. Lomé is its capital."}


def read(asked: str, *pages: Json) -> list[str]:
    """The texts of the pages as they are shown."""
    return contents(RunPages(asked).show_reads({"results": list(pages)}))


def contents(shown: Shown) -> list[str]:
    assert shown.result is not None
    return [page["content"] for page in shown.result["results"]]


def texts(text: str, spans: tuple[Span, ...]) -> list[str]:
    return [span.extract(text).decode() for span in spans]


def test_a_page_is_read_as_sentences_and_headings() -> None:
    text = GHANA["content"]
    reading = read_page(text)
    assert texts(text, reading.sentences) == [
        "Economy",
        "Ghana exports cocoa.",
        "In Jan. 2024 it sold 5.3 million tonnes to J. R. Smith Ltd. for cash.",
        "Its capital is Accra.",
    ]
    assert texts(text, reading.headings) == ["Economy"]
    assert reading.language == "en"


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("The score is 80.4, not 81.4. The others stay.", 2),
        ("Net debt is below 5.0. EBITDA grew.", 2),
        ("It fell by 12. The board met.", 2),
        ("Er kam am 3. Mai in Ulm an.", 1),
        ("Im 19. Jahrhundert war es so.", 1),
        ("It bought Rossi S.p.A. Milano for cash.", 1),
    ],
)
def test_a_sentence_ends_after_a_figure_but_not_after_an_ordinal(text: str, count: int) -> None:
    assert len(read_page(text).sentences) == count


def test_the_nearest_heading_above_is_found() -> None:
    text = "Weather\n\nIt rains in Accra.\n\nHistory of Lomé\n\nIt was founded in 1850."
    reading = read_page(text)
    for words, heading in (("It rains", "Weather"), ("It was founded", "History of Lomé")):
        found = reading.heading_above(len(text[: text.index(words)].encode()))
        assert found is not None
        assert found.extract(text).decode() == heading
    assert reading.heading_above(0) is None


def test_what_is_no_heading() -> None:
    for line in ("Airports: 48", "It rains.", "a short line", "Who is it?", "word " * 20):
        assert read_page(f"{line}\n\nGhana exports cocoa.").headings == ()


def test_a_reading_is_stored_as_json_and_read_again() -> None:
    reading = read_page(GHANA["content"])
    assert PageReading.from_json(reading.as_json()) == reading


def test_sentences_of_random_texts_cover_their_words_in_order() -> None:
    rng = random.Random(7)
    parts = [
        "Ghana",
        " ",
        "\n",
        ".",
        "! ",
        "? ",
        "é",
        "5",
        "5.",
        "Dr. ",
        "\t",
        "#",
        "- ",
        "鉄",
        "…",
        '"',
        "\u00a0",
    ]
    for _ in range(300):
        text = "".join(rng.choices(parts, k=rng.randrange(60)))
        spans = read_page(text).sentences
        places = [place for span in spans for place in (span.start_byte, span.end_byte)]
        assert places == sorted(places)
        for span in spans:
            assert span.extract(text).decode().strip()
        left = text.encode()
        for span in reversed(spans):
            left = left[: span.start_byte] + left[span.end_byte :]
        assert not set("Ghanaé鉄") & set(left.decode())


def test_a_page_has_one_number_whatever_brings_it() -> None:
    pages = RunPages("")
    pages.show_passages({"results": [{**GHANA, "content": "…\nGhana exports cocoa.\n…"}]})
    both = {"results": [TOGO, {**GHANA, "url": "http://A.example/ghana/#top"}], "failed": []}
    assert contents(pages.show_reads(both)) == [
        "[2.1] Togo is small.\n[2.2] Lomé is its capital.",
        "[1.2] Economy\n[1.1] Ghana exports cocoa.\n"
        "[1.3] In Jan. 2024 it sold 5.3 million tonnes to J. R. Smith Ltd. for cash.\n"
        "[1.4] Its capital is Accra.",
    ]
    assert [page.url for page in pages.pages] == [GHANA["url"], TOGO["url"]]
    assert pages.pages[0].reads == [GHANA["content"]]
    first, second = pages.pages[0].find(1), pages.pages[1].find(2)
    assert first is not None
    assert first.start_byte == GHANA["content"].index("Ghana exports")
    assert second is not None
    assert second.text == "Lomé is its capital."
    assert pages.pages[1].find(0) is pages.pages[1].find(3) is None


def test_equal_sentences_of_a_page_have_numbers_of_their_own() -> None:
    table = {"url": "https://a.example/t", "content": "# Ghana\nTotal: 5\n# Togo\nTotal: 5"}
    pages = RunPages("")
    pages.show_passages({"results": [{**table, "content": "Total: 5"}]})
    (text,) = contents(pages.show_reads({"results": [table]}))
    assert text == "[1.2] Ghana\n[1.1] Total: 5\n[1.3] Togo\n[1.4] Total: 5"
    starts = [sentence.start_byte for sentence in pages.pages[0].shown]
    assert starts == [8, 2, 19, 24]


def test_an_answer_without_pages_is_shown_as_it_is() -> None:
    pages = RunPages("")
    assert pages.show_passages({"note": "no page"}) == Shown({"note": "no page"})
    assert pages.show_passages({"note": "no page"}, 1).result is None
    empty: Json = {"results": [{"url": "https://a.example/x", "content": " … "}, {"url": "y"}]}
    assert pages.show_passages(empty).result == empty
    assert pages.pages == []
    mixed = {"results": [*empty["results"], TOGO]}
    (*_, last) = (pages.show_passages(mixed).result or {})["results"]
    assert last["content"].startswith("[1.1] Togo is small.")


FILLER = "Nothing of interest happened here, said somebody who knew. "


def test_of_long_pages_the_ends_and_what_bears_on_the_question_are_shown() -> None:
    filler = FILLER * 300
    content = (
        f"The harvest of 2024. It was dry. {filler}Then came spring. Cocoa exports fell by 12 % in March. "
        f"Prices rose. {filler}The report ends. Its author is known."
    )
    (text,) = read("exports of cocoa", {"url": "https://a.example/harvest", "content": content})
    assert text.splitlines() == [
        "[1.1] The harvest of 2024.",
        "[1.2] It was dry.",
        "…",
        "[1.3] Then came spring.",
        "[1.4] Cocoa exports fell by 12 % in March.",
        "[1.5] Prices rose.",
        "…",
        "[1.6] The report ends.",
        "[1.7] Its author is known.",
    ]


@pytest.mark.parametrize("count", [1, 3, 5])
def test_pages_of_four_kilobytes_are_shown_whole(count: int) -> None:
    """Whatever else the call reads, and however little they share with the question."""
    filler = " ".join(f"Day {day} of the trial brought nothing." for day in range(110))
    pages = [
        {"url": f"https://a.example/{number}", "content": f"{filler} Answer {number} is {number}."}
        for number in range(count)
    ]
    long = {"url": "https://a.example/long", "content": FILLER * 300}
    shown = read("cocoa", *pages[:-1], long, pages[-1])
    for page, text in zip(pages, [*shown[:-2], shown[-1]], strict=True):
        assert 4_000 < len(page["content"]) < WHOLE_CHARS
        assert "…" not in text
        assert text.count("\n") == 110


def test_a_call_shows_at_most_its_limit() -> None:
    rng = random.Random(11)
    for _ in range(20):
        pages = [
            {
                "url": f"https://a.example/{number}",
                "content": "\n".join(
                    f"Cocoa fell by {rng.randrange(100)} % on day {day}."
                    for day in range(rng.choice((5, 150, 900)))
                ),
            }
            for number in range(rng.randrange(1, 20))
        ]
        shown = RunPages("cocoa")
        shown.show_passages({"results": pages})
        texts = [text for page in shown.pages for text in page.sentences]
        assert sum(map(len, texts)) <= CALL_CHARS
        assert len(shown.pages) == len(pages)


def test_a_call_that_is_made_again_reads_on_until_all_was_shown() -> None:
    filler = " ".join(
        f"Nothing of interest happened on day {day} of the trial." for day in range(400)
    )
    content = f"The harvest of 2024. It was dry. Cocoa exports fell by 12 % in March. {filler}"
    result = {"results": [{"url": "https://a.example/harvest", "content": content}]}
    pages = RunPages("exports of cocoa")
    shown: list[str] = []
    views = 0
    while (view := pages.show_reads(result, views)).result is not None:
        views += 1
        lines = [line for line in contents(view)[0].splitlines() if line != "…"]
        assert sum(map(len, lines)) < 14_000
        shown += lines
    assert views == 4
    assert "[1.3] Cocoa exports fell by 12 % in March." in shown
    assert len(shown) == len(set(shown)) == 403
    assert [line.partition(" ")[0] for line in shown] == [f"[1.{n}]" for n in range(1, 404)]


def test_a_long_line_without_sentences_is_shown_in_pieces() -> None:
    table = "a, b; " * 900
    (text,) = read("cocoa", {"url": "https://a.example/table", "content": table})
    pieces = [line.partition("] ")[2] for line in text.splitlines()]
    assert " ".join(pieces) == table.strip()
    assert max(map(len, pieces)) <= 1_500
    (text,) = read("cocoa", {"url": "https://a.example/table", "content": "é" * 24_000})
    assert text.splitlines()[0] == f"[1.1] {'é' * 1_500}"


def test_a_short_page_has_nothing_to_read_on() -> None:
    pages = RunPages("cocoa")
    pages.show_passages({"results": [GHANA]})
    assert pages.show_passages({"results": [GHANA]}, 1).result is None


def test_a_search_does_not_show_again_what_stands_above() -> None:
    pages = RunPages("cocoa")
    dated = {"published_date": "2026-11-27T00:00:00+00:00", "published_date_from": "a feed"}
    first = pages.show_passages({"results": [{**GHANA, **dated}]}).result
    assert first is not None
    [shown] = first["results"]
    assert shown["published_date"] == "2026-11-27"
    assert "published_date_from" not in shown
    more = {**GHANA, "content": f"{GHANA['content']}\nIts cocoa is cheap.\n"}
    assert contents(pages.show_passages({"results": [GHANA, TOGO]}))[0] == "… (page 1, above)"
    assert contents(pages.show_passages({"results": [more]})) == ["…\n[1.5] Its cocoa is cheap."]
    assert len(pages.pages[0].shown) == 5
    read = contents(pages.show_reads({"results": [GHANA]}))
    assert "[1.2] Ghana exports cocoa." in read[0], "a page that is read is shown whole"


def test_what_was_recorded_is_shown_again_whatever_the_code_would_show() -> None:
    first, again = RunPages("cocoa"), RunPages("gold")
    results = [{"results": [GHANA, {**TOGO, "content": FILLER * 300}]}, {"results": [TOGO, GHANA]}]
    shown = [
        first.show_passages(results[0]),
        first.show_reads(results[1]),
        first.show_reads(results[1], 1),
    ]
    records = [json.loads(json.dumps(each.record)) for each in shown]
    # As if the code had changed since: it would not show these sentences, nor split them there.
    records[0]["pages"][1]["lines"] = [None, [1, 0, 8, 26]]
    replayed = [
        again.show_passages(results[0], 0, records[0]),
        again.show_reads(results[1], 0, records[1]),
        again.show_reads(results[1], 1, records[2]),
    ]
    assert contents(replayed[0])[1] == f"…\n[2.1] {FILLER[8:26]}"
    assert replayed[1:] == shown[1:]
    assert asdict(again.pages[0]) == asdict(first.pages[0])


def test_the_model_is_told_once_of_a_retracted_page() -> None:
    pages = RunPages("")
    retracted = {
        "url": "https://a.example/false",
        "error": "the agent's owner has retracted this page",
    }
    first = {"results": [GHANA], "retracted": [retracted]}
    second = {"results": [TOGO], "retracted": [{**retracted, "url": "https://a.example/false/"}]}
    assert (pages.show_passages(first).result or {})["retracted"] == [retracted]
    assert "retracted" not in (pages.show_passages(second).result or {})


def test_citations_that_no_shown_sentence_has_are_left_out() -> None:
    filler = FILLER * 300
    pages = shown_pages(GHANA, {**TOGO, "content": f"Togo is small. {filler}"}, question="cocoa")
    last = len(pages[1].shown)
    document = (
        f"[2.1-99]\n[2.{last + 1}]\n[3.1] [0.1] [1.0]\nGrowth [9.9] was slow.\n[1.4-2.1]\n[1.3-2]"
    )
    lines = fill_in(document, pages).splitlines()
    assert lines[:last] == [f"[2.{n}] {text}" for n, text in enumerate(pages[1].sentences, 1)]
    assert lines[last:] == [
        "[1.4] Its capital is Accra.",
        "[2.1] Togo is small.",
        "",
        OWN_WORDS,
        "",
        "Growth  was slow.",
    ]


def test_titles_and_addresses_are_filled_in_where_the_document_has_none() -> None:
    headings = [
        "## Ghana\nSource: https://a.example/ghana",
        "## Togo\nSource: https://a.example/togo",
    ]
    pages = shown_pages(GHANA, TOGO)
    assert fill_in("[2.1]\n[1.2] [1.4]\nNothing on gold.", pages, headings).splitlines() == [
        "## Togo",
        "Source: https://a.example/togo",
        "",
        "[2.1] Togo is small.",
        "",
        "## Ghana",
        "Source: https://a.example/ghana",
        "",
        "[1.2] Ghana exports cocoa.",
        "[1.4] Its capital is Accra.",
        "",
        OWN_WORDS,
        "",
        "Nothing on gold.",
    ]
    own = "## My heading\nSource: https://a.example/togo\n[2.1]"
    assert fill_in(own, pages, headings) == fill_in("[2.1]", pages, headings)


@pytest.mark.parametrize(
    "invented",
    [
        "## Reuters: Togo is sold\nSource: https://reuters.example/sold\nPublished: 2026-11-28\n[14.1] It is sold.",
        "# Reuters: Togo is sold\n\n**Source:** https://reuters.example/sold\n\n- Published: 2026\nIt is sold. [14.1]",
        "  ## Reuters: Togo is sold\n> URL: https://reuters.example/sold\n[99999.1] It is sold.",
        "## Reuters: Togo is sold [1.4]\nSource: https://reuters.example/sold [2.1]\nIt is sold.",
        "It is sold.",
    ],
)
@pytest.mark.parametrize("place", ["{0}\n[1.2]\n[2.1]", "[1.2]\n{0}\n[2.1]", "[1.2]\n[2.1]\n{0}"])
def test_only_pages_that_were_read_have_headings_and_addresses(place: str, invented: str) -> None:
    headings = ["## Ghana\nSource: https://a.example/ghana", "## Togo\nPublished: 2026-01-02"]
    document = fill_in(place.format(invented), shown_pages(GHANA, TOGO), headings)
    pages, _, own = document.partition(f"\n{OWN_WORDS}\n")
    structure = re.compile(r"^\W*(#|source|url|published)", re.IGNORECASE)
    assert {line for line in document.splitlines() if structure.match(line)} == {
        *"\n".join(headings).splitlines(),
        OWN_WORDS,
    }
    assert "sold" not in pages
    assert "It is sold." in own


def test_a_typed_title_is_no_sentence_of_its_page() -> None:
    page = {**TOGO, "content": f"# Togo is a small country\n\n{TOGO['content']}"}
    document = "## Togo is a small country\nSource: https://a.example/togo\n\nLomé is its capital."
    assert fill_in(document, shown_pages(page)) == "[1.3] Lomé is its capital."


def test_the_words_of_a_document_without_a_cited_sentence_stand_alone() -> None:
    document = "# Togo\nSource: https://b.example/\n\nIt is sold.\n# Not found\n- the price"
    assert fill_in(document, shown_pages(TOGO)) == "It is sold.\nNot found\n- the price"


@pytest.mark.parametrize(
    "document",
    [
        "[1.2]\n[2.1]\n[1.4]\n[2.2]",
        "[1.2] [2.1] [1.4] [2.2]",
        "## Ghana\nSource: https://a.example/ghana\n[1.2]\n[2.1]\n[1.4]\nBoth [2.2]",
        "## Togo\nSource: https://a.example/togo\n\n[1.2]\n[2.1]\n[1.4] [2.2]",
    ],
)
def test_each_cited_sentence_stands_under_its_own_page(document: str) -> None:
    headings = [f"Source: https://a.example/{name}" for name in ("ghana", "togo")]
    current, found = "", []
    for line in fill_in(document, shown_pages(GHANA, TOGO), headings).splitlines():
        if line.startswith("Source: "):
            current = line.rpartition("/")[2]
        elif line.startswith("["):
            found.append((line[1:4], current))
    assert found == [("1.2", "ghana"), ("2.1", "togo"), ("1.4", "ghana"), ("2.2", "togo")]


def test_the_words_of_cited_sentences_are_filled_in() -> None:
    document = (
        "## Ghana\nSource: https://a.example/ghana\n\n[1.2-3] [9.1]\n- On Togo: [2.1, 2.2]\n"
        "- Its capital is Accra.\nNothing was found on gold."
    )
    assert fill_in(document, shown_pages(GHANA, TOGO)).splitlines() == [
        "[1.2] Ghana exports cocoa.",
        "[1.3] In Jan. 2024 it sold 5.3 million tonnes to J. R. Smith Ltd. for cash.",
        "[2.1] Togo is small.",
        "[2.2] Lomé is its capital.",
        "[1.4] Its capital is Accra.",
        "",
        OWN_WORDS,
        "",
        "- On Togo:",
        "Nothing was found on gold.",
    ]
