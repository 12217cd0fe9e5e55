"""The topics that a mission names."""

import re
from dataclasses import dataclass

from sandbox.text.names import NameFinder
from sandbox.text.words import WORD, significant, topic_stems

BREAK = re.compile(r"[.,;:!?()\[\]\"“”\n]|\s[—–-]\s")
MAX_PHRASE_WORDS = 6
SCOPE_WORDS = frozenset(
    {"of", "in", "among", "amongst", "across", "within", "for", "from", "by", "at"}
)


@dataclass(frozen=True, slots=True)
class Phrase:
    """A few neighbouring words that name one thing. `bound`: a word such as `of` or `among` led into it."""

    text: str
    bound: bool


@dataclass(frozen=True, slots=True)
class Subject:
    """What a mission is about: topics, and where or of whom (`scope`, may be empty)."""

    topics: tuple[str, ...]
    scope: str

    def terms(self) -> list[str]:
        """Topics first, then the scope."""
        return [*self.topics, *([self.scope] if self.scope else [])]


def subject_of(mission: str) -> Subject:
    """`Watch energy security and exports of West African economies` has two topics and the scope of those economies."""
    found = phrases(mission)
    bound = [phrase for phrase in found if phrase.bound]
    scope = bound[-1] if bound and len(found) > 1 else None
    topics = tuple(phrase.text for phrase in found if phrase is not scope)
    return Subject(topics, scope.text if scope else "")


def phrases(text: str) -> list[Phrase]:
    """Runs of significant words, names kept whole, each once."""
    found: dict[frozenset[str], Phrase] = {}
    for part in BREAK.split(text):
        for phrase in _phrases_of(part):
            found.setdefault(topic_stems(phrase.text), phrase)
    return [phrase for key, phrase in found.items() if key]


def _phrases_of(part: str) -> list[Phrase]:
    # The full stop keeps a mission of a few capitalised words from being taken for a heading.
    names = [name for name in NameFinder([part]).find(f"{part}.") if " " in name.text]
    result: list[Phrase] = []
    run: list[str] = []
    led_in = bound = False
    for match in WORD.finditer(part):
        inside = any(name.start <= match.start() < name.end for name in names)
        if inside or significant(match.group()):
            bound = bound if run else led_in
            run.append(match.group())
            continue
        if run:
            result.append(_phrase(run, bound))
            run = []
        led_in = match.group().lower() in SCOPE_WORDS or (
            led_in and match.group().lower() in {"the", "all"}
        )
    return [*result, _phrase(run, bound)] if run else result


def _phrase(run: list[str], bound: bool) -> Phrase:
    return Phrase(" ".join(run[:MAX_PHRASE_WORDS]), bound)
