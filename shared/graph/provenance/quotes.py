"""Quotes: finds the byte range of a quote in a page. Pure."""

import re
import unicodedata
from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache
from typing import Final

MAX_CACHED_PAGES: Final = 32

# Typographic characters that Unicode's compatibility normalization does not replace.
_TYPOGRAPHY: Final = {
    **dict.fromkeys("‘’‚‛′", "'"),
    **dict.fromkeys("“”„‟″«»", '"'),
    **dict.fromkeys("‐‑‒–—―−", "-"),
    # Soft hyphen, zero-width spaces and joiners, byte order mark: they are invisible.
    **dict.fromkeys("\u00ad\u200b\u200c\u200d\u2060\ufeff", ""),
}


@dataclass(frozen=True)
class Span:
    """A half-open byte range of a text in UTF-8."""

    start_byte: int
    end_byte: int

    def extract(self, text: str) -> bytes:
        """The bytes of the range; fewer if the text ends earlier."""
        return text.encode()[self.start_byte : self.end_byte]


@dataclass(frozen=True)
class _NormalizedText:
    text: str
    origins: "array[int]"
    """For each character of `text` the index of its character in the page."""


def find_quote(page: str, quote: str) -> Span | None:
    """The first exact occurrence of `quote` in `page`, else the first one after normalization, else None.

    White space is collapsed and typography is normalized: quotation marks, dashes, ligatures, zero-width characters.
    Case and words must match exactly.
    """
    # ASCII needs only its white space collapsed, and a quote needs no origins.
    needle = " ".join(quote.split()) if quote.isascii() else _normalize(quote).text.strip()
    if not needle:
        return None
    literal = quote.strip()
    if (start := page.find(literal)) >= 0:
        return _span(page, start, start + len(literal))
    normalized = _normalize_page(page)
    index = normalized.text.find(needle)
    if index < 0:
        return None
    first = normalized.origins[index]
    last = normalized.origins[index + len(needle) - 1]
    return _span(page, first, last + 1)


def _span(page: str, start: int, end: int) -> Span:
    """The bytes of the characters from `start` to before `end`."""
    if page.isascii():
        return Span(start, end)
    start_byte = len(page[:start].encode())
    return Span(start_byte, start_byte + len(page[start:end].encode()))


@lru_cache(maxsize=MAX_CACHED_PAGES)
def _normalize_page(page: str) -> _NormalizedText:
    return _normalize(page)


def _normalize(text: str) -> _NormalizedText:
    characters: list[str] = []
    origins = array("L")
    for origin, character in enumerate(text):
        plain = _TYPOGRAPHY.get(character)
        if plain is None:
            plain = character if character.isascii() else unicodedata.normalize("NFKC", character)
        for replacement in plain:
            is_space = replacement.isspace()
            if is_space and characters and characters[-1] == " ":
                continue
            characters.append(" " if is_space else replacement)
            origins.append(origin)
    return _NormalizedText("".join(characters), origins)


_SENTENCE_END: Final = re.compile(r"(?<=[.!?])\s+|\n+")
_WORD: Final = re.compile(r"\w+")
MAX_COMPARED_CHARS: Final = 60_000
"""Of all pages together. The result is only a hint and must not take long."""
_MAX_SENTENCES_COMPARED: Final = 5
_MAX_SENTENCE_CHARS: Final = 500
_MIN_SIMILARITY: Final = 0.35
"""Below this share of common letters two sentences are unrelated."""


def nearest_sentence(pages: Iterable[str], quote: str) -> str | None:
    """The sentence most similar to `quote` by its letters; None if none is similar."""
    quote_words = _words(quote)
    by_shared_words = sorted(
        _sentences(pages), key=lambda sentence: len(quote_words & _words(sentence)), reverse=True
    )
    matcher = SequenceMatcher(b=quote[:_MAX_SENTENCE_CHARS], autojunk=False)
    best, best_ratio = None, _MIN_SIMILARITY
    for sentence in by_shared_words[:_MAX_SENTENCES_COMPARED]:
        matcher.set_seq1(sentence)
        if matcher.ratio() > best_ratio:
            best, best_ratio = sentence, matcher.ratio()
    return best


def _sentences(pages: Iterable[str]) -> list[str]:
    text = "\n".join(pages)[:MAX_COMPARED_CHARS]
    parts = (part.strip() for part in _SENTENCE_END.split(text))
    return [part[:_MAX_SENTENCE_CHARS] for part in parts if part]


def _words(text: str) -> frozenset[str]:
    return frozenset(word.lower() for word in _WORD.findall(text))
