"""Which faults a seed has, how often each may happen, and how often it has happened."""

from collections import Counter
from collections.abc import Mapping
from random import Random
from typing import Final

CHANCES: Final[Mapping[str, float]] = {
    "publish lost": 0.03,
    "confirmation lost": 0.03,
    "message lost": 0.02,
    "message doubled": 0.1,
    "message delayed": 0.1,
    "acknowledgement lost": 0.05,
    "connection lost before a request": 0.003,
    "connection lost after a request": 0.003,
    "killed at a failpoint": 0.02,
    "frozen at a failpoint": 0.04,
    "killed": 0.15,
    "frozen": 0.1,
    "stopped": 0.05,
    "slow answer": 0.05,
    "answer lost": 0.03,
    "model unavailable": 0.02,
}
"""Chance of each at an opportunity: a message, a request, a failpoint, a call, or a second."""
SHARE_OF_KINDS: Final = 0.7
"""Of the kinds, on average, that one seed has: a fault is found more often where others do not cover it."""


class Faults:
    """`happens` decides by the seed; `calm` ends all faults, so that everything can complete."""

    def __init__(self, chance: Random, chances: Mapping[str, float] = CHANCES) -> None:
        self._chance = chance
        strength = chance.choice((0.5, 1.0, 2.0))
        self._chances = {
            name: probability * strength
            for name, probability in chances.items()
            if chance.random() < SHARE_OF_KINDS
        }
        self.counts: Counter[str] = Counter()
        self.is_calm = False

    def happens(self, name: str) -> bool:
        if self.is_calm or name not in self._chances:
            return False
        if self._chance.random() >= self._chances[name]:
            return False
        self.counts[name] += 1
        return True
