"""Makes text and JSON from outside storable in PostgreSQL."""

import math
from decimal import Decimal
from typing import Any

MAX_ERROR_CHARS = 2000
"""Length limit of a stored error: it travels in events, and some servers answer with whole pages."""


def storable(value: Any) -> Any:
    """`value` (JSON) as a JSONB column returns it, so that storing and loading changes nothing.

    Removes NUL characters, lone surrogates and NaN, and writes numbers like 1e16 out.
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
    """`text` unchanged. Raises ValueError if it contains NUL, which PostgreSQL cannot store."""
    if "\x00" in text:
        raise ValueError("the character NUL cannot be stored; leave it out")
    return text


def error_text(error: str) -> str:
    """`error` as it is stored and published: storable and at most MAX_ERROR_CHARS long."""
    message: str = storable(error)
    if len(message) <= MAX_ERROR_CHARS:
        return message
    return f"{message[:MAX_ERROR_CHARS]}… [cut here: {len(message)} characters]"


def _number(value: float) -> float | int | None:
    if not math.isfinite(value):
        return None
    exact = Decimal(repr(value))
    is_integer = exact.as_tuple().exponent >= 0  # type: ignore[operator]  # finite: a number
    return int(exact) if is_integer else value or 0.0
