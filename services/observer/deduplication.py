"""Detects plans that repeat earlier queries or analyses. Pure; no model is called."""

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from typing import Final
from uuid import UUID

from shared.workflow.questions import (
    MIN_WORDS,
    Word,
    is_same_question,
    normalize_letters,
    split_words,
)


class Words:
    """The words of a text, indexed; a lookup does not depend on the length of the text."""

    def __init__(self, text: str) -> None:
        self._by_text: dict[str, list[Word]] = {}
        for word in split_words(text):
            self._by_text.setdefault(word.text, []).append(word)

    def has_like(self, word: Word) -> bool:
        return any(
            word.is_like(candidate)
            for text in word.like_texts
            for candidate in self._by_text.get(text, ())
        )


MIN_SHARED_NODES: Final = 0.8
"""Minimum share of nodes that the insight and the analysis have in common."""
MIN_SHARED_WORDS: Final = 0.9
"""Minimum share of an insight's words that the analysis contains. Names and figures must all be there."""


@dataclass(frozen=True)
class CoveringAnalysis:
    """An unexpired analysis: the nodes it cites, and the full text of it and its insight."""

    name: str
    cited: frozenset[UUID]
    text: str

    @cached_property
    def letters(self) -> str:
        return normalize_letters(self.text)

    @cached_property
    def words(self) -> Words:
        return Words(self.text)


@dataclass(frozen=True)
class Repeat:
    """An item of a plan, and what it repeats."""

    kind: str
    text: str
    repeated: str


def repeated_query(objective: str, objectives: Sequence[str]) -> str | None:
    """The first of the `objectives` that asks the same question; None if there is none."""
    return next(
        (question for question in objectives if is_same_question(objective, question)), None
    )


def repeated_insight(
    node_ids: Set[UUID], text: str, analyses: Sequence[CoveringAnalysis]
) -> CoveringAnalysis | None:
    """The analysis that covers the insight on these nodes; `text` is its observation and direction."""
    # Most analyses lack a name or figure, so these are looked up first.
    own_words = sorted(set(split_words(text)), key=lambda word: not word.is_fixed)
    return next((analysis for analysis in analyses if _covers(analysis, node_ids, own_words)), None)


def _covers(analysis: CoveringAnalysis, node_ids: Set[UUID], own_words: Sequence[Word]) -> bool:
    shared = len(node_ids & analysis.cited)
    if not shared or shared < MIN_SHARED_NODES * max(len(node_ids), len(analysis.cited)):
        return False
    letters = analysis.letters
    return _has_enough(
        own_words, lambda word: any(text in letters for text in word.like_texts)
    ) and (_has_enough(own_words, analysis.words.has_like))


def _has_enough(own_words: Sequence[Word], is_contained: Callable[[Word], bool]) -> bool:
    can_be_missing = (1 - MIN_SHARED_WORDS) * len(own_words)
    for word in own_words:
        if not is_contained(word):
            can_be_missing -= 1
            if word.is_fixed or can_be_missing < 0:
                return False
    return len(own_words) >= MIN_WORDS
