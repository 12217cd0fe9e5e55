"""Which of the nodes that may be meant come first."""

import re
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from shared.graph.words import Asked

_WORD: Final = re.compile(r"\w+")


@dataclass(frozen=True)
class Candidate:
    id: UUID
    name: str
    updated_at: datetime
    way: int
    """By which way it was found first: the fewer, the likelier."""


def ranked(candidates: Collection[Candidate], words: Asked | None = None) -> list[Candidate]:
    """Each once: of the very name, then with more of the words in it, then by how it was found; newer ones first."""
    first: dict[UUID, Candidate] = {}
    for each in candidates:
        if each.id not in first or each.way < first[each.id].way:
            first[each.id] = each
    newest = sorted(first.values(), key=lambda each: (-each.updated_at.timestamp(), each.id))
    return newest if words is None else sorted(newest, key=lambda each: _place(each, words))


def holds_a_word(candidate: Candidate, words: Asked) -> bool:
    return any(word in candidate.name.lower() for word in words.words)


def _place(candidate: Candidate, words: Asked) -> tuple[bool, int, int]:
    name = candidate.name.lower()
    name_words = set(_WORD.findall(name))
    hits = sum((word in name) + (word in name_words) for word in words.words)
    return name != words.whole.lower(), -hits, candidate.way
