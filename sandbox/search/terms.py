"""From a question in plain English to words to look for."""

from sandbox.text.words import meaningful, words

MAX_WORDS = 24


def query_terms(text: str) -> list[str]:
    """The meaningful words and each two neighbours of them, as FTS5 strings without their quotes.

    Neighbours make a page that says `West African economy` better than one that has the three words apart. All words
    count where none is meaningful.
    """
    every = [word.lower() for word in words(text)]
    chosen = [word for word in every if meaningful(word) or word.isdigit()] or every
    return [
        *dict.fromkeys(chosen[:MAX_WORDS]),
        *dict.fromkeys(_neighbours(every, frozenset(chosen))),
    ]


def _neighbours(every: list[str], chosen: frozenset[str]) -> list[str]:
    """Two chosen words with at most one other between them, as in `gulf of guinea`."""
    found = [
        " ".join(every[start : start + reach])
        for start in range(len(every))
        for reach in (2, 3)
        if len(every) >= start + reach
        and every[start] in chosen
        and every[start + reach - 1] in chosen
        and not chosen.intersection(every[start + 1 : start + reach - 1])
    ]
    return found[:MAX_WORDS]
