"""Wishes and facts in what a user says, told by how such sentences begin."""

import re
from dataclasses import dataclass
from typing import Literal

from sandbox.text.sentences import sentences

_POLITE = re.compile(r"^(?:and|also|please|oh|ok|okay|well|thanks|hi|hello)[,\s]+", re.IGNORECASE)
_TOLD = re.compile(
    r"^(?:remember|note|keep in mind|bear in mind|do not forget|don['’]t forget|fyi|for your information|know)"
    r"(?:\s+that)?[:,]?\s+",
    re.IGNORECASE,
)
_WISH = re.compile(
    r"^(?:i\s+(?:(?:would|['’]d)\s+)?(?:prefer|like|want|wish|need|care|am\s+(?:more\s+|not\s+)?interested)\b"
    r"|i['’]d\s+(?:prefer|like)\b|from now on\b"
    r"|(?:also\s+)?(?:watch|track|follow|monitor|keep an eye|focus|concentrate|look (?:out|after)|ignore|avoid|skip"
    r"|leave out|stop|prefer|do not|don['’]t|never|always)\b)",
    re.IGNORECASE,
)
MAX_WISHES = 3
LONGEST_CHARACTERS = 480


@dataclass(frozen=True, slots=True)
class Wish:
    """What is to be remembered. `quote` stands in the message letter by letter."""

    kind: Literal["wish", "fact"]
    content: str
    quote: str


def wishes(message: str) -> list[Wish]:
    """A question is none, whatever it begins with."""
    found = [_wish(sentence) for sentence in sentences(message) if not sentence.endswith("?")]
    return [wish for wish in found if wish is not None][:MAX_WISHES]


def _wish(sentence: str) -> Wish | None:
    plain = sentence
    while (shorter := _POLITE.sub("", plain)) != plain:
        plain = shorter
    said = _TOLD.sub("", plain)
    wishes_for = bool(_WISH.match(said))
    if not wishes_for and said == plain:
        return None
    if not said or len(sentence) > LONGEST_CHARACTERS:
        return None
    content = f"{said[0].upper()}{said[1:]}"
    return Wish("wish" if wishes_for else "fact", content, sentence)
