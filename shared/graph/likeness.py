"""How much alike two names read, pure: as PostgreSQL's pg_trgm counts it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

from shared.graph.naming import marks


def backwards(key: str) -> str:
    return key[::-1]


def by_length(key: str) -> str:
    """The words of a key, the longest first: names of the same words stand together whatever their order."""
    return " ".join(sorted(key.split(), key=lambda word: (-len(word), word)))


def likeness(one: str, other: str) -> float:
    """Of two keys: how many of their trigrams they share, 0 to 1."""
    return _shared(_trigrams(one), _trigrams(other))


@dataclass(frozen=True)
class Alike:
    key: str
    likeness: float


def alike(key: str, others: Iterable[str], least: float) -> Iterator[Alike]:
    """Those of `others` that read like `key` at least so much, and whose numbers and dates are the same."""
    wanted, own_marks = _trigrams(key), marks(key)
    for other in dict.fromkeys(others):
        shared = _shared(wanted, _trigrams(other))
        if shared >= least and marks(other) == own_marks:
            yield Alike(other, shared)


def _trigrams(key: str) -> set[str]:
    return set(chain.from_iterable(map(_of_word, key.split())))


def _of_word(word: str) -> Iterator[str]:
    padded = f"  {word} "
    return (padded[at : at + 3] for at in range(len(padded) - 2))


def _shared(one: set[str], other: set[str]) -> float:
    both = len(one & other)
    return both / (len(one) + len(other) - both)
