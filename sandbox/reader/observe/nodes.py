"""Nodes of which too little is known."""

from collections.abc import Iterator
from math import ceil

from sandbox.reader.facts import figures_of
from sandbox.reader.graph_view import GraphView, ViewNode
from sandbox.reader.observe.gap import Gap, about, hints, nearest_topic
from sandbox.text.english import counted
from sandbox.text.subject import Scope, Subject, names_one
from sandbox.text.words import fold, topic_stems

MAX_SUBJECTS = 12
MIN_DEGREE = 1
SMALL_GRAPH = 20
"""Below so many nodes, whatever is connected is worth asking about."""
VAGUE_TYPES = frozenset({"Topic", "Place"})
"""Not asked about for being well connected alone."""
LAST_TYPE = "Person"
"""Asked about where there is nothing else: few sources tell of people themselves."""
MIN_SCOPE_SHARE = 0.6
"""A node belongs to the mission's scope when it speaks of that share of the scope's words."""


def thin_subjects(subject: Subject, view: GraphView) -> Iterator[Gap]:
    """Nodes within the mission's scope that say nothing of one of its topics."""
    if not subject.scopes:
        return
    for node in _subjects(subject, view)[:MAX_SUBJECTS]:
        told = topic_stems(node.text)
        lacking = [
            topic
            for topic in subject.topics
            if not topic_stems(topic) & told and not names_one(topic)
        ]
        for topic in lacking[:1]:
            why = f"{node.name} is in the graph, but nothing is known of its {topic}"
            objective = f"Find out about {subject.within(topic, Scope(node.name))}"
            yield Gap(objective, why, (f"{node.name} {topic}",))


def hubs_unknown(subject: Subject, view: GraphView) -> Iterator[Gap]:
    """The best connected nodes where only their names are shown."""
    hubs = [node for node in view.nodes if not node.properties and node.type not in VAGUE_TYPES]
    for node in sorted(hubs, key=lambda node: -view.degrees.get(node.id, 0))[:MAX_SUBJECTS]:
        for topic in subject.topics:
            why = f"{node.name} is among the best connected nodes, and nothing on its {topic} is shown"
            yield Gap(f"Find out about {topic} of {node.name}", why, (f"{node.name} {topic}",))


def bare_nodes(subject: Subject, view: GraphView, wanted: frozenset[str]) -> Iterator[Gap]:
    """Nodes that others are connected with, and of which nothing is told: the best connected first.

    Common nouns, such as entries of lists, only where the mission has a word of theirs.
    """
    degrees = view.degrees
    near = {
        node.id: len(wanted & topic_stems(str(node.properties.get("quote", ""))))
        for node in view.nodes
    }
    bare = [
        node
        for node in view.nodes
        if node.properties
        and not _is_main(node)
        and (near[node.id] or len(view.nodes) < SMALL_GRAPH)
        and (node.name[0].isupper() or not wanted.isdisjoint(topic_stems(node.name)))
        and node.type not in VAGUE_TYPES
        if degrees.get(node.id, 0) >= MIN_DEGREE
    ]
    ordered = sorted(
        bare, key=lambda node: (node.type == LAST_TYPE, -near[node.id], -degrees[node.id])
    )
    for node in ordered[:MAX_SUBJECTS]:
        edges = counted(degrees[node.id], "edge")
        why = f"{node.name} has {edges} in the graph, but nothing is told of it itself"
        topic = nearest_topic(subject, str(node.properties.get("quote", "")))
        if topic_stems(topic) and topic_stems(topic) <= topic_stems(node.name):
            continue  # How a thing bears on itself is no question.
        yield Gap(about(node.name, topic), why, hints(node.name, topic))


def _subjects(subject: Subject, view: GraphView) -> list[ViewNode]:
    """Those that speak of the scope first, then the best connected."""
    named = _named(subject, view)
    if named or len(subject.scopes) > 1:
        return named
    scope = topic_stems(subject.scopes[0].text)
    within = {node.id: len(scope & topic_stems(node.text)) for node in view.nodes}
    most = max(within.values(), default=0)
    least = max(1, ceil(len(scope) * MIN_SCOPE_SHARE)) if most else 0
    nodes = [node for node in view.nodes if _is_main(node) and within[node.id] >= least]
    return sorted(nodes, key=lambda node: (-within[node.id], -view.degrees.get(node.id, 0)))


def _named(subject: Subject, view: GraphView) -> list[ViewNode]:
    """The nodes that the mission itself names as its scope."""
    found = (view.by_name.get(fold(scope.text)) for scope in subject.scopes)
    return [node for node in found if node]


def _is_main(node: ViewNode) -> bool:
    """Whether the graph tells of the node itself, and not only that others name it."""
    return str(node.properties.get("summary", "")).startswith(node.name) or bool(figures_of(node))
