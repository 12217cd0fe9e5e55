"""Names that nodes quote and that have no node of their own."""

from collections.abc import Iterator

from sandbox.reader.graph_view import GraphView
from sandbox.text.labels import parse_label
from sandbox.text.names import NameFinder
from sandbox.text.words import fold, topic_stems

MAX_MENTIONS = 3
MIN_SHARED_WORDS = 2
"""A quote bears on the mission when it holds so many of its words."""


def unknown_neighbours(view: GraphView, wanted: frozenset[str]) -> list[tuple[str, list[str]]]:
    """Each name with the nodes (at most three) that quote it: only quotes on the mission count."""
    quotes = list(_quotes(view))
    finder = NameFinder((quote for _, quote in quotes), known=(node.name for node in view.nodes))
    known = {fold(node.name) for node in [*view.nodes, *view.analyses]}
    mentions: dict[str, list[str]] = {}
    nearness: dict[str, int] = {}
    for holder, quote in quotes:
        for name in finder.find(quote):
            if not _is_known(fold(name.text), known):
                holders = mentions.setdefault(name.text, [])
                if holder not in holders:
                    holders.append(holder)
                nearness[name.text] = max(
                    nearness.get(name.text, 0), len(wanted & topic_stems(quote))
                )
    near = [name for name in mentions if nearness[name] >= min(MIN_SHARED_WORDS, len(wanted))]
    ordered = sorted(near, key=lambda name: (-nearness[name], -len(mentions[name])))
    return [(name, mentions[name][:MAX_MENTIONS]) for name in ordered]


def _quotes(view: GraphView) -> Iterator[tuple[str, str]]:
    """What is quoted, a label before it left out: labels are capitalised and name nothing."""
    for node in view.nodes:
        quote = _uncut(str(node.properties.get("quote") or ""))
        line = parse_label(quote)
        if quote:
            yield node.name, line.value if line else quote


def _uncut(quote: str) -> str:
    """Without the last word where the context has cut it."""
    return quote.rstrip("…").rpartition(" ")[0] if quote.endswith("…") else quote


def _is_known(name: str, known: set[str]) -> bool:
    """As a whole or as a part of a longer name, and the other way round."""
    return name in known or any(
        f" {name} " in f" {other} " or f" {other} " in f" {name} " for other in known
    )
