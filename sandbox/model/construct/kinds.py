"""The node type of a name, decided by votes of cues around it."""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import urlsplit

from babel import Locale

from sandbox.model.construct.entities import (
    Candidate,
    Mention,
    Source,
    kind_of_entries,
    lists_peers,
)
from sandbox.text.names import NOT_NAMES
from sandbox.text.tokens import word_set

ORGANIZATION_WORDS = word_set(
    """
    AB AG Academy Agency Airlines Alliance Army ASA Association Authority Automotive Bank Battalion
    Batteries Battery Board Airways Brothers Bureau Capital Cells Chamber Chemicals Church Co
    Commission Committee Company Congress Consortium Corp Corporation Council Court Department
    Electronics Energy Exchange Federation Force Forces Foundation Fund Gendarmerie GmbH Group Guard Guards Holding Holdings
    Inc Industries Institute Institution Intelligence Investments Laboratories Labs Laboratory
    Limited LLC Ltd Materials Media Metals Minerals Networks Mining Ministry Motors Movement NV Navy
    Organisation Organization Oyj Parliament Partners Party Petroleum PLC Plc Pharma Police Power
    Rail Railways Regiment Resources SA SE Semiconductor Semiconductors Senate Service Society
    Software Solutions SpA Steel Systems Technologies Technology Therapeutics Trucks Trust Union
    University Ventures Works
    Bio Biotech Foods Genomics Insurance Logistics Maritime Pharmaceuticals Robotics Securities
    Shipping Shipyard Shipyards Solar Storage Studios Tankers Telecom Textiles Turbines Wind
    """
)
PLACE_WORDS = word_set(
    """
    Archipelago Basin Bay Beach Bight Bridge Canal Cape Channel City Coast County Dam Delta Desert
    District Field Forest Gulf Harbor Harbour Hill Hills Island Islands Isle Lake Mount Mountain
    Mountains Ocean Park Peninsula Plateau Port Province Region River Sea Site Strait Straits Valley
    Volcano
    """
)
COUNTRY_WORDS = frozenset(
    {"Republic", "Kingdom", "Commonwealth", "Sultanate", "Principality", "Emirate"}
)
COUNTRY_ACRONYMS = frozenset({"DRC", "UAE", "UK", "US", "USA", "USSR"})
ORGANIZATION_VERBS = word_set(
    """
    acquired acquires agreed announced announces bought built buys closed delivered employs exported invested invests
    launched mined mines opened operates owns plans produced raised refines said says sells shipped signed
    sold supplied supplies won
    """
)
CONTINENTS = word_set("Africa Antarctica Asia Australasia Europe Oceania")
PLACE_HEADS = word_set("Cape Fort Lake Mount Port")
"""First words of names such as Lake Volta."""

_BODIES = (
    "agency|bank|company|developer|firm|group|maker|manufacturer|miner|operator|producer|supplier"
)
ORGANIZATION_IS = re.compile(
    rf"(?:,? is|,) (?:a|an|the|one of) [^.,;]{{0,60}}\b(?:{_BODIES})s?\b"
    r"|['’]s (?:board|chair\w*|chief|customers|profit|revenue|shares)\b",
    re.IGNORECASE,
)
ORGANIZATION_SUBJECT = re.compile(rf"The (?:\w+ ){{0,2}}(?:{_BODIES})\b")
"""Starts of sentences about an organization that do not name it."""

NATION_CUE = re.compile(
    r"\b(?:republic|kingdom|government|economy|people|capital|president|state|nation|country) of(?: the)?$",
    re.IGNORECASE,
)
PERSON_ROLE = re.compile(
    r"^, (?:the |its |their |who |a |an )?(?:[\w-]+ ){0,4}(?:chief executive|CEO|CFO|founder|co-founder|chairman|"
    r"chairwoman|director|president|minister|analyst|professor|head|spokesman|spokeswoman|manager)\b",
    re.IGNORECASE,
)
ROLE_BEFORE = re.compile(
    r"\b(?:chief executive|CEO|CFO|founder|chairman|chairwoman|director|president|minister|analyst|professor|"
    r"spokesman|spokeswoman|manager|chancellor|governor|leader),?$",
    re.IGNORECASE,
)
STATE_LABEL = re.compile(
    r"(?:area|birth rate|border|budget|capital|climate|coal|coastline|country|economic|electricity|energy|exports|gdp|"
    r"gni|government|imports|independence|inflation|land boundaries|languages|life expectancy|median age|merchant|"
    r"military|natural|petroleum|population|public debt|real gdp|religions|unemployment)\b",
    re.IGNORECASE,
)
"""Starts of labels in facts on states."""

PLACE_CUE = re.compile(
    r"\b(?:near|outside|off|(?:based|located|headquartered|situated) (?:in|at|near)"
    r"|(?:born|built|companies|company|developer|died|elections|exporter|factor(?:y|ies)|farms?|fields?|fighting|firm|group"
    r"|grown|held|lived|lives|living|made|makers?|manufacturer|market|meets?|met|mills?|mined?|mines|offices?|opened|opens"
    r"|operator|plants?|ports?|producers?|refined|refinery|sold|subsidiary|summit|supplier|talks|war) "
    r"(?:\w+ ){0,4}(?:in|at))(?: the)?$",
    re.IGNORECASE,
)
"""Before the name of a place. A plain `in` is not enough: `in PostgreSQL` names none."""

COUNTRY_IS = re.compile(
    r"(?:['’]s (?:economy|government|parliament|president|gdp|population)\b|,? is (?:a|an|one of)\b[^.]{0,80}\b"
    r"(?:country|nation|republic|monarchy|archipelago)\b)",
    re.IGNORECASE,
)


COUNTRY, ORGANIZATION, PERSON, PLACE, TOPIC = "Country", "Organization", "Person", "Place", "Topic"
HINT, LIKELY, CLEAR, STRONG, CERTAIN = range(1, 6)
"""Number of votes of a cue."""
DECISIVE = 50
"""More votes than all other cues together."""
ENUMERABLE = frozenset({COUNTRY, PERSON, PLACE})
"""Types that a name takes over from a neighbour in an enumeration."""
ENUMERATION = re.compile(r"^(?:,|,? and|,? or)(?: the)? $")
MIN_STATE_LABELS = 3
"""How many labels that facts on states have make a state: `Exports` alone may be a company's."""
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
    r"^(?:[A-Z][\w'’.-]*[a-z.] )+(?:[A-Z]{4,}(?:-[A-Z]{2,})?)(?: [A-Z]{3,})*$"
)


@dataclass(frozen=True, slots=True)
class Kind:
    """A node type with its description."""

    name: str
    description: str


DESCRIPTIONS = {
    COUNTRY: "A country or territory that the sources mention.",
    ORGANIZATION: "A company, institution, agency, party or other body of people.",
    PERSON: "A person whom the sources mention.",
    PLACE: "A place that is not a country: a city, region, sea, river, mountain or site.",
    TOPIC: "A subject of the sources that fits none of the more specific types.",
}


@lru_cache(maxsize=1)
def country_names() -> frozenset[str]:
    """English names of countries and territories."""
    return frozenset(
        name for code, name in Locale("en").territories.items() if len(code) == 2 and code.isalpha()
    )


def classify(candidates: dict[str, Candidate], known_kinds: Mapping[str, str]) -> dict[str, Kind]:
    """Classify the candidates by key; `known_kinds` are the types of existing nodes.

    Names listed as peers of a subject, or enumerated with a name of known type, have that type.
    """
    kinds = {
        key: _kind(known_kinds[key]) if key in known_kinds else _by_cues(candidate)
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
    return Kind(name, DESCRIPTIONS.get(name) or f"An item that the sources list under “{label}”.")


def _by_peers(
    candidate: Candidate, candidates: dict[str, Candidate], kinds: Mapping[str, Kind | None]
) -> Kind | None:
    for mention in candidate.mentions:
        line = mention.line
        if line and mention.is_listed and lists_peers(line.key) and candidate.name[0].isupper():
            return next(
                (kinds[key] for key, subject in candidates.items() if subject.name == line.subject),
                None,
            )
    return None


def _by_neighbours(
    candidate: Candidate, candidates: dict[str, Candidate], kinds: Mapping[str, Kind | None]
) -> Kind | None:
    for mention in candidate.named_mentions():
        for key, neighbour in candidates.items():
            if (
                (kind := kinds[key])
                and kind.name in ENUMERABLE
                and _is_enumerated(mention.sentence, candidate.name, neighbour.name)
            ):
                place = re.compile(
                    rf"\b(?:in|at|near|of) {re.escape(candidate.name)}, {re.escape(neighbour.name)}\b"
                )
                lies_in = kind.name == COUNTRY and place.search(mention.sentence)
                return _kind(PLACE) if lies_in else kind
    return None


def _is_enumerated(sentence: str, name: str, other_name: str) -> bool:
    start, end = sorted((sentence.find(name), sentence.find(other_name)))
    first = name if sentence.find(name) == start else other_name
    return start >= 0 and ENUMERATION.match(sentence[start + len(first) : end]) is not None


def _by_cues(candidate: Candidate) -> Kind | None:
    votes: Counter[str] = Counter()
    listed = [mention.line for mention in candidate.mentions if mention.line and mention.is_listed]
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
    return _kind(best, next((line.key for line in listed if kind_of_entries(line.key) == best), ""))


def _name_votes(name: str) -> dict[str, int]:
    words = name.split()
    if SHOUTED_SURNAME.match(name):
        return {PERSON: STRONG}
    if words[-1].strip(".") in ORGANIZATION_WORDS:
        return {ORGANIZATION: DECISIVE}
    if words[0] in ORGANIZATION_WORDS:
        return {ORGANIZATION: STRONG}
    if words[0] in COUNTRY_WORDS or name in COUNTRY_ACRONYMS:
        return {COUNTRY: CLEAR}
    leads = words[0] in PLACE_HEADS or (words[0] in PLACE_WORDS and words[1:2] == ["of"])
    if words[-1] in PLACE_WORDS or leads or name in CONTINENTS:
        return {PLACE: STRONG}
    return {COUNTRY: STRONG} if name in country_names() else {}


def _sentence_votes(name: str, mention: Mention) -> dict[str, int]:
    start = mention.sentence.find(name)
    if start < 0 and ORGANIZATION_SUBJECT.match(mention.sentence):
        return {ORGANIZATION: CLEAR}
    if mention.is_listed or start < 0:
        return {}
    left, right = mention.sentence[:start].rstrip(), mention.sentence[start + len(name) :]
    votes: dict[str, int] = {}
    if mention.has_title:
        votes[PERSON] = CERTAIN
    elif " " in name and (PERSON_ROLE.match(right) or ROLE_BEFORE.search(left)):
        votes[PERSON] = STRONG
    is_aside = left.rpartition(" ")[2] in {"of", "in", "from"}
    acts = (right.split() or [""])[0].strip(",") in ORGANIZATION_VERBS
    if ORGANIZATION_IS.match(right) and not mention.has_title:
        votes[ORGANIZATION] = CLEAR
    elif acts and not mention.has_title and not is_aside:
        votes[ORGANIZATION] = HINT if " " in name else LIKELY
    if NATION_CUE.search(left) or COUNTRY_IS.match(right):
        votes[COUNTRY] = CLEAR
    elif PLACE_CUE.search(left):
        votes[PLACE] = HINT
    return votes


def _subject_votes(candidate: Candidate) -> dict[str, int]:
    """Votes from labels that only facts on states have, and from folders in the URL."""
    lines = [mention.line for mention in candidate.mentions if mention.line]
    own = [line.label for line in lines if line.subject == candidate.name]
    if candidate.name in NOT_NAMES:
        return {}
    votes = Counter(kind for source in candidate.subject_of[:1] for kind in _folder_kinds(source))
    if len({label for label in own if STATE_LABEL.match(label)}) >= MIN_STATE_LABELS:
        votes[COUNTRY] += 1
    return dict.fromkeys(votes, CLEAR)


def _folder_kinds(source: Source) -> list[str]:
    """The type that a URL such as `…/companies/acme/` states."""
    segments = urlsplit(source.url).path.lower().split("/")
    return [FOLDERS[segment] for segment in segments[:-1] if segment in FOLDERS][-1:]
