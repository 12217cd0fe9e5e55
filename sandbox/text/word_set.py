"""Sets of words, written as plain text."""


def word_set(words: str) -> frozenset[str]:
    """The words of `words`, which are parted by blanks."""
    return frozenset(words.split())
