"""What the mission names and the graph does not speak of."""

from collections.abc import Iterator

from sandbox.reader.graph_view import GraphView
from sandbox.reader.observe.gap import Gap
from sandbox.text.phrases import Subject
from sandbox.text.words import topic_stems


def unknown_terms(mission: str, subject: Subject, view: GraphView) -> Iterator[Gap]:
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
        yield from _facets(subject.terms()[0] if subject.terms() else mission.strip(), lack)


def _facets(term: str, lack: str) -> Iterator[Gap]:
    """A mission of a single term is looked at from more than one side."""
    if not term:
        return
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
