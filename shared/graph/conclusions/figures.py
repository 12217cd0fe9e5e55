"""Figures and dates of a conclusion's text, and the values of the cited elements that they state. Pure."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache, cached_property, lru_cache
from typing import Any, Final

from text_to_num import alpha2digit  # type: ignore[import-untyped]

from shared.graph.grounding.dates import Date, find_dates, parse_date
from shared.graph.grounding.names import Token, tokenize
from shared.graph.grounding.quantities import (
    FRACTION,
    PERCENT_PER,
    SHARE,
    Quantity,
    convert,
    find_quantities,
    hint_of,
    to_decimal,
)
from shared.graph.grounding.words import (
    LANGUAGES,
    PERCENT,
    alternatives,
    bound_blanks,
    find_decimal_sign,
    find_language,
    fold,
    fold_in_place,
    lexicon,
    phrases,
    role_stems,
    table,
)
from shared.graph.provenance.page_reading import find_sentences

CURRENCY: Final = "currency"
ANY_MEASURE: Final = "measure"
_CITATION: Final = re.compile(r"\s*\[(?:node|edge):[^\]\n]*\]", re.IGNORECASE)
_ADDRESS: Final = re.compile(r"\bhttps?://\S+")
_MARKS: Final = re.compile(r"\*\*|__|`|(?<!\w)[*_]|[*_](?!\w)")
_LEAD: Final = re.compile(
    r"^((?:[-*+•]|\d{1,2}[.)])?\s*)(?:\*\*|__)([^*_]+?)(?:[.:](?:\*\*|__)|(?:\*\*|__)\s?[:–—])\s*"
)
"""Bold words at the beginning of a line, which are its heading."""
_DIVIDED: Final = re.compile(r"(?<=\s)/(?=\s)")
"""Else "/" may join the ends of a range."""
_RULE: Final = re.compile(r"[\s|:=-]*$")
_NO_SENTENCE: Final = re.compile(r"(?:Mio|Mrd|Tsd|Mill|bn|mn|approx|e\.g|i\.e|z\.\s?B)\.$")
_TIMES: Final = "times"
"""The unit of "three times as many"."""
_TIMES_AFTER: Final = re.compile(
    r"\s?[x×](?![\w]|\s?\d)|[\s-]?(?:times|fold|mal|fache[nrs]?|fach|fois|veces|volte|vezes|keer)(?!\w)"
    # A number of occasions: "three times a year".
    r"(?! (?:a|per|since|in|this|last|between|during)\b|\s*[.,;:]|$)"
)
_CONTEXT_CHARS: Final = 28
_JOINED: Final = r"\s*(?:[$€£¥]|us\$|usd|eur|gbp|chf|the|of|by|um|von|de)?\s*$"
_POSSESSIVE: Final = re.compile(r"['’]s\b")


@dataclass(frozen=True)
class Sentence:
    """A sentence with its dates and numbers."""

    text: str
    language: str | None
    dates: list[Date] = field(default_factory=list)
    numbers: list[Quantity] = field(default_factory=list)

    @cached_property
    def folded(self) -> str:
        return fold_in_place(self.text)

    @cached_property
    def tokens(self) -> tuple[Token, ...]:
        return tokenize(self.text)

    def shown(self, number: Quantity) -> str:
        return self.text[number.start : number.end].strip(" .,;:")

    @cached_property
    def powers(self) -> frozenset[int]:
        """The powers of ten that its words name, such as 6 for "million"."""
        scales = lexicon(self.language).scales
        return frozenset(scales[token.word] for token in self.tokens if token.word in scales)

    def limit(self, number: Quantity) -> str:
        """The key of `[comparisons]` whose phrase stands before the number; empty if there is none."""
        before = self.folded[max(0, number.start - _CONTEXT_CHARS) : number.start]
        limits = _patterns("comparisons", _JOINED).items()
        return next((key for key, pattern in limits if pattern.search(before)), "")


@cache
def _patterns(name: str, end: str) -> dict[str, re.Pattern[str]]:
    """The phrases of a table by key, each list as a pattern."""
    return {
        key: re.compile(rf"(?<!\w)(?:{alternatives(frozenset(phrases(listed)))}){end}")
        for key, listed in table(name).items()
    }


def language_and_sign(text: str) -> tuple[str | None, str | None]:
    """The language of a conclusion and its decimal sign, where they can be told. `text` is without markup."""
    # "s" is a word in French.
    language = find_language(_POSSESSIVE.sub("", text))
    return language, find_decimal_sign(text, language)


def read_sentences(text: str, language: str | None, sign: str | None) -> list[Sentence]:
    """The sentences of a text in Markdown; cells of a table are parts of one."""
    found: list[Sentence] = []
    text = _ADDRESS.sub(" ", _CITATION.sub("", bound_blanks(text)))
    # "ß" is folded to two letters, and positions must stay.
    for raw in text.replace("ß", "ss").split("\n"):
        line = _LEAD.sub(r"\1\2: ", raw.strip().strip("|").replace("|", " : ").lstrip("> "))
        line = _DIVIDED.sub("÷", _MARKS.sub("", line))
        if line.strip() and not _RULE.fullmatch(line):
            found += [_read(sentence, language, sign) for sentence in _joined(line)]
    return found


def _joined(line: str) -> Iterator[str]:
    """The sentences of a line; those that end in an abbreviation belong together."""
    start = None
    for first, end in find_sentences(line):
        start = first if start is None else start
        if not _NO_SENTENCE.search(line, start, end):
            yield line[start:end]
            start = None
    if start is not None:
        yield line[start:].rstrip()


def _read(text: str, language: str | None, sign: str | None) -> Sentence:
    read = Sentence(text, language, find_dates(text, language))
    used: set[int] = set()
    numbers: dict[int, Quantity] = {}
    for quantity in find_quantities(text, language, sign, read.dates):
        if quantity.is_written_out and not quantity.end:
            start, end = _place_of_word(read, quantity, used)
            quantity = quantity._replace(start=start, end=end)
        if quantity.start not in numbers or quantity.unit in PERCENT_PER:
            # Nobody writes "5.000" for five. In "367.022 billion" the scale brings the zeros.
            kept = [each for each in quantity.values if not _has_zeros_only(each, quantity.scale)]
            quantity = quantity._replace(values=tuple(kept) or quantity.values)
            if not quantity.unit and (times := _TIMES_AFTER.match(read.folded, quantity.end)):
                quantity = quantity._replace(unit=_TIMES, end=times.end())
            numbers[quantity.start] = quantity
    # Words such as "twice" and "doubled".
    for factor, pattern in _patterns("multiples", r"(?!\w)").items():
        for match in pattern.finditer(read.folded):
            values = (Decimal(factor),)
            numbers[match.start()] = Quantity(values, _TIMES, frozenset(), 0, *match.span())
    read.numbers.extend(numbers[start] for start in sorted(numbers))
    return read


def _has_zeros_only(value: Decimal, scale: int) -> bool:
    """Whether all digits that are written after the decimal sign are zeros."""
    written = value.scaleb(-scale)
    return written % 1 == 0 and "." in f"{written:f}"


def _place_of_word(sentence: Sentence, quantity: Quantity, used: set[int]) -> tuple[int, int]:
    """Where a number stands that is written in words; the first word of several."""
    digits = f"{quantity.values[0] / Decimal(10) ** quantity.scale:f}".rstrip("0").rstrip(".")
    for token in sentence.tokens:
        written = sentence.text[token.start : token.end]
        if token.start in used or written[0].isdigit() or sentence.language not in LANGUAGES:
            continue
        converted = str(alpha2digit(written, sentence.language, threshold=2))
        if converted != written and converted[:1] == digits[:1]:
            used.add(token.start)
            return token.start, token.end
    return 0, 0


_MAX_DEPTH: Final = 20
_WORDS: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+|[^\W\d_A-Za-z]+")
_HUMP: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")
_MIN_STEM: Final = 3


@dataclass(frozen=True)
class CitedElement:
    """A node or edge that a conclusion cites; of an edge, the names of both ends."""

    type: str
    names: tuple[str, ...]
    values: tuple[tuple[str, Any], ...]
    """By property: the current values first, then all that its evidence claims."""


@dataclass(frozen=True)
class Value:
    """A number of a cited element."""

    number: Decimal
    unit: str = ""
    currencies: frozenset[str] = frozenset()
    may_be: frozenset[str] = frozenset()
    """Units that it may have, if its unit is not stated: CURRENCY, ANY_MEASURE or names of units."""
    property: str = ""
    element: int = -1
    """The place of its element."""
    claim: int = -1
    """The place among the values of its element."""

    def number_in(self, unit: str, currencies: frozenset[str]) -> Decimal | None:
        """The number in that unit; None if it does not have it."""
        if not unit:
            return self.number
        if unit == CURRENCY:
            is_same = self.unit == CURRENCY and bool(self.currencies & currencies)
            may_be = not self.unit and bool(self.may_be & {CURRENCY, *currencies})
            return self.number if is_same or may_be else None
        if self.unit:
            return convert(self.number, self.unit, unit)
        if unit == PERCENT:
            # A count is no percentage.
            return self.number if self.number % 1 or PERCENT in self.may_be else None
        return self.number if self.may_be & {unit, ANY_MEASURE} else None


def known_values(cited: Sequence[CitedElement]) -> list[Value]:
    """All numbers in the values of the cited elements."""
    return [
        Value(*read, name, place, claim)
        for place, element in enumerate(cited)
        for stated in [_stated_units(element)]
        for claim, whole in enumerate(element.values)
        for name, value in _flat_value(*whole)
        for read in (_of_text(value) if isinstance(value, str) else _of_number(name, value, stated))
    ]


_Read = tuple[Decimal, str, frozenset[str], frozenset[str]]
"""Number, unit, currencies, units that it may have."""
_NONE: Final = frozenset[str]()


def _of_text(text: str) -> Iterator[_Read]:
    if parse_date(text) is None:
        for sentence in _read_text(text):
            for each in sentence.numbers:
                factor = PERCENT_PER.get(each.unit)
                for value in each.values:
                    number, unit = (value * factor, PERCENT) if factor else (value, each.unit)
                    yield number, unit, each.currencies, _NONE


def _of_number(name: str, value: float, stated: frozenset[str]) -> Iterator[_Read]:
    """The numbers and units that a property can mean. `stated` are units that its element names."""
    hint, number = hint_of(name), to_decimal(value)
    if number is None:
        return
    scaled = number.scaleb(hint.scale)
    if hint.currency:
        yield scaled, CURRENCY, frozenset([hint.currency]), _NONE
    elif hint.unit == SHARE:
        yield (number * 100 if abs(number) <= 1 else number), PERCENT, _NONE, _NONE
        yield number, "", _NONE, _NONE
    elif hint.unit:
        yield scaled, hint.unit, _NONE, _NONE
    else:
        may_be = {CURRENCY} if hint.is_money else set[str]()
        may_be |= {ANY_MEASURE} if hint.is_measure else set()
        yield scaled, "", _NONE, stated | may_be
        for word, power in lexicon("en").scales.items():
            if word in stated:
                yield number.scaleb(power), "", _NONE, stated | may_be
    if hint.scale:
        # "812" of `revenue_million_eur`.
        yield number, "", _NONE, _NONE


def _stated_units(element: CitedElement) -> frozenset[str]:
    """The units, currencies and scales that short texts of the element name, as in {"unit": "tonnes"}."""
    words = lexicon("en")
    found: set[str] = set()
    for whole in element.values:
        for _, value in _flat_value(*whole):
            if isinstance(value, str) and len(value.split()) <= _MIN_STEM:
                for word in value.split():
                    found |= words.currencies.get(fold(word), frozenset())
                    unit = words.symbols.get(word) or words.units.get(fold(word))
                    found |= {unit} if unit else set()
                    found |= {fold(word)} & words.scales.keys()
    return frozenset(found)


def claimed_dates(name: str, value: Any) -> Iterator[Date]:
    """The dates in a value and in the names of its properties, such as "q4_fy2024"."""
    for property_name, each in _flat_value(name, value):
        yield from find_dates(_HUMP.sub(" ", property_name).replace("_", " ").upper(), None)
        if isinstance(each, str):
            day = parse_date(each)
            sentences = [] if day else _read_text(each)
            yield from [day] if day else [date for read in sentences for date in read.dates]
        elif (number := to_decimal(each)) is not None and _is_year(number):
            hint = hint_of(property_name)
            if hint.is_year or not (hint.unit or hint.currency or hint.scale):
                yield Date(int(number))


def _is_year(value: Decimal) -> bool:
    return 1000 <= value < 3000 and value == value.to_integral_value()


@lru_cache(maxsize=1024)
def _read_text(text: str) -> list[Sentence]:
    return read_sentences(text, find_language(text), None)


@lru_cache(maxsize=4096)
def stems_of(property_name: str) -> tuple[str, ...]:
    """Beginnings of words that speak of the property."""
    own = {fold(word) for word in _WORDS.findall(property_name)}
    return (*role_stems(property_name), *(word for word in own if len(word) >= _MIN_STEM))


def _flat_value(name: str, value: Any, depth: int = 0) -> Iterator[tuple[str, str | float]]:
    if isinstance(value, bool) or value is None or depth > _MAX_DEPTH:
        return
    if isinstance(value, str | int | float):
        yield name, value
    elif isinstance(value, Mapping):
        label = value.get("label")
        for key, each in value.items():
            own = label if isinstance(label, str) and key == "value" else f"{name}_{key}"
            yield from _flat_value(own, each, depth + 1)
    elif isinstance(value, Sequence):
        for each in value:
            yield from _flat_value(name, each, depth + 1)


_MAX_ERROR: Final = Decimal("0.05")
"""Part of a number by which a rounded one may differ."""
_MAX_ERROR_OF_PERCENTAGE: Final = Decimal("0.35")
_MAX_ERROR_OF_ZEROS: Final = Decimal("0.02")
"""Largest share of a number by which its rounding differs, if that has zeros at the end, as "1,200" for 1,214."""
_ALMOST_NOTHING: Final = Decimal("0.005")
_LIMITS: Final = {
    "above": (Decimal(1), Decimal("1.25")),
    "below": (Decimal("0.75"), Decimal(1)),
    "almost": (Decimal("0.9"), Decimal(1)),
}
"""Parts of a number between which that lies of which it is the limit."""


def matching(sentence: Sentence, number: Quantity, values: Iterable[Value]) -> Iterator[Value]:
    """Yields the values that the number of the sentence states: exactly, rounded, or as a limit."""
    limit = sentence.limit(number)
    factor = PERCENT_PER.get(number.unit)
    unit = PERCENT if factor else number.unit
    written = [
        (value * (factor or 1), _step(value, number) * (factor or 1)) for value in number.values
    ]
    is_difference = re.search(r"\d\s*[-−–]\s*$", sentence.text[: number.start][-20:])
    for value in values:
        exact = value.number_in(unit, number.currencies)
        if exact is not None and any(
            _is_within(abs(each), step, abs(exact), limit, is_percentage=unit == PERCENT)
            and (not each < 0 < exact or is_difference)
            for each, step in written
        ):
            yield value


def _step(value: Decimal, quantity: Quantity) -> Decimal:
    """One of the last digit that is written."""
    if quantity.unit == FRACTION:
        return Decimal("0.05")
    exponent = value.as_tuple().exponent
    return Decimal(10) ** (quantity.scale + (exponent if isinstance(exponent, int) else 0))


def _is_within(
    written: Decimal, step: Decimal, exact: Decimal, limit: str, *, is_percentage: bool
) -> bool:
    """Whether `written` is `exact` rounded, or the limit that a phrase such as "more than" makes it."""
    least, most = _LIMITS.get(limit, (Decimal(1), Decimal(1)))
    is_limit = written * least <= exact <= written * most
    return is_limit or _is_rounded(written, step, exact, is_percentage=is_percentage)


def _is_rounded(written: Decimal, step: Decimal, exact: Decimal, *, is_percentage: bool) -> bool:
    """Whether `written` is `exact`, rounded to the digits that are written. `step` is one of its last digit."""
    if not written or not exact:
        return written == exact
    error = abs(written - exact)
    part = error / abs(exact)
    if error <= step / 2:
        return part <= (_MAX_ERROR_OF_PERCENTAGE if is_percentage else _MAX_ERROR)
    digits = written.normalize().as_tuple()
    assert isinstance(digits.exponent, int)
    most = _MAX_ERROR_OF_ZEROS if len(digits.digits) > 1 else _ALMOST_NOTHING
    return error <= Decimal(10) ** digits.exponent / 2 and part <= most
