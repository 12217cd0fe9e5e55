"""Text of the web, made harmless for a terminal: it may be read there, and nothing else.

Escapes of a terminal move its cursor, change its title, even type for whoever sits there; marks that turn the direction
of writing show one thing and are another.
"""

from typing import Final

_CONTROLS: Final = (*range(0x20), *range(0x7F, 0xA0))
_KEPT: Final = frozenset(map(ord, "\n\t"))
_TURNS: Final = (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
_DROPPED: Final = dict.fromkeys({*_CONTROLS, *_TURNS} - _KEPT)
# JSON itself writes the lower ones so.
_ESCAPED: Final = {code: f"\\u{code:04x}" for code in (*range(0x7F, 0xA0), *_TURNS)}


def harmless(text: str) -> str:
    """`text` without what a terminal would obey; lines and tabs stay."""
    return text.translate(_DROPPED)


def harmless_json(written: str) -> str:
    """The same JSON, spelt so that a terminal obeys nothing of it."""
    return written.translate(_ESCAPED)
