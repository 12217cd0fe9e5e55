"""Words by language, from the Unicode CLDR and `words.toml`; the language and the notation of a text. Pure."""

import re
import tomllib
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cache, cached_property, lru_cache
from importlib.resources import files
from typing import Any, Final, Literal, TypeVar

from babel import Locale, dates, numbers, units
from babel.numbers import get_decimal_symbol

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
    """Replaces each blank after the eighth of a run by a control character, so that no pattern takes quadratic time."""
    return _FURTHER_BLANKS.sub(lambda blanks: "\x00" * len(blanks[0]), text)


@cache
def table(name: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = _tables()[name]
    return found


@cache
def word_set(name: str) -> frozenset[str]:
    """All words of a table of lists, folded."""
    return frozenset(fold(word) for words in table(name).values() for word in words.split())


@cache
def by_word(name: str) -> dict[str, str]:
    """The meaning of each word of a table of lists."""
    return {word: meaning for meaning, words in table(name).items() for word in words.split()}


STEM_LENGTH: Final = 5
"""Letters by which two words are taken for forms of one."""


def name_parts(name: str) -> list[str]:
    split = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name)
    return [part for part in re.split(r"[^a-z0-9]+", fold(split)) if part]


@cache
def role_stems(name: str) -> tuple[str, ...]:
    """Beginnings of words that a quote has if it is about the property `name`."""
    words = name_parts(name)
    found = {word for word in words if len(word) > STEM_LENGTH - 2}
    for listed in table("roles").values():
        known = listed.split()
        if set(words) & set(known):
            found |= set(known)
    return tuple(sorted({word[:STEM_LENGTH] for word in found}))


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


@cache
def pattern_of(name: str) -> re.Pattern[str]:
    """A pattern of `[patterns]` in `words.toml`."""
    return re.compile(table("patterns")[name].replace("\n", ""))


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
    scores: Counter[str] = Counter()
    for word, count in Counter(_WORD.findall(text[:_MAX_CHARS].lower())).items():
        languages = _BY_WORD.get(word, ())
        for language in languages:
            # In sixtieths, of which each number of languages has a whole part.
            scores[language] += 60 * min(count, _MAX_COUNT) // len(languages)
    (first, most), (_, second), *_ = (*scores.most_common(2), ("", 0), ("", 0))
    return first if most - second >= 60 * _MIN_LEAD else None


def is_function_word(word: str) -> bool:
    """Whether a word in lower case is an article, a preposition or the like in one of the languages."""
    return word in _BY_WORD


@lru_cache(maxsize=_CACHED_TEXTS)
def find_decimal_sign(page: str, language: str | None) -> str | None:
    """The decimal sign of `page`, by its language and numbers; None if nothing tells. It decides how "1.234" is read."""
    votes: Counter[str] = Counter()
    if language:
        votes[get_decimal_symbol(language)] += _DEFAULT_VOTES
    text = page[:_MAX_CHARS]
    for match in _GROUPED_TWICE.finditer(text):
        votes["," if match[1] == "." else "."] += 1
    for pattern in (_BOTH_SIGNS, _SHORT_FRACTION):
        votes.update(match[1] for match in pattern.finditer(text))
    (sign, most), (_, second), *_ = (*votes.most_common(2), ("", 0), ("", 0))
    return sign if most > second else None


LANGUAGES: Final = ("en", "de", "fr", "es", "it", "pt", "nl")
PERCENT: Final = "percent"
POINTS: Final = "percentage points"
PER_MILLE: Final = "per mille"

MAIN_CURRENCIES: Final = tuple(table("cldr")["currencies"].split())
_NAMED_UNITS: Final = tuple(table("cldr")["units"].split())
_PREFIXES: Final = ("kilo", "mega", "giga", "tera")
_COUNTS: Final = (1, 2, 5, Decimal("1.5"))
"""Languages have different forms of a unit's name for these."""


_T = TypeVar("_T")


@dataclass(frozen=True)
class Lexicon:
    """What the words of one language, and of English, mean. Words are folded, symbols are as they stand."""

    language: str
    scales: Mapping[str, int]
    """The power of ten by word, such as 9 for "mrd"."""
    units: Mapping[str, str]
    """Unit by word or phrase: a name of the CLDR such as "length-meter", or "percent"."""
    symbols: Mapping[str, str]
    """The same by symbol, in which case matters, such as "MW"."""
    currencies: Mapping[str, frozenset[str]]
    """Codes by symbol, code or name; "$" has several."""
    months: Mapping[str, int]
    weekdays: Mapping[str, int]
    """0 for Monday."""
    quarters: Mapping[str, int]
    """The quarter by the word that counts it, such as 3 for "troisieme"."""

    @cached_property
    def first_words(self) -> frozenset[str]:
        """First words, folded, of the phrases of several words that are a scale, unit or currency."""
        phrases = (*self.scales, *self.units, *self.currencies)
        return frozenset(phrase.split()[0] for phrase in phrases if " " in phrase)


@cache
def lexicon(language: str | None, *, is_english_first: bool = False) -> Lexicon:
    """The words of `language` and of English; English, and the scales of more languages, if it is none of `LANGUAGES`.

    A word that means something in both, such as "billion", has the meaning of `language`, unless `is_english_first`.
    """
    known = language if language in LANGUAGES else "en"
    languages = dict.fromkeys((known, "en") if is_english_first else ("en", known))

    def read(words_of: Callable[[str], Iterator[tuple[str, _T]]]) -> dict[str, _T]:
        return {word: meaning for each in languages for word, meaning in words_of(each)}

    scales = read(_scales)
    if language != known:
        scales |= table("scales")["other"]
    if is_english_first:
        # "miles" is a thousand in Spanish.
        english_units = dict(_units("en"))
        scales = {word: power for word, power in scales.items() if word not in english_units}
    signs = {fold(word): frozenset(codes.split()) for word, codes in table("currencies").items()}
    return Lexicon(
        known,
        scales,
        read(_units),
        by_word("symbols"),
        read(_currencies) | signs,
        read(_months),
        read(_weekdays),
        read(lambda each: _numbered(table("ordinals")[each])),
    )


def _numbered(listed: str) -> Iterator[tuple[str, int]]:
    for number, word in enumerate(listed.split(), 1):
        yield word, number


def _scales(language: str) -> Iterator[tuple[str, int]]:
    for width, patterns in Locale(language).compact_decimal_formats.items():
        for by_size in patterns.values() if width in ("long", "short") else ():
            for size, pattern in by_size.items():
                word = fold(pattern.pattern.replace("0", "").replace("'", "")).strip(" \u00a0.")
                # "M" alone can be metres.
                is_word = len(word) > 1 or (width == "long" and word)
                if is_word and pattern.pattern.count("0") == 1:
                    yield word, len(size) - 1
    yield from table("scales").get(language, {}).items()


def _units(language: str) -> Iterator[tuple[str, str]]:
    for unit in _NAMED_UNITS:
        for name in _names_of(unit, language):
            yield name, unit
    for dimension, base in (("power", "watt"), ("mass", "tonne")):
        for name in _names_of(f"{dimension}-{base}", language):
            for prefix in _PREFIXES:
                yield prefix + name, f"{dimension}-{prefix}{base}"
    for name in phrases(table("watt_hours").get(language, "")):
        for prefix in _PREFIXES:
            written = "chilo" if (language, prefix) == ("it", "kilo") else prefix
            yield written + name, f"energy-{prefix}watt-hour"
    for unit, listed in table("units").get(language, {}).items():
        for phrase in phrases(listed):
            yield phrase, unit


def _names_of(unit: str, language: str) -> set[str]:
    written = (
        units.format_unit(count, unit, length="long", locale=language).lstrip("0123456789.,")
        for count in _COUNTS
    )
    return {name for each in written if len(name := fold(each.strip(" \u00a0\u202f"))) > 1}


def _currencies(language: str) -> Iterator[tuple[str, frozenset[str]]]:
    for code in MAIN_CURRENCIES:
        yield code.lower(), frozenset([code])
        for count in (None, 1, 2):
            name = numbers.get_currency_name(code, count, locale=language)
            yield fold(name), frozenset([code])


def _months(language: str) -> Iterator[tuple[str, int]]:
    contexts: tuple[Literal["format", "stand-alone"], ...] = ("format", "stand-alone")
    for context in contexts:
        for number, name in dates.get_month_names("wide", context, locale=language).items():
            yield fold(name), number
        for number, name in dates.get_month_names("abbreviated", context, locale=language).items():
            yield fold(name).rstrip("."), number
    yield from _numbered(table("months")[language])


def _weekdays(language: str) -> Iterator[tuple[str, int]]:
    for number, name in dates.get_day_names("wide", locale=language).items():
        yield fold(name), number
        yield fold(name).removesuffix("-feira"), number
        if language == "de":
            for part in ("abend", "morgen", "nacht"):
                yield fold(f"{name}{part}"), number
