"""Questions word by word: what a word is for telling two questions apart. Pure."""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

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
_ENDINGS: Final = frozenset({"s", "es", "d", "ed"})
_ENDS_A_SENTENCE: Final = re.compile(r"\s*[.?!:;]\s")


@dataclass(frozen=True)
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
