"""When two names of types are the same name."""

import re
from typing import Final

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
