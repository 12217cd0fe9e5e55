"""The sentences of a line. Pure."""

import re
from collections.abc import Iterator
from typing import Final

from shared.graph.grounding.words import is_function_word

MAX_SENTENCE_CHARS: Final = 2_000
"""A longer sentence is cut, between words where it has any."""
# The run of signs is matched as a whole, from its beginning: a line of signs is read once.
_SENTENCE_END: Final = re.compile(r"(?<![.!?…])[.!?…]++[\"'”’»)\]]*+(?=\s)")
_MAX_ABBREVIATION_CHARS: Final = 12
"""More than the longest of NO_SENTENCE_END, with the character before it."""
NO_SENTENCE_END: Final = re.compile(
    # An initial, a number or an abbreviation before the dot: "J. Smith", "am 3. Mai", "Nr. 5", "ca. 5"; not "81.4".
    r"(?:(?<!\w)(?<!\d[.,])(?:\w|\d\d?|[Nn]r|[Nn]o|[Aa]rt|[Aa]bs|ca|bzw|usw|[Dd]r|[Pp]rof|[Mm]rs?|[Ss]t|[Ss]ra?|[Mm]me|[Ii]ng|[Ss]ig|vs|etc"
    r"|approx|est|[Ff]ig|[Pp]p?|[Pp]ág|[Pp]ag|[Vv]ol|[Cc]h|[Ii]nc|[Cc]orp|[Ll]td|[Cc]o|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Okt"
    r"|Nov|Dec|Dez|janv|févr|avr|juil|déc|ene|abr|ago|dic|gen|mag|giu|lug|set|ott)|\.[^\W\d])\.$"
)
_NUMBER_END: Final = re.compile(r"\d\.$")
_NEXT_WORD: Final = re.compile(r"[^\W\d_]+")
_BULLET: Final = re.compile(r"(?:[-*•–]|\d{1,3}[.)])\s+")


_BLANKS: Final = re.compile(r"\s*")
_WORD_END: Final = re.compile(r"(?<!\s)\s")


def find_sentences(line: str) -> Iterator[tuple[int, int]]:
    """The sentences of a line, without the white space around them, and without the signs of a heading or list.

    Takes time that grows with the length of the line alone.
    """
    start = len(line) - len(line.lstrip(" \t#"))
    if bullet := _BULLET.match(line, start):
        start = bullet.end()
    for match in _SENTENCE_END.finditer(line, start):
        following = _end_of_blanks(line, match.end())
        is_end = following == len(line) or not line[following].islower()
        tail = line[max(start, match.end() - _MAX_ABBREVIATION_CHARS) : match.end()]
        if is_end and (
            not NO_SENTENCE_END.search(tail)
            or (_NUMBER_END.search(tail) and _begins_sentence(line, following))
        ):
            yield from _cut(line, start, match.end())
            start = following
    yield from _cut(line, start, len(line.rstrip()))


def _begins_sentence(line: str, start: int) -> bool:
    """Whether an article or the like follows with a capital, as in "by 12. The board"; after an ordinal there is none."""
    following = _NEXT_WORD.match(line, start)
    return following is not None and is_function_word(following[0].lower())


def _cut(line: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Parts of at most MAX_SENTENCE_CHARS."""
    while end - start > MAX_SENTENCE_CHARS:
        limit = start + MAX_SENTENCE_CHARS
        ends = [match.start() for match in _WORD_END.finditer(line, start, limit + 1)]
        cut = ends[-1] if ends else limit
        yield start, cut
        start = _end_of_blanks(line, cut)
    if start < end:
        yield start, end


def _end_of_blanks(line: str, start: int) -> int:
    match = _BLANKS.match(line, start)
    assert match is not None
    return match.end()
