"""An agent's node and edge types: from the corpus, from the words of the mission, and general ones."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sandbox.model.acquire import (
    CUT_MARK,
    MAX_EXTRACTS,
    MAX_SEARCHES,
    RESULTS_PER_SEARCH,
    Page,
    Query,
    write_findings,
)
from sandbox.model.construct.entities import parse_sources
from sandbox.model.construct.kinds import DESCRIPTIONS
from sandbox.model.construct.plan import ExistingGraph, GraphPlan, PlannedNode, make_plan
from sandbox.model.construct.properties import NODE_SCHEMA
from sandbox.model.construct.relations import (
    LOCATED_IN,
    MENTIONED_WITH,
    PART_OF,
    describe_edge_type,
)
from sandbox.model.graph_view import OWN_TYPES
from sandbox.model.observe import observe
from sandbox.model.request import Answer, ChatRequest
from sandbox.search import Hit, SearchIndex, SearchQuery
from sandbox.text.english import is_plural, shorten, singular, with_article
from sandbox.text.missions import parse_mission
from sandbox.text.tokens import WORD

Search = Callable[[str], Sequence[Hit]]
"""Searches the corpus; the best hits first."""


@dataclass(slots=True)
class ExpectedTypes:
    """The node and edge types that a first iteration would use: counts, descriptions and samples."""

    kinds: Counter[str] = field(default_factory=Counter)
    descriptions: dict[str, str] = field(default_factory=dict)
    samples: dict[str, PlannedNode] = field(default_factory=dict)
    """The first node of each type."""
    figures: dict[str, Counter[str]] = field(default_factory=dict)
    """By node type, counts of figure labels."""
    figure_samples: dict[str, str] = field(default_factory=dict)
    edges: Counter[str] = field(default_factory=Counter)
    ends: dict[str, tuple[set[str], set[str]]] = field(default_factory=dict)

    def add(self, plan: GraphPlan) -> None:
        kinds = {node.key: node.kind.name for node in plan.nodes}
        for node in plan.nodes:
            self._add_node(node)
        for edge in plan.edges:
            if edge.source in kinds and edge.target in kinds:
                self.edges[edge.type] += 1
                self.descriptions.setdefault(edge.type, edge.description)
                sources, targets = self.ends.setdefault(edge.type, (set(), set()))
                sources.add(kinds[edge.source])
                targets.add(kinds[edge.target])

    def _add_node(self, node: PlannedNode) -> None:
        kind = node.kind.name
        self.kinds[kind] += 1
        self.descriptions.setdefault(kind, node.kind.description)
        self.samples.setdefault(kind, node)
        for label, value in node.properties.items():
            if label not in NODE_SCHEMA["properties"]:
                self.figures.setdefault(kind, Counter())[label] += 1
                self.figure_samples.setdefault(label, str(value))


def corpus_search(index: SearchIndex) -> Search:
    """Create a search of a corpus."""
    return lambda text: index.search(SearchQuery(text, RESULTS_PER_SEARCH))


def no_search(text: str) -> Sequence[Hit]:
    """Search no corpus: no hits."""
    return ()


def expect_types(mission: str, search: Search) -> ExpectedTypes:
    """Construct the graph of what each query of the first plan finds in the corpus."""
    section = f"<mission>\n{mission}\n</mission>"
    request = ChatRequest({"messages": [{"role": "user", "content": section}]})
    foreseen = ExpectedTypes()
    for planned in json.loads(observe(request).text)["queries"]:
        query = Query(planned["objective"], tuple(planned["searchHints"]))
        document = write_findings(query, _pages(query, search), [])
        sources = parse_sources(document)
        if sources:
            foreseen.add(
                make_plan(sources, query.objective, ExistingGraph(ChatRequest({})), mission)
            )
    return foreseen


def _pages(query: Query, search: Search) -> list[Page]:
    """The pages of a query, best first; the best ones complete."""
    hits = [hit for hint in query.hints[:MAX_SEARCHES] for hit in search(hint)]
    hits_by_url: dict[str, Hit] = {}
    for hit in sorted(hits, key=lambda hit: -hit.score):
        hits_by_url.setdefault(hit.document.url, hit)
    return [
        _page(hit, is_complete=place < MAX_EXTRACTS)
        for place, hit in enumerate(hits_by_url.values())
    ]


def _page(hit: Hit, *, is_complete: bool) -> Page:
    document = hit.document
    is_complete = is_complete or CUT_MARK not in hit.passage
    return Page(
        title=document.title,
        url=document.url,
        published=document.published.isoformat() if document.published else "",
        text=document.text if is_complete else hit.passage,
        score=hit.score,
        is_complete=is_complete,
    )


MAX_NODE_TYPES = 12
MAX_EDGE_TYPES = 15
MAX_MISSION_TYPES = 3
MAX_FIGURES = 5
MAX_TEXT_CHARS = 200
MAX_LABEL_CHARS = 60
MAX_TYPE_CHARS = 40
GENERAL_EDGES = (MENTIONED_WITH, LOCATED_IN, PART_OF, "produces", "supplies", "partners_with")
Json = dict[str, Any]


def choose_types(request: ChatRequest, search: Search) -> Answer:
    """Answer with six to twelve node types and as many or more edge types."""
    mission = request.mission
    foreseen = expect_types(mission, search)
    described: dict[str, str] = {}
    for name, description in _node_types(mission, foreseen):
        if name.lower() not in {*map(str.lower, described), *map(str.lower, OWN_TYPES)}:
            described[name] = description
    names = list(described)[:MAX_NODE_TYPES]
    edges = list(dict.fromkeys([*_by_count(foreseen.edges), *GENERAL_EDGES]))[:MAX_EDGE_TYPES]
    edge_types = list(
        dict.fromkeys([*edges[: MAX_EDGE_TYPES - len(GENERAL_EDGES)], *GENERAL_EDGES])
    )
    selection = {
        "nodeTypes": [_node_type(name, described[name], foreseen) for name in names],
        "edgeTypes": [_edge_type(name, foreseen, names) for name in edge_types],
    }
    return Answer(json.dumps(selection, ensure_ascii=False))


def _node_types(mission: str, foreseen: ExpectedTypes) -> Iterator[tuple[str, str]]:
    """Names with descriptions, with room for the general types."""
    room = MAX_NODE_TYPES - len(DESCRIPTIONS) - MAX_MISSION_TYPES
    kinds = [kind for kind in _by_count(foreseen.kinds) if kind not in DESCRIPTIONS]
    for kind in kinds[:room]:
        yield kind, foreseen.descriptions[kind]
    yield from DESCRIPTIONS.items()
    yield from list(_mission_types(mission))[:MAX_MISSION_TYPES]
    yield "Event", "Something that happened or is planned, at a time that the sources state."


def _mission_types(mission: str) -> Iterator[tuple[str, str]]:
    """Node types from the mission: `battery makers` gives `BatteryMaker`."""
    for term in parse_mission(mission).terms():
        words = [word for word in WORD.findall(term.removeprefix("the ")) if word.isascii()]
        if words and not words[-1][:1].isupper():
            last = singular(words[-1]) if is_plural(words[-1]) else words[-1].capitalize()
            name = "".join([*(word.capitalize() for word in words[:-1]), last])
            if name.isalnum() and name[:1].isalpha() and len(name) <= MAX_TYPE_CHARS:
                yield name, f"Something that the mission calls “{term}”."


def _node_type(name: str, description: str, foreseen: ExpectedTypes) -> Json:
    sample = foreseen.samples.get(name)
    summary = str(sample.properties.get("summary", "")) if sample else ""
    labels = _by_count(foreseen.figures.get(name, {}))
    usable = [label for label in labels if len(label) <= MAX_LABEL_CHARS][:MAX_FIGURES]
    return {
        "name": name,
        "description": shorten(description, MAX_TEXT_CHARS),
        "exampleSummary": shorten(summary, MAX_TEXT_CHARS)
        or f"{with_article(name)[:1].upper()}{with_article(name)[1:]} that a source mentions.",
        "properties": [_figure_property(label, foreseen.figure_samples[label]) for label in usable],
    }


def _figure_property(label: str, example: str) -> Json:
    return _text_property(
        label, f"“{label}” as the sources state it, with unit and period.", example
    )


def _edge_type(name: str, foreseen: ExpectedTypes, node_types: Sequence[str]) -> Json:
    """An edge type. General ones connect any types, others those that they were found between."""
    every = list(node_types)
    sources, targets = foreseen.ends.get(name, (set(), set()))
    described = foreseen.descriptions.get(name) or describe_edge_type(name)
    is_general = name in GENERAL_EDGES or name not in foreseen.ends
    beside = _text_property(
        "figure", "The figure that the page gives for the target, with its unit.", "27% (2023)"
    )
    return {
        "name": name,
        "description": shorten(described, MAX_TEXT_CHARS),
        "sourceTypes": every
        if is_general
        else [node_type for node_type in every if node_type in sources] or every,
        "targetTypes": every
        if is_general
        else [node_type for node_type in every if node_type in targets] or every,
        "properties": [beside],
    }


def _text_property(name: str, description: str, example: str) -> Json:
    return {
        "name": name,
        "type": "string",
        "description": description,
        "enum": None,
        "example": example,
    }


def _by_count(counts: Mapping[str, int]) -> list[str]:
    return sorted(counts, key=lambda name: (-counts[name], name))
