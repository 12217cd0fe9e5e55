"""The language of a page, and how it writes numbers. Pure."""

import re
from collections import Counter
from functools import lru_cache
from typing import Final

from babel.numbers import get_decimal_symbol

from shared.graph.grounding.words import table

_BY_WORD: Final[dict[str, list[str]]] = {}
"""Languages by function word, such as "the"."""
for _language, _words in table("function_words").items():
    for _word in _words.split():
        _BY_WORD.setdefault(_word, []).append(_language)
_WORD: Final = re.compile(r"[^\W\d_]+")
_MAX_CHARS: Final = 20_000
"""Of a page that are read to recognize its language."""
_MAX_COUNT: Final = 50
"""Occurrences of a word that count: a page may repeat one a thousand times."""
_MIN_LEAD: Final = 0.5
"""By how many words that no other language has, one language must lead."""
_CACHED_TEXTS: Final = 64

_GROUPED_TWICE: Final = re.compile(r"(?<![\w.,])\d{1,3}([.,])\d{3}(?:\1\d{3})+(?!\w|[.,]\d)")
_BOTH_SIGNS: Final = re.compile(
    r"(?<![\w.,])\d{1,3}(?:[.,'’ \u00a0\u202f]\d{3}){1,6}([.,])\d{1,2}(?!\d|[.,]\d)"
)
_SHORT_FRACTION: Final = re.compile(r"(?<![\w.,])\d+([.,])(?:\d{1,2}|\d{4,})(?!\d|[.,]\d)")
_DEFAULT_VOTES: Final = 3
"""How many numbers of a page must speak against the notation of its language."""


@lru_cache(maxsize=_CACHED_TEXTS)
def find_language(text: str) -> str | None:
    """The language of `text` by its function words, such as "de"; None if they do not tell."""
    ranked = _scores(text).most_common(2)
    if not ranked:
        return None
    lead = ranked[0][1] - (ranked[1][1] if len(ranked) > 1 else 0)
    return ranked[0][0] if lead >= 60 * _MIN_LEAD else None


def likely_languages(text: str) -> list[str]:
    """The languages that a text can be in, if it is too short for `find_language`."""
    scores = _scores(text)
    return [language for language, score in scores.items() if score == max(scores.values())]


def _scores(text: str) -> Counter[str]:
    scores: Counter[str] = Counter()
    for word, count in Counter(_WORD.findall(text[:_MAX_CHARS].lower())).items():
        languages = _BY_WORD.get(word, ())
        for language in languages:
            # In sixtieths, of which each number of languages has a whole part.
            scores[language] += 60 * min(count, _MAX_COUNT) // len(languages)
    return scores


def is_function_word(word: str) -> bool:
    """Whether a word in lower case is an article, a preposition or the like in one of the languages."""
    return word in _BY_WORD


@lru_cache(maxsize=_CACHED_TEXTS)
def find_decimal_sign(page: str, language: str | None) -> str | None:
    """The decimal sign of `page`: that of its language, unless its numbers speak against it; None if nothing tells.

    It decides only how "1.234" is read: most numbers have one reading.
    """
    votes: Counter[str] = Counter()
    if language:
        votes[get_decimal_symbol(language)] += _DEFAULT_VOTES
    text = page[:_MAX_CHARS]
    for match in _GROUPED_TWICE.finditer(text):
        votes["," if match[1] == "." else "."] += 1
    for pattern in (_BOTH_SIGNS, _SHORT_FRACTION):
        votes.update(match[1] for match in pattern.finditer(text))
    ranked = votes.most_common(2)
    if not ranked or (len(ranked) > 1 and ranked[0][1] == ranked[1][1]):
        return None
    return ranked[0][0]
