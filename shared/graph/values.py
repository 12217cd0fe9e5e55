"""What may be stored: names in one spelling, properties that PostgreSQL can hold."""

import json
import math
import unicodedata
from typing import Any

from shared.tools import Json, ToolRefusalError

MAX_NAME_CHARACTERS = 200
MAX_PROPERTIES_BYTES = 20_000
_MAX_DEPTH = 32
# Far beyond any figure of the world, and well within what JSON numbers survive everywhere.
_MAX_INTEGER = 10**30


def one_line(text: str) -> str:
    """`text` with every run of white space folded into one blank, none at the ends."""
    return " ".join(text.split())


def normal_name(name: str, what: str = "name") -> str:
    """The one spelling of a name (NFC, blanks folded), so that two spellings are not two nodes."""
    refuse_unstorable(name, what)
    normal = one_line(unicodedata.normalize("NFC", name))
    if not 1 <= len(normal) <= MAX_NAME_CHARACTERS:
        raise ToolRefusalError(
            f"{what}: {len(normal)} characters; give 1 to {MAX_NAME_CHARACTERS}, "
            "and put what else there is to say into the properties."
        )
    return normal


def refuse_large(value: Json, what: str, limit_bytes: int = MAX_PROPERTIES_BYTES) -> None:
    size = len(json.dumps(value, ensure_ascii=False).encode())
    if size > limit_bytes:
        raise ToolRefusalError(
            f"{what}: {size} bytes are more than the {limit_bytes} that fit; keep what matters."
        )


def refuse_unstorable(
    value: Any, path: str, depth: int = 0, *, largest: int = _MAX_INTEGER
) -> None:
    """Refuses what JSON columns cannot hold: NUL, half surrogates, infinities, bottomless nesting."""
    if depth > _MAX_DEPTH:
        raise ToolRefusalError(f"{path}: nested more than {_MAX_DEPTH} deep; make it flatter.")
    if isinstance(value, dict):
        for key, inner in value.items():
            refuse_unstorable(key, f"a key of {path}")
            refuse_unstorable(inner, f"{path}.{key}", depth + 1, largest=largest)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            refuse_unstorable(inner, f"{path}[{index}]", depth + 1, largest=largest)
    elif isinstance(value, str):
        _refuse_text(value, path)
    elif isinstance(value, float) and not math.isfinite(value):
        raise ToolRefusalError(
            f"{path}: {value} is no JSON number; leave it out, or say it in words."
        )
    elif isinstance(value, int) and abs(value) > largest:
        power = len(str(largest)) - 1
        raise ToolRefusalError(
            f"{path}: the number is beyond 10^{power}; give it in a larger unit."
        )


def _refuse_text(text: str, path: str) -> None:
    for character in text:
        if character == "\x00" or "\ud800" <= character <= "\udfff":
            raise ToolRefusalError(
                f"{path}: holds U+{ord(character):04X}, which cannot be stored; leave it out."
            )
