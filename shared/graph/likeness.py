"""How much alike two names read, pure: as PostgreSQL's pg_trgm counts it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

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
    fewest = int(least * len(wanted))
    for other in dict.fromkeys(others):
        # What costs least comes first. A key has no more trigrams than characters and one.
        if len(other) + 1 < fewest or marks(other) != own_marks:
            continue
        shared = _shared(wanted, _trigrams(other))
        if shared >= least:
            yield Alike(other, shared)


def _trigrams(key: str) -> set[str]:
    padded = [f"  {word} " for word in key.split()]
    return {word[at : at + 3] for word in padded for at in range(len(word) - 2)}


def _shared(one: set[str], other: set[str]) -> float:
    both = len(one & other)
    return both / (len(one) + len(other) - both)
