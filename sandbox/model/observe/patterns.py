"""Patterns in the graph that no analysis covers yet, as insights."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sandbox.model.facts import Comparison, comparisons
from sandbox.model.graph_view import GraphView, ViewNode
from sandbox.text.english import join_with_and
from sandbox.text.missions import Subject, is_proper_name
from sandbox.text.tokens import fold, topic_stems

MAX_NODES = 6
MAX_FIGURES = 3
MAX_COMPARED = 4
MIN_DEGREE = 3
UNSPECIFIC_EDGE = "mentioned_with"
"""An edge type that supports no conclusion."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """Nodes that share a `theme`."""

    theme: str
    observation: str
    direction: str
    nodes: tuple[ViewNode, ...]
    is_shown: bool = True
    """Whether the data to compare is shown, and needs no lookup."""

    def insight(self) -> dict[str, Any]:
        """The insight as the observer's plan contains it."""
        return {
            "observation": self.observation,
            "relevantNodeIds": [node.id for node in self.nodes],
            "synthesisDirection": self.direction,
        }

    def is_covered(self, texts: list[str]) -> bool:
        """Whether an analysis covers half of the theme's words and two thirds of the nodes."""
        theme = topic_stems(self.theme)
        for text in texts:
            mentions = sum(fold(node.name) in fold(text) for node in self.nodes)
            shared = len(theme & topic_stems(text))
            if shared * 2 >= len(theme) and mentions * 3 >= len(self.nodes) * 2:
                return True
        return False


def find_patterns(subject: Subject, view: GraphView) -> list[Pattern]:
    """Patterns closest to the mission first, comparisons before shared edges; without covered ones."""
    topic_words = topic_stems(" ".join(subject.terms()))
    texts = [node.text for node in view.analyses] + view.lines("recently asked")
    texts.append(" ".join(view.lines("data that was missing")))
    patterns = [
        *_comparison_patterns(view),
        *_hub_patterns(subject, view),
        *_shared_edge_patterns(view),
    ]
    by_rank = sorted(patterns, key=lambda pattern: _rank(pattern, topic_words))
    selection: list[Pattern] = []
    for pattern in by_rank:
        if not pattern.is_covered(
            [*texts, *(pattern_before.observation for pattern_before in selection)]
        ):
            selection.append(pattern)
    return selection


def _rank(pattern: Pattern, topic_words: frozenset[str]) -> tuple[int, int]:
    """Sort key: relevant and shown, then possibly relevant after a lookup, then the rest."""
    near = len(topic_words & topic_stems(pattern.theme))
    return (0 if pattern.is_shown and near else 1 if near else 2), -near


def _comparison_patterns(view: GraphView) -> Iterator[Pattern]:
    for comparison in comparisons(view.nodes):
        nodes = tuple(comparison.nodes[:MAX_NODES])
        yield Pattern(
            comparison.key,
            f"{join_with_and([node.name for node in nodes])} each state a figure for “{comparison.key}”:"
            f" {_format_figures(comparison)}.",
            f"Compare “{comparison.key}” across them: who is highest and lowest, by how much, and which way each moves.",
            nodes,
        )


def _format_figures(comparison: Comparison) -> str:
    return "; ".join(
        f"{figure.node.name} {figure.value}" for figure in comparison.figures[:MAX_FIGURES]
    )


def _hub_patterns(subject: Subject, view: GraphView) -> Iterator[Pattern]:
    """The best connected nodes of one type. Their data may not be shown here, but the Analyzer can look it up."""
    by_type: dict[str, list[ViewNode]] = {}
    for node in sorted(view.nodes, key=lambda node: -view.degrees.get(node.id, 0)):
        hubs = (
            by_type.setdefault(node.type, []) if view.degrees.get(node.id, 0) >= MIN_DEGREE else []
        )
        if len(hubs) < MAX_COMPARED:
            hubs.append(node)
    if not by_type:
        return
    node_type, nodes = max(
        by_type.items(), key=lambda pair: sum(view.degrees[node.id] for node in pair[1])
    )
    if len(nodes) < 2:
        return
    names = join_with_and([node.name for node in nodes])
    description = f"the best connected nodes of the type {node_type}"
    topics = [topic for topic in subject.topics if not is_proper_name(topic)]
    for topic in topics if subject.scopes else ():
        yield Pattern(
            topic,
            f"No analysis compares {names}, {description}, on {topic}.",
            f"Compare what they state on “{topic}”: who is highest and lowest, and which way each moves.",
            tuple(nodes),
            is_shown=False,
        )
    if not subject.scopes and view.is_partial:
        direction = "Compare the figures that they state: who is highest and lowest, and which way each moves."
        observation = f"No analysis compares {names}, {description}."
        yield Pattern(names, observation, direction, tuple(nodes), is_shown=False)


def _shared_edge_patterns(view: GraphView) -> Iterator[Pattern]:
    """Several nodes with the same type of edge to the same node."""
    sources: dict[tuple[str, str], list[ViewNode]] = defaultdict(list)
    for edge in view.edges:
        source = view.by_name.get(fold(edge.source))
        if source and source not in sources[edge.type, edge.target]:
            sources[edge.type, edge.target].append(source)
    for (edge_type, target_name), nodes in sources.items():
        target = view.by_name.get(fold(target_name))
        if target and len(nodes) >= 2 and edge_type != UNSPECIFIC_EDGE:
            relation = edge_type.replace("_", " ")
            names = join_with_and([node.name for node in nodes[:MAX_NODES]])
            every = "both" if len(nodes) == 2 else "all"
            yield Pattern(
                f"{relation} {target.name}",
                f"{names} {every} have an edge “{relation}” to {target.name}.",
                f"Say what it means for them that they share {target.name} ({relation}), and what rests on it.",
                (target, *nodes[:MAX_NODES]),
            )
