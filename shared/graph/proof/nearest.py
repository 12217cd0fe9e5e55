"""What a page says that comes nearest to a quote that it does not hold."""

import re
from collections.abc import Iterable
from difflib import SequenceMatcher
from typing import Final

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
