"""What the first iteration would write: the reader's own plan, searched for in the corpus and read."""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sandbox.reader.acquire import MAX_EXTRACTS, MAX_SEARCHES, RESULTS_PER_SEARCH
from sandbox.reader.acquire.findings import write_findings
from sandbox.reader.acquire.pages import CUT_MARK, Page
from sandbox.reader.acquire.query import Query
from sandbox.reader.construct.existing import Existing
from sandbox.reader.construct.plan import GraphPlan, PlannedNode, make_plan
from sandbox.reader.construct.properties import NODE_SCHEMA
from sandbox.reader.construct.sources import parse_sources
from sandbox.reader.observe import observe
from sandbox.reader.request import ChatRequest
from sandbox.search import Hit, SearchIndex, SearchQuery

Search = Callable[[str], Sequence[Hit]]
"""What the corpus has on some words, the best first."""


@dataclass(slots=True)
class Foreseen:
    """How often each kind of node and each type of edge would be written, and how."""

    kinds: Counter[str] = field(default_factory=Counter)
    descriptions: dict[str, str] = field(default_factory=dict)
    samples: dict[str, PlannedNode] = field(default_factory=dict)
    """The first node of each kind."""
    figures: dict[str, Counter[str]] = field(default_factory=dict)
    """By kind, the labels of its nodes' figures."""
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


def searching(index: SearchIndex) -> Search:
    """Looks in a corpus."""
    return lambda text: index.search(SearchQuery(text, RESULTS_PER_SEARCH))


def nowhere(text: str) -> Sequence[Hit]:
    """Looks in none."""
    return ()


def foresee(mission: str, search: Search) -> Foreseen:
    """Reads what each query of the plan for an empty graph finds."""
    section = f"<mission>\n{mission}\n</mission>"
    asked = ChatRequest({"messages": [{"role": "user", "content": section}]})
    foreseen = Foreseen()
    for planned in json.loads(observe(asked).text)["queries"]:
        query = Query(planned["objective"], tuple(planned["searchHints"]))
        document = write_findings(query, _pages(query, search), [])
        sources = parse_sources(document)
        if sources:
            foreseen.add(make_plan(sources, query.objective, Existing(ChatRequest({}))))
    return foreseen


def _pages(query: Query, search: Search) -> list[Page]:
    """Each page once, the best first; the best whole."""
    hits = [hit for hint in query.hints[:MAX_SEARCHES] for hit in search(hint)]
    found: dict[str, Hit] = {}
    for hit in sorted(hits, key=lambda one: -one.score):
        found.setdefault(hit.document.url, hit)
    return [_page(hit, whole=place < MAX_EXTRACTS) for place, hit in enumerate(found.values())]


def _page(hit: Hit, *, whole: bool) -> Page:
    document = hit.document
    whole = whole or CUT_MARK not in hit.passage
    return Page(
        title=document.title,
        url=document.url,
        published=document.published.isoformat() if document.published else "",
        text=document.text if whole else hit.passage,
        score=hit.score,
        whole=whole,
    )
