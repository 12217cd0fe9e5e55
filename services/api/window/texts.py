"""Texts of models and tools as a page shows them: laid out where they are JSON, cut where nobody would read on."""

import json
from typing import Any, Final

from services.api.window.formats import pretty

LONGEST_CHARACTERS: Final = 20_000


def cut(text: str) -> str:
    """Its beginning, and how much is left out, where it is longer than LONGEST_CHARACTERS."""
    left = len(text) - LONGEST_CHARACTERS
    if left <= 0:
        return text
    return f"{text[:LONGEST_CHARACTERS]}\n… {left:,} characters more"


def unpacked(text: str) -> str:
    """Laid out, where it is JSON; what a model wrote in its place as it stands."""
    try:
        return pretty(json.loads(text))
    except (ValueError, RecursionError):
        return text


def plain(value: Any) -> str:
    """A property's value in a line."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def phase(word: str) -> str:
    """`Graph construction`."""
    return word.replace("_", " ").capitalize()


FILTERS: Final = {"cut": cut, "unpacked": unpacked, "plain": plain, "phase": phase}
