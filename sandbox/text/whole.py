"""Names that stand for themselves: Guinea, and not what Guinea-Bissau and Equatorial Guinea have of it."""

import re
from collections.abc import Iterable
from functools import lru_cache

NAMES_KEPT = 4096


def place_of(name: str, sentence: str, others: Iterable[str] = ()) -> int:
    """Where `name` stands first as a whole: not within a word, nor within a longer one of `others`; -1 where nowhere."""
    places = [match.start() for match in _whole(name).finditer(sentence)]
    if not places:
        return -1
    longer = [other for other in others if len(other) > len(name) and name in other]
    taken = [match.span() for other in longer for match in _whole(other).finditer(sentence)]
    return next((at for at in places if not any(a <= at < b for a, b in taken)), -1)


@lru_cache(NAMES_KEPT)
def _whole(name: str) -> re.Pattern[str]:
    """A hyphen goes on with a name where a letter follows that is none of a common word's: `Ghana-based` names Ghana."""
    before = r"(?<!\w)(?<!\w-)" if name[:1].isalnum() else ""
    after = r"(?!\w)(?!-[^\W\da-z])" if name[-1:].isalnum() else ""
    return re.compile(f"{before}{re.escape(name)}{after}")
