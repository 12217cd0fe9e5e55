"""Quotes: where one stands in a page, to the byte. Pure."""

import re
import unicodedata
from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache
from typing import Final

PAGES_KEPT_FOLDED: Final = 32

# What typesetting puts in the place of plain characters, beyond what Unicode calls compatible.
_TYPOGRAPHY: Final = {
    **dict.fromkeys("‘’‚‛′", "'"),
    **dict.fromkeys("“”„‟″«»", '"'),
    **dict.fromkeys("‐‑‒–—―−", "-"),
    # Soft hyphen, zero-width blanks and joiners, byte order mark: they show nowhere.
    **dict.fromkeys("\u00ad\u200b\u200c\u200d\u2060\ufeff", ""),
}


@dataclass(frozen=True)
class Span:
    """Bytes `first` up to but without `end` of a text in UTF-8."""

    first: int
    end: int

    def of(self, text: str) -> bytes:
        """What stands there; fewer bytes where the text ends before."""
        return text.encode()[self.first : self.end]


@dataclass(frozen=True)
class _Folded:
    text: str
    origins: "array[int]"
    """For each character of `text`, which character of the page it came from."""


def find(page: str, quote: str) -> Span | None:
    """Where `quote` stands first in `page`, or None.

    Runs of white space are as one blank, and typography is as plain characters: quotation marks, dashes, ligatures,
    characters of no width. Nothing else is forgiven, neither case nor a missing word.
    """
    # Of plain characters only blanks are folded, and of a quote nobody asks where each came from.
    wanted = " ".join(quote.split()) if quote.isascii() else _fold(quote).text.strip()
    if not wanted:
        return None
    folded = _fold_page(page)
    place = folded.text.find(wanted)
    if place < 0:
        return None
    first = folded.origins[place]
    last = folded.origins[place + len(wanted) - 1]
    before = len(page[:first].encode())
    return Span(before, before + len(page[first : last + 1].encode()))


@lru_cache(maxsize=PAGES_KEPT_FOLDED)
def _fold_page(page: str) -> _Folded:
    return _fold(page)


def _fold(text: str) -> _Folded:
    folded: list[str] = []
    origins = array("L")
    for origin, character in enumerate(text):
        plain = _TYPOGRAPHY.get(character)
        if plain is None:
            plain = character if character.isascii() else unicodedata.normalize("NFKC", character)
        for each in plain:
            blank = each.isspace()
            if blank and folded and folded[-1] == " ":
                continue
            folded.append(" " if blank else each)
            origins.append(origin)
    return _Folded("".join(folded), origins)


_ENDS: Final = re.compile(r"(?<=[.!?])\s+|\n+")
_WORD: Final = re.compile(r"\w+")
MOST_CHARACTERS: Final = 60_000
"""Of pages that are looked through: what is told is a hint, and must not take long."""
_COMPARED: Final = 5
_LONGEST: Final = 500
_LEAST_ALIKE: Final = 0.35
"""Below this share of common letters two sentences have nothing to do with each other."""


def nearest(pages: Iterable[str], quote: str) -> str | None:
    """The sentence most like `quote`, letter by letter as it stands there; None where none is like it."""
    wanted = _words(quote)
    sharing = sorted(_sentences(pages), key=lambda one: len(wanted & _words(one)), reverse=True)
    matcher = SequenceMatcher(b=quote[:_LONGEST], autojunk=False)
    best, alike = None, _LEAST_ALIKE
    for sentence in sharing[:_COMPARED]:
        matcher.set_seq1(sentence)
        if matcher.ratio() > alike:
            best, alike = sentence, matcher.ratio()
    return best


def _sentences(pages: Iterable[str]) -> list[str]:
    text = "\n".join(pages)[:MOST_CHARACTERS]
    found = (part.strip() for part in _ENDS.split(text))
    return [part[:_LONGEST] for part in found if part]


def _words(text: str) -> frozenset[str]:
    return frozenset(word.lower() for word in _WORD.findall(text))
