"""What kind of thing a name is, told by plain cues around it."""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from sandbox.reader.construct.candidates import Candidate, Mention
from sandbox.reader.construct.entries import kind_of_entries, lists_peers
from sandbox.reader.construct.kind_words import (
    COUNTRY_ACRONYMS,
    COUNTRY_IS,
    COUNTRY_WORDS,
    NATION_CUE,
    ORGANIZATION_IS,
    ORGANIZATION_SUBJECT,
    ORGANIZATION_VERBS,
    ORGANIZATION_WORDS,
    PERSON_ROLE,
    PLACE_HEADS,
    PLACE_WORDS,
    ROLE_BEFORE,
    STATE_LABEL,
)
from sandbox.reader.construct.sources import Source
from sandbox.text.name_words import NOT_NAMES

COUNTRY, ORGANIZATION, PERSON, PLACE, TOPIC = "Country", "Organization", "Person", "Place", "Topic"
HINT, LIKELY, CLEAR, STRONG, CERTAIN = range(1, 6)
"""How many votes a cue has."""
SETTLED = 50
"""More than all other cues together."""
ENUMERABLE = frozenset({COUNTRY, PERSON, PLACE})
"""Kinds that a name takes over from the one it is enumerated beside."""
ENUMERATION = re.compile(r"^(?:,|,? and|,? or)(?: the)? $")
ACRONYM = re.compile(r"^[A-Z][A-Z&]{1,5}$")
FOLDERS = {
    "cities": PLACE,
    "companies": ORGANIZATION,
    "company": ORGANIZATION,
    "countries": COUNTRY,
    "country": COUNTRY,
    "organisations": ORGANIZATION,
    "organizations": ORGANIZATION,
    "people": PERSON,
    "places": PLACE,
}
SHOUTED_SURNAME = re.compile(
    r"^(?:[A-Z][\w'’.-]*[a-z.] )+(?:[A-Z]{3,}(?:-[A-Z]{2,})?)(?: [A-Z]{3,})*$"
)


@dataclass(frozen=True, slots=True)
class Kind:
    """A node type and why a name is of it."""

    name: str
    description: str


DESCRIPTIONS = {
    COUNTRY: "A country or territory that sources speak of.",
    ORGANIZATION: "A company, institution, agency, party or other body of people.",
    PERSON: "A person that sources name.",
    PLACE: "A place on the map that is no country: a city, region, sea, river, mountain or site.",
    TOPIC: "A subject that sources write about and that is none of the more specific types.",
}


def kinds_of(candidates: dict[str, Candidate], known: Mapping[str, str]) -> dict[str, Kind]:
    """The kind of each candidate by its key; `known` are the types of those that have nodes.

    Names listed as peers of a subject, or enumerated beside a name whose kind is told, are of that kind.
    """
    kinds = {
        key: _kind(known[key]) if key in known else _by_cues(candidate)
        for key, candidate in candidates.items()
    }
    for key, candidate in candidates.items():
        kinds[key] = (
            _by_peers(candidate, candidates, kinds)
            or kinds[key]
            or _by_neighbours(candidate, candidates, kinds)
        )
    return {key: kind or _kind(TOPIC) for key, kind in kinds.items()}


def _kind(name: str, label: str = "") -> Kind:
    return Kind(name, DESCRIPTIONS.get(name) or f"What sources list under “{label}”.")


def _by_peers(
    candidate: Candidate, candidates: dict[str, Candidate], kinds: Mapping[str, Kind | None]
) -> Kind | None:
    for mention in candidate.mentions:
        line = mention.line
        if line and mention.listed and lists_peers(line.key) and candidate.name[0].isupper():
            return next(
                (kinds[key] for key, one in candidates.items() if one.name == line.subject), None
            )
    return None


def _by_neighbours(
    candidate: Candidate, candidates: dict[str, Candidate], kinds: Mapping[str, Kind | None]
) -> Kind | None:
    for mention in candidate.named_mentions():
        for key, other in candidates.items():
            if (
                (kind := kinds[key])
                and kind.name in ENUMERABLE
                and _enumerated(mention.sentence, candidate.name, other.name)
            ):
                return kind
    return None


def _enumerated(sentence: str, one: str, other: str) -> bool:
    start, end = sorted((sentence.find(one), sentence.find(other)))
    first = one if sentence.find(one) == start else other
    return start >= 0 and ENUMERATION.match(sentence[start + len(first) : end]) is not None


def _by_cues(candidate: Candidate) -> Kind | None:
    votes: Counter[str] = Counter()
    listed = [mention.line for mention in candidate.mentions if mention.line and mention.listed]
    for label in listed:
        kind = kind_of_entries(label.key)
        if kind:
            votes[kind] += CLEAR
    votes.update(_name_votes(candidate.name))
    for mention in candidate.mentions:
        votes.update(_sentence_votes(candidate.name, mention))
    if candidate.is_subject:
        votes.update(_subject_votes(candidate))
    if not votes:
        return None
    best = max(sorted(votes), key=lambda kind: votes[kind])
    return _kind(best, next((one.key for one in listed if kind_of_entries(one.key) == best), ""))


def _name_votes(name: str) -> dict[str, int]:
    words = name.split()
    if SHOUTED_SURNAME.match(name):
        return {PERSON: STRONG}
    if words[-1].strip(".") in ORGANIZATION_WORDS:
        return {ORGANIZATION: SETTLED}
    if words[0] in ORGANIZATION_WORDS:
        return {ORGANIZATION: STRONG}
    if words[0] in COUNTRY_WORDS or name in COUNTRY_ACRONYMS:
        return {COUNTRY: CLEAR}
    leads = words[0] in PLACE_HEADS or (words[0] in PLACE_WORDS and words[1:2] == ["of"])
    if words[-1] in PLACE_WORDS or leads:
        return {PLACE: STRONG}
    return {ORGANIZATION: LIKELY} if ACRONYM.match(name) else {}


def _sentence_votes(name: str, mention: Mention) -> dict[str, int]:
    start = mention.sentence.find(name)
    if start < 0 and ORGANIZATION_SUBJECT.match(mention.sentence):
        return {ORGANIZATION: CLEAR}
    if mention.listed or start < 0:
        return {}
    before, after = mention.sentence[:start].rstrip(), mention.sentence[start + len(name) :]
    votes: dict[str, int] = {}
    if mention.titled:
        votes[PERSON] = CERTAIN
    elif " " in name and (PERSON_ROLE.match(after) or ROLE_BEFORE.search(before)):
        votes[PERSON] = STRONG
    is_aside = before.rpartition(" ")[2] in {"of", "in", "from"}
    acts = (after.split() or [""])[0].strip(",") in ORGANIZATION_VERBS
    if ORGANIZATION_IS.match(after) and not mention.titled:
        votes[ORGANIZATION] = CLEAR
    elif acts and not mention.titled and not is_aside:
        votes[ORGANIZATION] = HINT if " " in name else LIKELY
    if NATION_CUE.search(before) or COUNTRY_IS.match(after):
        votes[COUNTRY] = CLEAR
    elif before.rpartition(" ")[2].lower() in {"in", "near", "at", "outside", "off"}:
        votes[PLACE] = HINT
    return votes


def _subject_votes(candidate: Candidate) -> dict[str, int]:
    """Lines on the subject with labels that only states carry."""
    lines = [mention.line for mention in candidate.mentions if mention.line]
    own = [line.label for line in lines if line.subject == candidate.name]
    if candidate.name in NOT_NAMES:
        return {}
    votes = Counter(kind for source in candidate.subject_of[:1] for kind in _filed_under(source))
    if any(STATE_LABEL.match(label) for label in own):
        votes[COUNTRY] += 1
    return dict.fromkeys(votes, CLEAR)


def _filed_under(source: Source) -> list[str]:
    """An address such as `…/companies/acme/` says what its page is about."""
    segments = urlsplit(source.url).path.lower().split("/")
    return [FOLDERS[one] for one in segments[:-1] if one in FOLDERS][-1:]
