"""A name for an agent that was given none: the words that carry its mission."""

import re
from collections.abc import Iterator
from typing import Final

MOST_WORDS: Final = 4
FEWEST_WORDS: Final = 2
LONGEST_NAME_CHARACTERS: Final = 40
FALLBACK: Final = "Watch"

# What missions are asked with, rather than about.
_COMMON: Final = frozenset(
    """
    a about above across after against all also am an and any are around as at be because been before being below
    between both but by can could did do does doing during each every few for from further had has have having how
    if in into is it its itself just keep keeping me more most my need needs no not of off on once only or other our
    out over own same shall she should so some such than that the their them then there these they this those
    through to too under until up upon us very want was we were what when where which while who whom why will with
    within would you your
    alert analyse analyze assess check collect compare describe detect discover evaluate examine explain explore find
    follow gather get give identify inform investigate investors investor know learn look looking make monitor
    monitoring notice observe please recommend report research review search see show spot study tell track tracking
    understand watch watching
    best good great important interesting latest likely main major new possible potential recent relevant
    significant useful
    change changes development developments information insight insights kind kinds news opportunities opportunity
    situation thing things way ways
    """.split()  # noqa: SIM905  a list of its own for each line would hide the words
)

_WORD: Final = re.compile(r"[^\W_][\w'’&+-]*")
_TOKEN: Final = re.compile(rf"{_WORD.pattern}|[^\w\s]")


def name_for(mission: str) -> str:
    """Two to four significant words of the mission in title case, or fewer where it has no more."""
    words: list[str] = []
    for phrase in _phrases(mission):
        fresh = [word for word in phrase if word.lower() not in map(str.lower, words)]
        room = fresh[: MOST_WORDS - len(words)]
        # Part of a phrase says something else than the phrase; it serves only where there is nothing better.
        if len(words) >= FEWEST_WORDS and not _fits(words, fresh):
            break
        words += room
    named = " ".join(_titled(word) for word in words)[:LONGEST_NAME_CHARACTERS].strip()
    return named if len(words) >= FEWEST_WORDS else f"{named} {FALLBACK}".strip()


def _phrases(mission: str) -> Iterator[list[str]]:
    """Runs of significant words that stand side by side."""
    phrase: list[str] = []
    for token in _TOKEN.findall(mission):
        if _WORD.fullmatch(token) and token.lower() not in _COMMON:
            phrase.append(token)
        elif phrase:
            yield phrase
            phrase = []
    if phrase:
        yield phrase


def _fits(words: list[str], phrase: list[str]) -> bool:
    together = [*words, *phrase]
    return len(together) <= MOST_WORDS and len(" ".join(together)) <= LONGEST_NAME_CHARACTERS


def _titled(word: str) -> str:
    """With a capital first; words that have capitals of their own (EU, McKinsey) keep them."""
    return word if any(letter.isupper() for letter in word) else word[:1].upper() + word[1:]
