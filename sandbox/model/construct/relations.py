"""Edges between names in one sentence, and the relation that the sentence states."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from types import MappingProxyType

from sandbox.model.construct.entities import Candidate, Mention
from sandbox.model.construct.kinds import TOPIC
from sandbox.text.english import snake_case
from sandbox.text.tokens import WORD, fold, word_set

MENTIONED_WITH = "mentioned_with"
LOCATED_IN = "located_in"
PART_OF = "part_of"
MAX_WORDS_BETWEEN = 9
MAX_WORDS_FOR_PLACE = 3
ARTICLES = frozenset({"a", "an", "the", "its", "their"})
LOCATION = re.compile(
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
    MENTIONED_WITH: "The same sentence or page mentions both, without saying how they are related.",
    LOCATED_IN: "A sentence places the source in the target.",
    PART_OF: "A sentence describes the source as part of the target, or as belonging to it.",
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
NOUN_OR_VERB = word_set(
    "chairs controls exports funds heads holds imports makes mines partners runs ships sources"
)
"""Verbs only directly after the acting name; nouns elsewhere."""
PASSIVE = re.compile(
    r"\b(?:is|are|was|were|been|being)\b[^,;]*\bby$|\w+ed by$|\b(?:built|bought|sold|led|made) by$"
)


@dataclass(frozen=True, slots=True)
class Relation:
    """An edge type with its direction; `reversed`: from the later name to the earlier."""

    type: str
    reversed: bool = False


def relation_between(between: str, *, aside: bool = False) -> Relation | None:
    """The relation that the words between two names state; None if the names are too far apart.

    `aside`: the first name only states a place, so that a comma leads to the place that contains it.
    """
    between = between.strip()
    words = WORD.findall(between.lower())
    if len(words) > MAX_WORDS_BETWEEN or any(mark in between for mark in ".;:"):
        return None
    if between in {"'s", "’s"}:
        return Relation(PART_OF, reversed=True)
    if LOCATION.search(between) or (aside and between == ","):
        return Relation(LOCATED_IN)
    verb = next(
        (
            VERBS[word]
            for place, word in enumerate(words)
            if word in VERBS and (not place or word not in NOUN_OR_VERB)
        ),
        "",
    )
    if verb == "acquires" and words[-1] == "from":
        return Relation("buys_from")
    if verb:
        return Relation(verb, reversed=PASSIVE.search(between) is not None)
    return Relation(_by_preposition(words))


def is_aside(before: str) -> bool:
    """Whether a name after these words only states where or of what, and does not act."""
    return ASIDE.search(before) is not None


def _by_preposition(words: list[str]) -> str:
    significant_words = [word for word in words if word not in ARTICLES]
    short = len(words) <= MAX_WORDS_FOR_PLACE
    return (
        PREPOSITIONS.get(significant_words[-1], MENTIONED_WITH)
        if significant_words and short
        else MENTIONED_WITH
    )


def describe_edge_type(edge_type: str, label: str = "") -> str:
    """The description of an edge type."""
    if label:
        return f"The target is listed under “{label}” for the source."
    verb = edge_type.replace("_", " ")
    return DESCRIPTIONS.get(edge_type) or f"A sentence says that the source {verb} the target."


MAX_EDGES = 32
_Placed = tuple[int, str, Mention]
"""Position in the sentence, key of the candidate, mention."""


@dataclass(frozen=True, slots=True)
class PlannedEdge:
    """An edge to add, its ends by key. `figure` is the one beside a list entry."""

    type: str
    source: str
    target: str
    mention: Mention
    figure: str = ""
    label: str = ""

    @property
    def description(self) -> str:
        """The description of its type."""
        return describe_edge_type(self.type, self.label)


def plan_edges(
    candidates: dict[str, Candidate], kinds: Mapping[str, str] = MappingProxyType({})
) -> list[PlannedEdge]:
    """Plan the edges, one per pair and type. Names without an edge are connected to their source's subject.

    `kinds` are the node types by key: a topic neither acts nor lies anywhere, so it is only mentioned with others.
    """
    edges: dict[tuple[str, str, str], PlannedEdge] = {}
    stated = [_between_topics(edge, kinds) for edge in _sentence_edges(candidates)]
    for edge in [*_list_edges(candidates), *stated]:
        reverse = (edge.type, edge.target, edge.source)
        if edge.source != edge.target and (edge.type != MENTIONED_WITH or reverse not in edges):
            edges.setdefault((edge.type, edge.source, edge.target), edge)
    tied = {end for edge in edges.values() for end in (edge.source, edge.target)}
    for edge in _fallback_edges(candidates, tied):
        edges.setdefault((edge.type, edge.source, edge.target), edge)
    return list(edges.values())[:MAX_EDGES]


def _between_topics(edge: PlannedEdge, kinds: Mapping[str, str]) -> PlannedEdge:
    is_topic = TOPIC in (kinds.get(edge.source), kinds.get(edge.target))
    return replace(edge, type=MENTIONED_WITH) if is_topic else edge


def _list_edges(candidates: dict[str, Candidate]) -> Iterator[PlannedEdge]:
    """Edges from the subject of a labelled list to its entries; the label gives the type."""
    for key, candidate in candidates.items():
        for mention in candidate.mentions:
            line = mention.line
            if line and line.subject and mention.is_listed and fold(line.subject) in candidates:
                yield PlannedEdge(
                    snake_case(line.key), fold(line.subject), key, mention, mention.figure, line.key
                )


def _sentence_edges(candidates: dict[str, Candidate]) -> Iterator[PlannedEdge]:
    """Edges between neighbouring names of a sentence, by the words between them."""
    for sentence, placed in _by_sentence(candidates).items():
        names = _without_overlaps(placed, candidates)
        service = ""
        for (start, first, mention), (next_start, second, _) in pairwise(names):
            end = start + len(candidates[first].name)
            aside = is_aside(sentence[:start])
            relation = relation_between(sentence[end:next_start], aside=aside)
            service = service if aside else first
            if relation:
                acting = (
                    service if service and relation.type not in PREPOSITIONS.values() else first
                )
                ends = (second, acting) if relation.reversed else (acting, second)
                yield PlannedEdge(relation.type, *ends, mention)


def _by_sentence(candidates: dict[str, Candidate]) -> dict[str, list[_Placed]]:
    placed: dict[str, list[_Placed]] = {}
    for key, candidate in candidates.items():
        for mention in candidate.mentions:
            start = candidate.position_in(mention.sentence)
            if not mention.is_listed and start >= 0:
                placed.setdefault(mention.sentence, []).append((start, key, mention))
    return placed


def _without_overlaps(names: list[_Placed], candidates: dict[str, Candidate]) -> list[_Placed]:
    """Names from left to right, without those inside a longer name."""
    kept_names: list[_Placed] = []
    end = 0
    for start, key, mention in sorted(names, key=lambda name: (name[0], -len(name[1]))):
        if start >= end:
            kept_names.append((start, key, mention))
            end = start + len(candidates[key].name)
    return kept_names


def _fallback_edges(candidates: dict[str, Candidate], tied: set[str]) -> Iterator[PlannedEdge]:
    subjects = {
        source: key for key, candidate in candidates.items() for source in candidate.subject_of
    }
    for key, candidate in candidates.items():
        mention = candidate.named_mentions()[0]
        subject = subjects.get(mention.source)
        if key not in tied and subject and subject != key:
            yield PlannedEdge(MENTIONED_WITH, subject, key, mention)
