"""Figures that one node states alone: who else states them is worth asking, since one figure compares with nothing."""

from collections.abc import Iterator

from sandbox.reader.facts import comparisons, figures_of
from sandbox.reader.graph_view import GraphView
from sandbox.reader.observe.gap import Gap
from sandbox.text.words import topic_stems

MAX_KEYS = 4


def lonely_figures(view: GraphView, wanted: frozenset[str]) -> Iterator[Gap]:
    """Only while nothing in the graph compares; labels that a source itself gave (they are capitalised) alone."""
    if view.is_partial or comparisons(view.nodes):
        return
    stated = {
        figure.key: figure.node.name
        for node in view.nodes
        for figure in figures_of(node)
        if figure.key[:1].isupper()
    }
    ordered = sorted(stated, key=lambda key: -len(wanted & topic_stems(key)))
    for key in ordered[:MAX_KEYS]:
        why = f"Of all nodes only {stated[key]} states it, so that it compares with nothing"
        yield Gap(f"Find out who else states a figure for “{key}”", why, (key,))
