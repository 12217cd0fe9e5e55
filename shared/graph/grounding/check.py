"""Decides whether claims follow from the sentences that they cite. Pure.

What rules can read must be there: each number, date, unit, currency, percentage and proper name; a claim with one that is
not there is refused. A claim is supported only if nothing in it is left to interpretation; otherwise it is unverified.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import IntEnum
from functools import cached_property, lru_cache
from typing import Any, Final

from shared.graph.grounding.dates import Date, find_dates, parse_date
from shared.graph.grounding.language import find_language, is_function_word
from shared.graph.grounding.lexicon import LANGUAGES, lexicon
from shared.graph.grounding.matching import (
    MIN_ROUNDED,
    Match,
    is_next,
    is_same,
    match_number,
    to_decimal,
)
from shared.graph.grounding.names import (
    Name,
    Token,
    find_mentions,
    find_names,
    is_country,
    is_noun_form,
    is_place,
    name_words,
    tokenize,
    translate_place,
)
from shared.graph.grounding.quantities import Quantity, find_quantities
from shared.graph.grounding.units import Hint, hint_of
from shared.graph.grounding.words import fold, fold_in_place, role_stems, word_pattern, word_set


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
_LIKELY_YEARS: Final = range(1900, 2051)
_TWO_READINGS: Final = re.compile(r"\d[.,]\d")
_TIME: Final = re.compile(r"(?<![\d:])([01]?\d|2[0-3]):([0-5]\d)(?::[0-5]\d)?(?![\d:])")
_CODE: Final = re.compile(r"(?<!\w)(?=\w*\d)(?=\w*[^\W\d_])[\w-]{2,}(?!\w)")
_PERIOD_CODE: Final = re.compile(
    r"[QTH][1-4]|[1-4][QTH](?:\d\d|\d{4})?|FY(?:\d{2}(?:\d\d)?)?|\d{3}0s|\d{1,3}(?:st|nd|rd|th)",
    re.IGNORECASE,
)
"""A part of a year, a decade or an ordinal, which a quote mostly writes in another way."""
_MAX_NAME_WORDS: Final = 5
"""A text of more words is a sentence, in which a capital letter may be no name."""
_MAX_DEPTH: Final = 20
"""Of a value with values; more is left to a model."""
_TABLE_SCALE: Final = re.compile(
    r"(?:(?<!\w)(?:in|en|expressed in|angaben in|amounts in)\s(?:eur |usd |chf |us)?[$€£]?\s?|[$€£(]\s?|(?:eur|usd|chf) )"
    r"(thousands?|tausend|tsd|teur|miles|milliers|migliaia|millions?|millionen|mio|mln|millones|milioni|billions?"
    r"|milliarden|mrd)(?!\w)(?!\s(?:of (?!u\.?s|euro|dollar))|\s?\d)"
)
"""The scale of a whole table, as in "(in thousands)"."""
_THOUSANDS: Final = frozenset({"th", "ta", "ts", "te", "miles", "milliers", "migliaia"})
_BILLIONS: Final = ("billion", "milliard", "mrd")
_LONGER: Final = re.compile(r"[ -](?:& )?(?!(?:[A-Z]{3}|[IVX]+)\b)[A-ZÀ-Þ][a-zà-ÿ]{2}")
"""After a mention of a name: a capitalized word, which is no code of a currency."""
_CONTRACTED_NOT: Final = re.compile(r"n['’]t\b", re.IGNORECASE)
_NEGATIVE_AFTER: Final = re.compile(r"\s?°?\s?(?:[SWO]\b|BCE?\b|v\. ?Chr|av\. ?J|a\. ?C)")
"""After a number: a southern or western coordinate, a year before Christ."""
_LIMIT: Final = re.compile(
    r"(?:fewer than|less than|under|below|up to|at most|by|weniger als|unter|bis zu|hochstens|moins de|jusqu'a"
    r"|menos de|hasta|meno di|fino a)\s?[$€£]?$"
)
"""Before a number that is a limit."""
_LIMIT_CHARS: Final = 24
_RELATIVE: Final = re.compile(
    r",? (?:which|that|who|whose|die|der|das|deren|dessen|qui|dont|que|che|cui)\b|, founded|, based"
)
"""After a name: a clause about it."""


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
        return bool(self._words & word_set("negations")) or any(
            _CONTRACTED_NOT.search(quote) for quote in self._quotes
        )

    @cached_property
    def _table_scale(self) -> int:
        """The power of ten that the quote or its heading gives for all numbers, as in "(in thousands)"."""
        for text in [*self._quotes, *self._surroundings]:
            if found := _TABLE_SCALE.search(fold(text)):
                word = found[1]
                if word.startswith(_BILLIONS):
                    return 9
                return 3 if word[:2] in _THOUSANDS or word in _THOUSANDS else 6
        return 0

    @property
    def _knows_language(self) -> bool:
        return all(reading.passage.language in LANGUAGES for reading in self._readings)

    def ends(self) -> Finding:
        """The finding about the element itself."""
        around = []
        unclear: list[str] = []
        for names in self._claimed.ends:
            if any(
                _is_mentioned(name, self._quotes) or self._is_translated(name) for name in names
            ):
                if not any(self._is_meant(name) for name in names):
                    unclear.append(names[0])
                continue
            if not any(_is_mentioned(name, self._surroundings) for name in names):
                if not self._knows_language or any(self._may_be_meant(name) for name in names):
                    return _unverified(f"the quote may mean {names[0]!r}")
                return _refused(
                    f"{names[0]!r} is named neither in the quote nor in the title or heading of its page"
                )
            around.append(names[0])
        if self._claimed.is_edge:
            return _unverified("rules do not read how two things are connected")
        if unclear:
            return _unverified(
                f"{unclear[0]!r} may be a part of a longer name, or a common word, in the quote"
            )
        if around and (others := self.other_names):
            return _unverified(f"the quote names {_join(others)}, and {around[0]!r} only the page")
        if self._is_negated:
            return _unverified("the quote has a negation")
        return _SUPPORTED

    def value(self, name: str, value: Any) -> Finding:
        """The finding about one property."""
        finding = self._value(name, value)
        if finding.verdict is Verdict.SUPPORTED and value is not None and not self._knows_language:
            return _unverified("rules do not know the language of the page")
        if finding.verdict is Verdict.SUPPORTED and value is not None and self._is_negated:
            return _unverified("the quote has a negation")
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if finding.verdict is Verdict.SUPPORTED and is_number and not self._is_about(name):
            return _unverified(f"the quote has no word for {name}")
        return finding

    def _is_about(self, name: str) -> bool:
        """Whether the quotes have a word for the property."""
        stems = role_stems(name)
        return any(word.startswith(stems) for word in self._words)

    def _value(self, name: str, value: Any, depth: int = 0) -> Finding:
        if value is None:
            return _SUPPORTED
        if isinstance(value, bool):
            return _unverified("rules do not read whether something is so")
        if isinstance(value, int | float | Decimal):
            number = to_decimal(value)
            if number is None:
                return _unverified("this is no number")
            return self._number(hint_of(name), number)
        if isinstance(value, str):
            finding = self._text(value)
            # "Automotive", "Chief Executive Officer", "Female", "German".
            if (
                finding.verdict is Verdict.REFUSED
                and hint_of(name).is_kind
                and not re.search(r"\d", value)
            ):
                return _unverified(finding.reason)
            return finding
        if depth >= _MAX_DEPTH or not isinstance(value, Mapping | Sequence):
            return _unverified("rules do not read such a value")
        if isinstance(value, Mapping):
            return _worst(
                self._value(f"{name}_{key}", each, depth + 1) for key, each in value.items()
            )
        return _worst(self._value(name, each, depth + 1) for each in value)

    # ---- Numbers

    def _number(self, hint: Hint, value: Decimal) -> Finding:
        scaled = value.scaleb(hint.scale)
        if (
            self._table_scale
            and (value % 1 == 0 or hint.scale)
            and any(
                not each.scale and abs(scaled) in (abs(one), abs(one).scaleb(self._table_scale))
                for each in self._quantities
                for one in each.values
            )
        ):
            return _unverified("the quote or its heading gives a scale for a table")
        matches = [(each, match_number(hint, scaled, each)) for each in self._quantities]
        if value < 0 and self._says_negative(hint):
            matches += [(each, match_number(hint, -scaled, each)) for each in self._quantities]
        best = max((match for _, match in matches), default=Match.NONE)
        may_be_year = _is_year(value) and not hint.unit and (hint.is_year or best <= Match.WEAK)
        if may_be_year and (finding := self._year(hint, int(value))):
            return finding
        if best is Match.NONE:
            return self._missing_number(hint, value)
        if best is Match.WEAK:
            unit = hint.currency or hint.unit or "this unit"
            return _unverified(f"the quote does not say that {value:f} is in {unit}")
        matched = [each for each, match in matches if match == best]
        if (
            not hint.is_year
            and not hint.unit
            and _is_year(value)
            and value in _LIKELY_YEARS
            and all(self._is_year_of_date(each) for each in matched)
        ):
            return _unverified(f"{value:f} may be a year in the quote")
        if any(
            _LIMIT.search(reading.folded[max(0, each.start - _LIMIT_CHARS) : each.start])
            for reading in self._readings
            for each in reading.quantities
            if each in matched and each.end
        ):
            return _unverified("the quote gives a limit only")
        if not self._claimed.is_edge and (other := self._nearer_name(matched)):
            return _unverified(f"the quote may say this of {other!r}")
        if sign := self._sign(hint, value, matched):
            return sign
        # "$" is mostly the dollar of the United States; "kr" and "pesos" can be any.
        if hint.currency not in ("", "USD") and all(len(each.currencies) > 1 for each in matched):
            return _unverified(f"the quote does not say that the currency is {hint.currency}")
        return self._role(matched)

    def _year(self, hint: Hint, year: int) -> Finding | None:
        """The finding about a number that may be a year; None if it is none."""
        years = {date.year for date in self._dates if date.year}
        if year not in years:
            around = find_dates("\n".join(self._surroundings), None)
            if hint.is_year and any(date.year == year for date in around):
                return _unverified(f"{year} is only in the title or heading of the page")
            if not self._knows_language:
                return _unverified("rules do not know the language of the page")
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
        if value <= 4 and hint.is_rank and self._words & word_set("ranks"):
            return _unverified("the quote has words that may be this rank")
        if value == 1 and self._words & word_set("ones"):
            return _unverified("the quote has an article, which may count")
        if not self._knows_language:
            return _unverified("rules do not know the language of the page")
        if self._is_scaled_elsewhere(value):
            return _unverified(f"{value:f} has its scale in another property")
        if value < 0 and any(
            abs(value) in each.values and _NEGATIVE_AFTER.match(reading.passage.quote, each.end)
            for reading in self._readings
            for each in reading.quantities
        ):
            return _unverified("rules do not read south, west and before Christ")
        unit = hint.currency or hint.unit
        written = f"{value:f} ({unit})" if unit else f"{value:f}"
        return _refused(f"{written} is not in the quote{self._numbers_there()}")

    @cached_property
    def _powers(self) -> set[int]:
        """The powers of ten of words such as "million" in the texts that are claimed."""
        return {
            power
            for text in _texts(self._claimed.properties)
            for token in tokenize(text)
            if (power := lexicon("en").scales.get(token.word)) is not None
        }

    def _is_scaled_elsewhere(self, value: Decimal) -> bool:
        """As in {"amount": 5, "unit": "million"}."""
        return any(
            value.scaleb(power) in each.values
            for power in self._powers
            for each in self._quantities
        )

    def _nearer_name(self, matched: Sequence[Quantity]) -> str:
        """Whose the number is by a relative clause, or in a quote without the element; empty if nothing tells."""
        is_named = any(_is_mentioned(name, self._quotes) for name in self._names)
        for reading in self._readings:
            quote = reading.passage.quote
            is_here = any(_is_mentioned(name, [quote]) for name in self._names)
            for name in find_names(quote, reading.passage.language):
                is_uncertain = not name.is_certain and name.start > 0
                if is_uncertain or self._is_own(name.text) or is_place(quote, name):
                    continue
                for each in reading.quantities:
                    if (
                        each in matched
                        and name.end <= each.start
                        and (_RELATIVE.match(quote, name.end) or (is_named and not is_here))
                    ):
                        return name.text
        return ""

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
            if sign and any(is_next(table, reading.folded, each) for each in matched):
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
            finding = self._date(day, text)
            if finding.verdict is Verdict.SUPPORTED and ":" in text:
                return _unverified("rules do not read times")
            return finding
        if text.count(" ") >= _MAX_NAME_WORDS and any(
            _is_sentence_of(text, quote) for quote in self._quotes
        ):
            return _SUPPORTED
        own_language = find_language(text)
        if own_language is not None:
            return self._text_in(own_language, text, is_english_first=False)
        # A short text can be in the language of any of its quotes.
        languages = dict.fromkeys(reading.passage.language for reading in self._readings)
        return min(
            (self._text_in(each, text, is_english_first=True) for each in languages),
            key=lambda finding: finding.verdict,
            default=_SUPPORTED,
        )

    def _text_in(self, language: str | None, text: str, *, is_english_first: bool) -> Finding:
        dates = find_dates(text, language)
        signs: set[str | None] = {"."}
        if _TWO_READINGS.search(text):
            signs |= {reading.passage.decimal_sign for reading in self._readings}
        quantities = [
            quantity
            for sign in sorted(signs, key=str)
            for quantity in find_quantities(
                text, language, sign, dates, is_english_first=is_english_first
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
        if worst.verdict is not Verdict.SUPPORTED:
            return worst
        spans = [(each.start, each.end) for each in dates]
        spans += [(each.start, each.end) for each in quantities if each.end]
        return self._other_words_of(text, spans)

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
                for other in [*around, *reading.dates]
                if each.year is None and other.year
            ]
            if any(date.follows_from(each) for each in [*around, *completed]):
                return _unverified(f"a part of {written} stands elsewhere")
            # "5/3/2024", "10-12 May 2024".
            if date.month and any(
                each.is_ambiguous
                and each.year in (date.year, None)
                and each.month in (date.month, None)
                and {str(date.day), str(date.month) if each.month is None else str(date.day)}
                <= set(re.findall(r"\d+", _unpadded(reading.passage.quote)))
                for each in reading.dates
            ):
                return _unverified(f"the quote can be read as {written}")
        if not self._knows_language:
            return _unverified("rules do not know the language of the page")
        return _refused(f"the date {written} is not in the quote{_there(map(str, self._dates))}")

    def _quantities_of(
        self, text: str, quantities: Sequence[Quantity], dates: Sequence[Date]
    ) -> Iterator[Finding]:
        by_place: dict[int, list[Quantity]] = {}
        for quantity in quantities:
            if not quantity.unit and self._numbers_of_names.intersection(quantity.values):
                continue
            if not any(date.start <= quantity.start < date.end for date in dates):
                by_place.setdefault(quantity.start, []).append(quantity)
        times = {
            place for match in _TIME.finditer(text) for place in (match.start(1), match.start(2))
        }
        for readings in by_place.values():
            finding = self._quantity(text, readings)
            if finding.verdict is Verdict.REFUSED and readings[0].start in times:
                finding = _unverified("rules do not read times")
            yield finding
        units = {quantity.unit for quantity in quantities}
        others = [
            each
            for each in self._quantities
            if each.unit in units
            and not any(is_same(one, each) for one in quantities)
            and abs(each.values[0]) not in self._numbers
            and not self._is_year_of_date(each)
        ]
        if by_place and others:
            yield _unverified(f"the quote has other values of this kind: {_join(_shown(others))}")

    def _quantity(self, text: str, readings: Sequence[Quantity]) -> Finding:
        """The finding about one quantity of a text, which can be read in several ways."""
        first = readings[0]
        written = text[first.start : first.end] or f"{first.values[0]:f}"
        found = [each for each in self._quantities if any(is_same(one, each) for one in readings)]
        if found:
            return self._found_quantity(text, written, readings, found)
        if first.is_label and any(first.values[0] in reading.labels for reading in self._readings):
            return _SUPPORTED
        is_named = first.is_label and self._is_known(written)
        if is_named or (not first.unit and _stands_in(written, self._quotes)):
            return _SUPPORTED
        return _refused(f"{written!r} is not in the quote{self._numbers_there()}")

    def _found_quantity(
        self, text: str, written: str, readings: Sequence[Quantity], found: Sequence[Quantity]
    ) -> Finding:
        """The same for one that has the value of `found`."""
        first = readings[0]
        quoted = {abs(value) for each in found for value in each.values}
        is_exact = any(abs(one.values[0]) in quoted for one in readings)
        is_bare = not first.unit and not first.scale
        if not is_exact and is_bare and abs(first.values[0]) < MIN_ROUNDED:
            return _unverified(f"{written!r} would be rounded")
        if not any(one.unit == each.unit for one in readings for each in found):
            return _unverified(f"the quote does not say the unit of {written!r}")
        sign = text[max(0, first.start - 1) : first.start]
        is_range = text[max(0, first.start - 2) : first.start - 1].isalnum()
        if sign in ("+", "-", "−", "–") and first.start and not is_range:
            speaks_of_fall = any(
                word_pattern(table).search(reading.folded)
                for reading in self._readings
                for table in ("decreases", "losses")
            )
            if speaks_of_fall == (sign == "+") and not _stands_in(sign + written, self._quotes):
                return _unverified("rules do not read signs in texts")
        elif (first.values[0] < 0) != (found[0].values[0] < 0):
            return _unverified("the quote has another sign")
        return _SUPPORTED

    def _codes_of(self, text: str, quantities: Sequence[Quantity]) -> Iterator[Finding]:
        measures = [text[each.start : each.end] for each in quantities if each.unit or each.scale]
        for code in _CODE.findall(text):
            if _PERIOD_CODE.fullmatch(code):
                if not _stands_in(code, self._quotes) and not re.fullmatch("[QT][1-4]", code):
                    number = code.lower().removeprefix("fy").rstrip("snrdth")
                    is_there = any(number[-2:] in each.passage.quote for each in self._readings)
                    yield (
                        _unverified(f"{code!r} is written otherwise in the quote")
                        if is_there or not number.isdigit() or len(number) < 3
                        else _refused(f"{code!r} is not in the quote")
                    )
                continue
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
            if _PERIOD_CODE.fullmatch(name.text):
                continue
            if self._is_translated(name.text) or self._may_be_translated(name.text, names):
                yield _unverified(f"{name.text!r} has another name in the quote")
            elif _is_mentioned(name.text, self._surroundings) or self._is_own(name.text):
                if is_short:
                    yield _unverified(f"{name.text!r} is only in the title or heading of the page")
            elif name.is_certain or is_short or is_place(text, name):
                yield _refused(f"{name.text!r} is not in the quote")
            else:
                yield _unverified(f"{name.text!r} is not in the quote, and may be a name")
        if names and is_short:
            if others := self.other_names:
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

    def _is_meant(self, name: str) -> bool:
        """Whether a mention of `name` is no longer name, and no common word such as "us" for "US"."""
        mentions = [(quote, each) for quote in self._quotes for each in find_mentions(name, quote)]
        return not mentions or any(
            not _LONGER.match(quote, each.end)
            and not (name[:1].isupper() and quote[each.start].islower())
            for quote, each in mentions
        )

    def _may_be_meant(self, name: str) -> bool:
        """Whether a quote may have the acronym of `name`, its translation, "and" for "&", or a person's last name."""
        words = [word for word in re.findall(r"\w+", name) if word[0].isupper()]
        acronym = "".join(word[0] for word in words)
        if len(words) > 2 and any(
            re.search(rf"\b{re.escape(acronym)}\b", quote) for quote in self._quotes
        ):
            return True
        if "&" in name and _is_mentioned(name.replace("&", "and"), self._quotes):
            return True
        plain = fold(name)
        for one, other in (("ae", "a"), ("oe", "o"), ("ue", "u")):
            plain = plain.replace(one, other)
        if plain != fold(name) and _is_mentioned(plain, self._quotes):
            return True
        is_foreign = any(reading.passage.language != "en" for reading in self._readings)
        return is_foreign and any(word in word_set("generic") for word in name_words(name))

    def _may_be_translated(self, name: str, names: Sequence[Name]) -> bool:
        """Whether a quote in another language may have the name of an institution, or the city of a country."""
        if is_country(name) and any(
            _is_mentioned(each.text, self._quotes) or self._is_translated(each.text)
            for each in names
        ):
            return True
        is_foreign = any(reading.passage.language != "en" for reading in self._readings)
        return is_foreign and any(word in word_set("generic") for word in name_words(name))

    def _is_own(self, name: str) -> bool:
        return any(_is_mentioned(name, [own]) or _is_mentioned(own, [name]) for own in self._names)

    @cached_property
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

    def _other_words_of(self, text: str, read: Sequence[tuple[int, int]]) -> Finding:
        """Supported if each word is in the quotes in some form; else the rules have not read it all."""
        own = {word for name in self._names for word in name_words(name)}
        tokens = tokenize(text)
        is_address = len(text.split()) == 1 and re.search(r"[.@][^\W\d]", text) is not None
        if not tokens or (is_address and not _stands_in(text, self._quotes)):
            return _unverified("rules do not read this")
        for token in tokens:
            word = token.word
            if word in self._words or (word in own and len(tokens) > 1):
                continue
            if word[0].isdigit():
                if not any(start <= token.start < end for start, end in read):
                    return _unverified(f"{word!r} is not in the quote")
                continue
            if word in word_set("neutral") and not text[token.start].isupper() and len(tokens) > 1:
                continue
            if not any(is_noun_form(word, each) for each in self._words if each[0] == word[0]):
                return _unverified(f"{word!r} is not in the quote")
        if not any(self._is_in_order(tokens, reading) for reading in self._readings):
            return _unverified("the quote has the words in another order")
        return _SUPPORTED

    def _is_in_order(self, tokens: Sequence[Token], reading: _Reading) -> bool:
        """Whether those words of `tokens` that the quote has stand in it in their order."""
        quoted = [token.word for token in tokenize(reading.passage.quote)]
        place = 0
        for token in tokens:
            word = token.word
            if is_function_word(word):
                continue
            places = [
                at for at, each in enumerate(quoted) if each == word or is_noun_form(word, each)
            ]
            following = [at for at in places if at >= place]
            if places and not following:
                return False
            place = following[0] + 1 if following else place
        return True


# ---- Numbers


def _is_year(value: Decimal) -> bool:
    return value == value.to_integral_value() and int(value) in _YEARS


def _numbers(properties: Mapping[str, Any]) -> Iterator[Decimal]:
    """The numbers that are claimed, without sign and with the scale of their property."""
    for name, value in properties.items():
        for each in value if isinstance(value, list) else [value]:
            is_number = isinstance(each, int | float) and not isinstance(each, bool)
            if is_number and (number := to_decimal(each)) is not None:
                yield abs(number.scaleb(hint_of(name).scale))


# ---- Texts


def _texts(value: Any, depth: int = 0) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list) and depth <= _MAX_DEPTH:
        for each in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(each, depth + 1)


def _is_mentioned(name: str, texts: Sequence[str]) -> bool:
    if any(find_mentions(name, text) for text in texts):
        return True
    # Chinese and other scripts have no blanks between words.
    has_no_blanks = any(each >= "\u2e80" or "\u0e00" <= each < "\u1000" for each in name)
    return has_no_blanks and any(fold(name) in fold(text) for text in texts)


def _is_sentence_of(text: str, quote: str) -> bool:
    """Whether `text` is one or more whole sentences of `quote`, and not a part of a sentence such as "if …"."""
    start = quote.find(text)
    if start < 0:
        return False
    before, after = (
        quote[:start].rstrip(" \"'“”«»([-•"),
        quote[start + len(text) :].lstrip(" \"'“”«»)]"),
    )
    begins = not before or before[-1] in ".!?;\n"
    return begins and (text.rstrip().endswith((".", "!", "?")) or not after or after[0] in ".!?;\n")


def _unpadded(text: str) -> str:
    return re.sub(r"(?<!\d)0(?=\d)", "", text)


def _stands_in(written: str, texts: Sequence[str]) -> bool:
    """Whether `written` stands in one of the texts, and is not a part of a longer word or number there."""
    wanted = fold(written)
    return any(_stands_alone(wanted, _folded(text)) for text in texts)


_NUMBER_BEFORE: Final = re.compile(r"(?:\w|\d[.,'’])$")
_NUMBER_AFTER: Final = re.compile(r"\w|[.,'’]\d")
_folded: Final = lru_cache(maxsize=256)(fold)


def _stands_alone(wanted: str, text: str) -> bool:
    start = text.find(wanted)
    while start >= 0:
        end = start + len(wanted)
        if not _NUMBER_BEFORE.search(text[max(0, start - 2) : start]) and not _NUMBER_AFTER.match(
            text, end
        ):
            return True
        start = text.find(wanted, start + 1)
    return False


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
