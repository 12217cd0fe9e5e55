"""Where a quote stands in a page, to the byte."""

import unicodedata
from array import array
from dataclasses import dataclass
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
