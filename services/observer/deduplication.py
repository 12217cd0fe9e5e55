"""Whether a plan repeats earlier queries or analyses. Pure; no model is asked.

To take a new question for a repeat is worse than to ask twice: whatever differs in a number, a name or a date, in what
stands before what, or in a word that turns the question, is another question.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache
from typing import Final
from uuid import UUID

_WORD: Final = re.compile(r"(?:(?<!\w)[-+−<>≤≥~$€£¥₹]+)?[^\W_]+(?:[.,'’&/%-][^\W_]+)*%?")


def _set_of(words: str) -> frozenset[str]:
    return frozenset(words.split())


_SAYS_NOTHING: Final = _set_of(
    """
    a about an and any are at be been being can could current currently did do does exactly for had has have in is it
    its latest now of on please precisely recent recently that the their there these they this those today was were
    what which whose will with would
    """
)
"""Left out. Not among them are words that turn a question: from and to, before and after, or, not, without, how, who."""
_ORDERS: Final = _set_of(
    """
    check collect determine establish explore find get identify investigate learn list look name out report research
    say search show tell up
    """
)
"""At the beginning they only say that somebody is to find out."""
_SAME_STEM_CHARACTERS: Final = 5
_ENDINGS: Final = ("s", "es", "d", "ed")
_ENDS_A_SENTENCE: Final = re.compile(r"\s*[.?!:;]\s")


@dataclass(frozen=True, slots=True)
class Word:
    """`is_name` is None at the beginning of a sentence, where everything has a capital."""

    text: str
    is_name: bool | None = False

    @property
    def has_figure(self) -> bool:
        return any(letter.isdigit() for letter in self.text)

    @property
    def is_fixed(self) -> bool:
        """It stands for one thing alone: a name, a number, a date."""
        return self.is_name is True or self.has_figure

    def is_like(self, other: "Word") -> bool:
        """The same, or the same but for a plural or a past."""
        if self.text == other.text:
            return {self.is_name, other.is_name} != {True, False}
        if self.is_fixed or other.is_fixed:
            return False
        shorter, longer = sorted((self.text, other.text), key=len)
        ending = longer.removeprefix(shorter)
        return len(shorter) >= _SAME_STEM_CHARACTERS and ending in _ENDINGS

    @property
    def like_texts(self) -> Iterator[str]:
        """Every text that a word like this one can have, and some more."""
        yield self.text
        if not self.is_fixed:
            yield from (self.text + ending for ending in _ENDINGS)
            yield from (self.text.removesuffix(ending) for ending in _ENDINGS)


class Words:
    """The words of a text, to look for others among them; costs what is looked for, however long the text is."""

    def __init__(self, text: str) -> None:
        self._by_text: dict[str, list[Word]] = {}
        for word in words_of(text):
            self._by_text.setdefault(word.text, []).append(word)

    def has_like(self, word: Word) -> bool:
        return any(
            word.is_like(each) for text in word.like_texts for each in self._by_text.get(text, ())
        )


def letters_of(text: str) -> str:
    """What the texts of all its words are parts of. To look here first tells most texts apart before they are parted."""
    return unicodedata.normalize("NFKC", text).casefold()


@lru_cache(maxsize=1024)
def words_of_question(text: str) -> tuple[Word, ...]:
    """As `words_of`; kept, since each question of a plan is set beside the same questions of before."""
    return words_of(text)


def words_of(text: str) -> tuple[Word, ...]:
    """In their order, without those that say nothing."""
    words = list(_words(unicodedata.normalize("NFKC", text)))
    while words and words[0].text in _ORDERS and words[0].is_name is not True:
        words.pop(0)
    return tuple(words)


def _words(text: str) -> Iterator[Word]:
    begins = True
    for match in _WORD.finditer(text):
        word = match[0].removesuffix("'s").removesuffix("’s")
        has_capital = word != word.lower()
        is_first = begins and word[1:] == word[1:].lower()
        begins = _ENDS_A_SENTENCE.match(text, match.end()) is not None
        is_name = (None if is_first else True) if has_capital else (None if is_first else False)
        folded = word.casefold()
        if is_name is True or folded not in _SAYS_NOTHING:
            yield Word(folded, is_name)


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
