"""The sentences of a line. Pure."""

import re
from collections.abc import Iterator
from typing import Final

_SENTENCE_END: Final = re.compile(r"[.!?…]+[\"'”’»)\]]*(?=\s)")
NO_SENTENCE_END: Final = re.compile(
    # An initial, a number or an abbreviation before the dot: "J. Smith", "am 3. Mai", "Nr. 5", "ca. 5".
    r"(?:(?<!\w)(?:\w|\d\d?|[Nn]r|[Nn]o|[Aa]rt|[Aa]bs|ca|bzw|usw|[Dd]r|[Pp]rof|[Mm]rs?|[Ss]t|[Ss]ra?|[Mm]me|[Ii]ng|[Ss]ig|vs|etc"
    r"|approx|est|[Ff]ig|[Pp]p?|[Pp]ág|[Pp]ag|[Vv]ol|[Cc]h|[Ii]nc|[Cc]orp|[Ll]td|[Cc]o|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Okt"
    r"|Nov|Dec|Dez|janv|févr|avr|juil|déc|ene|abr|ago|dic|gen|mag|giu|lug|set|ott)|\.\w)\.$"
)
_BULLET: Final = re.compile(r"(?:[-*•–]|\d{1,3}[.)])\s+")


def find_sentences(line: str) -> Iterator[tuple[int, int]]:
    """The sentences of a line, without the white space around them, and without the signs of a heading or list."""
    start = len(line) - len(line.lstrip(" \t#"))
    if bullet := _BULLET.match(line, start):
        start = bullet.end()
    for match in _SENTENCE_END.finditer(line, start):
        following = line[match.end() :].lstrip()
        is_end = not following or not following[0].islower()
        if is_end and not NO_SENTENCE_END.search(line[start : match.end()]):
            yield start, match.end()
            start = match.end() + len(line[match.end() :]) - len(following)
    end = len(line.rstrip())
    if start < end:
        yield start, end
