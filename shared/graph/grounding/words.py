"""Words of languages that the Unicode CLDR does not have, from `words.toml`. Pure."""

import re
import tomllib
import unicodedata
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final

_PLAIN_LETTERS: Final = str.maketrans("øłđı", "oldi")
"""Letters that Unicode does not decompose."""


def fold(text: str) -> str:
    """`text` casefolded, without accents, with plain apostrophes."""
    if text.isascii():
        return text.lower()
    decomposed = unicodedata.normalize("NFKD", text.casefold().translate(_PLAIN_LETTERS))
    plain = "".join(each for each in decomposed if not unicodedata.combining(each))
    return plain.replace("’", "'").replace("‘", "'")


class _FoldedCharacters(dict[int, str]):
    """Each character folded to one, by its code."""

    def __missing__(self, code: int) -> str:
        folded = fold(chr(code)).replace("\u00a0", " ")
        self[code] = folded[0] if folded and not folded.isspace() else " "
        return self[code]


_FOLDED: Final = _FoldedCharacters()


def fold_in_place(text: str) -> str:
    """`text` folded, with every character at its place and plain blanks."""
    return text.lower() if text.isascii() else text.translate(_FOLDED)


_MAX_BLANKS: Final = 8
_FURTHER_BLANKS: Final = re.compile(rf"(?<=\s{{{_MAX_BLANKS}}})\s+")


def bound_blanks(text: str) -> str:
    """Replaces each blank after the eighth of a run by a control character, so that no pattern takes quadratic time.

    Every other character keeps its place.
    """
    return _FURTHER_BLANKS.sub(lambda blanks: "\x00" * len(blanks[0]), text)


@cache
def table(name: str) -> Mapping[str, Any]:
    """A table of the file, as it stands there."""
    found: Mapping[str, Any] = _tables()[name]
    return found


@cache
def word_set(name: str) -> frozenset[str]:
    """All words of a table of lists, folded."""
    return frozenset(fold(word) for words in table(name).values() for word in words.split())


_STEM: Final = 5
"""Letters by which two words are taken for forms of one."""


@cache
def role_stems(name: str) -> tuple[str, ...]:
    """Beginnings of words that a quote has if it is about the property `name`."""
    words = [
        word
        for word in re.split(r"[^a-z]+", fold(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name)))
        if word
    ]
    found = {word for word in words if len(word) > _STEM - 2}
    for listed in table("roles").values():
        known = listed.split()
        if set(words) & set(known):
            found |= set(known)
    return tuple(sorted({word[:_STEM] for word in found}))


@cache
def _table_scale_pattern() -> re.Pattern[str]:
    currency = r"(?:eur |usd |chf |us)?[$€£]?"
    before = rf"(?<!\w)(?:in|en|expressed in|angaben in|amounts in)\s{currency}\s?|[$€£(]\s?|(?:eur|usd|chf) "
    scales = alternatives(table("table_scales"))
    # "in millions of dollars", but "in thousands of homes".
    return re.compile(rf"(?:{before})({scales})(?!\w)(?!\sof (?!u\.?s|euro|dollar)|\s?\d)")


def table_scale(text: str) -> int:
    """The power of ten that `text` gives for the numbers of a table, as in "(in thousands)"; 0 if it gives none."""
    found = _table_scale_pattern().search(fold(text))
    return table("table_scales")[found[1]] if found else 0


@cache
def word_pattern(name: str) -> re.Pattern[str]:
    """Matches one of the words or phrases of a table of lists, in folded text."""
    return re.compile(rf"(?<!\w)(?:{alternatives(word_set(name))})(?!\w)")


def phrases(listed: str) -> Iterator[str]:
    """The folded phrases of a list that is separated by commas."""
    for phrase in listed.split(","):
        yield fold(" ".join(phrase.split()))


def alternatives(words: "frozenset[str] | Mapping[str, Any]") -> str:
    """A part of a pattern that matches one of the words, the longest if several fit."""
    return "|".join(map(re.escape, sorted(words, key=lambda word: (-len(word), word))))


@cache
def _tables() -> dict[str, Any]:
    return tomllib.loads(files(__package__).joinpath(_FILE).read_text(encoding="utf-8"))


_FILE: Final = "words.toml"
