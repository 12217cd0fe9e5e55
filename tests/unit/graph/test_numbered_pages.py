"""Pages are read and shown as numbered sentences, which a document cites."""

import random
from collections.abc import Sequence

from shared.graph.provenance.numbered_pages import fill_in, number_pages, show_numbered
from shared.graph.provenance.page_reading import PageReading, read_page
from shared.graph.provenance.quotes import Span
from shared.tools import Json

GHANA: Json = {
    "url": "https://a.example/ghana",
    "title": "Ghana",
    "content": "# Economy\n\nGhana exports cocoa. In Jan. 2024 it sold 5.3 million tonnes to J. R. Smith Ltd. for cash.\n"
    "- Its capital is Accra.\n",
}
TOGO: Json = {"url": "https://a.example/togo", "content": "Togo is small. Lomé is its capital."}


def show(asked: str, result: Json, earlier: Sequence[Json] = ()) -> Json:
    shown = show_numbered(asked, result, earlier)
    assert shown is not None
    return shown


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


def test_pages_are_shown_with_the_numbers_that_evidence_cites() -> None:
    first, second = {"results": [GHANA]}, {"results": [TOGO, GHANA]}
    shown = show("", second, [first])
    assert [page["content"].splitlines()[0] for page in shown["results"]] == [
        "[2.1] Togo is small.",
        "[1.1] Economy",
    ]
    pages = number_pages([GHANA, TOGO, GHANA])
    assert [page.url for page in pages] == [GHANA["url"], TOGO["url"]]
    assert pages[1].sentence(2) == "Lomé is its capital."
    assert pages[1].sentence(0) is pages[1].sentence(3) is None
    assert show_numbered("", {"note": "no page"}, []) == {"note": "no page"}


def test_of_long_pages_what_bears_on_the_question_is_shown() -> None:
    filler = "Nothing of interest happened here, said somebody who knew. " * 300
    content = (
        f"The harvest of 2024. It was dry. {filler}Cocoa exports fell by 12 % in March. {filler}"
    )
    long = {"url": "https://a.example/harvest", "content": content}
    [page] = show("exports of cocoa", {"results": [long, GHANA]})["results"][:1]
    lines = page["content"].splitlines()
    assert lines == [
        "[1.1] The harvest of 2024.",
        "[1.2] It was dry.",
        "…",
        "[1.303] Cocoa exports fell by 12 % in March.",
        "…",
    ]


def test_a_call_that_is_made_again_reads_on_until_all_was_shown() -> None:
    filler = " ".join(
        f"Nothing of interest happened on day {day} of the trial." for day in range(400)
    )
    content = f"The harvest of 2024. It was dry. Cocoa exports fell by 12 % in March. {filler}"
    result = {"results": [{"url": "https://a.example/harvest", "content": content}]}
    shown: list[str] = []
    views = 0
    while (view := show_numbered("exports of cocoa", result, [], views)) is not None:
        views += 1
        lines = [line for line in view["results"][0]["content"].splitlines() if line != "…"]
        assert sum(map(len, lines)) < 14_000
        shown += lines
    assert views == 4
    assert [line for line in shown[:3] if "Cocoa" in line] == [shown[2]]
    assert len(shown) == len(set(shown)) == 403
    assert shown[3:6] == [
        f"[1.{number + 4}] Nothing of interest happened on day {number} of the trial."
        for number in range(3)
    ]


def test_a_text_without_sentences_is_shown_in_parts() -> None:
    result = {"results": [{"url": "https://a.example/table", "content": "a, b; " * 4_000}]}
    (page,) = show("cocoa", result)["results"]
    assert page["content"].startswith("[1.1] a, b;")
    assert len(page["content"]) <= 10_010
    further = show_numbered("cocoa", result, [], 1)
    assert further is not None
    assert further["results"][0]["content"].startswith("…\n[1.3] ")


def test_a_short_page_has_nothing_to_read_on() -> None:
    assert show_numbered("cocoa", {"results": [GHANA]}, [], 1) is None
    assert show_numbered("cocoa", {"note": "no page"}, [], 1) is None


def test_short_pages_are_shown_as_a_whole() -> None:
    result = show("something else", {"results": [GHANA, TOGO]})
    assert "…" not in "".join(page["content"] for page in result["results"])


def test_titles_and_addresses_are_filled_in_where_the_document_has_none() -> None:
    headings = [
        "## Ghana\nSource: https://a.example/ghana",
        "## Togo\nSource: https://a.example/togo",
    ]
    pages = number_pages([GHANA, TOGO])
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
        "Nothing on gold.",
    ]
    own = "## My heading\nSource: https://a.example/togo\n[2.1]"
    assert fill_in(own, pages, headings).splitlines()[0] == "## My heading"


def test_the_words_of_cited_sentences_are_filled_in() -> None:
    document = (
        "## Ghana\nSource: https://a.example/ghana\n\n[1.2-3] [9.1]\n- On Togo: [2.1, 2.2]\n"
        "- Its capital is Accra.\nNothing was found on gold."
    )
    assert fill_in(document, number_pages([GHANA, TOGO])).splitlines() == [
        "## Ghana",
        "Source: https://a.example/ghana",
        "",
        "[1.2] Ghana exports cocoa.",
        "[1.3] In Jan. 2024 it sold 5.3 million tonnes to J. R. Smith Ltd. for cash.",
        "- On Togo:",
        "[2.1] Togo is small.",
        "[2.2] Lomé is its capital.",
        "[1.4] Its capital is Accra.",
        "Nothing was found on gold.",
    ]
