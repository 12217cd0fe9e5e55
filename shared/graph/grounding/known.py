"""What a conclusion may take from the elements that it cites: values and dates. Pure."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final

from shared.graph.grounding.dates import Date, find_dates, parse_date
from shared.graph.grounding.outcomes import is_rounded, to_decimal
from shared.graph.grounding.units import SHARE, Hint, convert, hint_of, is_year
from shared.graph.grounding.words import (
    PERCENT,
    find_decimal_sign,
    find_language,
    fold,
    lexicon,
    role_stems,
)
from shared.graph.grounding.written import (
    TIMES,
    Number,
    Sentence,
    read_sentences,
)

CURRENCY: Final = "currency"
ANY_MEASURE: Final = "measure"
_MAX_DEPTH: Final = 20
_WORDS: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+|[^\W\d_A-Za-z]+")
_HUMP: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")
_MIN_STEM: Final = 3
_RATIO: Final = re.compile(r"(?:^|_)(?:ratio|factor|multiple|times|x)(?:$|_)", re.IGNORECASE)
_POSSESSIVE: Final = re.compile(r"['’]s\b")


@dataclass(frozen=True)
class CitedElement:
    """A node or edge that a conclusion cites; of an edge, the names of both ends."""

    type: str
    names: tuple[str, ...]
    values: tuple[tuple[str, Any], ...]
    """By property: the current values first, then all that its evidence claims."""
    dates: tuple[str, ...] = ()
    """Of its evidence, in ISO 8601."""


@dataclass(frozen=True)
class Value:
    """A number that is known."""

    number: Decimal
    unit: str = ""
    """As in `Quantity`, or TIMES."""
    currencies: frozenset[str] = frozenset()
    may_be: frozenset[str] = frozenset()
    """Units that it may have, if its unit is not stated: CURRENCY, ANY_MEASURE or names of units."""
    property: str = ""
    element: int = -1
    """The place of its element; -1 if it has none."""
    claim: int = -1
    """The place among the values of its element; -1 if it has none."""

    def number_in(self, unit: str, currencies: frozenset[str]) -> Decimal | None:
        """The number in that unit; None if it does not have it."""
        if not unit:
            return self.number
        if unit == CURRENCY:
            is_same = self.unit == CURRENCY and bool(self.currencies & currencies)
            return self.number if is_same or self._may_be_in(currencies) else None
        if self.unit:
            return convert(self.number, self.unit, unit)
        if unit == PERCENT:
            # A count is no percentage.
            return self.number if self.number % 1 or PERCENT in self.may_be else None
        return self.number if self.may_be & {unit, ANY_MEASURE} else None

    def _may_be_in(self, currencies: frozenset[str]) -> bool:
        return not self.unit and bool(self.may_be & {CURRENCY, *currencies})


@dataclass
class Known:
    """All that is known of the cited elements."""

    cited: Sequence[CitedElement]
    values: list[Value] = field(default_factory=list)
    dates: list[Date] = field(default_factory=list)

    def __post_init__(self) -> None:
        for place, element in enumerate(self.cited):
            self._read(place, element)

    def _read(self, place: int, element: CitedElement) -> None:
        self.dates += [day for text in element.dates if (day := parse_date(text))]
        stated = _stated_units(element)
        for name in element.names:
            self._read_text("", name, -1, -1)
        for claim, (name, whole) in enumerate(element.values):
            for property_name, value in _flat_value(name, whole, 0):
                self.dates += _dates_in(property_name)
                if isinstance(value, str):
                    self._read_text(property_name, value, place, claim)
                else:
                    self._read_number(property_name, value, place, claim, stated)

    def _read_text(self, property_name: str, text: str, place: int, claim: int) -> None:
        if (day := parse_date(text)) is not None:
            self.dates.append(day)
            return
        dates, numbers = _read_string(text)
        self.dates += dates
        self.values += [
            Value(
                number,
                each.unit,
                each.currencies,
                property=property_name,
                element=place,
                claim=claim,
            )
            for each in numbers
            for number, _ in each.readings
        ]

    def _read_number(
        self, property_name: str, value: float, place: int, claim: int, stated: frozenset[str]
    ) -> None:
        number = to_decimal(value)
        if number is None:
            return
        hint = hint_of(property_name)
        if is_year(number) and (hint.is_year or not (hint.unit or hint.currency or hint.scale)):
            self.dates.append(Date(int(number)))
        self.values += [
            Value(*read, property=property_name, element=place, claim=claim)
            for read in _readings(number, hint, stated)
        ]


def _readings(
    number: Decimal, hint: Hint, stated: frozenset[str]
) -> Iterator[tuple[Decimal, str, frozenset[str], frozenset[str]]]:
    """What the number of a property can be read as: number, unit, currencies, units that it may have."""
    none = frozenset[str]()
    scaled = number.scaleb(hint.scale)
    if hint.currency:
        yield scaled, CURRENCY, frozenset([hint.currency]), none
    elif hint.unit == SHARE:
        yield (number * 100 if abs(number) <= 1 else number), PERCENT, none, none
        yield number, "", none, none
    elif hint.unit:
        yield scaled, hint.unit, none, none
    else:
        may_be = {CURRENCY} if hint.is_money else set[str]()
        may_be |= {ANY_MEASURE} if hint.is_measure else set()
        yield scaled, "", none, stated | may_be
        for power in lexicon("en").scales.items():
            if power[0] in stated:
                yield number.scaleb(power[1]), "", none, stated | may_be
    if hint.scale:
        # "812" of `revenue_million_eur`.
        yield number, "", none, none


def _stated_units(element: CitedElement) -> frozenset[str]:
    """The units, currencies and scales that short texts of the element name, as in {"unit": "tonnes"}."""
    words = lexicon("en")
    found: set[str] = set()
    for _, value in _flat(element.values):
        if isinstance(value, str) and len(value.split()) <= _MIN_STEM:
            for word in value.split():
                found |= words.currencies.get(fold(word), frozenset())
                unit = words.symbols.get(word) or words.units.get(fold(word))
                found |= {unit} if unit else set()
                found |= {fold(word)} & words.scales.keys()
    return frozenset(found)


@lru_cache(maxsize=1024)
def _read_string(text: str) -> tuple[list[Date], list[Number]]:
    sentences = read_sentences(text, find_language(text), None)
    return (
        [date for sentence in sentences for date in sentence.dates],
        [number for sentence in sentences for number in sentence.numbers],
    )


@lru_cache(maxsize=4096)
def stems_of(property_name: str) -> tuple[str, ...]:
    """Beginnings of words that speak of the property."""
    own = {fold(word) for word in _WORDS.findall(property_name)}
    return (*role_stems(property_name), *(word for word in own if len(word) >= _MIN_STEM))


@lru_cache(maxsize=4096)
def _spaced(name: str) -> str:
    """The words of the name of a type or property."""
    return name if " " in name else _HUMP.sub(" ", name).replace("_", " ")


@lru_cache(maxsize=4096)
def _dates_in(property_name: str) -> list[Date]:
    """Those that the name of a property has, such as "q4_fy2024"."""
    return find_dates(_spaced(property_name).upper(), None)


def _flat(values: Sequence[tuple[str, Any]]) -> Iterator[tuple[str, str | float]]:
    for name, value in values:
        yield from _flat_value(name, value, 0)


def _flat_value(name: str, value: Any, depth: int) -> Iterator[tuple[str, str | float]]:
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


def language_and_sign(text: str) -> tuple[str | None, str | None]:
    """The language of a conclusion and its decimal sign, where they can be told. `text` is without markup."""
    # "s" is a word in French.
    language = find_language(_POSSESSIVE.sub("", text))
    return language, find_decimal_sign(text, language)


def matching(sentence: Sentence, number: Number, values: Iterable[Value]) -> Iterator[Value]:
    """Yields the values that the number of the sentence states: exactly, rounded, or as a limit."""
    limit = sentence.limit(number)
    for value in values:
        exact = _exact(number, value)
        if exact is not None and any(
            is_within(abs(written), step, abs(exact), limit, number.unit)
            and (not written < 0 < exact or _is_after_number(sentence, number))
            for written, step in number.readings
        ):
            yield value


def _exact(number: Number, value: Value) -> Decimal | None:
    if number.unit == TIMES:
        is_ratio = value.unit == TIMES or _RATIO.search(value.property)
        return value.number if is_ratio else None
    if value.unit == TIMES:
        return value.number if not number.unit else None
    return value.number_in(number.unit, number.currencies)


def _is_after_number(sentence: Sentence, number: Number) -> bool:
    """Whether the sign before the number is that of a difference."""
    before = sentence.text[max(0, number.start - 20) : number.start]
    return bool(re.search(r"\d\s*[-−–]\s*$", before))


def is_within(written: Decimal, step: Decimal, exact: Decimal, limit: str, unit: str) -> bool:
    """Whether `written` is `exact` rounded, or the limit that a phrase such as "more than" makes it."""
    if is_rounded(written, step, exact, is_percentage=unit == PERCENT):
        return True
    room = Decimal(1) if unit == TIMES else written * _LIMIT_PART
    match limit:
        case "above":
            return written <= exact <= written + room
        case "below":
            return written - room <= exact <= written
        case "almost":
            return written * _ALMOST_PART <= exact <= written
    return False


_LIMIT_PART: Final = Decimal("0.25")
_ALMOST_PART: Final = Decimal("0.9")
