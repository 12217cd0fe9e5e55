"""Texts as vectors by fixed rules: texts that share words or parts of words are close to each other.

This is not a language model: `electrified` is close to `electric`, but not to `battery-powered`.
"""

import math
from collections import defaultdict
from collections.abc import Iterator
from hashlib import blake2b

from sandbox.text.tokens import is_meaningful, words

NGRAM_CHARS = 4


def embed(text: str, dimensions: int) -> list[float]:
    """The embedding of `text`, of length 1; all zeros for a text without words."""
    vector = [0.0] * dimensions
    for feature, weight in _features(text).items():
        digest = int.from_bytes(blake2b(feature.encode(), digest_size=8).digest(), "big")
        # The sign makes features with the same index cancel out as often as they add up.
        vector[(digest >> 1) % dimensions] += weight if digest & 1 else -weight
    length = math.hypot(*vector)
    return [value / length for value in vector] if length else vector


def _features(text: str) -> dict[str, float]:
    weights: defaultdict[str, float] = defaultdict(float)
    for word in {word.lower() for word in words(text) if is_meaningful(word) or word.isdigit()}:
        weights[word] += 1.0
        for piece in _ngrams(word):
            weights[f"{piece}…"] += 1.0
    return weights


def _ngrams(word: str) -> Iterator[str]:
    return (word[at : at + NGRAM_CHARS] for at in range(len(word) - NGRAM_CHARS + 1))
