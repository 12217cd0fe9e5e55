"""What the graph does not know and the mission asks for."""

import re
from collections.abc import Iterator
from itertools import chain, zip_longest

from sandbox.reader.graph_view import ID, GraphView
from sandbox.reader.observe.gap import Gap, about, hints, nearest_topic
from sandbox.reader.observe.neighbours import unknown_neighbours
from sandbox.reader.observe.nodes import bare_nodes, hubs_unknown, thin_subjects
from sandbox.reader.observe.peers import lonely_figures
from sandbox.reader.observe.terms import unknown_terms, words_alone
from sandbox.text.english import listed, shortened
from sandbox.text.subject import Subject
from sandbox.text.words import significant, topic_stems, words

MAX_HINT_WORDS = 8
REQUEST_CHARS = 200
REQUEST_LINE = re.compile(
    rf"^- \[request:(?P<id>{ID})\] (?P<wanted>.*?)(?: \(lacking since iteration \d+\))?$"
)


def find_gaps(mission: str, subject: Subject, view: GraphView, most: int) -> list[Gap]:
    """At most so many, of different kinds first; none that was asked lately or that repeats another."""
    wanted = topic_stems(" ".join(subject.terms()))
    terms = unknown_terms(mission, subject, view)
    first = [_requested(view), thin_subjects(subject, view)]
    then = [
        _stale(subject, view),
        lonely_figures(view, wanted),
        hubs_unknown(subject, view),
        bare_nodes(subject, view, wanted),
        _unknown_names(subject, view, wanted),
        words_alone(subject, view),
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
    for line in view.lines("open investigation requests"):
        if (match := REQUEST_LINE.match(line)) is None:
            continue
        wanted = shortened(match["wanted"].rstrip("."), REQUEST_CHARS)
        hint = " ".join([word for word in words(wanted) if significant(word)][:MAX_HINT_WORDS])
        if hint:
            why = "An analysis could not be drawn without it"
            yield Gap(f"Find {wanted}", why, (hint,), (match["id"],))


def _unknown_names(subject: Subject, view: GraphView, wanted: frozenset[str]) -> Iterator[Gap]:
    for name, mentions in unknown_neighbours(view, wanted):
        why = f"{listed(mentions)} mention{'s' if len(mentions) == 1 else ''} it, but it has no node of its own"
        topic = nearest_topic(subject, name)
        yield Gap(about(name, topic), why, hints(name, topic))


def _stale(subject: Subject, view: GraphView) -> Iterator[Gap]:
    for node in view.stale():
        why = f"What the graph knows of {node.name} and its like has not been looked at for long"
        yield Gap(
            f"Find what is new about {node.name}",
            why,
            hints(node.name, nearest_topic(subject, node.text)),
        )
