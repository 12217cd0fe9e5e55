"""What a conclusion's text has: sentences with their numbers and dates. Pure."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cache, cached_property
from typing import Final

from text_to_num import alpha2digit  # type: ignore[import-untyped]

from shared.graph.grounding.dates import Date, find_dates
from shared.graph.grounding.names import Token, tokenize
from shared.graph.grounding.quantities import FRACTION, Quantity, find_quantities
from shared.graph.grounding.sentences import find_sentences
from shared.graph.grounding.words import (
    LANGUAGES,
    PER_MILLE,
    PERCENT,
    alternatives,
    bound_blanks,
    fold_in_place,
    lexicon,
    phrases,
    table,
)

TIMES: Final = "times"
"""The unit of "three times as many"."""
_CITATION: Final = re.compile(r"\s*\[(?:node|edge):[^\]\n]*\]", re.IGNORECASE)
_ADDRESS: Final = re.compile(r"\bhttps?://\S+")
_MARKS: Final = re.compile(r"\*\*|__|`|(?<!\w)[*_]|[*_](?!\w)")
_LEAD: Final = re.compile(
    r"^((?:[-*+•]|\d{1,2}[.)])?\s*)(?:\*\*|__)([^*_]+?)(?:[.:](?:\*\*|__)|(?:\*\*|__)\s?[:–—])\s*"
)
"""Bold words at the beginning of a line, which are its heading."""
_DIVIDED: Final = re.compile(r"(?<=\s)/(?=\s)")
"""Else "/" may join the ends of a range."""
_HEADING: Final = re.compile(r"\s*#")
_RULE: Final = re.compile(r"[\s|:=-]*$")
_NO_SENTENCE: Final = re.compile(r"(?:Mio|Mrd|Tsd|Mill|bn|mn|approx|e\.g|i\.e|z\.\s?B)\.$")
_MAX_ABBREVIATION_CHARS: Final = 12
_TIMES_AFTER: Final = re.compile(
    r"\s?[x×](?![\w]|\s?\d)|[\s-]?(?:times|fold|mal|fache[nrs]?|fach|fois|veces|volte|vezes|keer)(?!\w)"
)
_COUNTED_TIMES: Final = re.compile(
    r"\stimes(?: (?:a|per|since|in|this|last|between|during)\b|\s*[.,;:]|$)"
)
"""A number of occasions: "three times a year"."""
_TIMES_WORD: Final = re.compile(r"(?<!\w)([^\W\d]{3,}?)(?:mal|fache[nrs]?|fach|fold)(?!\w)")
_FACTOR: Final = re.compile(
    r"(?<!\w)(?:factor of|faktor(?: von)?|facteur de|factor de|fattore di)\s*$"
)
_CONTEXT_CHARS: Final = 28
_JOINED: Final = r"\s*(?:[$€£¥]|us\$|usd|eur|gbp|chf|the|of|by|um|von|de)?\s*$"


@dataclass(frozen=True)
class Number:
    """A number of a sentence; `readings` are in `unit`, each with one of its last digit that is written."""

    readings: tuple[tuple[Decimal, Decimal], ...]
    unit: str
    currencies: frozenset[str]
    start: int
    end: int
    is_label: bool = False
    is_scaled: bool = False

    @property
    def value(self) -> Decimal:
        return self.readings[0][0]

    @property
    def is_bare(self) -> bool:
        return not self.unit and not self.is_scaled

    def scaled(self, power: int) -> "Number":
        """The number times a power of ten."""
        factor = Decimal(10) ** power
        readings = tuple((value * factor, step * factor) for value, step in self.readings)
        return replace(self, readings=readings)

    @property
    def is_whole(self) -> bool:
        return self.value == self.value.to_integral_value()


@dataclass(frozen=True)
class Sentence:
    text: str
    language: str | None
    dates: list[Date] = field(default_factory=list)
    numbers: list[Number] = field(default_factory=list)

    @cached_property
    def folded(self) -> str:
        return fold_in_place(self.text)

    @cached_property
    def tokens(self) -> tuple[Token, ...]:
        return tokenize(self.text)

    def shown(self, number: Number) -> str:
        return self.text[number.start : number.end].strip(" .,;:")

    def before(self, number: Number) -> str:
        return self.folded[max(0, number.start - _CONTEXT_CHARS) : number.start]

    @cached_property
    def powers(self) -> frozenset[int]:
        """The powers of ten that its words name, such as 6 for "million"."""
        scales = lexicon(self.language).scales
        return frozenset(scales[token.word] for token in self.tokens if token.word in scales)

    def limit(self, number: Number) -> str:
        """The key of `[comparisons]` whose phrase stands before the number; empty if there is none."""
        for key, pattern in _limits().items():
            if pattern.search(self.before(number)):
                return key
        return ""


def strip_markup(text: str) -> str:
    """`text` without citations and addresses."""
    return _ADDRESS.sub(" ", _CITATION.sub("", bound_blanks(text)))


def read_sentences(text: str, language: str | None, sign: str | None) -> list[Sentence]:
    """The sentences of a text in Markdown; cells of a table are parts of one."""
    found: list[Sentence] = []
    # "ß" is folded to two letters, and positions must stay.
    for raw in strip_markup(text).replace("ß", "ss").split("\n"):
        line = _LEAD.sub(r"\1\2: ", raw.strip().strip("|").replace("|", " : ").lstrip("> "))
        line = _DIVIDED.sub("÷", _MARKS.sub("", line))
        if not line.strip() or _RULE.fullmatch(line):
            continue
        for sentence in _joined(line):
            read = Sentence(sentence, language, find_dates(sentence, language))
            read.numbers.extend(_numbers(read, language, sign))
            found.append(read)
    return found


def _joined(line: str) -> Iterator[str]:
    """The sentences of a line; those that end in an abbreviation belong together."""
    start = None
    for first, end in find_sentences(line):
        start = first if start is None else start
        if not _NO_SENTENCE.search(line[max(start, end - _MAX_ABBREVIATION_CHARS) : end]):
            yield line[start:end]
            start = None
    if start is not None:
        yield line[start:].rstrip()


def _numbers(sentence: Sentence, language: str | None, sign: str | None) -> Iterator[Number]:
    used: set[int] = set()
    found: dict[int, Number] = {}
    for quantity in find_quantities(sentence.text, language, sign, sentence.dates):
        number = _number(sentence, quantity, language, used)
        if number.start not in found or number.unit == PERCENT:
            found[number.start] = number
    for start, end, value in _multiples(sentence, language):
        found[start] = Number(((Decimal(value), Decimal(1)),), TIMES, frozenset(), start, end)
    yield from (found[start] for start in sorted(found))


def _number(sentence: Sentence, quantity: Quantity, language: str | None, used: set[int]) -> Number:
    start, end, unit = quantity.start, quantity.end, quantity.unit
    if quantity.is_written_out and not end:
        start, end = _place_of_word(sentence, quantity, language, used)
    factor = Decimal(1)
    if unit in (FRACTION, PER_MILLE):
        factor, unit = (Decimal(100) if unit == FRACTION else Decimal("0.1")), PERCENT
    values = quantity.values
    if len(values) > 1:
        # Nobody writes "5.000" for five. In "367.022 billion" the scale brings the zeros.
        written = {value: value.scaleb(-quantity.scale) for value in values}
        values = tuple(value for value in values if not _has_zeros_only(written[value])) or values
    readings = tuple((value * factor, _step(value, quantity) * factor) for value in values)
    if quantity.unit == FRACTION:
        readings = tuple((value, Decimal(5)) for value, _ in readings)
    times = _TIMES_AFTER.match(sentence.folded, end) if not unit else None
    if times is not None and not _COUNTED_TIMES.match(sentence.folded, end):
        unit, end = TIMES, times.end()
    elif not unit and _FACTOR.search(sentence.folded[max(0, start - _CONTEXT_CHARS) : start]):
        unit = TIMES
    return Number(
        readings,
        unit,
        quantity.currencies,
        start,
        end,
        quantity.is_label,
        bool(quantity.scale),
    )


def _has_zeros_only(value: Decimal) -> bool:
    """Whether all digits after the decimal sign are zeros."""
    exponent = value.as_tuple().exponent
    return isinstance(exponent, int) and exponent < 0 and value == value.to_integral_value()


def _step(value: Decimal, quantity: Quantity) -> Decimal:
    """One of the last digit that is written."""
    exponent = value.as_tuple().exponent
    return Decimal(10) ** (quantity.scale + (exponent if isinstance(exponent, int) else 0))


def _place_of_word(
    sentence: Sentence, quantity: Quantity, language: str | None, used: set[int]
) -> tuple[int, int]:
    """Where a number stands that is written in words; the first word of several."""
    digits = f"{quantity.values[0] / Decimal(10) ** quantity.scale:f}".rstrip("0").rstrip(".")
    for token in sentence.tokens:
        written = sentence.text[token.start : token.end]
        if token.start in used or written[0].isdigit():
            continue
        converted = as_digits(written, language)
        if converted != written and converted[:1] == digits[:1]:
            used.add(token.start)
            return token.start, token.end
    return 0, 0


def as_digits(word: str, language: str | None) -> str:
    """The number that a word is, in digits; else the word."""
    return str(alpha2digit(word, language, threshold=2)) if language in LANGUAGES else word


def _multiples(sentence: Sentence, language: str | None) -> Iterator[tuple[int, int, int]]:
    """Words such as "twice", "doubled" and "viermal": start, end, value."""
    for value, pattern in _multiple_patterns().items():
        for match in pattern.finditer(sentence.folded):
            yield match.start(), match.end(), value
    for match in _TIMES_WORD.finditer(sentence.folded):
        word = sentence.text[match.start(1) : match.end(1)].lower()
        digits = as_digits(word, language)
        if digits.isdigit():
            yield match.start(), match.end(), int(digits)


@cache
def _multiple_patterns() -> dict[int, re.Pattern[str]]:
    return {
        int(value): re.compile(rf"(?<!\w)(?:{alternatives(frozenset(phrases(listed)))})(?!\w)")
        for value, listed in table("multiples").items()
    }


@cache
def _limits() -> dict[str, re.Pattern[str]]:
    return {
        key: re.compile(rf"(?<!\w)(?:{alternatives(frozenset(phrases(listed)))}){_JOINED}")
        for key, listed in table("comparisons").items()
    }
