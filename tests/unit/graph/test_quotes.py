"""Finding the exact bytes of a quote in a page."""

import pytest

from shared.graph.provenance.quotes import find_quote


@pytest.mark.parametrize(
    ("page", "quote", "expected"),
    [
        ("Output rose 4 %.", "rose 4 %", "rose 4 %"),
        ("Output\n\n  rose\t4 %.", "Output rose 4 %.", "Output\n\n  rose\t4 %."),
        ("Le prix, « stable », tomba", 'prix, " stable ", tomba', "prix, « stable », tomba"),
        ("It’s “over” – they said", 'It\'s "over" - they said', "It’s “over” – they said"),
        ("of\ufb01ce hours", "office hours", "of\ufb01ce hours"),
        ("co\u00adop\u200beration", "cooperation", "co\u00adop\u200beration"),
        ("wait… there", "wait... there", "wait… there"),
        ("日本の 鉄鋼 生産", "鉄鋼", "鉄鋼"),
        ("a b a b", "  a b ", "a b"),
        ('He said “no”, or "no"', 'said "no"', "said “no”"),
    ],
)
def test_a_quote_is_found(page: str, quote: str, expected: str) -> None:
    span = find_quote(page, quote)
    assert span is not None
    assert span.extract(page).decode() == expected


def test_the_place_with_the_same_characters_is_preferred() -> None:
    page = "a “é\n b” and “é b”"
    span = find_quote(page, "“é b”")
    assert span is not None
    assert (span.start_byte, span.extract(page).decode()) == (18, "“é b”")


@pytest.mark.parametrize(
    ("page", "quote"),
    [
        ("Output rose 4 %.", "Output Rose 4 %."),
        ("Output rose 4 %.", "Output rose 5 %."),
        ("Output rose 4 %.", "Output rose sharply, 4 %."),
        ("Output rose 4 %.", "Outputrose"),
        ("Output rose 4 %.", "  "),
        ("", "anything"),
    ],
)
def test_a_quote_is_not_found(page: str, quote: str) -> None:
    assert find_quote(page, quote) is None
