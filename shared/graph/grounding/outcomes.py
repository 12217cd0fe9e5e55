"""Outcomes of values, and how a claimed number compares with one of a sentence. Pure."""

import re
from collections.abc import Iterable, Sequence
from decimal import ROUND_HALF_DOWN, ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal
from enum import IntEnum
from typing import Any, Final, NamedTuple

from shared.graph.grounding.quantities import FRACTION, Quantity
from shared.graph.grounding.units import SHARE, Hint, convert
from shared.graph.grounding.words import (
    PER_MILLE,
    PERCENT,
    POINTS,
    alternatives,
    word_pattern,
    word_set,
)


class Level(IntEnum):
    """The outcome of a value. The greater, the worse."""

    MATCHED = 0
    """The cited sentences have it, and nothing in it is left to interpretation."""
    COMPLETED = 1
    """The cited sentences have a part of it, and its page or the graph has the rest."""
    UNREAD = 2
    """Nothing speaks against it; the rules cannot read all of it."""
    LEFT_OUT = 3
    """It has a figure, date or name that the cited sentences do not have, or that they exclude."""


class Outcome(NamedTuple):
    level: Level
    reason: str = ""
    """Why it is unread or left out."""
    value: Any = None
    """What a completed value is."""


MATCHED: Final = Outcome(Level.MATCHED)
_MAX_LISTED: Final = 5


def left_out(reason: str) -> Outcome:
    return Outcome(Level.LEFT_OUT, reason)


def unread(reason: str) -> Outcome:
    return Outcome(Level.UNREAD, reason)


def worst(outcomes: Iterable[Outcome]) -> Outcome:
    """The worst of them; matched if there are none."""
    return max(outcomes, key=lambda outcome: outcome.level, default=MATCHED)


def listed(values: Iterable[Any]) -> str:
    """The first of the values, for a reason."""
    return ", ".join(str(value) for value in list(values)[:_MAX_LISTED])


def instead(values: Iterable[Any]) -> str:
    """The end of a reason: what the sentences have; empty if that is nothing."""
    shown = list(dict.fromkeys(values))
    return f"; they have {listed(shown)}" if shown else ""


_JOINTS: Final = re.compile(rf"(?:\s+(?:{alternatives(word_set('joints'))}))*[\s\u00a0€$£-]*$")
_NEAR_CHARS: Final = 18
"""Before a number, in which a word belongs to it."""
_MAX_JOINTS_CHARS: Final = 40
_AFTER_CHARS: Final = 25


class Match(IntEnum):
    """How well a quoted number supports a claimed one."""

    NONE = 0
    WEAK = 1
    """The number is there, but not clearly in the unit."""
    ROUNDED = 2
    EXACT = 3


_MAX_BITS: Final = 4096


def to_decimal(value: float | Decimal) -> Decimal | None:
    """None for NaN, infinity and integers of more digits than Python writes."""
    if isinstance(value, int) and value.bit_length() > _MAX_BITS:
        return None
    number = Decimal(str(value))
    return number if number.is_finite() else None


def match_number(hint: Hint, value: Decimal, quantity: Quantity) -> Match:
    """How well `quantity` supports `value`, which has the scale of its property."""
    unit = quantity.unit
    if hint.currency:
        if unit == "currency":
            return _compare(value, quantity) if hint.currency in quantity.currencies else Match.NONE
        return Match.NONE if unit else min(_compare(value, quantity), Match.WEAK)
    if hint.unit in (PERCENT, SHARE):
        best = _match_percentage(value, quantity)
        if hint.unit == SHARE and not unit:
            # A "ratio" may be a plain number.
            best = max(best, min(_compare(value, quantity), Match.WEAK))
        if hint.unit == SHARE and abs(value) <= 1:
            best = max(best, _match_percentage(value * 100, quantity))
        return best
    if hint.unit:
        # "pounds" can be money or mass.
        is_pounds = hint.unit == "mass-pound" and "GBP" in quantity.currencies
        if not unit or is_pounds:
            return min(_compare(value, quantity), Match.WEAK)
        converted = [convert(each, unit, hint.unit) for each in quantity.values]
        return _compare(value, quantity, [each for each in converted if each is not None])
    if unit in (PERCENT, POINTS, FRACTION, PER_MILLE):
        best = max(_compare(value, quantity), _match_percentage(value * 100, quantity))
        return min(best, Match.WEAK)
    best = _compare(value, quantity)
    if best is Match.ROUNDED and not quantity.scale and not unit and abs(value) < MIN_ROUNDED:
        best = Match.WEAK
    # "120 MW" does not say that there are 120 of something.
    fits = not unit or (hint.is_money if unit == "currency" else hint.is_measure)
    return best if fits else min(best, Match.WEAK)


_PERCENT_PER: Final = {PERCENT: Decimal(1), FRACTION: Decimal(100), PER_MILLE: Decimal("0.1")}


def _match_percentage(percentage: Decimal, quantity: Quantity) -> Match:
    factor = _PERCENT_PER.get(quantity.unit)
    if factor is not None:
        # "a third" is 0.3, too.
        min_digits = 1 if quantity.unit == FRACTION and abs(percentage) < 50 else _MIN_DIGITS
        return _compare(
            percentage, quantity, [each * factor for each in quantity.values], min_digits
        )
    return Match.NONE if quantity.unit else min(_compare(percentage, quantity), Match.WEAK)


_MIN_DIGITS: Final = 2
"""Of a number that was rounded."""
_MAX_ROUNDING: Final = Decimal("0.01")
"""Part of the quoted number by which a rounded one may differ; more for a fraction in words."""
MIN_ROUNDED: Final = 100_000
"""Below, a number without a unit may be an identifier: a postal code, a year, a house number."""
_MAX_WEAK_ROUNDING: Final = Decimal("0.05")
_ROUNDING_MODES: Final = (ROUND_HALF_UP, ROUND_HALF_EVEN, ROUND_HALF_DOWN)


def _compare(
    value: Decimal,
    quantity: Quantity,
    values: Sequence[Decimal] | None = None,
    min_digits: int = _MIN_DIGITS,
) -> Match:
    """Whether `value` is `quantity`, or `quantity` rounded to the digits of `value`. `values` replace its own."""
    quoted_values = quantity.values if values is None else values
    matches = [_compare_values(value, quoted, min_digits) for quoted in quoted_values]
    best = max(matches, default=Match.NONE)
    return min(best, Match.WEAK) if len(quantity.values) > 1 else best


def _compare_values(value: Decimal, quoted: Decimal, min_digits: int) -> Match:
    if value == quoted:
        return Match.EXACT
    digits = value.normalize().as_tuple()
    quoted_digits = quoted.normalize().as_tuple().digits
    if not min_digits <= len(digits.digits) < len(quoted_digits) or not isinstance(
        digits.exponent, int
    ):
        return Match.NONE
    tolerance = _MAX_ROUNDING if min_digits == _MIN_DIGITS else _MAX_ROUNDING * 10
    if abs(value - quoted) > abs(quoted) * _MAX_WEAK_ROUNDING:
        return Match.NONE
    step = Decimal((0, (1,), digits.exponent))
    is_rounded = any(quoted.quantize(step, mode) == value for mode in _ROUNDING_MODES)
    if is_rounded and abs(value - quoted) > abs(quoted) * tolerance:
        # "1.2 million" for 1,234,567, but not 170,000 for 165,000.
        return Match.WEAK if len(quoted_digits) > len(digits.digits) + 1 else Match.NONE
    return Match.ROUNDED if is_rounded else Match.NONE


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
    return any(
        _compare_values(abs(one), abs(other), _MIN_DIGITS) > Match.WEAK
        for one in claim.values
        for other in values
        if other is not None
    )


_SMALL_WORD: Final = re.compile(r"^(?:de|in|en|a)\s")
_COMPARED: Final = re.compile(r"(?:down|lower|less) (?:from|than)")
"""After a number: "grew 5%, down from 8%"."""


def is_next(table: str, folded: str, quantity: Quantity) -> bool:
    """Whether a word of the table belongs to the number, as in "fell by 5%" and "5% less"."""
    before = folded[max(0, quantity.start - _MAX_JOINTS_CHARS) : quantity.start]
    after = _SMALL_WORD.sub("", folded[quantity.end :][:_AFTER_CHARS].lstrip(" \u00a0.,;:!?"))
    return bool(
        word_pattern(table).search(_JOINTS.sub("", before)[-_NEAR_CHARS:])
        or (word_pattern("less").match(after) and not _COMPARED.match(after))
    )


_MAX_ERROR: Final = Decimal("0.05")
"""Part of a number by which a rounded one may differ."""
_MAX_ERROR_OF_PERCENTAGE: Final = Decimal("0.35")
_MAX_ERROR_OF_ZEROS: Final = Decimal("0.02")
"""The same where the zeros at the end were rounded, as in "1,200" for 1,214."""
_ALMOST_NOTHING: Final = Decimal("0.005")
_HALF: Final = Decimal("0.5")


def is_rounded(
    written: Decimal, step: Decimal, exact: Decimal, *, is_percentage: bool = False
) -> bool:
    """Whether `written` is `exact`, rounded to the digits that are written. `step` is one of its last digit."""
    if written == exact:
        return True
    if not written or not exact:
        return False
    error = abs(written - exact)
    part = error / abs(exact)
    if error <= step * _HALF:
        return part <= (_MAX_ERROR_OF_PERCENTAGE if is_percentage else _MAX_ERROR)
    digits = written.normalize().as_tuple()
    assert isinstance(digits.exponent, int)
    if error > Decimal(10) ** digits.exponent * _HALF:
        return False
    return part <= (_MAX_ERROR_OF_ZEROS if len(digits.digits) > 1 else _ALMOST_NOTHING)
