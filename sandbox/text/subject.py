"""What a mission is about."""

from dataclasses import dataclass

from sandbox.text.english import is_plural
from sandbox.text.phrases import SCOPE_WORDS, Link, Phrase, phrases
from sandbox.text.words import topic_stems


@dataclass(frozen=True, slots=True)
class Scope:
    """Where or of whom: `lead` is the mission's own preposition, with its article."""

    text: str
    lead: str = "of"

    @property
    def shown(self) -> str:
        """With the mission's article."""
        return f"the {self.text}" if self.lead.endswith(" the") else self.text

    @property
    def is_name(self) -> bool:
        """Whether it names one thing, and not a kind of things."""
        return Phrase(self.text).is_name

    @property
    def is_kind(self) -> bool:
        """Whether it speaks of several things of a kind, such as `West African economies`."""
        return not self.is_name and " " in self.text and is_plural(self.text)


@dataclass(frozen=True, slots=True)
class Subject:
    """Topics, and the scopes (may be none) that each of them is asked about in."""

    topics: tuple[str, ...]
    scopes: tuple[Scope, ...] = ()

    def terms(self) -> list[str]:
        """Topics first, then the scopes."""
        return [*self.topics, *(scope.shown for scope in self.scopes)]

    def within(self, topic: str, scope: Scope) -> str:
        """`exports of Ghana`; a topic that is a name, or names the scope itself, stands alone."""
        if names_one(topic) and len(self.topics) > 1:
            return topic
        has_lead = not SCOPE_WORDS.isdisjoint(topic.split())
        lead = scope.lead.replace("of", "in", 1) if has_lead else scope.lead
        return f"{topic} {lead} {scope.text}"


def names_one(term: str) -> bool:
    """Whether a topic is a proper name, and nothing that others could have too."""
    return Phrase(term.removeprefix("the ")).is_name


def subject_of(mission: str) -> Subject:
    """`Watch energy security and exports of West African economies` has two topics and the scope of those economies."""
    found = phrases(mission)
    scopes = _scopes(found)
    topics = _topics(found, scopes)
    if not topics:
        topics, scopes = [phrase.shown for phrase in scopes], []
    stated = {topic_stems(topic): topic for topic in reversed(topics) if topic_stems(topic)}
    chosen = tuple(topic for topic in topics if stated.get(topic_stems(topic)) is topic)
    return Subject(chosen, tuple(_scope(phrase, scopes[0]) for phrase in scopes))


def _scopes(found: list[Phrase]) -> list[Phrase]:
    """Owners, else what `which` asks for, else what a preposition led into: names before kinds, the last of them."""
    owners = [phrase for phrase in found if phrase.owner]
    if owners:
        return owners
    asked = [phrase for phrase in found if phrase.link is Link.WHICH]
    bound = [phrase for phrase in found if phrase.link is Link.BOUND]
    named = [phrase for phrase in bound if phrase.is_name]
    first = (asked or named or bound)[-1:]
    if not first or asked:
        return asked[:1]
    return [*first, *_more(found[found.index(first[0]) :])]


def _more(found: list[Phrase]) -> list[Phrase]:
    """What goes on a list that began with a scope."""
    more: list[Phrase] = []
    for phrase in found[1:]:
        if phrase.link is not Link.LISTED or not _alike(found[0], phrase):
            break
        more.append(phrase)
    return more


def _alike(one: Phrase, other: Phrase) -> bool:
    """Two names, two single words, or two kinds of things."""
    if one.is_name or other.is_name:
        return one.is_name and other.is_name
    if " " not in one.text or " " not in other.text:
        return " " not in one.text and " " not in other.text
    return is_plural(one.text) and is_plural(other.text)


def _topics(found: list[Phrase], scopes: list[Phrase]) -> list[str]:
    """What is no scope; a phrase bound to a topic before it goes on that topic: `remittances from Russia`."""
    topics: list[str] = []
    before: Phrase | None = None
    for phrase in found:
        if phrase in scopes:
            before = before if phrase.owner else None
            continue
        if phrase.link is Link.BOUND and phrase.adjacent and before and topics:
            topics[-1] = f"{topics[-1]} {phrase.lead} {phrase.shown}"
        else:
            topics.append(phrase.shown)
        before = phrase
    return topics


def _scope(phrase: Phrase, first: Phrase) -> Scope:
    """What goes on a list is led into as the first of it is."""
    lead = "of" if phrase.owner else phrase.lead or first.lead or "of"
    return Scope(phrase.text, f"{lead} the" if phrase.article else lead)
