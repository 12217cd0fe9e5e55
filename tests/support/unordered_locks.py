"""A hash of many lines in any order, with constant memory.

Each line is hashed to a number of 2,048 bits, and the numbers are added up: the incremental hashing by addition of
Bellare and Micciancio ("A New Paradigm for Collision-Free Hashing", 1997), with so many bits that no known way of finding
lines which add up to the same is feasible.
"""

from hashlib import sha256, shake_256
from typing import Final

_BYTES: Final = 256
_MODULUS: Final = 1 << (8 * _BYTES)


class UnorderedHash:
    def __init__(self) -> None:
        self._sum = 0
        self._count = 0

    def add(self, line: str) -> None:
        """The same line twice counts twice."""
        number = int.from_bytes(shake_256(line.encode()).digest(_BYTES), "big")
        self._sum = (self._sum + number) % _MODULUS
        self._count += 1

    def hexdigest(self) -> str:
        """SHA-256 of the number of lines and their sum, in hex."""
        return sha256(b"%d:" % self._count + self._sum.to_bytes(_BYTES, "big")).hexdigest()
