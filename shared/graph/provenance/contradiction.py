"""Whether two values of a property contradict each other. Pure."""

import re
from decimal import Decimal
from typing import Any, Final

from shared.graph.provenance.integrity import is_equal

_FREE_TEXT: Final = frozenset(["summary", "description"])
"""Properties whose texts differ without contradicting each other."""
_MAX_WORDS: Final = 6
"""A longer text is free text."""
_MAX_ROUNDING: Final = Decimal("0.02")
"""Share of the larger number by which a rounded one may differ."""
_MIN_DIGITS: Final = 2
"""A number with fewer significant digits is not taken for a rounded one."""
_WORD: Final = re.compile(r"(?:(?<!\w)[-+−])?\w+(?:[.,]\d+)*")
"""With its sign and decimals, if it is a number."""


def contradict(name: str, value: Any, other: Any) -> bool:
    """Whether not both can be true of the property at one time.

    Numbers do unless one is the other, rounded. Short texts do unless one has all words of the other, as a date has those of
    its month. Free texts, lists, objects and values of different kinds are not compared.
    """
    if name in _FREE_TEXT or is_equal(value, other):
        return False
    if isinstance(value, bool) and isinstance(other, bool):
        return True
    if _is_number(value) and _is_number(other):
        return not (_is_rounding(value, other) or _is_rounding(other, value))
    if isinstance(value, str) and isinstance(other, str):
        words, other_words = ([*_WORD.findall(each.casefold())] for each in (value, other))
        if max(len(words), len(other_words)) > _MAX_WORDS:
            return False
        return not (set(words) <= set(other_words) or set(other_words) <= set(words))
    return False


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_rounding(rounded: float, exact: float) -> bool:
    """Whether `rounded` is `exact` with fewer digits."""
    short, full = Decimal(str(rounded)), Decimal(str(exact))
    digits, exponent = short.normalize().as_tuple()[1:]
    if len(digits) < _MIN_DIGITS or not isinstance(exponent, int):
        return False
    difference = abs(short - full)
    return difference <= Decimal(5).scaleb(exponent - 1) and (
        difference <= _MAX_ROUNDING * max(abs(short), abs(full))
    )
