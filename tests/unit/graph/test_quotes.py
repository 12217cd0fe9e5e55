"""Finding the exact bytes of a quote in a page."""

import pytest

from shared.graph.provenance.page_reading import find_quote
from tests.support.case_files import read_cases

CASES = read_cases(__file__)


@pytest.mark.parametrize(("page", "quote", "expected"), CASES["a_quote_is_found"])
def test_a_quote_is_found(page: str, quote: str, expected: str) -> None:
    span = find_quote(page, quote)
    assert span is not None
    assert span.extract(page).decode() == expected


def test_the_place_with_the_same_characters_is_preferred() -> None:
    page = "a “é\n b” and “é b”"
    span = find_quote(page, "“é b”")
    assert span is not None
    assert (span.start_byte, span.extract(page).decode()) == (18, "“é b”")


@pytest.mark.parametrize(("page", "quote"), CASES["a_quote_is_not_found"])
def test_a_quote_is_not_found(page: str, quote: str) -> None:
    assert find_quote(page, quote) is None
