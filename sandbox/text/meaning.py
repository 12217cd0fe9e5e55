"""Texts as vectors by fixed rules: texts that share words, or pieces of words, are near to each other.

It is no model of language: `electrified` is near to `electric`, and not to `battery-powered`.
"""

import math
from collections import defaultdict
from collections.abc import Iterator
from hashlib import blake2b

from sandbox.text.words import meaningful, words

PIECE = 4


def meaning(text: str, dimensions: int) -> list[float]:
    """Of length 1; all zeros for a text without words."""
    vector = [0.0] * dimensions
    for feature, weight in _features(text).items():
        digest = int.from_bytes(blake2b(feature.encode(), digest_size=8).digest(), "big")
        # The sign makes features that fall together cancel each other as often as not.
        vector[(digest >> 1) % dimensions] += weight if digest & 1 else -weight
    length = math.hypot(*vector)
    return [value / length for value in vector] if length else vector


def _features(text: str) -> dict[str, float]:
    found: defaultdict[str, float] = defaultdict(float)
    for word in {word.lower() for word in words(text) if meaningful(word) or word.isdigit()}:
        found[word] += 1.0
        for piece in _pieces(word):
            found[f"{piece}…"] += 1.0
    return found


def _pieces(word: str) -> Iterator[str]:
    return (word[at : at + PIECE] for at in range(len(word) - PIECE + 1))
