"""Words, their stems, and which of them carry meaning."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from unicodedata import combining, normalize

WORD = re.compile(r"[^\W_]+(?:[-'’.&][^\W_]+)*")

WORD_LISTS: Mapping[str, frozenset[str]] = {
    name: frozenset(words.split())
    for name, words in tomllib.loads(
        Path(__file__).with_name("words.toml").read_text("utf-8")
    ).items()
}
STOP_WORDS = WORD_LISTS["stop"]
"""Words without a meaning of their own."""

ACRONYMS = frozenset({"IT", "US", "WHO"})
"""Differ from stop words only by their capitals."""

GENERIC_WORDS = WORD_LISTS["generic"]
"""Words common in missions, which do not distinguish topics."""


def words(text: str) -> list[str]:
    """All words as written, without possessive endings."""
    return [without_possessive(word) for word in WORD.findall(text)]


def without_possessive(word: str) -> str:
    """Remove a possessive ending: `Ghana's` gives `Ghana`."""
    return word[:-2] if word.endswith(("'s", "’s")) else word


@lru_cache(maxsize=65_536)
def stem(word: str) -> str:
    """Lower case without accents, to compare names."""
    word = fold(without_possessive(word))
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    if len(word) > 4 and word.endswith(("ches", "shes", "sses", "xes")):
        return word[:-2]
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word


@lru_cache(maxsize=65_536)
def fold(text: str) -> str:
    """Lower case without accents, to compare names."""
    if text.isascii():
        return text.lower()
    return "".join(part for part in normalize("NFKD", text) if not combining(part)).lower()


def is_meaningful(word: str) -> bool:
    """Whether a word is no stop word, number or single letter. `US` is meaningful, `us` is not."""
    is_stop_word = word.lower() in STOP_WORDS and word not in ACRONYMS
    return len(word) > 1 and not word.isdigit() and not is_stop_word


def stems(text: str) -> list[str]:
    """The stems of the meaningful words in order, without duplicates."""
    return list(dict.fromkeys(stem(word) for word in words(text) if is_meaningful(word)))


def topic_stems(text: str) -> frozenset[str]:
    """The stems of the significant words."""
    return frozenset(stem(word) for word in words(text) if is_significant(word))


def is_significant(word: str) -> bool:
    """Whether a word is meaningful and not common in missions."""
    return is_meaningful(word) and word.lower() not in GENERIC_WORDS


def join_with_and(names: Sequence[str]) -> str:
    """Join names as in `A, B and C`."""
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def shorten(text: str, max_chars: int) -> str:
    """Cut `text` between words to at most `max_chars` characters, with a mark at the cut."""
    if len(text) <= max_chars:
        return text
    return text[: max_chars - 1].rsplit(" ", 1)[0].rstrip(",;: ") + "…"
