"""Comparison of questions by their words. Pure; no model is called.

A false match is worse than a repeated query: any difference in a number, a name, a date, the order of words, or a word
that changes the question makes it another question.
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

_WORD: Final = re.compile(
    r"(?:[<>≤≥=]+\s*|(?<!\w)[-+−<>≤≥~$€£¥₹]+)?[^\W_]+(?:[.,'’&/%-][^\W_]+)*(?:%|[+#]+(?!\w))?"
)


def _word_set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_STOP_WORDS: Final = _word_set(
    """
    a about an and any are at be been being can could current currently did do does exactly for had has have in is it
    its latest now of on please precisely recent recently that the their there these they this those today was were
    what which whose will with would
    """
)
"""Stop words. Words that change a question are not among them: from and to, before and after, or, not, without, how,
who.
"""
_REQUEST_VERBS: Final = _word_set(
    """
    check collect determine establish explore find get identify investigate learn list look name out report research
    say search show tell up
    """
)
"""Verbs at the beginning that only ask to find something out."""
_VARIANTS: Final = "\ufe0e\ufe0f"
"""Choose the picture of the character before them."""
_MIN_STEM_CHARS: Final = 5
_ENDINGS: Final = ("s", "es", "d", "ed")
_SENTENCE_END: Final = re.compile(r"\s*[.?!:;]\s")


@dataclass(frozen=True, slots=True)
class Word:
    """`is_name` is None at the beginning of a sentence, where every word is capitalized."""

    text: str
    is_name: bool | None = False

    @property
    def has_figure(self) -> bool:
        return any(map(str.isdigit, self.text))

    @property
    def is_fixed(self) -> bool:
        """True for a name, a number or a date, which identify one thing."""
        return self.is_name is True or self.has_figure

    def is_like(self, other: "Word") -> bool:
        """Returns true for the same word, up to a plural or past ending."""
        if self.text == other.text:
            return {self.is_name, other.is_name} != {True, False}
        if self.is_fixed or other.is_fixed:
            return False
        shorter, longer = sorted((self.text, other.text), key=len)
        ending = longer.removeprefix(shorter)
        return len(shorter) >= _MIN_STEM_CHARS and ending in _ENDINGS

    @property
    def like_texts(self) -> Iterator[str]:
        """A superset of the texts of words like this one."""
        yield self.text
        if not self.is_fixed:
            yield from (self.text + ending for ending in _ENDINGS)
            yield from (self.text.removesuffix(ending) for ending in _ENDINGS)


def normalize_letters(text: str) -> str:
    """The normalized text, which contains all its words as substrings. A cheap filter before `split_words`."""
    return _fold(_compose(text))


def _fold(composed: str) -> str:
    """The text in lower case. Folding decomposes some letters, such as ΐ, but not their other spellings."""
    return _compose(composed.casefold())


def _compose(text: str) -> str:
    """The text with each letter and its marks in one spelling, without characters that are not visible."""
    if text.isascii():
        return text
    visible = (
        char for char in text if unicodedata.category(char) != "Cf" and char not in _VARIANTS
    )
    return unicodedata.normalize("NFKC", "".join(visible))


@lru_cache(maxsize=1024)
def split_question(text: str) -> tuple[Word, ...]:
    """Cached `split_words`: each question of a plan is compared with the same earlier questions."""
    return split_words(text)


def split_words(text: str) -> tuple[Word, ...]:
    """The words in order, without stop words."""
    words = list(_words(_compose(text)))
    while words and words[0].text in _REQUEST_VERBS and words[0].is_name is not True:
        words.pop(0)
    return tuple(words)


def _words(text: str) -> Iterator[Word]:
    begins = True
    for match in _WORD.finditer(_with_letters_for_marks(text)):
        word = text[match.start() : match.end()].removesuffix("'s").removesuffix("’s")
        has_capital = word != word.lower()
        is_first = begins and word[1:] == word[1:].lower()
        begins = _SENTENCE_END.match(text, match.end()) is not None
        is_name = (None if is_first else True) if has_capital else (None if is_first else False)
        folded = _fold(word)
        if is_name is True or folded not in _STOP_WORDS:
            yield Word(folded, is_name)


def _with_letters_for_marks(text: str) -> str:
    """A text of the same length for `_WORD`: the marks of a letter belong to its word, as vowels do in Hindi and Thai."""
    if text.isascii():
        return text
    return "".join("x" if unicodedata.category(char)[0] == "M" else char for char in text)


MIN_WORDS: Final = 2
"""Shorter questions are too vague to be compared."""


def question_key(question: str) -> str:
    """A key that questions share if they differ only in capitals, punctuation, stop words and request verbs."""
    return " ".join(word.text for word in split_words(question)) or normalize_letters(question)


def is_same_question(question: str, other_question: str) -> bool:
    """Returns true if both questions have nearly the same words in the same order."""
    words, other_letters = split_question(question), normalize_letters(other_question)
    # Most questions differ in a name or figure, which takes less time than to split them.
    if any(word.is_fixed and word.text not in other_letters for word in words):
        return False
    other_words = split_question(other_question)
    return MIN_WORDS <= len(words) == len(other_words) and all(
        word.is_like(other_word) for word, other_word in zip(words, other_words, strict=True)
    )
