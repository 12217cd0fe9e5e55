"""Characters that a person does not see: a text must not say something else to a model than to its reader."""

import re
from typing import Any, Final

_HIDDEN: Final = re.compile(
    "[\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0e\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e01ef]"
)
"""Directions of text, blanks without width, tags and variation selectors. Without U+200C and U+200D, which Persian, Indian
languages and emoji need; Hebrew and Arabic do not need the marks of direction."""


def without_hidden(text: str) -> str:
    """Removes the characters that are not shown, or that change the direction of what follows."""
    return text if text.isascii() else _HIDDEN.sub("", text)


def values_without_hidden(value: Any) -> Any:
    """Applies `without_hidden` to all texts of a JSON value, also to keys."""
    if isinstance(value, str):
        return without_hidden(value)
    if isinstance(value, dict):
        return {
            values_without_hidden(key): values_without_hidden(inner) for key, inner in value.items()
        }
    if isinstance(value, list):
        return [values_without_hidden(inner) for inner in value]
    return value
