"""What the mission asks for and the graph does not contain, as queries."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, zip_longest
from math import ceil
from typing import Any

from sandbox.model.facts import comparisons, figures_of
from sandbox.model.graph_view import ID, GraphView, ViewNode
from sandbox.text.english import (
    count_noun,
    is_group_of_actors,
    is_several,
    join_with_and,
    shorten,
)
from sandbox.text.missions import Scope, Subject, is_proper_name, with_definite_article
from sandbox.text.names import NameFinder
from sandbox.text.sentences import parse_label
from sandbox.text.tokens import fold, is_significant, topic_stems, words

MISSION_CHARS = 160


@dataclass(frozen=True, slots=True)
class Gap:
    """Something that the graph does not contain. `objective` has no full stop; `reason` is a clause."""

    objective: str
    reason: str
    hints: tuple[str, ...]
    answers: tuple[str, ...] = ()
    """Ids of investigation requests."""

    def query(self, mission: str) -> dict[str, Any]:
        """The query as the observer's plan contains it."""
        quoted_mission = shorten(" ".join(mission.split()), MISSION_CHARS).rstrip(".")
        return {
            "objective": f"{self.objective}.",
            "reasoning": f"{self.reason}. The mission is: “{quoted_mission}”.",
            "searchHints": list(dict.fromkeys(self.hints)),
            "answers": list(self.answers),
        }

    def was_asked(self, objectives: list[str]) -> bool:
        """Whether an earlier objective contains every significant word of this one."""
        own = topic_stems(self.objective)
        return any(own <= topic_stems(line) for line in objectives)


def nearest_topic(subject: Subject, text: str) -> str:
    """The mission's term that shares most words with `text`; empty if the mission has none."""
    stems = topic_stems(text)
    return max(subject.terms(), key=lambda term: len(stems & topic_stems(term)), default="")


def objective_about(name: str, topic: str) -> str:
    """An objective that connects a name with the mission."""
    if not topic:
        return f"Find out about {name}"
    if is_proper_name(topic):
        return f"Find out how {name} {'are' if is_several(name) else 'is'} connected to {topic}"
    return f"Find out how {name} {'relate' if is_several(name) else 'relates'} to {topic}"


def without_article(term: str) -> str:
    """The term without its article, as for a search."""
    return term.removeprefix("the ")


def search_hints(name: str, topic: str) -> tuple[str, ...]:
    """Search hints: the name with the mission's term, and the name alone."""
    return (f"{name} {without_article(topic)}".strip(), name)


EMPTY = "The graph is still empty"
MAX_CONNECTED = 4
FEW_NODES = 10


def unknown_terms(mission: str, subject: Subject, view: GraphView) -> Iterator[Gap]:
    """Topics and scopes of the mission that no node mentions; in an empty graph, all of them."""
    known_stems = topic_stems(" ".join(node.text for node in view.nodes))
    why_missing = "None of the nodes shown mentions it" if view.nodes else EMPTY
    for scope in subject.scopes:
        if scope.is_kind and not topic_stems(scope.text) <= known_stems:
            why = f"{why_missing}, so it is unknown which {scope.text} matter to the mission"
            yield Gap(f"Find out which {scope.text} stand out, and why", why, (scope.text,))
    for topic in subject.topics:
        yield from _unknown_topic(topic, subject, known_stems, why_missing)
    if not view.nodes:
        yield from _mission_gaps(mission, subject)


def _unknown_topic(
    topic: str, subject: Subject, known_stems: frozenset[str], why_missing: str
) -> Iterator[Gap]:
    """One gap per scope: several names are several searches."""
    for scope in subject.scopes:
        stems = topic_stems(topic)
        if not (stems <= known_stems and (scope.is_kind or topic_stems(scope.text) <= known_stems)):
            scoped_topic = subject.within(topic, scope)
            hint = (
                f"{without_article(topic)} {scope.text}"
                if scoped_topic != topic
                else without_article(topic)
            )
            yield Gap(f"Find out what is reported about {scoped_topic}", why_missing, (hint,))
    if not subject.scopes and not topic_stems(topic) <= known_stems:
        yield Gap(
            f"Find out what is reported about {topic}", why_missing, (without_article(topic),)
        )


def _mission_gaps(mission: str, subject: Subject) -> Iterator[Gap]:
    """More sides of a mission of one term, and the connection between several names."""
    names = [topic for topic in subject.topics if is_proper_name(topic)]
    if len(names) > 1:
        together = join_with_and(names[:MAX_CONNECTED])
        yield Gap(
            f"Find out what connects {together}",
            EMPTY,
            (" ".join(map(without_article, names[:MAX_CONNECTED])),),
        )
    if len(subject.topics) == 1 and len(subject.scopes) < 2:
        yield from _facets(subject.topics[0], subject)
    if not subject.topics and mission.strip():
        question = mission.strip().rstrip(".?!")
        yield Gap(f"Find out what is reported about “{question}”", EMPTY, (question,))


def single_word_gaps(subject: Subject, view: GraphView) -> Iterator[Gap]:
    """Single words of each term, after queries that found little."""
    if not view.lines("recently asked") or len(view.nodes) >= FEW_NODES:
        return
    known_stems = topic_stems(" ".join(node.text for node in view.nodes))
    for term in map(without_article, subject.terms()):
        for word in words(term):
            if is_significant(word) and not topic_stems(word) <= known_stems:
                why = f"The graph has few nodes yet, and none mentions “{word}”"
                yield Gap(f"Search for “{word}” alone", why, (word,))


def _facets(topic: str, subject: Subject) -> Iterator[Gap]:
    """The main services and the figures of a topic."""
    scope = next(iter(subject.scopes), None)
    hint = f"{without_article(topic)} {scope.text}" if scope else without_article(topic)
    scoped_topic = subject.within(topic, scope) if scope else topic
    if is_proper_name(topic):
        yield Gap(f"Find out who the main partners of {topic} are", EMPTY, (f"{hint} partners",))
    elif is_group_of_actors(topic):
        objective = f"Find out which {scoped_topic} lead, and who their partners are"
        yield Gap(objective, EMPTY, (f"leading {hint}", f"{hint} partners"))
    else:
        objective = f"Find out which companies and countries matter most for {scoped_topic}"
        yield Gap(objective, EMPTY, (f"leading {hint}", f"{hint} companies countries"))
    yield Gap(
        f"Find figures on {scoped_topic}: size, growth and prices",
        f"{EMPTY}, and comparisons need figures",
        (f"{hint} growth", f"{hint} prices production"),
    )


MAX_SUBJECTS = 12
MIN_DEGREE = 1
SMALL_GRAPH = 20
"""In a graph of fewer nodes, all connected nodes are considered."""
VAGUE_TYPES = frozenset({"Topic", "Place"})
"""Connections alone are no reason to query nodes of these types."""
LAST_TYPE = "Person"
"""Queried last: few sources describe people."""
MIN_SCOPE_SHARE = 0.6
"""The minimal share of the scope's words in the text of a node that belongs to the scope."""


def incomplete_subjects(subject: Subject, view: GraphView) -> Iterator[Gap]:
    """Nodes in the mission's scope without information on one of its topics."""
    if not subject.scopes:
        return
    preposition = "in" if subject.scopes[0].preposition.startswith("in") else "of"
    for node in _scope_nodes(subject, view)[:MAX_SUBJECTS]:
        stems = topic_stems(node.text)
        missing = [
            topic
            for topic in subject.topics
            if not topic_stems(topic) & stems and not is_proper_name(topic)
        ]
        for topic in missing:
            why = f"The graph has {node.name}, but nothing about its {topic}"
            objective = f"Find out about {subject.within(topic, Scope(node.name, preposition))}"
            yield Gap(objective, why, (f"{node.name} {topic}",))


def undescribed_hubs(subject: Subject, view: GraphView) -> Iterator[Gap]:
    """The best connected nodes of which only the name is shown; none if the mission names whom it is about."""
    if any(scope.is_name for scope in subject.scopes):
        return
    hubs = [node for node in view.nodes if not node.properties and node.type not in VAGUE_TYPES]
    for node in sorted(hubs, key=lambda node: -view.degrees.get(node.id, 0))[:MAX_SUBJECTS]:
        for topic in subject.topics:
            why = f"{node.name} is one of the best-connected nodes, but nothing about its {topic} is shown"
            objective = f"Find out about {with_definite_article(topic)} of {node.name}"
            yield Gap(objective, why, (f"{node.name} {topic}",))


def undescribed_nodes(
    subject: Subject, view: GraphView, topic_words: frozenset[str]
) -> Iterator[Gap]:
    """Connected nodes without information of their own; the best connected first.

    Common nouns, such as entries of lists, only if they share a word with the mission.
    """
    degrees = view.degrees
    near = {
        node.id: len(
            topic_words
            & topic_stems(
                f"{node.properties.get('quote', '')} {node.properties.get('summary', '')}"
            )
        )
        for node in view.nodes
    }
    bare = [
        node
        for node in view.nodes
        if node.properties
        and not _is_described(node)
        and (near[node.id] or len(view.nodes) < SMALL_GRAPH)
        and (node.name[0].isupper() or not topic_words.isdisjoint(topic_stems(node.name)))
        and node.type not in VAGUE_TYPES
        if degrees.get(node.id, 0) >= MIN_DEGREE
    ]
    by_rank = sorted(
        bare, key=lambda node: (node.type == LAST_TYPE, -near[node.id], -degrees[node.id])
    )
    for node in by_rank[:MAX_SUBJECTS]:
        edges = count_noun(degrees[node.id], "edge")
        why = f"{node.name} has {edges} in the graph, but no description or figures of its own"
        topic = nearest_topic(subject, str(node.properties.get("quote", "")))
        if topic_stems(topic) and topic_stems(topic) <= topic_stems(node.name):
            continue  # A topic that is the node itself gives no question.
        yield Gap(objective_about(node.name, topic), why, search_hints(node.name, topic))


def _scope_nodes(subject: Subject, view: GraphView) -> list[ViewNode]:
    """The nodes that match the scope best, then the best connected."""
    named_nodes = _named_scopes(subject, view)
    if named_nodes or len(subject.scopes) > 1:
        return named_nodes
    scope = topic_stems(subject.scopes[0].text)
    within = {node.id: len(scope & topic_stems(node.text)) for node in view.nodes}
    max_words = max(within.values(), default=0)
    min_words = max(1, ceil(len(scope) * MIN_SCOPE_SHARE)) if max_words else 0
    nodes = [node for node in view.nodes if _is_described(node) and within[node.id] >= min_words]
    return sorted(nodes, key=lambda node: (-within[node.id], -view.degrees.get(node.id, 0)))


def _named_scopes(subject: Subject, view: GraphView) -> list[ViewNode]:
    """The nodes that the mission names as its scope."""
    nodes = (view.by_name.get(fold(scope.text)) for scope in subject.scopes)
    return [node for node in nodes if node]


def _is_described(node: ViewNode) -> bool:
    """Whether the graph has information about the node itself."""
    return str(node.properties.get("summary", "")).startswith(node.name) or bool(figures_of(node))


MAX_MENTIONS = 3
MIN_SHARED_WORDS = 2
"""A quote is relevant if it shares this many words with the mission."""


def unknown_neighbours(view: GraphView, topic_words: frozenset[str]) -> list[tuple[str, list[str]]]:
    """Names without a node, each with at most three nodes whose relevant quotes contain it."""
    quotes = list(_quotes(view))
    finder = NameFinder(
        (quote for _, quote in quotes), known_names=(node.name for node in view.nodes)
    )
    known_names = {fold(node.name) for node in [*view.nodes, *view.analyses]}
    known_names |= {fold(name) for name in view.listed_names}
    mentions: dict[str, list[str]] = {}
    nearness: dict[str, int] = {}
    for holder, quote in quotes:
        for name in finder.find(quote):
            if not _is_known(fold(name.text), known_names):
                holders = mentions.setdefault(name.text, [])
                if holder not in holders:
                    holders.append(holder)
                nearness[name.text] = max(
                    nearness.get(name.text, 0), len(topic_words & topic_stems(quote))
                )
    near = [name for name in mentions if nearness[name] >= min(MIN_SHARED_WORDS, len(topic_words))]
    by_rank = sorted(near, key=lambda name: (-nearness[name], -len(mentions[name])))
    return [(name, mentions[name][:MAX_MENTIONS]) for name in by_rank]


def _quotes(view: GraphView) -> Iterator[tuple[str, str]]:
    """Yield node names and quotes, without labels: these are capitalised but no names."""
    for node in view.nodes:
        quote = _uncut(str(node.properties.get("quote") or ""))
        line = parse_label(quote)
        if quote:
            yield node.name, line.value if line else quote


def _uncut(quote: str) -> str:
    """The quote without its last word if the context has truncated it."""
    return quote.rstrip("…").rpartition(" ")[0] if quote.endswith("…") else quote


def _is_known(name: str, known_names: set[str]) -> bool:
    """Whether the name is known as a whole, as a part of a longer name, or as its extension."""
    return name in known_names or any(
        f" {name} " in f" {known_name} " or f" {known_name} " in f" {name} "
        for known_name in known_names
    )


MAX_KEYS = 4


def single_figures(view: GraphView, topic_words: frozenset[str]) -> Iterator[Gap]:
    """Figures that only one node has, as long as nothing is comparable; only labels of sources (capitalised)."""
    if view.is_partial or comparisons(view.nodes):
        return
    stated = {
        figure.key: figure.node.name
        for node in view.nodes
        for figure in figures_of(node)
        if figure.key[:1].isupper()
    }
    by_relevance = sorted(stated, key=lambda key: -len(topic_words & topic_stems(key)))
    for key in by_relevance[:MAX_KEYS]:
        why = f"Only {stated[key]} has this figure, so there is nothing to compare it with"
        yield Gap(f"Find comparable figures for “{key}” in other sources", why, (key,))


MAX_HINT_WORDS = 8
REQUEST_CHARS = 200
REQUEST_LINE = re.compile(
    rf"^- \[request:(?P<id>{ID})\] (?P<wanted>.*?)(?: \(lacking since iteration \d+\))?$"
)


def find_gaps(mission: str, subject: Subject, view: GraphView, max_gaps: int) -> list[Gap]:
    """Select at most `max_gaps` gaps of different kinds, without recent or repeated objectives."""
    topic_words = topic_stems(" ".join(subject.terms()))
    terms = unknown_terms(mission, subject, view)
    primary = [_requested_data(view), incomplete_subjects(subject, view)]
    secondary = [
        _stale_nodes(subject, view),
        single_figures(view, topic_words),
        undescribed_hubs(subject, view),
        undescribed_nodes(subject, view, topic_words),
        _unknown_name_gaps(subject, view, topic_words),
        single_word_gaps(subject, view),
    ]
    # If the graph is partial, a node that is not shown may mention a term: then terms come last.
    (secondary if view.is_partial else primary).insert(0, terms)
    objectives = [line.partition(": ")[2] or line for line in view.lines("recently asked")]
    selection: list[Gap] = []
    for gap in chain.from_iterable((*zip_longest(*primary), *zip_longest(*secondary))):
        if gap and not gap.was_asked(
            [*objectives, *(gap_before.objective for gap_before in selection)]
        ):
            selection.append(gap)
        if len(selection) == max_gaps:
            break
    return selection


def _requested_data(view: GraphView) -> Iterator[Gap]:
    """Data that an analysis has requested."""
    for line in view.lines("open investigation requests"):
        if (match := REQUEST_LINE.match(line)) is None:
            continue
        request = shorten(match["wanted"].rstrip("."), REQUEST_CHARS)
        hint = " ".join([word for word in words(request) if is_significant(word)][:MAX_HINT_WORDS])
        if hint:
            why = "An analysis needs it"
            yield Gap(f"Find {request}", why, (hint,), (match["id"],))


def _unknown_name_gaps(
    subject: Subject, view: GraphView, topic_words: frozenset[str]
) -> Iterator[Gap]:
    for name, mentions in unknown_neighbours(view, topic_words):
        why = f"It is mentioned in quotes about {join_with_and(mentions)}, but it has no node of its own"
        topic = nearest_topic(subject, name)
        yield Gap(objective_about(name, topic), why, search_hints(name, topic))


def _stale_nodes(subject: Subject, view: GraphView) -> Iterator[Gap]:
    for node in view.stale_nodes():
        why = f"The data on {node.name} in the graph has not been updated recently"
        yield Gap(
            f"Find out what is new about {node.name}",
            why,
            search_hints(node.name, nearest_topic(subject, node.text)),
        )
