"""What a sentence says of two names in it."""

import re
from dataclasses import dataclass

from sandbox.text.word_set import word_set
from sandbox.text.words import WORD

MENTIONED_WITH = "mentioned_with"
LOCATED_IN = "located_in"
PART_OF = "part_of"
MAX_WORDS_BETWEEN = 9
MAX_WORDS_FOR_PLACE = 3
ARTICLES = frozenset({"a", "an", "the", "its", "their"})
PLACED = re.compile(
    r"(?:\b(?:based|located|headquartered|situated) (?:in|at|near)"
    r"|^(?:is|was|are|were) (?:a|an|the) [\w -]{3,40} in)(?: the)?$"
)
ASIDE = re.compile(r"\b(?:in|at|near|from|of|within|by) (?:the )?$")
PREPOSITIONS = {
    "in": LOCATED_IN,
    "at": LOCATED_IN,
    "near": LOCATED_IN,
    "of": PART_OF,
    "within": PART_OF,
}

DESCRIPTIONS = {
    MENTIONED_WITH: "Both are named in the same sentence or source, which does not say how they are related.",
    LOCATED_IN: "A sentence places the source in the target.",
    PART_OF: "A sentence names the source as a part of the target, or belonging to it.",
}

VERBS = {
    verb: relation
    for relation, verbs in {
        "acquires": "acquire acquires acquired acquiring buy buys bought buying takeover",
        "owns": "own owns owned owning controls controlled holds",
        "supplies": "supply supplies supplied supplying delivers delivered sells sold ships shipped provides",
        "buys_from": "sources sourced imports purchases purchased",
        "exports_to": "exports exported exporting",
        "builds": "build builds built building constructs constructed opens opened",
        "operates": "operate operates operated operating runs",
        "invests_in": "invest invests invested investing funds funded finances financed backs backed",
        "partners_with": "partner partners partnered partnering cooperates collaborates alliance venture",
        "competes_with": "compete competes competed competing rival rivals rivalled",
        "borders": "border borders bordered bordering neighbours neighboring",
        "leads": "lead leads led leading heads headed chairs founded governs",
        "signed_with": "signed signs agreed agreement contract deal",
        "produces": "produce produces produced producing makes made mines mined refines refined manufactures",
        "employs": "employ employs employed",
        "sues": "sue sues sued",
        "defeated": "defeat defeats defeated defeating",
        "succeeded": "succeed succeeds succeeded",
    }.items()
    for verb in verbs.split()
}
ALSO_NOUNS = word_set(
    "chairs controls exports funds heads holds imports makes mines partners runs ships sources"
)
"""Verbs only where they stand right behind the name that acts."""
PASSIVE = re.compile(
    r"\b(?:is|are|was|were|been|being)\b[^,;]*\bby$|\w+ed by$|\b(?:built|bought|sold|led|made) by$"
)


@dataclass(frozen=True, slots=True)
class Relation:
    """An edge type and which way it points: `reversed` from the later name to the earlier."""

    type: str
    reversed: bool = False


def relation_between(between: str, *, aside: bool = False) -> Relation | None:
    """By the words between two neighbouring names; None where they are too far apart to say anything.

    `aside`: the first of them only says where, so that a comma leads on to what that place is in.
    """
    between = between.strip()
    words = WORD.findall(between.lower())
    if len(words) > MAX_WORDS_BETWEEN or any(mark in between for mark in ".;:"):
        return None
    if between in {"'s", "’s"}:
        return Relation(PART_OF, reversed=True)
    if PLACED.search(between) or (aside and between == ","):
        return Relation(LOCATED_IN)
    verb = next(
        (
            VERBS[word]
            for place, word in enumerate(words)
            if word in VERBS and (not place or word not in ALSO_NOUNS)
        ),
        "",
    )
    if verb == "acquires" and words[-1] == "from":
        return Relation("buys_from")
    if verb:
        return Relation(verb, reversed=PASSIVE.search(between) is not None)
    return Relation(_by_preposition(words))


def is_aside(before: str) -> bool:
    """Whether a name behind these words only says where or of what: it does not act in its sentence."""
    return ASIDE.search(before) is not None


def _by_preposition(words: list[str]) -> str:
    kept = [word for word in words if word not in ARTICLES]
    short = len(words) <= MAX_WORDS_FOR_PLACE
    return PREPOSITIONS.get(kept[-1], MENTIONED_WITH) if kept and short else MENTIONED_WITH


def description_of(edge_type: str, label: str = "") -> str:
    """What an edge type says, for whoever reads the list of types."""
    if label:
        return f"The source of the edge is the subject of “{label}”, which lists its target."
    told = edge_type.replace("_", " ")
    return DESCRIPTIONS.get(edge_type) or f"A sentence says that the source {told} the target."
