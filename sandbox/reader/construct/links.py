"""Edges between names that stand in one sentence."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from sandbox.reader.construct.candidates import Candidate, Mention
from sandbox.reader.construct.relations import (
    MENTIONED_WITH,
    PREPOSITIONS,
    description_of,
    is_aside,
    relation_between,
)
from sandbox.text.english import snake_case
from sandbox.text.words import fold

MAX_EDGES = 32
_Placed = tuple[int, str, Mention]
"""Where in its sentence a candidate, told by its key, stands."""


@dataclass(frozen=True, slots=True)
class PlannedEdge:
    """An edge to add, its ends by their keys. `figure` is what stood beside a listed name."""

    type: str
    source: str
    target: str
    mention: Mention
    figure: str = ""
    label: str = ""

    @property
    def description(self) -> str:
        """Of its type."""
        return description_of(self.type, self.label)


def plan_edges(candidates: dict[str, Candidate]) -> list[PlannedEdge]:
    """One for each pair and type. A name that no sentence ties to another is tied to the subject of its source."""
    found: dict[tuple[str, str, str], PlannedEdge] = {}
    for edge in [*_listed(candidates), *_spoken(candidates)]:
        if edge.source != edge.target:
            found.setdefault((edge.type, edge.source, edge.target), edge)
    tied = {end for edge in found.values() for end in (edge.source, edge.target)}
    for edge in _named_beside(candidates, tied):
        found.setdefault((edge.type, edge.source, edge.target), edge)
    return list(found.values())[:MAX_EDGES]


def _listed(candidates: dict[str, Candidate]) -> Iterator[PlannedEdge]:
    """From the subject of a labelled list to each of its entries; the label is the type."""
    for key, candidate in candidates.items():
        for mention in candidate.mentions:
            line = mention.line
            if line and line.subject and mention.listed and fold(line.subject) in candidates:
                yield PlannedEdge(
                    snake_case(line.key), fold(line.subject), key, mention, mention.figure, line.key
                )


def _spoken(candidates: dict[str, Candidate]) -> Iterator[PlannedEdge]:
    """Between neighbouring names of a sentence, by the words between them."""
    for sentence, placed in _by_sentence(candidates).items():
        names = _apart(placed, candidates)
        actor = ""
        for (start, first, mention), (next_start, second, _) in pairwise(names):
            end = start + len(candidates[first].name)
            aside = is_aside(sentence[:start])
            relation = relation_between(sentence[end:next_start], aside=aside)
            actor = actor if aside else first
            if relation:
                acting = actor if actor and relation.type not in PREPOSITIONS.values() else first
                ends = (second, acting) if relation.reversed else (acting, second)
                yield PlannedEdge(relation.type, *ends, mention)


def _by_sentence(candidates: dict[str, Candidate]) -> dict[str, list[_Placed]]:
    placed: dict[str, list[_Placed]] = {}
    for key, candidate in candidates.items():
        for mention in candidate.mentions:
            start = candidate.place_in(mention.sentence)
            if not mention.listed and start >= 0:
                placed.setdefault(mention.sentence, []).append((start, key, mention))
    return placed


def _apart(names: list[_Placed], candidates: dict[str, Candidate]) -> list[_Placed]:
    """From left to right, without those that stand inside a longer name."""
    kept: list[_Placed] = []
    reached = 0
    for start, key, mention in sorted(names, key=lambda one: (one[0], -len(one[1]))):
        if start >= reached:
            kept.append((start, key, mention))
            reached = start + len(candidates[key].name)
    return kept


def _named_beside(candidates: dict[str, Candidate], tied: set[str]) -> Iterator[PlannedEdge]:
    subjects = {
        source: key for key, candidate in candidates.items() for source in candidate.subject_of
    }
    for key, candidate in candidates.items():
        mention = candidate.named_mentions()[0]
        subject = subjects.get(mention.source)
        if key not in tied and subject and subject != key:
            yield PlannedEdge(MENTIONED_WITH, subject, key, mention)
