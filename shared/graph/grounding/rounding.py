"""Whether a number that was written is another one, rounded. Pure."""

from decimal import Decimal
from typing import Final

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
