"""What the graph shows and no analysis has spoken of yet."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sandbox.reader.facts import Comparison, comparisons
from sandbox.reader.graph_view import GraphView, ViewNode
from sandbox.text.english import listed
from sandbox.text.subject import Subject, names_one
from sandbox.text.words import fold, topic_stems

MAX_NODES = 6
SHOWN_FIGURES = 3
MAX_COMPARED = 4
MIN_DEGREE = 3
SAYS_NOTHING = "mentioned_with"
"""An edge type that gives no ground for a conclusion."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """Nodes that belong together under one `theme`."""

    theme: str
    observation: str
    direction: str
    nodes: tuple[ViewNode, ...]
    is_shown: bool = True
    """Whether what it compares was shown, and need not be looked up."""

    def insight(self) -> dict[str, Any]:
        """As the observer's plan holds it."""
        return {
            "observation": self.observation,
            "relevantNodeIds": [node.id for node in self.nodes],
            "synthesisDirection": self.direction,
        }

    def is_covered(self, told: list[str]) -> bool:
        """Whether one analysis speaks of half the theme's words and of two thirds of the nodes."""
        theme = topic_stems(self.theme)
        for text in told:
            named = sum(fold(node.name) in fold(text) for node in self.nodes)
            shared = len(theme & topic_stems(text))
            if shared * 2 >= len(theme) and named * 3 >= len(self.nodes) * 2:
                return True
        return False


def find_patterns(subject: Subject, view: GraphView) -> list[Pattern]:
    """Those nearest to the mission first, then comparisons before shared edges; one for each theme and group of nodes."""
    wanted = topic_stems(" ".join(subject.terms()))
    told = [node.text for node in view.analyses] + view.lines("recently asked")
    told.append(" ".join(view.lines("data that was missing")))
    found = [*_compared(view), *_well_connected(subject, view), *_shared(view)]
    ordered = sorted(found, key=lambda one: _rank(one, wanted))
    chosen: list[Pattern] = []
    for pattern in ordered:
        if not pattern.is_covered([*told, *(one.observation for one in chosen)]):
            chosen.append(pattern)
    return chosen


def _rank(pattern: Pattern, wanted: frozenset[str]) -> tuple[int, int]:
    """What bears on the mission and was shown, what may bear on it once it is looked up, and the rest."""
    near = len(wanted & topic_stems(pattern.theme))
    return (0 if pattern.is_shown and near else 1 if near else 2), -near


def _compared(view: GraphView) -> Iterator[Pattern]:
    for comparison in comparisons(view.nodes):
        nodes = tuple(comparison.nodes[:MAX_NODES])
        yield Pattern(
            comparison.key,
            f"{listed([node.name for node in nodes])} each state a figure for “{comparison.key}”: {_shown(comparison)}.",
            f"Compare “{comparison.key}” across them: who is highest and lowest, by how much, and which way each moves.",
            nodes,
        )


def _shown(comparison: Comparison) -> str:
    return "; ".join(
        f"{figure.node.name} {figure.value}" for figure in comparison.figures[:SHOWN_FIGURES]
    )


def _well_connected(subject: Subject, view: GraphView) -> Iterator[Pattern]:
    """The best connected nodes of one type: what they say may not be shown here, but is shown to whoever compares them."""
    by_type: dict[str, list[ViewNode]] = {}
    for node in sorted(view.nodes, key=lambda node: -view.degrees.get(node.id, 0)):
        alike = (
            by_type.setdefault(node.type, []) if view.degrees.get(node.id, 0) >= MIN_DEGREE else []
        )
        if len(alike) < MAX_COMPARED:
            alike.append(node)
    if not by_type:
        return
    node_type, nodes = max(
        by_type.items(), key=lambda pair: sum(view.degrees[node.id] for node in pair[1])
    )
    if len(nodes) < 2:
        return
    names = listed([node.name for node in nodes])
    who = f"the best connected nodes of the type {node_type}"
    topics = [topic for topic in subject.topics if not names_one(topic)]
    for topic in topics if subject.scopes else ():
        yield Pattern(
            topic,
            f"No analysis compares {names}, {who}, on {topic}.",
            f"Compare what they state on “{topic}”: who is highest and lowest, and which way each moves.",
            tuple(nodes),
            is_shown=False,
        )
    if not subject.scopes and view.is_partial:
        direction = "Compare the figures that they state: who is highest and lowest, and which way each moves."
        told = f"No analysis compares {names}, {who}."
        yield Pattern(names, told, direction, tuple(nodes), is_shown=False)


def _shared(view: GraphView) -> Iterator[Pattern]:
    """Several nodes with the same kind of edge to the same node."""
    sources: dict[tuple[str, str], list[ViewNode]] = defaultdict(list)
    for edge in view.edges:
        source = view.by_name.get(fold(edge.source))
        if source and source not in sources[edge.type, edge.target]:
            sources[edge.type, edge.target].append(source)
    for (edge_type, target_name), nodes in sources.items():
        target = view.by_name.get(fold(target_name))
        if target and len(nodes) >= 2 and edge_type != SAYS_NOTHING:
            relation = edge_type.replace("_", " ")
            names = listed([node.name for node in nodes[:MAX_NODES]])
            every = "both" if len(nodes) == 2 else "all"
            yield Pattern(
                f"{relation} {target.name}",
                f"{names} {every} have an edge “{relation}” to {target.name}.",
                f"Say what it means for them that they share {target.name} ({relation}), and what rests on it.",
                (target, *nodes[:MAX_NODES]),
            )
