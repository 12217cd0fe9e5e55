"""What of a node its vector is made of, pure."""

from collections.abc import Iterator
from typing import Any, Final

from shared.graph.values import one_line
from shared.tools import Json

MOST_CHARACTERS: Final = 600
"""Some 150 tokens: what tells a node from others stands at its beginning."""
_SHORT: Final = 120
"""Characters of a property that is no summary."""


def text_of(type_name: str, name: str, properties: Json) -> str:
    """Its name, type and summary, then what short properties say; on one line."""
    summary = properties.get("summary")
    parts = [name, type_name, summary if isinstance(summary, str) else "", *_told(properties)]
    return one_line("; ".join(part for part in parts if part))[:MOST_CHARACTERS].rstrip()


def _told(properties: Json) -> Iterator[str]:
    for name, value in sorted(properties.items()):
        told = _as_text(value)
        if name != "summary" and 0 < len(told) <= _SHORT:
            yield f"{name.replace('_', ' ')}: {told}"


def _as_text(value: Any) -> str:
    """Empty where it is nothing that can be said in a word or two."""
    match value:
        case bool():
            return "yes" if value else "no"
        case str():
            return value
        case int() | float():
            return str(value)
        case list():
            return ", ".join(each for each in value if isinstance(each, str))
        case _:
            return ""
