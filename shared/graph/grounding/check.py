"""Decides whether claims follow from the sentences that they cite. Pure.

What rules can read must be there: each number, date, unit, currency, percentage and proper name; a claim with one that is
not there is refused. A claim is supported only if nothing in it is left to interpretation; otherwise it is unverified.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_DOWN, ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal
from enum import IntEnum
from functools import cached_property, lru_cache
from typing import Any, Final

from shared.graph.grounding.dates import Date, find_dates, parse_date
from shared.graph.grounding.language import find_language, is_function_word
from shared.graph.grounding.lexicon import PER_MILLE, PERCENT, POINTS
from shared.graph.grounding.names import (
    find_mentions,
    find_names,
    is_noun_form,
    is_place,
    name_words,
    tokenize,
    translate_place,
)
from shared.graph.grounding.quantities import FRACTION, Quantity, find_quantities
from shared.graph.grounding.units import SHARE, Hint, convert, hint_of
from shared.graph.grounding.words import alternatives, fold, fold_in_place, word_pattern, word_set


class Verdict(IntEnum):
    """What the rules say about a claim; the greater, the worse."""

    SUPPORTED = 0
    UNVERIFIED = 1
    REFUSED = 2


@dataclass(frozen=True)
class Finding:
    """The verdict on one claim, and the reason unless it is supported."""

    verdict: Verdict
    reason: str = ""


_SUPPORTED: Final = Finding(Verdict.SUPPORTED)


def _refused(reason: str) -> Finding:
    return Finding(Verdict.REFUSED, reason)


def _unverified(reason: str) -> Finding:
    return Finding(Verdict.UNVERIFIED, reason)


@dataclass(frozen=True)
class Passage:
    """A quote and what surrounds it."""

    quote: str
    language: str | None
    decimal_sign: str | None
    """See `find_decimal_sign`."""
    title: str = ""
    """Of the page."""
    heading: str = ""
    """The nearest one above the quote."""

    @property
    def surroundings(self) -> list[str]:
        return [text for text in (self.title, self.heading) if text]


@dataclass(frozen=True)
class Claimed:
    """A node or edge as it is claimed."""

    ends: Sequence[Sequence[str]]
    """The known names of the node, or of each end of the edge; the first is the one to show."""
    properties: Mapping[str, Any]
    is_edge: bool = False


@dataclass(frozen=True)
class Grounding:
    """The findings about an element, and about each of its properties."""

    element: Finding
    properties: Mapping[str, Finding]

    @property
    def worst(self) -> Verdict:
        return max(
            [self.element.verdict, *(finding.verdict for finding in self.properties.values())]
        )


def check_element(claimed: Claimed, passages: Sequence[Passage]) -> Grounding:
    """What the rules say of `claimed`, which cites `passages`."""
    check = ClaimCheck(claimed, passages)
    return Grounding(
        check.ends(), {name: check.value(name, value) for name, value in claimed.properties.items()}
    )


@dataclass(frozen=True)
class _Reading:
    """A passage, and what the rules read in its quote."""

    passage: Passage
    dates: Sequence[Date]
    quantities: Sequence[Quantity]
    labels: frozenset[Decimal]
    """Numbers that only name something, as in "ISO 9001"."""
    words: frozenset[str]
    folded: str


@lru_cache(maxsize=256)
def _read(passage: Passage) -> _Reading:
    dates = find_dates(passage.quote, passage.language)
    quantities = find_quantities(passage.quote, passage.language, passage.decimal_sign, dates)
    return _Reading(
        passage,
        dates,
        [each for each in quantities if not each.is_label],
        frozenset(value for each in quantities if each.is_label for value in each.values),
        frozenset(token.word for token in tokenize(passage.quote)),
        fold_in_place(passage.quote),
    )


_DIGITS: Final = re.compile(r"\d{1,9}")
_YEARS: Final = range(1000, 3000)
_TWO_READINGS: Final = re.compile(r"\d[.,]\d")
_CODE: Final = re.compile(r"(?<!\w)(?=\w*\d)(?=\w*[^\W\d_])[\w-]{2,}(?!\w)")
_MAX_NAME_WORDS: Final = 5
"""A text of more words is a sentence, in which a capital letter may be no name."""
_JOINTS: Final = re.compile(rf"(?:\s+(?:{alternatives(word_set('joints'))}))*[\s\u00a0€$£-]*$")
_NEAR_CHARS: Final = 18
"""Before a number, in which a word belongs to it."""
_MAX_JOINTS_CHARS: Final = 40
_AFTER_CHARS: Final = 25


class _Match(IntEnum):
    """How well a quoted number bears out a claimed one."""

    NONE = 0
    WEAK = 1
    """The number is there, but nothing tells whether it has the unit."""
    ROUNDED = 2
    EXACT = 3


class ClaimCheck:
    """Checks what is claimed of one element against the quotes that it cites."""

    def __init__(self, claimed: Claimed, passages: Sequence[Passage]) -> None:
        self._claimed = claimed
        readings = [_read(passage) for passage in passages]
        self._readings = readings
        self._quotes = [reading.passage.quote for reading in readings]
        self._surroundings = [text for each in readings for text in each.passage.surroundings]
        self._quantities = [each for reading in readings for each in reading.quantities]
        self._dates = [each for reading in readings for each in reading.dates]
        self._words = frozenset(word for reading in readings for word in reading.words)
        self._names = [name for names in claimed.ends for name in names]

    @cached_property
    def _numbers(self) -> set[Decimal]:
        """Claimed numbers, without sign."""
        return set(_numbers(self._claimed.properties))

    @cached_property
    def _numbers_of_names(self) -> set[Decimal]:
        return {Decimal(digits) for name in self._names for digits in _DIGITS.findall(name)}

    @cached_property
    def _years(self) -> set[int]:
        """Claimed years."""
        years = {int(each) for each in self._numbers if _is_year(each)}
        for text in _texts(self._claimed.properties):
            years |= {date.year for date in find_dates(text, None) if date.year}
        return years

    @property
    def _is_negated(self) -> bool:
        return bool(self._words & word_set("negations"))

    def ends(self) -> Finding:
        """The finding about the element itself."""
        around = []
        for names in self._claimed.ends:
            if any(_is_mentioned(name, self._quotes) for name in names):
                continue
            if not any(_is_mentioned(name, self._surroundings) for name in names):
                return _refused(
                    f"{names[0]!r} is named neither in the quote nor in the title or heading of its page"
                )
            around.append(names[0])
        if self._claimed.is_edge:
            return _unverified("rules do not read how two things are connected")
        if around and (others := self.other_names()):
            return _unverified(f"the quote names {_join(others)}, and {around[0]!r} only the page")
        if self._is_negated:
            return _unverified("the quote has a negation")
        return _SUPPORTED

    def value(self, name: str, value: Any) -> Finding:
        """The finding about one property."""
        finding = self._value(name, value)
        if finding.verdict is Verdict.SUPPORTED and value is not None and self._is_negated:
            return _unverified("the quote has a negation")
        return finding

    def _value(self, name: str, value: Any) -> Finding:
        if value is None:
            return _SUPPORTED
        if isinstance(value, bool):
            return _unverified("rules do not read whether something is so")
        if isinstance(value, int | float | Decimal):
            return self._number(hint_of(name), Decimal(str(value)))
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, Mapping):
            return _worst(self._value(f"{name}_{key}", each) for key, each in value.items())
        return _worst(self._value(name, each) for each in value)

    # ---- Numbers

    def _number(self, hint: Hint, value: Decimal) -> Finding:
        scaled = value.scaleb(hint.scale)
        matches = [(each, _match(hint, scaled, each)) for each in self._quantities]
        if value < 0 and self._says_negative(hint):
            matches += [(each, _match(hint, -scaled, each)) for each in self._quantities]
        best = max((match for _, match in matches), default=_Match.NONE)
        may_be_year = _is_year(value) and not hint.unit and (hint.is_year or best <= _Match.WEAK)
        if may_be_year and (finding := self._year(hint, int(value))):
            return finding
        if best is _Match.NONE:
            return self._missing_number(hint, value)
        if best is _Match.WEAK:
            unit = hint.currency or hint.unit or "this unit"
            return _unverified(f"the quote does not say that {value:f} is in {unit}")
        matched = [each for each, match in matches if match == best]
        return self._sign(hint, value, matched) or self._role(matched)

    def _year(self, hint: Hint, year: int) -> Finding | None:
        """The finding about a number that may be a year; None if it is none."""
        years = {date.year for date in self._dates if date.year}
        if year not in years:
            shown = _there(sorted(years))
            return _refused(f"the year {year} is not in the quote{shown}") if hint.is_year else None
        if not hint.is_year:
            return _unverified(f"{year} is a year in the quote")
        if others := years - {year} - self._years:
            return _unverified(f"the quote has other years: {_join(sorted(others))}")
        return _SUPPORTED

    def _missing_number(self, hint: Hint, value: Decimal) -> Finding:
        if any(value in reading.labels for reading in self._readings):
            return _unverified(f"in the quote, {value:f} is a part of a name")
        if value == 0 and self._is_negated:
            return _unverified("the quote has a negation and no zero")
        if value == 1 and self._words & word_set("ones"):
            return _unverified("the quote has an article, which may count")
        unit = hint.currency or hint.unit
        written = f"{value:f} ({unit})" if unit else f"{value:f}"
        return _refused(f"{written} is not in the quote{self._numbers_there()}")

    def _says_negative(self, hint: Hint) -> bool:
        """Whether words of the quotes can make a number negative."""
        table = "losses" if hint.is_result else "decreases" if hint.is_change else None
        return table is not None and any(
            word_pattern(table).search(reading.folded) for reading in self._readings
        )

    def _sign(self, hint: Hint, value: Decimal, matched: Sequence[Quantity]) -> Finding | None:
        """The finding if words of the quote make a number negative that is claimed to be positive."""
        if value <= 0 or not self._says_negative(hint):
            return None
        what, table = ("a loss", "losses") if hint.is_result else ("a decrease", "decreases")
        for reading in self._readings:
            sign = word_pattern(table).search(reading.folded)
            is_only_loss = hint.is_result and not word_pattern("profits").search(reading.folded)
            if sign and (
                is_only_loss or any(_is_next(table, reading.folded, each) for each in matched)
            ):
                return _refused(f"the quote speaks of {what}, so that {value:f} is negative")
        return _unverified(f"the quote speaks of {what}")

    def _role(self, matched: Sequence[Quantity]) -> Finding:
        """Supported, unless the quotes have another quantity that could be meant."""
        others = [
            each
            for each in self._quantities
            if each.unit == matched[0].unit
            and not any(each.values == one.values for one in matched)
            and not (self._numbers | self._numbers_of_names) & {abs(value) for value in each.values}
            and not self._is_year_of_date(each)
        ]
        if others:
            return _unverified(f"the quote has other values of this kind: {_join(_shown(others))}")
        values = {each.values for each in self._quantities if each.unit == matched[0].unit}
        if len(self._numbers) > 1 and len(values) > 1:
            return _unverified("rules do not read which of several values is which")
        return _SUPPORTED

    def _is_year_of_date(self, quantity: Quantity) -> bool:
        return not quantity.unit and any(date.year == quantity.values[0] for date in self._dates)

    def _numbers_there(self) -> str:
        return _there(
            reading.passage.quote[each.start : each.end].strip()
            for reading in self._readings
            for each in reading.quantities
            if each.end
        )

    # ---- Texts

    def _text(self, text: str) -> Finding:
        if (day := parse_date(text)) is not None:
            return self._date(day, text)
        if text.count(" ") >= _MAX_NAME_WORDS and _stands_in(text, self._quotes):
            return _SUPPORTED
        own_language = find_language(text)
        language = own_language or (self._readings[0].passage.language if self._readings else None)
        dates = find_dates(text, language)
        signs: set[str | None] = {"."}
        if _TWO_READINGS.search(text):
            signs |= {reading.passage.decimal_sign for reading in self._readings}
        quantities = [
            quantity
            for sign in sorted(signs, key=str)
            for quantity in find_quantities(
                text, language, sign, dates, is_english_first=own_language is None
            )
        ]
        quoted = {value for each in self._quantities for value in each.values}
        findings = [
            self._date(date, text[date.start : date.end])
            for date in dates
            # "1900" can be a number.
            if not (date.year in quoted and date.month is None and date.quarter is None)
        ]
        findings += self._quantities_of(text, quantities, dates)
        findings += self._codes_of(text, quantities)
        findings += self._names_of(text, language)
        worst = _worst(findings)
        return self._other_words_of(text) if worst.verdict is Verdict.SUPPORTED else worst

    def _date(self, date: Date, written: str) -> Finding:
        if any(date.follows_from(each) for each in self._dates):
            others = [each for each in self._dates if not date.follows_from(each)]
            if any(
                (each.month and date.month) or (each.year and each.year not in self._years)
                for each in others
            ):
                return _unverified(f"the quote has other dates: {_join(map(str, others))}")
            return _SUPPORTED
        for reading in self._readings:
            around = find_dates("\n".join(reading.passage.surroundings), reading.passage.language)
            # "on 15 September", in a page about 2024.
            completed = [
                Date(other.year, each.month, each.day)
                for each in reading.dates
                for other in around
                if each.year is None and other.year
            ]
            if any(date.follows_from(each) for each in [*around, *completed]):
                return _unverified(
                    f"a part of {written} is only in the title or heading of the page"
                )
        return _refused(f"the date {written} is not in the quote{_there(map(str, self._dates))}")

    def _quantities_of(
        self, text: str, quantities: Sequence[Quantity], dates: Sequence[Date]
    ) -> Iterator[Finding]:
        by_place: dict[int, list[Quantity]] = {}
        for quantity in quantities:
            if not any(date.start <= quantity.start < date.end for date in dates):
                by_place.setdefault(quantity.start, []).append(quantity)
        for readings in by_place.values():
            yield self._quantity(text, readings)
        units = {quantity.unit for quantity in quantities}
        others = [
            each
            for each in self._quantities
            if each.unit in units
            and not any(_is_same(one, each) for one in quantities)
            and abs(each.values[0]) not in self._numbers
            and not self._is_year_of_date(each)
        ]
        if by_place and others:
            yield _unverified(f"the quote has other values of this kind: {_join(_shown(others))}")

    def _quantity(self, text: str, readings: Sequence[Quantity]) -> Finding:
        """The finding about one quantity of a text, which can be read in several ways."""
        first = readings[0]
        written = text[first.start : first.end] or f"{first.values[0]:f}"
        found = [each for each in self._quantities if any(_is_same(one, each) for one in readings)]
        if found:
            if any(one.unit == each.unit for one in readings for each in found):
                return _SUPPORTED
            return _unverified(f"the quote does not say the unit of {written!r}")
        is_named = first.is_label and self._is_known(written)
        if is_named or (not first.unit and _stands_in(written, self._quotes)):
            return _SUPPORTED
        return _refused(f"{written!r} is not in the quote{self._numbers_there()}")

    def _codes_of(self, text: str, quantities: Sequence[Quantity]) -> Iterator[Finding]:
        measures = [text[each.start : each.end] for each in quantities if each.unit or each.scale]
        for code in _CODE.findall(text):
            # "67.5bn" is no code.
            is_measure = any(each and (each in code or code in each) for each in measures)
            if not is_measure and not _stands_in(code, self._quotes) and not self._is_known(code):
                yield _refused(f"{code!r} is not in the quote")

    def _is_known(self, written: str) -> bool:
        """Whether it is a part of the element's names, or of a title or heading."""
        return _stands_in(written, [*self._surroundings, *self._names])

    def _names_of(self, text: str, language: str | None) -> Iterator[Finding]:
        is_short = len(tokenize(text)) <= _MAX_NAME_WORDS and not text.rstrip().endswith(
            (".", "!", "?")
        )
        names = find_names(text, language)
        for name in names:
            if _is_mentioned(name.text, self._quotes):
                continue
            if language == "de" and _has_nouns(name.text, self._quotes):
                continue
            if self._is_translated(name.text):
                yield _unverified(f"{name.text!r} has another name in the quote")
            elif _is_mentioned(name.text, self._surroundings) or self._is_own(name.text):
                if is_short:
                    yield _unverified(f"{name.text!r} is only in the title or heading of the page")
            elif name.is_certain or is_short or is_place(text, name):
                yield _refused(f"{name.text!r} is not in the quote")
            else:
                yield _unverified(f"{name.text!r} is not in the quote, and may be a name")
        if names and is_short:
            if others := self.other_names():
                yield _unverified(f"the quote has other names: {_join(others)}")
            mentions = (
                mention
                for name in names
                for quote in self._quotes
                for mention in find_mentions(name.text, quote)
            )
            if any(mention.is_longer for mention in mentions):
                yield _unverified("in the quote it is a part of a longer name")

    def _is_translated(self, name: str) -> bool:
        """Whether a quote has the name of the place in its language, such as "Wien" for "Vienna"."""
        return any(
            _is_mentioned(other, [reading.passage.quote])
            for reading in self._readings
            for other in translate_place(name, reading.passage.language)
        )

    def _is_own(self, name: str) -> bool:
        return any(_is_mentioned(name, [own]) or _is_mentioned(own, [name]) for own in self._names)

    def other_names(self) -> list[str]:
        """Proper names in the quotes that are none of the element's, and no value of its properties."""
        known = {word for name in self._names for word in name_words(name)}
        known |= {
            token.word for text in _texts(self._claimed.properties) for token in tokenize(text)
        }
        others = []
        for reading in self._readings:
            quote = reading.passage.quote
            for name in find_names(quote, reading.passage.language):
                words = [word for word in name_words(name.text) if len(word) > 1]
                is_known = any(is_noun_form(word, each) for word in words for each in known)
                is_name = name.is_certain or not name.start or is_place(quote, name)
                if words and is_name and not is_known:
                    others.append(name.text)
        return others

    def _other_words_of(self, text: str) -> Finding:
        """Supported if each word is in the quotes in some form; else the rules have not read it all."""
        own = {word for name in self._names for word in name_words(name)}
        for token in tokenize(text):
            word = token.word
            if word[0].isdigit() or is_function_word(word) or word in own or word in self._words:
                continue
            if not any(is_noun_form(word, each) for each in self._words if each[0] == word[0]):
                return _unverified(f"{word!r} is not in the quote")
        return _SUPPORTED


# ---- Numbers


def _is_year(value: Decimal) -> bool:
    return value == value.to_integral_value() and int(value) in _YEARS


def _numbers(properties: Mapping[str, Any]) -> Iterator[Decimal]:
    """The numbers that are claimed, without sign and with the scale of their property."""
    for name, value in properties.items():
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, int | float) and not isinstance(each, bool):
                yield abs(Decimal(str(each)).scaleb(hint_of(name).scale))


def _match(hint: Hint, value: Decimal, quantity: Quantity) -> _Match:
    """How well `quantity` bears out `value`, which has the scale of its property."""
    unit = quantity.unit
    if hint.currency:
        if unit == "currency":
            return (
                _compare(value, quantity) if hint.currency in quantity.currencies else _Match.NONE
            )
        return _Match.NONE if unit else min(_compare(value, quantity), _Match.WEAK)
    if hint.unit in (PERCENT, SHARE):
        is_part_of_one = hint.unit == SHARE and abs(value) <= 1
        return _match_percentage(value * 100 if is_part_of_one else value, quantity)
    if hint.unit:
        if not unit:
            return min(_compare(value, quantity), _Match.WEAK)
        converted = [convert(each, unit, hint.unit) for each in quantity.values]
        return _compare(value, quantity, [each for each in converted if each is not None])
    if unit in (PERCENT, POINTS, FRACTION, PER_MILLE):
        best = max(_compare(value, quantity), _match_percentage(value * 100, quantity))
        return min(best, _Match.WEAK)
    return _compare(value, quantity)


_PERCENT_PER: Final = {PERCENT: Decimal(1), FRACTION: Decimal(100), PER_MILLE: Decimal("0.1")}


def _match_percentage(percentage: Decimal, quantity: Quantity) -> _Match:
    factor = _PERCENT_PER.get(quantity.unit)
    if factor is not None:
        # "a third" is 0.3, too.
        min_digits = 1 if quantity.unit == FRACTION else _MIN_DIGITS
        return _compare(
            percentage, quantity, [each * factor for each in quantity.values], min_digits
        )
    return _Match.NONE if quantity.unit else min(_compare(percentage, quantity), _Match.WEAK)


_MIN_DIGITS: Final = 2
"""Of a number that was rounded."""
_MAX_ROUNDING: Final = Decimal("0.01")
"""Part of the quoted number by which a rounded one may differ; more for a fraction in words."""
_ROUNDING_MODES: Final = (ROUND_HALF_UP, ROUND_HALF_EVEN, ROUND_HALF_DOWN)


def _compare(
    value: Decimal,
    quantity: Quantity,
    values: Sequence[Decimal] | None = None,
    min_digits: int = _MIN_DIGITS,
) -> _Match:
    """Whether `value` is `quantity`, or `quantity` rounded to the digits of `value`. `values` replace its own."""
    quoted_values = quantity.values if values is None else values
    matches = [_compare_values(value, quoted, min_digits) for quoted in quoted_values]
    best = max(matches, default=_Match.NONE)
    return min(best, _Match.WEAK) if len(quantity.values) > 1 else best


def _compare_values(value: Decimal, quoted: Decimal, min_digits: int) -> _Match:
    if value == quoted:
        return _Match.EXACT
    digits = value.normalize().as_tuple()
    quoted_digits = quoted.normalize().as_tuple().digits
    if not min_digits <= len(digits.digits) < len(quoted_digits) or not isinstance(
        digits.exponent, int
    ):
        return _Match.NONE
    tolerance = _MAX_ROUNDING if min_digits == _MIN_DIGITS else _MAX_ROUNDING * 10
    if abs(value - quoted) > abs(quoted) * tolerance:
        return _Match.NONE
    step = Decimal((0, (1,), digits.exponent))
    is_rounded = any(quoted.quantize(step, mode) == value for mode in _ROUNDING_MODES)
    return _Match.ROUNDED if is_rounded else _Match.NONE


def _is_same(claim: Quantity, quoted: Quantity) -> bool:
    """Whether a quantity of a claimed text is that of a quote."""
    if claim.unit == "currency":
        if quoted.unit != "currency" or not claim.currencies & quoted.currencies:
            return False
        # "$" is the dollar of the United States if the quote names one.
        if len(claim.currencies) > len(quoted.currencies) == 1 and "USD" not in quoted.currencies:
            return False
    values: Iterable[Decimal | None] = quoted.values
    if claim.unit and claim.unit != "currency":
        values = [convert(each, quoted.unit, claim.unit) for each in quoted.values]
    return any(
        _compare_values(abs(one), abs(other), _MIN_DIGITS) > _Match.WEAK
        for one in claim.values
        for other in values
        if other is not None
    )


def _is_next(table: str, folded: str, quantity: Quantity) -> bool:
    """Whether a word of the table belongs to the number, as in "fell by 5%" and "5% less"."""
    before = folded[max(0, quantity.start - _MAX_JOINTS_CHARS) : quantity.start]
    after = folded[quantity.end :][:_AFTER_CHARS].lstrip(" \u00a0.,;:!?")
    return bool(
        word_pattern(table).search(_JOINTS.sub("", before)[-_NEAR_CHARS:])
        or word_pattern("less").match(after)
    )


# ---- Texts


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list):
        for each in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(each)


def _is_mentioned(name: str, texts: Sequence[str]) -> bool:
    if any(True for text in texts for _ in find_mentions(name, text)):
        return True
    # Chinese and other scripts have no blanks between words.
    return not name.isascii() and any(fold(name) in fold(text) for text in texts)


def _stands_in(written: str, texts: Sequence[str]) -> bool:
    """Whether `written` stands in one of the texts, and is not a part of a longer word or number there."""
    pattern = re.compile(rf"(?<!\w)(?<!\d[.,'’]){re.escape(fold(written))}(?!\w)(?![.,'’]\d)")
    return any(pattern.search(fold(text)) for text in texts)


def _has_nouns(name: str, quotes: Sequence[str]) -> bool:
    """Whether forms of the words of `name` stand side by side in one of the quotes."""
    words = name_words(name)
    for quote in quotes:
        tokens = tokenize(quote)
        for first in range(len(tokens) - len(words) + 1):
            following = tokens[first : first + len(words)]
            if all(
                is_noun_form(token.word, word) for token, word in zip(following, words, strict=True)
            ):
                return True
    return False


# ---- Findings


def _worst(findings: Iterable[Finding]) -> Finding:
    return max(findings, key=lambda finding: finding.verdict, default=_SUPPORTED)


def _shown(quantities: Iterable[Quantity]) -> list[str]:
    return [f"{each.values[0]:f}" for each in quantities]


def _there(values: Iterable[Any]) -> str:
    shown = list(dict.fromkeys(values))
    return f"; it has {_join(shown)}" if shown else ""


_MAX_SHOWN: Final = 5


def _join(values: Iterable[Any]) -> str:
    return ", ".join(str(value) for value in list(values)[:_MAX_SHOWN])
