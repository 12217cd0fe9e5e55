"""What PostgreSQL can hold of what the outside world says."""

import math
from decimal import Decimal
from typing import Any

ERROR_CHARACTERS = 2000
"""What is kept of an error's text: it travels in events, and some servers answer with whole pages."""


def storable(value: Any) -> Any:
    """`value` (JSON) as a JSONB column gives it back: stored and read again, it is the same.

    Such a column takes no NUL characters, no halves of characters and no NaN, and writes 1e16 out.
    """
    match value:
        case str():
            return value.replace("\x00", "").encode("utf-8", "replace").decode("utf-8")
        case float():
            return _number(value)
        case dict():
            return {storable(key): storable(item) for key, item in value.items()}
        case list():
            return [storable(item) for item in value]
        case _:
            return value


def refuse_nul(text: str) -> str:
    """`text`. Raises ValueError where PostgreSQL could not store it as it is."""
    if "\x00" in text:
        raise ValueError("the character NUL cannot be stored; leave it out")
    return text


def error_text(error: str) -> str:
    """`error` as it is kept and told."""
    told: str = storable(error)
    if len(told) <= ERROR_CHARACTERS:
        return told
    return f"{told[:ERROR_CHARACTERS]}… [cut here: {len(told)} characters]"


def _number(value: float) -> float | int | None:
    if not math.isfinite(value):
        return None
    exact = Decimal(repr(value))
    written_whole = exact.as_tuple().exponent >= 0  # type: ignore[operator]  # finite: a number
    return int(exact) if written_whole else value or 0.0
