"""Which of the nodes that may be meant come first."""

import re
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum
from typing import Final
from uuid import UUID

from shared.graph.words import Asked

_WORD: Final = re.compile(r"\w+")


class Way(IntEnum):
    """How a node was found: of two whose names hold as many words, the one found by the first of these is likelier."""

    NAMED = 0
    ALL_IN_NAME = 1
    ANY_IN_NAME = 2
    BEGINS = 3
    ALIKE = 4
    ALL_IN_PROPERTIES = 5
    ANY_IN_PROPERTIES = 6
    NEAR = 7
    """In meaning, where embeddings are configured."""
    NEWEST = 8


@dataclass(frozen=True)
class Candidate:
    id: UUID
    name: str
    updated_at: datetime
    way: int
    place: int = 0
    """Among those found the same way, where that way knows one."""


def ranked(candidates: Collection[Candidate], words: Asked | None = None) -> list[Candidate]:
    """Each once: of the very name, then with more of the words in it, then by how it was found; newer ones first."""
    first: dict[UUID, Candidate] = {}
    for each in candidates:
        if each.id not in first or each.way < first[each.id].way:
            first[each.id] = each
    newest = sorted(first.values(), key=lambda each: (-each.updated_at.timestamp(), each.id))
    return newest if words is None else sorted(newest, key=lambda each: _place(each, words))


def holds_any(name: str, words: Collection[str]) -> bool:
    small = name.lower()
    return any(word in small for word in words)


def _place(candidate: Candidate, words: Asked) -> tuple[bool, int, int, int]:
    name = candidate.name.lower()
    name_words = set(_WORD.findall(name))
    hits = sum((word in name) + (word in name_words) for word in words.words)
    return name != words.whole.lower(), -hits, candidate.way, candidate.place
