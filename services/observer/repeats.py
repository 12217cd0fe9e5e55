"""Whether a plan asks what the graph answers, or would analyze what an analysis covers. Pure; no model is asked.

To take a new question for a repeat is worse than to ask twice: whatever differs in a number, a name or a date, in what
stands before what, or in a word that turns the question, is another question.
"""

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from services.observer.wording import Word, Words, letters_of, words_of, words_of_question

SAME_NODES: Final = 0.8
"""Of the nodes that the insight names and the analysis cites, those that both do."""
SAME_WORDS: Final = 0.9
"""Of an insight's words, those that the analysis has. What is fixed, a name or a figure, it must have."""
FEWEST_WORDS: Final = 2
"""A question of fewer says too little to be known again."""


@dataclass(frozen=True)
class Covered:
    """An analysis that holds: what it cites, and all that is said in it and in the insight behind it."""

    name: str
    cited: frozenset[UUID]
    told: str


@dataclass(frozen=True)
class Repeat:
    """An item of a plan, by what it says, and what it repeats."""

    kind: str
    told: str
    known: str


def repeated_query(objective: str, answered: Sequence[str]) -> str | None:
    """The objective among those `answered` lately that asks the same; None where this one is new."""
    return next((each for each in answered if is_same_question(objective, each)), None)


def repeated_insight(node_ids: Set[UUID], told: str, analyses: Sequence[Covered]) -> Covered | None:
    """The analysis that covers the insight on these nodes; `told` is what it observes, and its direction."""
    own = set(words_of(told))
    return next((each for each in analyses if _covers(each, node_ids, own)), None)


def is_same_question(one: str, other: str) -> bool:
    """Whether both ask the same in nearly the same words, one after another."""
    own, others = words_of_question(one), words_of_question(other)
    return FEWEST_WORDS <= len(own) == len(others) and all(
        word.is_like(each) for word, each in zip(own, others, strict=True)
    )


def _covers(analysis: Covered, node_ids: Set[UUID], own: Set[Word]) -> bool:
    shared = len(node_ids & analysis.cited)
    if not shared or shared < SAME_NODES * max(len(node_ids), len(analysis.cited)):
        return False
    letters = letters_of(analysis.told)
    return _has_enough(own, lambda word: any(text in letters for text in word.like_texts)) and (
        _has_enough(own, Words(analysis.told).has_like)
    )


def _has_enough(own: Set[Word], is_said: Callable[[Word], bool]) -> bool:
    lacking = [word for word in own if not is_said(word)]
    if len(own) < FEWEST_WORDS or any(word.is_fixed for word in lacking):
        return False
    return len(lacking) <= (1 - SAME_WORDS) * len(own)
