"""The outcomes of numbers, amounts and computations that a write claims. Pure."""

import ast
import operator
import re
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from enum import IntEnum
from itertools import pairwise
from typing import Any, Final

from babel.numbers import is_currency

from shared.graph.grounding.date_rules import DateRules, clause_around
from shared.graph.grounding.dates import find_dates
from shared.graph.grounding.names import contains, tokenize
from shared.graph.grounding.passages import (
    MATCHED,
    UNREAD,
    Outcome,
    Passages,
    Reading,
    instead,
    left_out,
)
from shared.graph.grounding.quantities import (
    PERCENT_PER,
    SHARE,
    Hint,
    Quantity,
    convert,
    find_quantities,
    hint_of,
    read_number,
)
from shared.graph.grounding.words import (
    PERCENT,
    fold,
    is_function_word,
    lexicon,
    name_parts,
    pattern_of,
    role_stems,
    table,
    table_scale,
    word_pattern,
    word_set,
)


class Match(IntEnum):
    """How well a quoted number supports a claimed one."""

    NONE = 0
    WEAK = 1
    """The number is there, but not clearly in the unit."""
    ROUNDED = 2
    EXACT = 3


_MIN_DIGITS: Final = 2
"""Significant digits that a rounded number has at least."""
_MAX_ROUNDING: Final = Decimal("0.01")
"""Part of the quoted number by which a rounded one may differ."""
_MIN_ROUNDED: Final = 100_000
"""Below, a number without a unit may be an identifier: a postal code, a year, a house number."""


def _match_number(hint: Hint, value: Decimal, quantity: Quantity) -> Match:
    """How well `quantity` supports `value`, which has the scale of its property."""
    unit, values = quantity.unit, quantity.values
    is_clear = len(values) == 1
    if hint.currency and unit == "currency":
        best = _compare(value, values) if hint.currency in quantity.currencies else Match.NONE
    elif hint.unit in (PERCENT, SHARE):
        percentages = _converted(quantity, PERCENT)
        best = _compare(value, percentages)
        if hint.unit == SHARE and abs(value) <= 1:
            best = max(best, _compare(value * 100, percentages))
    elif hint.unit:
        # "pounds" can be money or mass.
        is_clear &= bool(unit) and "GBP" not in quantity.currencies
        best = _compare(value, _converted(quantity, hint.unit) if is_clear else values)
    elif unit in PERCENT_PER:
        percentages = _converted(quantity, PERCENT)
        best, is_clear = max(_compare(value, values), _compare(value * 100, percentages)), False
    else:
        best = _compare(value, values)
        # "120 MW" does not say that there are 120 of something.
        is_clear &= not unit or (hint.is_money if unit == "currency" else hint.is_measure)
        is_clear &= best is Match.EXACT or abs(value) >= _MIN_ROUNDED
    return best if is_clear else min(best, Match.WEAK)


def _converted(quantity: Quantity, unit: str) -> list[Decimal]:
    values = (convert(each, quantity.unit, unit) for each in quantity.values)
    return [each for each in values if each is not None]


def _compare(value: Decimal, values: Iterable[Decimal]) -> Match:
    return max((_compare_one(value, each) for each in values), default=Match.NONE)


def _compare_one(value: Decimal, quoted: Decimal) -> Match:
    if value == quoted:
        return Match.EXACT
    _, digits, exponent = value.normalize().as_tuple()
    error = abs(value - quoted)
    if len(digits) < _MIN_DIGITS or error * 2 > Decimal((0, (1,), int(exponent))):
        return Match.NONE
    # "1.2 million" for 1,234,567.
    return Match.ROUNDED if error <= abs(quoted) * _MAX_ROUNDING else Match.WEAK


def is_same(claim: Quantity, quoted: Quantity) -> bool:
    """Whether a quantity of a claimed text is that of a quote."""
    if claim.unit == "currency":
        if quoted.unit != "currency" or not claim.currencies & quoted.currencies:
            return False
        # "$" is the dollar of the United States if the quote names one.
        if len(claim.currencies) > len(quoted.currencies) == 1 and "USD" not in quoted.currencies:
            return False
    is_measured = claim.unit and claim.unit != "currency"
    values = _converted(quoted, claim.unit) if is_measured else quoted.values
    known = [abs(each) for each in values]
    return any(_compare(abs(each), known) > Match.WEAK for each in claim.values)


_LIKELY_YEARS: Final = range(1900, 2101)
_MAX_IN_WORDS: Final = 3
_ANY_NUMBER: Final = re.compile(r"\d[\d.,' \u00a0\u202f’]*")


class FigureRules:
    """Checks numbers, amounts and computations."""

    def __init__(self, passages: Passages, dates: DateRules) -> None:
        self._passages = passages
        self._dates = dates

    @property
    def _quantities(self) -> list[tuple[Reading, Quantity]]:
        readings = self._passages.readings
        return [(reading, each) for reading in readings for each in reading.quantities]

    @property
    def _has_table_scale(self) -> bool:
        passages = self._passages
        return any(table_scale(text) for text in (*passages.sentences, *passages.around))

    def number(self, name: str, value: Decimal) -> Outcome:
        hint = hint_of(name)
        if not self._passages.is_readable:
            return self._in_other_language(value)
        if int(value) in _LIKELY_YEARS and not hint.unit:
            moments = self._dates.moments
            is_there = [
                each for each in moments if value in (each[1].first.year, each[1].last.year)
            ]
            if is_there:
                return self._dates.year(name, int(value), is_there)
            around = find_dates("\n".join(self._passages.around), None)
            if any(value == each.year for each in around):
                return UNREAD
            if hint.is_year and not self._candidates(name, hint, value):
                stands = instead(each.first.year for _, each in moments if each.first.year)
                return left_out(f"the year {value:f} is not in the cited sentences{stands}")
        return self._figure(name, hint, value)

    def _in_other_language(self, value: Decimal) -> Outcome:
        """Left out if no number has its digits, but for zeros at the end, in a script that writes numbers with digits."""
        text = "\n".join(self._passages.sentences)
        numbers = (f"{value:f}", *_ANY_NUMBER.findall(text))
        wanted, *found = (re.sub(r"\D", "", each).strip("0") for each in numbers)
        is_latin = not any(each.isalpha() and each > "\u024f" for each in text)
        if is_latin and wanted not in found:
            return left_out(f"{value:f} is not in the cited sentences")
        return UNREAD

    def _candidates(
        self, name: str, hint: Hint, value: Decimal
    ) -> list[tuple[Reading, Quantity, Match]]:
        scaled = abs(value.scaleb(hint.scale))
        found: list[tuple[Reading, Quantity, Match]] = []
        for reading, each in self._quantities:
            match = max(_match_number(hint, scaled, each), _match_number(hint, -scaled, each))
            is_named = not hint.unit and scaled in map(abs, each.values)
            if match is Match.WEAK and is_named and _has_unit(name, reading, each):
                match = Match.EXACT
            if match is not Match.NONE:
                found.append((reading, each, match))
        return found

    def _figure(self, name: str, hint: Hint, value: Decimal) -> Outcome:
        found = self._candidates(name, hint, value)
        if not found:
            return self._missing_figure(name, value, f"{value:f}")
        best = max(match for _, _, match in found)
        matched = [(reading, each) for reading, each, match in found if match is best]
        return self._sign(name, hint, value, matched) or (
            UNREAD if best is Match.WEAK else self._role(name, hint, matched)
        )

    def _sign(
        self, name: str, hint: Hint, value: Decimal, matched: Sequence[tuple[Reading, Quantity]]
    ) -> Outcome | None:
        """Left out if a verb gives the number the other sign, unread if the sign is not clear; None if it is right."""
        if _is_change(name, hint):
            signs = {_direction(reading, each) for reading, each in matched}
            stated = signs.pop() if len(signs) == 1 else None
            if stated and (value < 0) != (stated < 0):
                way = "a decrease" if stated < 0 else "an increase"
                return left_out(f"the sentence says {way}, so it is {-value:f}")
            return None if stated else UNREAD
        is_negative = any(each.values[0] < 0 for _, each in matched)
        if value < 0 and not is_negative:
            return UNREAD
        losses = word_pattern("losses")
        if value > 0 and hint.is_result and any(losses.search(r.folded) for r, _ in matched):
            return UNREAD
        if value > 0 and is_negative and not any(each.values[0] > 0 for _, each in matched):
            return left_out(f"the sentence has {matched[0][1].values[0]:f}")
        return None

    def _role(self, name: str, hint: Hint, matched: Sequence[tuple[Reading, Quantity]]) -> Outcome:
        """Matched, unless the sentences can say the number of something else."""
        passages, kind = self._passages, _kind(matched[0][1])
        values = {each.values for _, each in matched}
        has_others = any(
            _kind(each) == kind and each.values not in values for _, each in self._quantities
        )
        is_clear = (
            not has_others
            and not all(passages.is_of_other(reading, each.start) for reading, each in matched)
            and not self._has_table_scale
            and all(reading.is_plain for reading, _ in matched)
            and (_is_change(name, hint) or not any(_gives_change(*each) for each in matched))
            and not any(reading.says_before("limit", each.start) for reading, each in matched)
            and _fits_figure(name, matched)
        )
        return MATCHED if is_clear else UNREAD

    def _missing_figure(self, name: str, value: Decimal, shown: str) -> Outcome:
        """Left out, unless the sentences may say the figure in words, in another unit, or as the number of something."""
        hint, words = hint_of(name), self._passages.words
        quantities = [each for _, each in self._quantities]
        is_measured = any(
            abs(value) in (abs(one), abs(one).scaleb(-each.scale))
            for each in quantities
            for one in each.values
            if each.unit
        )
        may_be_there = (
            value == 0
            or self._has_table_scale
            or words & word_set("parts_in_words")
            or (hint.is_rank and words & word_set("ranks"))
            or (value == 1 and words & word_set("ones"))
            or (
                value <= _MAX_IN_WORDS
                and any(
                    pattern_of("counted_in_words").search(reading.folded)
                    for reading in self._passages.readings
                )
            )
            or (words & word_set("factors") and _may_be_multiple(hint, value, quantities))
            or (
                hint.unit.startswith("mass")
                and any("GBP" in each.currencies for each in quantities)
            )
            or any(value in reading.labels for reading in self._passages.readings)
            or (not is_measured and contains(shown, self._passages.sentences))
        )
        if may_be_there:
            return UNREAD
        numbers = (each.written_in(r.text) for r, each in self._quantities if each.end)
        return left_out(f"{shown} is not in the cited sentences{instead(numbers)}")

    def read_amount(self, text: str) -> Quantity | None:
        """The amount that the whole text is, such as "38,000 pounds", "-14 %" and "9,000 units a month"."""
        for reading in self._passages.readings:
            for sign in dict.fromkeys((reading.cited.page.decimal_sign, ".")):
                found = find_quantities(text, reading.language, sign, is_english_first=True)
                if len(found) != 1:
                    continue
                [amount] = found
                is_there = any(is_same(amount, each) for _, each in self._quantities)
                if not is_there and sign != ".":
                    continue
                if not amount.end:
                    return amount if contains(text, self._passages.sentences) else None
                rest = tokenize(f"{text[: amount.start]} {text[amount.end :]}")
                codes = {code.lower() for code in amount.currencies}
                known = self._passages.words | word_set("amount_words") | codes
                if all(token.word in known or is_function_word(token.word) for token in rest):
                    return amount
        return None

    def currency(self, text: str) -> Outcome | None:
        """The outcome of the code of a currency, such as "USD"; None if `text` is none, or the sentences have no amount."""
        if not (text.isupper() and len(text) == 3 and is_currency(text)):
            return None
        found = [each.currencies for _, each in self._quantities if each.currencies]
        if not found or contains(text, self._passages.sentences):
            return None
        if not any(text in each for each in found):
            return left_out(f"the sentences have no amount in {text}")
        is_sure = all({text} == each or (text == "USD" and text in each) for each in found)
        return MATCHED if is_sure else UNREAD

    def amount(self, name: str, amount: Quantity, text: str) -> Outcome:
        matched = [(reading, each) for reading, each in self._quantities if is_same(amount, each)]
        value = amount.values[0]
        if not matched:
            if any(amount.values == each.values and not each.unit for _, each in self._quantities):
                return UNREAD
            return self._missing_figure(name, abs(value), text)
        hint = hint_of(name)
        return self._sign(name, hint, value, matched) or self._role(name, hint, matched)

    def computation(self, name: str, text: str) -> Outcome | None:
        """The outcome of a result with its arithmetic, as in "35 = 12 + 23"; None if the text is no arithmetic."""
        written, _, terms = text.partition("=")
        language = self._passages.readings[0].language
        result = find_quantities(written, language, ".", is_english_first=True)
        operands = _read_arithmetic(terms, language)
        if len(result) != 1 or operands is None:
            return None
        computed, numbers, sign = operands
        [shown] = result
        value = shown.values[0].scaleb(-shown.scale)
        places = value.as_tuple().exponent
        step = Decimal((0, (5,), places - 1)) if isinstance(places, int) else Decimal(0)
        exact = (computed, computed * 100, computed.scaleb(-shown.scale))
        if not any(abs(abs(each) - abs(value)) <= step for each in exact):
            return left_out(f"{text} is computed wrongly")
        figures = [
            (
                _kind(each),
                {abs(one.scaleb(-power)) for one in each.values for power in (0, each.scale)},
            )
            for _, each in self._quantities
        ]
        kinds = {kind for kind, values in figures if numbers & values}
        same_kind = [values for kind, values in figures if kind in kinds]
        is_clear = (
            # The operands are in the sentences, and all that is there of their kind.
            numbers <= set[Decimal]().union(*same_kind)
            and all(numbers & values for values in same_kind)
            and bool(set(table("result_names").get(sign, "").split()) & set(name_parts(name)))
        )
        return MATCHED if is_clear else UNREAD


def _has_unit(name: str, reading: Reading, quantity: Quantity) -> bool:
    units, parts = lexicon(reading.language).units, name_parts(name)
    phrases = (*parts, *map(" ".join, pairwise(parts)))
    return quantity.unit in {units[phrase] for phrase in phrases if phrase in units}


def _may_be_multiple(hint: Hint, value: Decimal, quantities: Sequence[Quantity]) -> bool:
    return (
        hint.unit in (PERCENT, SHARE)
        or hint.is_change
        or any(
            abs(value) in (each.values[0] * factor, each.values[0] / factor)
            for each in quantities
            for factor in (2, 3, 4, 10)
        )
    )


def _fits_figure(name: str, matched: Sequence[tuple[Reading, Quantity]]) -> bool:
    unit = matched[0][1].unit
    parts = _telling_parts(name, unit)
    return not word_set("scopes").intersection(name_parts(name)) and any(
        all(_has_part(part, reading, each) for part in parts) for reading, each in matched
    )


def _has_part(part: str, reading: Reading, quantity: Quantity) -> bool:
    if part == "age":
        near = reading.folded[max(0, quantity.start - 24) : quantity.end + 24]
        return bool(pattern_of("age").search(near))
    if part.isdigit():
        return {each.first.year for each in reading.moments} == {int(part)}
    if len(part) < 4:
        return part in reading.words
    return any(word.startswith(role_stems(part)) for word in reading.words)


def _is_change(name: str, hint: Hint) -> bool:
    return hint.is_change or bool(pattern_of("change_names").search(fold(name)))


def _gives_change(reading: Reading, quantity: Quantity) -> bool:
    return reading.says_before("by", quantity.start) and _direction(reading, quantity) != 0


def _kind(quantity: Quantity) -> str:
    return PERCENT if quantity.unit in PERCENT_PER else quantity.unit


def _telling_parts(name: str, unit: str) -> list[str]:
    """The words of a property's name that its sentence must have: those that say more than its unit does."""
    measured = unit.rpartition("-")[2]
    silent = set(word_set("general_parts"))
    silent |= {"change", "growth"} if unit in PERCENT_PER else set()
    silent |= {"duration", "distance", "length", "time"} if measured else set()
    return [
        part
        for part in name_parts(name)
        if part not in silent and not (measured and part.startswith(measured[:4]))
    ]


def _direction(reading: Reading, quantity: Quantity) -> int | None:
    """-1 if the quantity is a decrease by its sentence, 1 for an increase, 0 if nothing tells, None if it is unclear."""
    if quantity.values[0] < 0:
        return -1
    start, end = clause_around(reading.folded, quantity.start, quantity.end)
    for text in (reading.folded[start:end], reading.folded):
        down, up = (
            any(word_pattern(name).search(text) for name in names)
            for names in (("decreases", "less"), ("increases", "more"))
        )
        if down or up:
            return None if down and up else -1 if down else 1
    return 0


_NUMBER: Final = re.compile(r"(?P<number>\d[\d.,' \u00a0]*\d|\d)(?:\s?[^\W\d_]+|\s?[%$€£¥])*")
_PERCENT_OF: Final = re.compile(r"(\d)\s?(?:%|percent|Prozent)\s(?:of|von|de|di|del)\s")
_SIGNS: Final = str.maketrans("−×x·÷:", "-***//")
_OPERATIONS: Final[dict[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_MAX_ARITHMETIC_CHARS: Final = 200


def _read_arithmetic(text: str, language: str | None) -> tuple[Decimal, set[Decimal], str] | None:
    """The result, the operands and the sign, if there is one, of written arithmetic; None if `text` is none."""
    operands: list[Decimal] = []

    def place_of(match: re.Match[str]) -> str:
        number = match["number"].strip()
        sign = "," if language != "en" and "," in number and "." not in number else "."
        operands.append(read_number(number, sign)[0])
        return f" {len(operands) - 1} "

    def compute(node: ast.expr) -> Decimal:
        match node:
            case ast.Constant(int(place)):
                return operands[place]
            case ast.BinOp(left, operation, right) if type(operation) in _OPERATIONS:
                return Decimal(_OPERATIONS[type(operation)](compute(left), compute(right)))
        raise ValueError("no arithmetic")

    written = _PERCENT_OF.sub(r"\1 / 100 * ", text.strip()[:_MAX_ARITHMETIC_CHARS])
    written = _NUMBER.sub(place_of, written).translate(_SIGNS).strip()
    try:
        result = compute(ast.parse(written, mode="eval").body)
    except (ValueError, SyntaxError, ArithmeticError, RecursionError, MemoryError):
        return None
    signs = {*"+-*/"}.intersection(written)
    if len(set(operands)) < 2:
        return None
    return result, set(operands), signs.pop() if len(signs) == 1 else ""
