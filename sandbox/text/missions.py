"""The topics and scopes of a mission, parsed from its text."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from sandbox.text.english import is_plural
from sandbox.text.names import NameFinder
from sandbox.text.tokens import WORD, is_significant, topic_stems, without_possessive

HARD_BREAK = re.compile(r"[.;:!?()\[\]\"“”\n]|\s[—–-]\s")
BREAK = re.compile(rf"{HARD_BREAK.pattern}|,")
HOW_CLAUSE = re.compile(r"\bhow \w+ (?=(?:are|is|was|were)\b)", re.IGNORECASE)
WHO_CLAUSE = re.compile(r"\b(?P<who>who|that) [a-z]+s?\b", re.IGNORECASE)
MAX_PHRASE_WORDS = 6
SCOPE_WORDS = frozenset(
    {
        "of",
        "in",
        "among",
        "amongst",
        "across",
        "within",
        "for",
        "from",
        "by",
        "at",
        "between",
        "near",
    }
)
LIST_WORDS = frozenset({"and", "or", "to"})
ARTICLES = frozenset({"the", "all", "both", "a", "an"})


class Link(Enum):
    """How a phrase is connected to the one before it."""

    NONE = "none"
    LISTED = "listed"
    BOUND = "bound"
    WHICH = "which"


@dataclass(frozen=True, slots=True)
class Phrase:
    """Neighbouring words that name one thing.

    `preposition`: the one in front, if any, such as `of`. `has_article`: `the` is in front. `is_adjacent`: only such
    words are between it and the phrase before. `is_owner`: it is a possessive such as `Ghana's`.
    """

    text: str
    link: Link = Link.NONE
    preposition: str = ""
    has_article: bool = False
    is_adjacent: bool = False
    is_owner: bool = False

    @property
    def is_name(self) -> bool:
        """Whether it starts and ends with a capital: `Bank of England`, but not `European makers`."""
        words = self.text.split()
        return words[0][0].isupper() and words[-1][0].isupper()

    @property
    def with_article(self) -> str:
        """The text, with its article if it is a name."""
        return f"the {self.text}" if self.has_article and self.is_name else self.text


@dataclass(frozen=True, slots=True)
class _Run:
    start: int
    end: int
    is_owner: bool


def parse_phrases(text: str) -> list[Phrase]:
    """Parse the phrases from left to right. The verb of a question (`Who supplies …`) is not one."""
    text = WHO_CLAUSE.sub(lambda match: match["who"], HOW_CLAUSE.sub("how ", text))
    parsed: list[Phrase] = []
    end = 0
    for run in _runs(text):
        phrase = _phrase(text, run, text[end : run.start], is_first=not parsed)
        if parsed and parsed[-1].is_owner and not phrase.is_owner:
            phrase = _after_owners(phrase, parsed)
        parsed.append(phrase)
        end = run.end
    return parsed


def _phrase(text: str, run: _Run, between: str, *, is_first: bool) -> Phrase:
    words = WORD.findall(between.lower())
    article = words[-1:] == ["the"]
    words_between = [word for word in words if word not in ARTICLES]
    parted = HARD_BREAK.search(between) is not None
    lead = words_between[-1] if words_between and words_between[-1] in SCOPE_WORDS | {"to"} else ""
    words_after = words_between[:-1] if lead else words_between
    if lead in SCOPE_WORDS and not set(words_after) & {"and", "or"}:
        link = Link.BOUND
    elif words_between[-1:] == ["which"]:
        link = Link.WHICH
    else:
        link = (
            Link.LISTED
            if set(words_between) <= LIST_WORDS | SCOPE_WORDS and not parted
            else Link.NONE
        )
    phrase_words = [without_possessive(word) for word in text[run.start : run.end].split()]
    return Phrase(
        " ".join(phrase_words[:MAX_PHRASE_WORDS]),
        Link.NONE if is_first and link is Link.LISTED else link,
        lead,
        article,
        is_adjacent=not is_first and not parted and not words_after,
        is_owner=run.is_owner,
    )


def _after_owners(phrase: Phrase, parsed: list[Phrase]) -> Phrase:
    """Link a phrase as if the owners before it were not there, as in `aging of Japan's population`."""
    first = len(parsed) - 1
    while first and parsed[first].link is Link.LISTED and parsed[first - 1].is_owner:
        first -= 1
    owner = parsed[first]
    return Phrase(phrase.text, owner.link, owner.preposition, False, owner.is_adjacent)


def _runs(text: str) -> Iterator[_Run]:
    """Yield runs of significant words; names are not split, a possessive ends a run."""
    names = list(_name_places(text))
    start = end = -1
    for match in WORD.finditer(text):
        inside = any(name_start <= match.start() < name_end for name_start, name_end in names)
        is_part = inside or is_significant(match.group())
        if start >= 0 and (not is_part or text[end : match.start()].strip("-/ ")):
            yield _Run(start, end, is_owner=False)
            start = -1
        if not is_part:
            continue
        start = match.start() if start < 0 else start
        end = match.end()
        if without_possessive(match.group()) != match.group():
            yield _Run(start, end, is_owner=True)
            start = -1
    if start >= 0:
        yield _Run(start, end, is_owner=False)


def _name_places(text: str) -> Iterator[tuple[int, int]]:
    start = 0
    for part in BREAK.split(text):
        start = text.index(part, start)
        # With the full stop a mission of a few capitalised words is not taken for a heading.
        for name in NameFinder([part]).find(f"{part}."):
            if " " in name.text:
                yield start + name.start, start + name.end
        start += len(part)


@dataclass(frozen=True, slots=True)
class Scope:
    """Where, or of whom. `preposition` is the mission's own, with its article."""

    text: str
    preposition: str = "of"

    @property
    def with_article(self) -> str:
        """The text, with the mission's article."""
        return f"the {self.text}" if self.preposition.endswith(" the") else self.text

    @property
    def is_name(self) -> bool:
        """Whether it is a proper name, and not a kind of things."""
        return Phrase(self.text).is_name

    @property
    def is_kind(self) -> bool:
        """Whether it names several things of a kind, such as `West African economies`."""
        return not self.is_name and " " in self.text and is_plural(self.text)


@dataclass(frozen=True, slots=True)
class Subject:
    """The topics of a mission, and the scopes (possibly none) that apply to each topic."""

    topics: tuple[str, ...]
    scopes: tuple[Scope, ...] = ()

    def terms(self) -> list[str]:
        """All terms: topics, then scopes."""
        return [*self.topics, *(scope.with_article for scope in self.scopes)]

    def within(self, topic: str, scope: Scope) -> str:
        """Combine both, as in `the energy supply of Ghana`; a topic that is a name, or contains the scope, stays alone."""
        if is_proper_name(topic) and len(self.topics) > 1:
            return topic
        if is_proper_name(topic) and scope.preposition == "of":
            return f"{topic} on {scope.text}"  # not `Debian Policy of shared libraries`
        has_lead = not SCOPE_WORDS.isdisjoint(topic.split())
        lead = scope.preposition.replace("of", "in", 1) if has_lead else scope.preposition
        phrase = with_definite_article(topic) if lead.split()[0] == "of" else topic
        return f"{phrase} {lead} {scope.text}"


def with_definite_article(topic: str) -> str:
    """A topic in front of `of`: `the energy supply`, but `exports`."""
    has_article = topic.startswith("the ")
    return topic if has_article or is_plural(topic) or is_proper_name(topic) else f"the {topic}"


def is_proper_name(term: str) -> bool:
    """Whether a topic is a proper name."""
    return Phrase(term.removeprefix("the ")).is_name


def parse_mission(mission: str) -> Subject:
    """Parse a mission.

    `Watch energy security and exports of West African economies` has two topics and one scope, those economies.

    """
    parsed = parse_phrases(mission)
    scopes = _scopes(parsed)
    topics = _topics(parsed, scopes)
    if not topics:
        topics, scopes = [phrase.with_article for phrase in scopes], []
    stated = {topic_stems(topic): topic for topic in reversed(topics) if topic_stems(topic)}
    selection = tuple(topic for topic in topics if stated.get(topic_stems(topic)) is topic)
    return Subject(selection, tuple(_scope(phrase, scopes[0]) for phrase in scopes))


def _scopes(parsed: list[Phrase]) -> list[Phrase]:
    """Select the scopes: owners, else what `which` introduces, else the last phrase after a preposition, names first."""
    owners = [phrase for phrase in parsed if phrase.is_owner]
    if owners:
        return owners
    which_phrases = [phrase for phrase in parsed if phrase.link is Link.WHICH]
    bound = [phrase for phrase in parsed if phrase.link is Link.BOUND]
    names = [phrase for phrase in bound if phrase.is_name]
    first = (which_phrases or names or bound)[-1:]
    if not first or which_phrases:
        return which_phrases[:1]
    return [*first, *_further_scopes(parsed[parsed.index(first[0]) :])]


def _further_scopes(parsed: list[Phrase]) -> list[Phrase]:
    """The phrases that continue a list that starts with a scope."""
    more: list[Phrase] = []
    for phrase in parsed[1:]:
        if phrase.link is not Link.LISTED or not _is_same_kind(parsed[0], phrase):
            break
        more.append(phrase)
    return more


def _is_same_kind(phrase: Phrase, phrase_before: Phrase) -> bool:
    """Whether both are names, both single words, or both kinds of things."""
    if phrase.is_name or phrase_before.is_name:
        return phrase.is_name and phrase_before.is_name
    if " " not in phrase.text or " " not in phrase_before.text:
        return " " not in phrase.text and " " not in phrase_before.text
    return is_plural(phrase.text) and is_plural(phrase_before.text)


def _topics(parsed: list[Phrase], scopes: list[Phrase]) -> list[str]:
    """The phrases that are no scopes; one bound to the topic before it extends it: `remittances from Russia`."""
    topics: list[str] = []
    previous: Phrase | None = None
    for phrase in parsed:
        if phrase in scopes:
            previous = previous if phrase.is_owner else None
            continue
        if phrase.link is Link.BOUND and phrase.is_adjacent and previous and topics:
            topics[-1] = f"{topics[-1]} {phrase.preposition} {phrase.with_article}"
        else:
            topics.append(phrase.with_article)
        previous = phrase
    return topics


def _scope(phrase: Phrase, first: Phrase) -> Scope:
    """Create a scope; later items of a list have the preposition of the first."""
    lead = "of" if phrase.is_owner else phrase.preposition or first.preposition or "of"
    return Scope(phrase.text, f"{lead} the" if phrase.has_article else lead)
