"""The nodes and edges that a document gives, as one plan that every round of the request comes to again."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sandbox.reader.construct.candidates import Candidate, Mention, find_candidates
from sandbox.reader.construct.evidence import borne_out, only, values
from sandbox.reader.construct.existing import Existing, KnownNode
from sandbox.reader.construct.kinds import Kind, kinds_of
from sandbox.reader.construct.links import PlannedEdge, plan_edges
from sandbox.reader.construct.properties import Told, fitted, node_properties
from sandbox.reader.construct.sources import Source
from sandbox.text.words import stem, topic_stems, words

MAX_NODES = 20
MAX_NODES_PER_SOURCE = 6
"""More where there are few sources."""
FALLBACK_TYPE = "Topic"


@dataclass(frozen=True, slots=True)
class PlannedNode:
    """A node to add. `kind` describes its type, where the type has yet to be made."""

    key: str
    name: str
    kind: Kind
    told: Mapping[str, Told]

    @property
    def properties(self) -> Mapping[str, Any]:
        """As they are written."""
        return values(self.told)


@dataclass(frozen=True, slots=True)
class GraphPlan:
    """Edges name their ends by the keys of nodes, planned or known."""

    nodes: tuple[PlannedNode, ...]
    known: Mapping[str, KnownNode]
    edges: tuple[PlannedEdge, ...]


def names_to_look_up(sources: list[Source], objective: str, existing: Existing) -> list[str]:
    """Names that may become nodes: worth asking the graph for before anything is added."""
    return [candidate.name for _, candidate, _ in _worth_writing(sources, objective, existing)]


def make_plan(sources: list[Source], objective: str, existing: Existing) -> GraphPlan:
    """A name that has a node keeps that node's type; it is written again only where a source is about it."""
    wanted = topic_stems(objective)
    nodes = [
        node
        for key, candidate, kind in _worth_writing(sources, objective, existing)
        if (node := _node(key, candidate, kind, wanted, existing))
    ]
    candidates = find_candidates(sources)
    linked = {node.key for node in nodes} | (existing.nodes.keys() & candidates.keys())
    edges = plan_edges({key: candidates[key] for key in candidates if key in linked})
    return GraphPlan(tuple(nodes), existing.nodes, tuple(edges))


def _worth_writing(
    sources: list[Source], objective: str, existing: Existing
) -> list[tuple[str, Candidate, Kind]]:
    candidates = find_candidates(sources)
    kinds = kinds_of(candidates, existing.kinds)
    telling = {
        key: one
        for key, one in candidates.items()
        if _tells(one, kinds[key], key in existing.nodes)
    }
    return [
        (key, candidates[key], kinds[key])
        for key in _chosen(telling, topic_stems(objective))
        if candidates[key].is_subject or key not in existing.nodes
    ]


def _tells(candidate: Candidate, kind: Kind, is_known: bool) -> bool:
    """A short name with no cue to what it is makes no node, unless it stands in several sentences."""
    if candidate.is_subject or is_known or kind.name != FALLBACK_TYPE:
        return True
    words_in_name = len(candidate.name.split())
    sentences = len({mention.sentence for mention in candidate.mentions})
    return words_in_name >= 3 or (words_in_name == 2 and sentences >= 2)


def _node(
    key: str, candidate: Candidate, kind: Kind, wanted: frozenset[str], existing: Existing
) -> PlannedNode | None:
    known = existing.nodes.get(key)
    kind = Kind(known.type, kind.description) if known else kind
    name = known.name if known else candidate.name
    told = borne_out(node_properties(candidate, wanted, is_known=known is not None))
    if not told:
        return None
    schema = existing.node_types.get(kind.name)
    if not schema:
        return PlannedNode(key, name, kind, told)
    fitting = fitted(values(told), schema, known.properties if known else {})
    return PlannedNode(key, name, kind, only(told, fitting)) if fitting else None


def _chosen(candidates: dict[str, Candidate], wanted: frozenset[str]) -> list[str]:
    """Subjects first, then the names that stand most often in sentences on the objective."""
    order = sorted(
        candidates,
        key=lambda key: (not candidates[key].is_subject, -_weight(candidates[key], wanted)),
    )
    sources = {one.mentions[0].source for one in candidates.values()}
    room = max(MAX_NODES_PER_SOURCE, MAX_NODES // (len(sources) or 1))
    taken: Counter[Source] = Counter()
    chosen: list[str] = []
    for key in order:
        source = candidates[key].mentions[0].source
        if taken[source] < room and len(chosen) < MAX_NODES:
            taken[source] += 1
            chosen.append(key)
    return chosen


def _weight(candidate: Candidate, wanted: frozenset[str]) -> float:
    return sum(_mention_weights(candidate.mentions, wanted)) * (
        1 if candidate.name[0].isupper() else 0.5
    )


def _mention_weights(mentions: list[Mention], wanted: frozenset[str]) -> Iterator[float]:
    for mention in mentions:
        yield 1 + len(wanted & {stem(word) for word in words(mention.sentence)})
