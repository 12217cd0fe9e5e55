"""What follows by arithmetic from numbers of the same paragraph: computed again, and compared. Pure."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import cache
from itertools import combinations, permutations, product
from typing import Final

from shared.graph.grounding.known import CURRENCY
from shared.graph.grounding.outcomes import is_rounded
from shared.graph.grounding.units import convert
from shared.graph.grounding.words import PERCENT, POINTS, alternatives, word_set
from shared.graph.grounding.written import TIMES, Number, Sentence

BASIS_POINTS: Final = "basis points"
_MAX_OPERANDS: Final = 14
_SIGNS: Final = re.compile(r"[=≈/÷×*+−]|\s[-–]\s")
_DURATION: Final = "duration-"
_CHANGES: Final = ("increases", "decreases", "downs", "gaps")


@dataclass(frozen=True)
class Operand:
    """A number of the paragraph that is known; `values` are the known one and the one that is written."""

    values: tuple[Decimal, ...]
    unit: str
    currencies: frozenset[str]
    sentence: int
    start: int
    element: int
    written: str
    property: str = ""

    def is_like(self, other: "Operand") -> bool:
        """Whether both measure the same."""
        if self.unit == other.unit == CURRENCY:
            return bool(self.currencies & other.currencies)
        if not self.unit or not other.unit:
            return self.unit == other.unit
        return convert(Decimal(1), other.unit, self.unit) is not None


@dataclass(frozen=True)
class Result:
    """A number that follows, as computed from each of the values of its operands; `sign` is that of a change."""

    values: tuple[Decimal, ...]
    what: str
    """Such as "the growth from 812 to 934.5"."""
    operands: tuple[Operand, ...]
    sign: int = 0
    needs_word: str = ""
    """The table of which the sentence must have a word, unless the operands are all that it has."""


def derive(number: Number, sentence: Sentence, operands: Sequence[Operand]) -> list[Result]:
    """Everything of the kind of `number` that follows from the operands."""
    known = list(operands)[-_MAX_OPERANDS:]
    if number.unit == TIMES:
        return list(_ratios(known))
    if number.unit == PERCENT:
        return [*_growths(known), *_shares(known), *_percentages(known)]
    if number.unit in (POINTS, BASIS_POINTS):
        return list(_points(known, number.unit))
    return list(_amounts(number, sentence, known))


def follows(number: Number, result: Result, *, limit: str = "") -> bool:
    """Whether `number` is one of the values of `result`, or a limit that it keeps."""
    return any(
        is_within(abs(value), step, abs(exact), limit, number.unit)
        for value, step in number.readings
        for exact in result.values
    )


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


def _compute(operands: Sequence[Operand], function: Callable[..., Decimal]) -> tuple[Decimal, ...]:
    """The function of all the operands' known values, and of all that are written; empty if it has none."""
    found: list[Decimal] = []
    for values in _combined(operands):
        try:
            found.append(function(*values))
        except (InvalidOperation, ZeroDivisionError):
            continue
    return tuple(dict.fromkeys(found))


def _combined(operands: Sequence[Operand]) -> Iterator[tuple[Decimal, ...]]:
    """Values in the unit of the first operand."""
    units = [_in_unit_of(operands[0], operand) for operand in operands]
    if len(operands) == 2:
        yield from product(*units)
        return
    yield tuple(values[0] for values in units)
    yield tuple(values[-1] for values in units)


def _in_unit_of(first: Operand, operand: Operand) -> list[Decimal]:
    if operand.unit in ("", CURRENCY, first.unit):
        return list(operand.values)
    converted = (convert(value, operand.unit, first.unit) for value in operand.values)
    return [value for value in converted if value is not None] or list(operand.values)


def _pairs(operands: Sequence[Operand]) -> Iterator[tuple[Operand, Operand]]:
    return ((one, other) for one, other in permutations(operands, 2) if one.is_like(other))


def _ratios(operands: Sequence[Operand]) -> Iterator[Result]:
    for one, other in _pairs(operands):
        values = _compute((one, other), lambda a, b: a / b)
        yield Result(values, f"{one.written} / {other.written}", (one, other))


def _growths(operands: Sequence[Operand]) -> Iterator[Result]:
    for one, other in _pairs(operands):
        values = _compute((one, other), lambda a, b: (b - a) / a * 100)
        if values:
            what = f"the change from {one.written} to {other.written}"
            yield Result(values, what, (one, other), 1 if values[0] > 0 else -1)


def _shares(operands: Sequence[Operand]) -> Iterator[Result]:
    for one, other in _pairs(operands):
        values = tuple(
            value for value in _compute((one, other), lambda a, b: a / b * 100) if 0 < value < 100
        )
        yield Result(values, f"{one.written} / {other.written}", (one, other))


def _percentages(operands: Sequence[Operand]) -> Iterator[Result]:
    known = [operand for operand in operands if operand.unit == PERCENT]
    for operand in known:
        rest = _compute((operand,), lambda a: 100 - a)
        yield Result(rest, f"100 % − {operand.written}", (operand,), needs_word="remainders")
    yield from _totals(known)


def _points(operands: Sequence[Operand], unit: str) -> Iterator[Result]:
    factor = 100 if unit == BASIS_POINTS else 1
    known = [operand for operand in operands if operand.unit == PERCENT]
    for one, other in combinations(known, 2):
        values = _compute((one, other), lambda a, b: abs(a - b) * factor)
        yield Result(values, f"the difference of {one.written} and {other.written}", (one, other))


def _amounts(number: Number, sentence: Sentence, operands: Sequence[Operand]) -> Iterator[Result]:
    known = [operand for operand in operands if _gives(number, operand)]
    for one, other in combinations(known, 2):
        if one.is_like(other):
            values = _compute((one, other), lambda a, b: abs(a - b))
            what = f"the difference of {one.written} and {other.written}"
            yield Result(_in_unit(values, one, number), what, (one, other), needs_word="changes")
    for result in _totals(known):
        values = _in_unit(result.values, result.operands[0], number)
        yield Result(values, result.what, result.operands, needs_word=result.needs_word)
    if _has_sign_or(sentence, "quotients"):
        for one, other in permutations(operands, 2):
            # A stock of tonnes divided by tonnes a year gives years.
            is_time = number.unit.startswith(_DURATION) and one.is_like(other)
            is_unit = _gives(number, one) and not (one.unit and one.is_like(other) and number.unit)
            if is_time or is_unit:
                values = _compute((one, other), lambda a, b: a / b)
                yield Result(values, f"{one.written} / {other.written}", (one, other))
    if _SIGNS.search(sentence.text):
        for one, other in combinations(operands, 2):
            if _gives(number, one) or _gives(number, other):
                values = _compute((one, other), lambda a, b: a * b)
                yield Result(values, f"{one.written} × {other.written}", (one, other))


def _totals(operands: Sequence[Operand]) -> Iterator[Result]:
    """Sums and averages of neighbours, and of all."""
    for first in range(len(operands)):
        for last in range(first + 2, len(operands) + 1):
            run = operands[first:last]
            if not all(run[0].is_like(operand) for operand in run):
                break
            what = " + ".join(operand.written for operand in run)
            yield Result(_compute(run, _sum), what, tuple(run), needs_word="sums")
            mean = _compute(run, _mean)
            yield Result(mean, f"the average of {what}", tuple(run), needs_word="averages")


def _sum(*values: Decimal) -> Decimal:
    return sum(values, Decimal(0))


def _mean(*values: Decimal) -> Decimal:
    return _sum(*values) / len(values)


def _gives(number: Number, operand: Operand) -> bool:
    """Whether what is computed from the operand can have the unit of `number`."""
    if not number.unit:
        return True
    if number.unit == CURRENCY:
        return operand.unit == CURRENCY and bool(operand.currencies & number.currencies)
    return bool(operand.unit) and convert(Decimal(1), operand.unit, number.unit) is not None


def _in_unit(values: tuple[Decimal, ...], operand: Operand, number: Number) -> tuple[Decimal, ...]:
    if number.unit in ("", CURRENCY, operand.unit):
        return values
    converted = (convert(value, operand.unit, number.unit) for value in values)
    return tuple(value for value in converted if value is not None)


def _has_sign_or(sentence: Sentence, table_name: str) -> bool:
    return bool(_SIGNS.search(sentence.text)) or sentence.speaks_of(table_name)


def is_called(result: Result, sentence: Sentence, operands: Sequence[Operand]) -> bool:
    """Whether the sentence says that it calculates, or has no other numbers than the operands."""
    if not result.needs_word or _SIGNS.search(sentence.text):
        return True
    if result.needs_word == "changes":
        return any(sentence.speaks_of(name) for name in _CHANGES)
    return sentence.speaks_of(result.needs_word)


def is_reversed(first: Operand, second: Operand, sentence: Sentence) -> int:
    """The sign of the change that the sentence states as "from first to second"; 0 if it does not."""
    before = sentence.folded[: first.start]
    between = sentence.folded[first.start : second.start]
    if not _from_pattern().search(before) or not _to_pattern().search(between):
        return 0
    one, other = first.values[0], second.values[0]
    return (other > one) - (other < one)


_CURRENCY_SIGNS: Final = (
    r"\s*(?:[$€£¥]|us\$|usd|eur|gbp|chf|about|around|some|rund|etwa|ca\.|environ)?\s*$"
)


@cache
def _from_pattern() -> re.Pattern[str]:
    return re.compile(rf"(?<!\w)(?:{alternatives(word_set('from'))}){_CURRENCY_SIGNS}")


@cache
def _to_pattern() -> re.Pattern[str]:
    return re.compile(rf"(?<!\w)(?:{alternatives(word_set('to'))}){_CURRENCY_SIGNS}")
