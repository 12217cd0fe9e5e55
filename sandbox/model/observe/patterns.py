"""Patterns in the graph that no analysis covers yet, as insights."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sandbox.model.facts import UNTYPED, Comparison, comparisons
from sandbox.model.graph_view import GraphView, ViewNode
from sandbox.text.english import join_with_and
from sandbox.text.missions import Subject, is_proper_name
from sandbox.text.tokens import fold, is_significant, stem, topic_stems, words

MAX_NODES = 6
MAX_FIGURES = 3
MAX_COMPARED = 4
MIN_DEGREE = 3
MIN_COMPARISONS = 2
"""With fewer comparisons, what sources state and mention together is analyzed too."""
SHARED_EDGE = "have an edge"
ASPECTS = "which is highest, which is lowest, and how each has changed"
MIN_NEIGHBOURS = 2
MAX_HUBS = 2
MIN_STATING = 3
"""How many nodes mention a topic, at least, unless they have an edge."""
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
    mark: str = ""
    """Words that each text on this pattern has, whatever its nodes are; empty for a pattern of these nodes alone."""

    def insight(self) -> dict[str, Any]:
        """The insight as the observer's plan contains it."""
        return {
            "observation": self.observation,
            "relevantNodeIds": [node.id for node in self.nodes],
            "synthesisDirection": self.direction,
        }

    def is_covered(self, texts: list[str]) -> bool:
        """Whether an analysis covers half of the theme's words and two thirds of the nodes."""
        if self.mark and any(self.mark in text for text in texts):
            return True
        if self.mark:
            return any(
                SHARED_EDGE in text and all(fold(node.name) in fold(text) for node in self.nodes)
                for text in texts
            )
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
    selection = _without_covered(patterns, texts, topic_words)
    if len(selection) < MIN_COMPARISONS:
        patterns += [*_statement_patterns(subject, view), *_mention_patterns(subject, view)]
        selection = _without_covered(patterns, texts, topic_words)
    for more in (_statement_patterns(subject, view, 1), _mention_patterns(subject, view, 1)):
        # A graph that allows no comparison is small: then a single statement on the mission counts.
        if not view.analyses and _is_uncompared(selection):
            patterns += more
            selection = _without_covered(patterns, texts, topic_words)
    return selection[:1] + _overlapping_first(selection[1:], selection[:1], topic_words)


def _is_uncompared(patterns: list[Pattern]) -> bool:
    """Whether nothing can be compared, and few statements have been found either."""
    return len(patterns) < MIN_COMPARISONS and all(pattern.mark for pattern in patterns)


def _without_covered(
    patterns: list[Pattern], texts: list[str], topic_words: frozenset[str]
) -> list[Pattern]:
    selection: list[Pattern] = []
    for pattern in sorted(patterns, key=lambda pattern: _rank(pattern, topic_words)):
        if not pattern.is_covered([*texts, *(before.observation for before in selection)]):
            selection.append(pattern)
    return selection


def _overlapping_first(
    patterns: list[Pattern], first: list[Pattern], topic_words: frozenset[str]
) -> list[Pattern]:
    """The relevant patterns first that share a node with `first`: analyses of both can agree. Else in their order."""
    ids = {node.id for pattern in first for node in pattern.nodes}
    return sorted(
        patterns,
        key=lambda pattern: (
            _rank(pattern, topic_words)[0] > 1,
            ids.isdisjoint(node.id for node in pattern.nodes),
            _rank(pattern, topic_words),
        ),
    )


def _rank(pattern: Pattern, topic_words: frozenset[str]) -> tuple[int, bool, int]:
    """Sort key: relevant and shown, then possibly relevant after a lookup, then the rest; comparisons before statements."""
    near = len(topic_words & topic_stems(pattern.theme))
    return (0 if pattern.is_shown and near else 1 if near else 2), bool(pattern.mark), -near


def _comparison_patterns(view: GraphView) -> Iterator[Pattern]:
    for comparison in comparisons(view.nodes):
        nodes = tuple(comparison.nodes[:MAX_NODES])
        yield Pattern(
            comparison.key,
            f"{join_with_and([node.name for node in nodes])} each have a figure for “{comparison.key}”"
            f"{_format_figures(comparison)}.",
            f"Compare “{comparison.key}” across these nodes: {ASPECTS}.",
            nodes,
        )


def _format_figures(comparison: Comparison) -> str:
    """The figures, or the highest ones: `: $12 billion for Ghana and $2 billion for Togo`."""
    figures = [f"{each.value} for {each.node.name}" for each in comparison.figures[:MAX_FIGURES]]
    lead = ". The highest are " if len(comparison.figures) > MAX_FIGURES else ": "
    return lead + join_with_and(figures)


def _hub_patterns(subject: Subject, view: GraphView) -> Iterator[Pattern]:
    """The best connected nodes of one type. Their data may not be shown here, but the Analyzer can look it up."""
    by_type: dict[str, list[ViewNode]] = {}
    for node in sorted(view.nodes, key=lambda node: -view.degrees.get(node.id, 0)):
        if node.type == UNTYPED:
            continue
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
    description = f"the best-connected nodes of type {node_type}"
    topics = [topic for topic in subject.topics if not is_proper_name(topic)]
    for topic in topics if subject.scopes else ():
        yield Pattern(
            topic,
            f"No analysis compares {names}, {description}, on {topic}.",
            f"Compare their figures for “{topic}”: {ASPECTS}.",
            tuple(nodes),
            is_shown=False,
        )
    if not subject.scopes and view.is_partial:
        direction = f"Compare their figures: {ASPECTS}."
        observation = f"No analysis compares {names}, {description}."
        yield Pattern(names, observation, direction, tuple(nodes), is_shown=False)


def _statement_patterns(
    subject: Subject, view: GraphView, least: int = MIN_STATING
) -> Iterator[Pattern]:
    """Nodes whose descriptions mention a topic of the mission: at least `least`, or two with an edge."""
    linked = {frozenset((fold(edge.source), fold(edge.target))) for edge in view.edges}
    found = 0
    for topic in _stated_topics(subject):
        if found >= MIN_COMPARISONS and topic not in subject.terms():
            break  # single words only if the sources mention few terms as a whole
        nodes = [node for node in view.nodes if states_on(node, topic)]
        nodes = sorted(nodes, key=lambda node: -view.degrees.get(node.id, 0))[:MAX_NODES]
        names = [node.name for node in nodes]
        are_linked = len(nodes) == 2 and frozenset(map(fold, names)) in linked
        if len(nodes) >= least or are_linked:
            found += 1
            yield Pattern(
                topic,
                statements_on(topic, names),
                f"Quote what the sources say about “{topic}”.",
                tuple(nodes),
                mark=f"The sources mention “{topic}”",
            )


def statements_on(topic: str, names: Sequence[str]) -> str:
    """The sentence that says of which nodes the statements are that mention the topic."""
    others = join_with_and(other_names(topic, names))
    return f"The sources mention “{topic}”{f' in statements about {others}' if others else ''}."


def other_names(topic: str, names: Sequence[str]) -> list[str]:
    """The names that are not the topic itself."""
    return [name for name in names if topic_stems(name) != topic_stems(topic)]


def _stated_topics(subject: Subject) -> list[str]:
    """The terms of a mission, then their words; proper names only if there is nothing else."""
    terms = subject.terms()
    nouns = [term for term in terms if not is_proper_name(term)] or terms
    single = [word for term in nouns for word in words(term) if is_significant(word)]
    return list(dict.fromkeys([*nouns, *single]))


def states_on(node: ViewNode, topic: str) -> bool:
    """Whether the description of a node has the words of a topic side by side, in whatever number."""
    own = [stem(word) for word in words(topic) if is_significant(word)]
    described = [stem(word) for word in words(str(node.properties.get("summary", "")))]
    return bool(own) and any(
        described[start : start + len(own)] == own for start in range(len(described))
    )


def _mention_patterns(
    subject: Subject, view: GraphView, least: int = MIN_NEIGHBOURS
) -> Iterator[Pattern]:
    """The nodes with at least `least` neighbours that are closest to the mission."""
    topic = topic_stems(" ".join(subject.terms()))
    neighbours: dict[str, list[ViewNode]] = defaultdict(list)
    for edge in view.edges:
        ends = [view.by_name.get(fold(name)) for name in (edge.source, edge.target)]
        if ends[0] and ends[1] and ends[0].id != ends[1].id:
            for node, other in ((ends[0], ends[1]), (ends[1], ends[0])):
                if other not in neighbours[node.id]:
                    neighbours[node.id].append(other)
    near = {node.id: len(topic & topic_stems(node.text)) for node in view.nodes}
    hubs = [node for node in view.nodes if near[node.id] and len(neighbours[node.id]) >= least]
    by_nearness = sorted(
        hubs,
        key=lambda node: (-near[node.id], -len(neighbours[node.id])),
    )
    for node in by_nearness[:MAX_HUBS]:
        others = neighbours[node.id][: MAX_NODES - 1]
        names = join_with_and([other.name for other in others])
        yield Pattern(
            node.text,
            f"The sources mention {node.name} together with {names}.",
            f"List what the sources mention together with {node.name}, and how it is related.",
            (node, *others),
            is_shown=False,
            mark=f"mention {node.name} together with",
        )


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
                f"{names} {every} {SHARED_EDGE} of type “{relation}” to {target.name}.",
                f"Explain what they have in common through {target.name} ({relation}).",
                (target, *nodes[:MAX_NODES]),
            )
