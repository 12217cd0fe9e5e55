"""What types may be called, and when two of their names are the same."""

import re
from typing import Final

from shared.store.words import ADVICE_TYPE, ANALYSIS_TYPE
from shared.tools import ToolRefusalError

RESERVED_TYPES: Final = frozenset({ANALYSIS_TYPE, ADVICE_TYPE})
"""What the agent concludes; the types are the system's."""
MAX_CHARACTERS: Final = 64
_NODE_TYPE_NAME: Final = re.compile(r"[A-Z][A-Za-z0-9]*")
_EDGE_TYPE_NAME: Final = re.compile(r"[a-z][a-z0-9_]*")
_ENDINGS: Final = (
    (re.compile(r"(?<=\w\w)ies$"), "y"),
    (re.compile(r"(?<=ch|sh|ss|\wx|zz)es$"), ""),
    (re.compile(r"(?<=\w\w[^sui])s$"), ""),
)
"""What makes a plural, or the third person, and what stands there without; -ss, -us and -is are neither."""


def folded(name: str) -> str:
    """The same for two names that differ in case, in underscores, or in a plural only: TradeDeal, Trade_deals."""
    plain = name.replace("_", "").lower()
    for plural, singular in _ENDINGS:
        if plural.search(plain):
            return plural.sub(singular, plain)
    return plain


def refuse_node_type_name(name: str) -> None:
    """Raises ToolRefusalError unless `name` may name a type of nodes that is not the system's."""
    _refuse(name, _NODE_TYPE_NAME, 'a capital letter, then letters and digits ("Country")')
    if name.lower() in {reserved.lower() for reserved in RESERVED_TYPES}:
        raise ToolRefusalError(
            f"{name} is reserved for what the agent concludes; take another name."
        )


def refuse_edge_type_name(name: str) -> None:
    """Raises ToolRefusalError unless `name` may name a type of edges."""
    _refuse(
        name, _EDGE_TYPE_NAME, 'a small letter, then small letters, digits and _ ("is_part_of")'
    )


def _refuse(name: str, form: re.Pattern[str], in_words: str) -> None:
    if not form.fullmatch(name) or len(name) > MAX_CHARACTERS:
        raise ToolRefusalError(
            f"name: {name[:MAX_CHARACTERS]!r} is no name of a type; it must be "
            f"{in_words}, at most {MAX_CHARACTERS} characters."
        )
