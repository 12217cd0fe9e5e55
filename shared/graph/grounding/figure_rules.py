"""The outcomes of numbers, amounts and computations that a write claims. Pure."""

import ast
import operator
import re
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from enum import IntEnum
from typing import Any, Final

from babel.numbers import is_currency

from shared.graph.grounding.date_rules import DateRules, clause_around, name_parts
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
    FRACTION,
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
    POINTS,
    alternatives,
    fold,
    is_function_word,
    lexicon,
    role_stems,
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
"""Part of the quoted number by which a rounded one may differ; more for a fraction in words."""
_MIN_ROUNDED: Final = 100_000
"""Below, a number without a unit may be an identifier: a postal code, a year, a house number."""
_MAX_WEAK_ROUNDING: Final = Decimal("0.05")


def _match_number(hint: Hint, value: Decimal, quantity: Quantity) -> Match:
    """How well `quantity` supports `value`, which has the scale of its property."""
    unit, values = quantity.unit, quantity.values
    is_clear = len(values) == 1
    if hint.currency and unit == "currency":
        best = _compare(value, values) if hint.currency in quantity.currencies else Match.NONE
    elif hint.unit in (PERCENT, SHARE):
        best = _match_percentage(value, quantity)
        if hint.unit == SHARE and abs(value) <= 1:
            best = max(best, _match_percentage(value * 100, quantity))
    elif hint.unit:
        # "pounds" can be money or mass.
        is_pounds = hint.unit == "mass-pound" and "GBP" in quantity.currencies
        is_stated = bool(unit) and not is_pounds
        converted = [convert(each, unit, hint.unit) if is_stated else each for each in values]
        best = _compare(value, [each for each in converted if each is not None])
        is_clear &= is_stated
    elif unit in PERCENT_PER or unit == POINTS:
        best, is_clear = (
            max(_compare(value, values), _match_percentage(value * 100, quantity)),
            False,
        )
    else:
        best = _compare(value, values)
        # "120 MW" does not say that there are 120 of something.
        is_clear &= not unit or (hint.is_money if unit == "currency" else hint.is_measure)
        is_clear &= (
            best is Match.EXACT or bool(quantity.scale or unit) or abs(value) >= _MIN_ROUNDED
        )
    return best if is_clear else min(best, Match.WEAK)


def _match_percentage(percentage: Decimal, quantity: Quantity) -> Match:
    factor = PERCENT_PER.get(quantity.unit)
    if factor is not None:
        # "a third" is 0.3, too.
        min_digits = 1 if quantity.unit == FRACTION and abs(percentage) < 50 else _MIN_DIGITS
        return _compare(percentage, [each * factor for each in quantity.values], min_digits)
    return Match.NONE if quantity.unit else min(_compare(percentage, quantity.values), Match.WEAK)


def _compare(value: Decimal, values: Iterable[Decimal], min_digits: int = _MIN_DIGITS) -> Match:
    """Whether `value` is one of `values`, or one of them rounded to the digits of `value`."""
    return max((_compare_one(value, each, min_digits) for each in values), default=Match.NONE)


def _compare_one(value: Decimal, quoted: Decimal, min_digits: int) -> Match:
    if value == quoted:
        return Match.EXACT
    digits = value.normalize().as_tuple()
    more_digits = len(quoted.normalize().as_tuple().digits) - len(digits.digits)
    error = abs(value - quoted)
    if (
        len(digits.digits) < min_digits
        or more_digits <= 0
        or not isinstance(digits.exponent, int)
        or error > abs(quoted) * _MAX_WEAK_ROUNDING
        or error * 2 > Decimal((0, (1,), digits.exponent))
    ):
        return Match.NONE
    tolerance = _MAX_ROUNDING if min_digits == _MIN_DIGITS else _MAX_ROUNDING * 10
    if error <= abs(quoted) * tolerance:
        return Match.ROUNDED
    # "1.2 million" for 1,234,567, but not 170,000 for 165,000.
    return Match.WEAK if more_digits > 1 else Match.NONE


def is_same(claim: Quantity, quoted: Quantity) -> bool:
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
    known = [abs(each) for each in values if each is not None]
    return any(_compare(abs(each), known) > Match.WEAK for each in claim.values)


_JOINTS: Final = re.compile(rf"(?:\s+(?:{alternatives(word_set('joints'))}))*[\s\u00a0€$£-]*$")
_NEAR_CHARS: Final = 18
"""Before a number, in which a word belongs to it."""
_MAX_JOINTS_CHARS: Final = 40
_AFTER_CHARS: Final = 25
_LIKELY_YEARS: Final = range(1900, 2101)
_MAX_IN_WORDS: Final = 3
_AGE: Final = re.compile(
    r"(?:aged|age of|at|alter von|ans|anos|anni|jahre|jahren|year-old|years old|-jahrig|,)\s*\(?\d"
    r"|\d\s*(?:,|\)|ans|anos|anni|jahr|-year|years)"
)
_LIMIT: Final = re.compile(
    r"(?:fewer than|less than|more than|over|under|below|above|up to|at most|at least|weniger als|mehr als|unter|uber|bis zu"
    r"|hochstens|mindestens|moins de|plus de|jusqu'a|menos de|mas de|hasta|meno di|piu di|fino a|mais de)\s?[$€£]?$"
)
_BY: Final = re.compile(r"(?<!\w)(?:by|um)(?: rund| about| etwa| nearly| fast)? [$€£]?$")
_COUNTED_IN_WORDS: Final = re.compile(
    r"(?<!\w)(?:once|twice|thrice|pair|both|beide\w*|\w{3,}mal|fois|veces|volte|vezes|zweite\w*|folgt|second|third|erste\w*|deuxieme"
    r"|segund[oa]|second[oa]|double|doppelt\w*|brace|couple|hat-trick|hattrick)(?!\w)"
)
_RESULT_NAMES: Final = {
    "+": frozenset(["total", "sum", "all", "cast", "together", "combined"]),
    "-": frozenset(["difference", "margin", "gap", "lead"]),
    "/": frozenset(["share", "ratio", "rate", "quota"]),
}
_CHANGE_NAMES: Final = re.compile(
    r"change|growth|wachstum|anderung|aenderung|variation|variaci|variac|variazion|crescita|evolution|croissance|crecimiento|increase|decrease"
)


_ANY_NUMBER: Final = re.compile(r"\d[\d.,' \u00a0\u202f’]*")


def _has_digits(value: Decimal, texts: Sequence[str]) -> bool:
    """Whether a text has a number with the digits of `value`, but for zeros at the end and the decimal sign."""
    wanted = "".join(map(str, value.normalize().as_tuple().digits)).strip("0")
    found = {
        re.sub(r"\D", "", match).strip("0") for text in texts for match in _ANY_NUMBER.findall(text)
    }
    return wanted in found


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
        """Whether the sentences or their heading give a scale for a table."""
        return any(
            table_scale(text) for text in (*self._passages.sentences, *self._passages.around)
        )

    def number(self, name: str, value: Decimal) -> Outcome:
        hint = hint_of(name)
        if not self._passages.is_readable:
            is_latin = not any(
                each.isalpha() and each > "\u024f"
                for text in self._passages.sentences
                for each in text
            )
            if is_latin and not _has_digits(value, self._passages.sentences):
                return left_out(f"{value:f} is not in the cited sentences")
            return UNREAD
        if value % 1 == 0 and int(value) in _LIKELY_YEARS and not hint.unit:
            moments = self._dates.moments
            if years := [
                (reading, each)
                for reading, each in moments
                if int(value) in (each.first.year, each.last.year)
            ]:
                return self._dates.year(name, int(value), years)
            around = find_dates("\n".join(self._passages.around), None)
            if any(int(value) == each.year for each in around):
                return UNREAD
            if hint.is_year and not self._candidates(name, hint, value):
                stands = instead(each.first.year for _, each in moments if each.first.year)
                return left_out(f"the year {value:f} is not in the cited sentences{stands}")
        return self._figure(name, hint, value)

    def _candidates(
        self, name: str, hint: Hint, value: Decimal
    ) -> list[tuple[Reading, Quantity, Match]]:
        scaled = abs(value.scaleb(hint.scale))
        found: list[tuple[Reading, Quantity, Match]] = []
        for reading, each in self._quantities:
            match = max(_match_number(hint, scaled, each), _match_number(hint, -scaled, each))
            if match is Match.WEAK and not hint.unit and _has_unit(name, reading, each):
                match = Match.EXACT if scaled in map(abs, each.values) else match
            if match is not Match.NONE:
                found.append((reading, each, match))
        return found

    def _figure(self, name: str, hint: Hint, value: Decimal) -> Outcome:
        found = self._candidates(name, hint, value)
        if not found:
            return self._missing_figure(name, value, f"{value:f}")
        best = max(match for _, _, match in found)
        matched = [(reading, each) for reading, each, match in found if match is best]
        if (sign := self._sign(name, hint, value, matched)) is not None:
            return sign
        return UNREAD if best is Match.WEAK else self._role(name, hint, matched)

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
        kind = _kind(matched[0][1])
        values = {each.values for _, each in matched}
        others = [
            each
            for _, each in self._quantities
            if _kind(each) == kind and each.values not in values
        ]
        is_clear = (
            (not others or self._is_counted(name, matched, others))
            and all(len(each.values) == 1 for _, each in matched)
            and not all(
                self._passages.is_of_other(reading)
                or self._passages.is_nearer_to_other(reading, each.start)
                for reading, each in matched
            )
            and not self._has_table_scale
            and all(reading.is_plain for reading, _ in matched)
            and (
                _is_change(name, hint)
                or not any(_gives_change(reading, each) for reading, each in matched)
            )
            and not any(
                _LIMIT.search(reading.folded[max(0, each.start - 24) : each.start])
                for reading, each in matched
            )
            and _fits_figure(name, matched)
        )
        return MATCHED if is_clear else UNREAD

    def _is_counted(
        self, name: str, matched: Sequence[tuple[Reading, Quantity]], others: Sequence[Quantity]
    ) -> bool:
        """Whether the noun after the number says what the property's name says: "3,900 people at seven mills"."""
        parts = _telling_parts(name, "")
        if len(parts) != 1 or any(each.unit for _, each in matched):
            return False
        nouns = {id(each): _noun_after(reading, each) for reading, each in self._quantities}
        # Another number with no noun of its own may count the same.
        if any(each.end and is_function_word(nouns[id(each)] or "the") for each in others):
            return False
        return any((nouns[id(each)] or "").startswith(role_stems(parts[0])) for _, each in matched)

    def _missing_figure(self, name: str, value: Decimal, shown: str) -> Outcome:
        """Left out, unless the sentences may say the figure in words, in another unit, or as the number of something."""
        hint = hint_of(name)
        words, quantities = self._passages.words, [each for _, each in self._quantities]
        is_part = hint.unit in (PERCENT, SHARE)
        is_measured = any(
            each.unit and abs(value) in (abs(one), abs(one).scaleb(-each.scale))
            for each in quantities
            for one in each.values
        )
        may_be_there = (
            value == 0
            or self._has_table_scale
            or words & word_set("parts_in_words")
            or (is_part and words & word_set("fraction_words"))
            or (hint.is_rank and words & word_set("ranks"))
            or (value == 1 and words & (word_set("ones") | {"a", "an"}))
            or (
                value <= _MAX_IN_WORDS
                and any(_COUNTED_IN_WORDS.search(each.folded) for each in self._passages.readings)
            )
            or (
                words & word_set("factors")
                and (
                    is_part
                    or hint.is_change
                    or any(
                        abs(value) in (each.values[0] * factor, each.values[0] / factor)
                        for each in quantities
                        for factor in (2, 3, 4, 10)
                    )
                )
            )
            or any(_may_convert(hint, each) for each in quantities)
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
        matched = [
            (reading, each)
            for reading, each in self._quantities
            if is_same(amount, each) or _is_same_part(amount, each)
        ]
        value = amount.values[0]
        if not matched:
            is_bare = any(
                not each.unit and each.values == amount.values for _, each in self._quantities
            )
            return UNREAD if is_bare else self._missing_figure(name, abs(value), text)
        hint = hint_of(name)
        if (sign := self._sign(name, hint, value, matched)) is not None:
            return sign
        if all(_kind(amount) != _kind(each) for _, each in matched):
            return UNREAD
        return self._role(name, hint, matched)

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
                {abs(one.scaleb(-scale)) for one in each.values for scale in (0, each.scale)},
            )
            for _, each in self._quantities
        ]
        kinds = {kind for kind, values in figures if numbers & values}
        is_clear = (
            # The operands are in the sentences, and all that is there of their kind.
            numbers <= set[Decimal]().union(*(values for _, values in figures))
            and all(numbers & values for kind, values in figures if kind in kinds)
            and bool(_RESULT_NAMES.get(sign, frozenset()) & set(name_parts(name)))
        )
        return MATCHED if is_clear else UNREAD


def _has_unit(name: str, reading: Reading, quantity: Quantity) -> bool:
    """Whether a word of the property's name is the unit of the quantity."""
    units, parts = lexicon(reading.language).units, name_parts(name)
    phrases = (
        " ".join(parts[first:last])
        for first in range(len(parts))
        for last in range(first + 1, first + 3)
    )
    return quantity.unit in {units[phrase] for phrase in phrases if phrase in units}


def _noun_after(reading: Reading, quantity: Quantity) -> str | None:
    """The word after the number, if there is one."""
    following = tokenize(reading.text[quantity.end :])[:1] if quantity.end else ()
    return following[0].word if following else None


def _may_convert(hint: Hint, quantity: Quantity) -> bool:
    """Whether the unit may be that of the property in a way that is not computed: durations, and pounds."""
    is_duration = hint.unit.startswith("duration") and quantity.unit.startswith("duration")
    return is_duration or (hint.unit.startswith("mass") and "GBP" in quantity.currencies)


def _fits_figure(name: str, matched: Sequence[tuple[Reading, Quantity]]) -> bool:
    """Whether a sentence has a word for each telling part of the property's name."""
    unit = matched[0][1].unit
    parts = _telling_parts(name, unit)
    if not parts:
        stems = role_stems(name)
        return bool(unit) or any(word.startswith(stems) for r, _ in matched for word in r.words)
    return not word_set("scopes").intersection(name_parts(name)) and any(
        all(_has_part(part, reading, each) for part in parts) for reading, each in matched
    )


def _has_part(part: str, reading: Reading, quantity: Quantity) -> bool:
    if part == "age":
        near = reading.folded[max(0, quantity.start - 24) : quantity.end + 24]
        return bool(_AGE.search(near))
    if part.isdigit():
        return {each.first.year for each in reading.moments} == {int(part)}
    if len(part) < 4:
        return part in reading.words
    return any(word.startswith(role_stems(part)) for word in reading.words)


def _is_change(name: str, hint: Hint) -> bool:
    """Whether the property is the change of something, which has a sign."""
    return hint.is_change or bool(_CHANGE_NAMES.search(fold(name)))


def _gives_change(reading: Reading, quantity: Quantity) -> bool:
    """Whether the sentence says by how much something rose or fell, and not how much it is."""
    if _BY.search(reading.folded[max(0, quantity.start - 12) : quantity.start]):
        return _direction(reading, quantity) != 0
    return (quantity.unit in PERCENT_PER or quantity.unit == POINTS) and (
        _is_next("decreases", reading.folded, quantity)
        or _is_next("increases", reading.folded, quantity)
    )


def _is_same_part(claimed: Quantity, quoted: Quantity) -> bool:
    """Whether a percentage is a part that the sentence has in words, such as "a fifth"."""
    factor = PERCENT_PER.get(quoted.unit)
    return (
        factor is not None
        and claimed.unit == PERCENT
        and any(
            abs(one) == abs(other) * factor for one in claimed.values for other in quoted.values
        )
    )


def _kind(quantity: Quantity) -> str:
    """Its unit; the same for all ways to write a part of a whole."""
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
    if quantity.values[0] < 0 or _is_next("decreases", reading.folded, quantity):
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
_OPERATIONS: Final[dict[type[ast.operator], tuple[str, Callable[[Any, Any], Any]]]] = {
    ast.Add: ("+", operator.add),
    ast.Sub: ("-", operator.sub),
    ast.Mult: ("*", operator.mul),
    ast.Div: ("/", operator.truediv),
}
_MAX_ARITHMETIC_CHARS: Final = 200


def _read_arithmetic(text: str, language: str | None) -> tuple[Decimal, set[Decimal], str] | None:
    """The result, the operands and the sign of written arithmetic; None if `text` is none.

    The sign is "" if there are several kinds of operations.
    """
    operands: list[Decimal] = []
    signs: set[str] = set()

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
                sign, function = _OPERATIONS[type(operation)]
                signs.add(sign)
                return Decimal(function(compute(left), compute(right)))
        raise ValueError("no arithmetic")

    written = _PERCENT_OF.sub(r"\1 / 100 * ", text.strip()[:_MAX_ARITHMETIC_CHARS])
    try:
        parsed = ast.parse(_NUMBER.sub(place_of, written).translate(_SIGNS).strip(), mode="eval")
        result = compute(parsed.body)
    except (ValueError, SyntaxError, ArithmeticError, RecursionError, MemoryError):
        return None
    if len(set(operands)) < 2:
        return None
    return result, set(operands), signs.pop() if len(signs) == 1 else ""


_SMALL_WORD: Final = re.compile(r"^(?:de|in|en|a)\s")
_COMPARED: Final = re.compile(r"(?:down|lower|less) (?:from|than)")
"""After a number: "grew 5%, down from 8%"."""


def _is_next(table: str, folded: str, quantity: Quantity) -> bool:
    """Whether a word of the table belongs to the number, as in "fell by 5%" and "5% less"."""
    before = folded[max(0, quantity.start - _MAX_JOINTS_CHARS) : quantity.start]
    after = _SMALL_WORD.sub("", folded[quantity.end :][:_AFTER_CHARS].lstrip(" \u00a0.,;:!?"))
    return bool(
        word_pattern(table).search(_JOINTS.sub("", before)[-_NEAR_CHARS:])
        or (word_pattern("less").match(after) and not _COMPARED.match(after))
    )
