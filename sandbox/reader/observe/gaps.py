"""What the graph does not know and the mission asks for."""

from collections.abc import Iterator
from itertools import chain, zip_longest
from math import ceil

from sandbox.reader.facts import figures_of
from sandbox.reader.graph_view import GraphView, ViewNode
from sandbox.reader.observe.gap import Gap
from sandbox.reader.observe.neighbours import unknown_neighbours
from sandbox.text.english import listed, shortened
from sandbox.text.phrases import Subject
from sandbox.text.words import significant, topic_stems, words

MAX_HINT_WORDS = 8
MAX_SUBJECTS = 12
MIN_DEGREE = 1
SMALL_GRAPH = 20
"""Below so many nodes, whatever is connected is worth asking about."""
VAGUE_TYPES = frozenset({"Topic", "Place"})
"""Not asked about for being well connected alone."""
MIN_SCOPE_SHARE = 0.6
"""A node belongs to the mission's scope when it speaks of that share of the scope's words."""
REQUEST_CHARS = 200


def find_gaps(mission: str, subject: Subject, view: GraphView, most: int) -> list[Gap]:
    """At most so many, of different kinds first; none that was asked lately or that repeats another."""
    wanted = topic_stems(" ".join(subject.terms()))
    terms = _unknown_terms(mission, subject, view)
    first = [_requested(view), _thin_subjects(subject, view)]
    then = [
        _stale(subject, view),
        _hubs(subject, view),
        _bare_nodes(subject, view, wanted),
        _unknown_names(subject, view, wanted),
    ]
    # Where not all is shown, a term may be spoken of by a node that is not: then it is asked for last.
    (then if view.is_partial else first).insert(0, terms)
    asked = [line.partition(": ")[2] or line for line in view.lines("recently asked")]
    chosen: list[Gap] = []
    for gap in chain.from_iterable((*zip_longest(*first), *zip_longest(*then))):
        if gap and not gap.was_asked([*asked, *(one.objective for one in chosen)]):
            chosen.append(gap)
        if len(chosen) == most:
            break
    return chosen


def _requested(view: GraphView) -> Iterator[Gap]:
    """Data that an analysis was missing."""
    for line in view.lines("data that was missing"):
        wanted = shortened(
            line.removeprefix("- ").removeprefix("MISSING: ").rstrip("."), REQUEST_CHARS
        )
        hint = " ".join([word for word in words(wanted) if significant(word)][:MAX_HINT_WORDS])
        if hint:
            yield Gap(f"Find {wanted}", "An analysis could not be drawn without it", (hint,))


def _unknown_terms(mission: str, subject: Subject, view: GraphView) -> Iterator[Gap]:
    """What the mission names and no node speaks of. An empty graph lacks it all."""
    known = topic_stems(" ".join(node.text for node in view.nodes))
    lack = "The graph is still empty" if not view.nodes else "No node that is shown speaks of it"
    if subject.scope and not topic_stems(subject.scope) <= known:
        why = f"{lack}, so it is not known whom the mission is about"
        yield Gap(f"Find out which {subject.scope} stand out, and for what", why, (subject.scope,))
    for topic in subject.topics:
        if topic_stems(topic) <= known:
            continue
        of_scope = f" of {subject.scope}" if subject.scope else ""
        scope_hint = f" {subject.scope}" if subject.scope else ""
        yield Gap(
            f"Find out what is reported about {topic}{of_scope}", lack, (f"{topic}{scope_hint}",)
        )
    if not view.nodes and len(subject.terms()) < 2:
        yield from _facets(
            subject.terms()[0] if subject.terms() else " ".join(mission.split()), lack
        )


def _facets(term: str, lack: str) -> Iterator[Gap]:
    """A mission of a single term is looked at from more than one side."""
    yield Gap(
        f"Find the names that matter for {term}, and how they are connected",
        lack,
        (f"{term} companies partners", f"leading {term}"),
    )
    yield Gap(
        f"Find figures on {term}: size, growth and prices",
        f"{lack}, and without figures nothing can be compared",
        (f"{term} growth", f"{term} prices production"),
    )


def _thin_subjects(subject: Subject, view: GraphView) -> Iterator[Gap]:
    """Nodes within the mission's scope that say nothing of one of its topics."""
    if not subject.scope:
        return
    for node in _subjects(subject, view)[:MAX_SUBJECTS]:
        told = topic_stems(node.text)
        lacking = [topic for topic in subject.topics if not topic_stems(topic) & told]
        if lacking:
            hints = tuple(f"{node.name} {topic}" for topic in lacking[:2])
            why = f"{node.name} is in the graph, but nothing is known of its {listed(lacking[:2])}"
            yield Gap(f"Find out about {listed(lacking[:2])} of {node.name}", why, hints)


def _subjects(subject: Subject, view: GraphView) -> list[ViewNode]:
    """Those that speak of the scope first, then the best connected."""
    scope = topic_stems(subject.scope)
    within = {node.id: len(scope & topic_stems(node.text)) for node in view.nodes}
    most = max(within.values(), default=0)
    least = max(1, ceil(len(scope) * MIN_SCOPE_SHARE)) if most else 0
    nodes = [node for node in view.nodes if _is_main(node) and within[node.id] >= least]
    return sorted(nodes, key=lambda node: (-within[node.id], -view.degrees.get(node.id, 0)))


def _hubs(subject: Subject, view: GraphView) -> Iterator[Gap]:
    """The best connected nodes where only their names are shown."""
    hubs = [node for node in view.nodes if not node.properties and node.type not in VAGUE_TYPES]
    for node in sorted(hubs, key=lambda node: -view.degrees.get(node.id, 0))[:MAX_SUBJECTS]:
        for topic in subject.topics:
            why = f"{node.name} is among the best connected nodes, and nothing on its {topic} is shown"
            yield Gap(f"Find out about {topic} of {node.name}", why, (f"{node.name} {topic}",))


def _bare_nodes(subject: Subject, view: GraphView, wanted: frozenset[str]) -> Iterator[Gap]:
    """Nodes that others are connected with, and of which nothing is told: the best connected first."""
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
        and node.type not in VAGUE_TYPES
        if degrees.get(node.id, 0) >= MIN_DEGREE
    ]
    for node in sorted(bare, key=lambda node: (-near[node.id], -degrees[node.id]))[:MAX_SUBJECTS]:
        why = f"{node.name} has {degrees[node.id]} edges in the graph, but nothing is told of it itself"
        topic = _nearest_topic(subject, str(node.properties["quote"]))
        yield Gap(f"Find out about {node.name}{_bearing(topic)}", why, _hints(node.name, topic))


def _nearest_topic(subject: Subject, text: str) -> str:
    """The term of the mission that `text` speaks of most; empty where the mission has none."""
    told = topic_stems(text)
    return max(subject.terms(), key=lambda term: len(told & topic_stems(term)), default="")


def _bearing(topic: str) -> str:
    return f", and how that bears on {topic}" if topic else ""


def _hints(name: str, topic: str) -> tuple[str, ...]:
    return (f"{name} {topic}".strip(), name)


def _is_main(node: ViewNode) -> bool:
    """Whether the graph tells of the node itself, and not only that others name it."""
    return str(node.properties.get("summary", "")).startswith(node.name) or bool(figures_of(node))


def _unknown_names(subject: Subject, view: GraphView, wanted: frozenset[str]) -> Iterator[Gap]:
    for name, mentions in unknown_neighbours(view, wanted):
        why = f"{listed(mentions)} mention{'s' if len(mentions) == 1 else ''} it, but it has no node of its own"
        topic = _nearest_topic(subject, name)
        yield Gap(f"Find out what {name} is{_bearing(topic)}", why, _hints(name, topic))


def _stale(subject: Subject, view: GraphView) -> Iterator[Gap]:
    for node in view.stale():
        why = f"What the graph knows of {node.name} and its like has not been looked at for long"
        yield Gap(
            f"Find what is new about {node.name}",
            why,
            _hints(node.name, _nearest_topic(subject, node.text)),
        )
