"""Addresses in texts."""

import pytest

from shared.urls import urls_in

ADDRESS = "https://en.wikipedia.org/wiki/Mercury_(planet)"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"Read {ADDRESS}", ADDRESS),
        (f"Read {ADDRESS}.", ADDRESS),
        (f"Read it ({ADDRESS}).", ADDRESS),
        (f"[Mercury]({ADDRESS})", ADDRESS),
        (f"**{ADDRESS}**", ADDRESS),
        (f"`{ADDRESS}`, now", ADDRESS),
        ("[https://example.org/a]", "https://example.org/a"),
        ("https://example.org/a[1]", "https://example.org/a[1]"),
        ("see (https://example.org/a), then", "https://example.org/a"),
        ("https://example.org/a/;", "https://example.org/a/"),
    ],
)
def test_addresses_have_no_punctuation_and_keep_their_own_brackets(
    text: str, expected: str
) -> None:
    assert urls_in(text) == [expected]
