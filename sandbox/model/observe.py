"""The observer phase: queries for figures that the graph lacks, and insights that compare those that it has."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sandbox.model.facts import comparisons, figures_of
from sandbox.model.graph_view import ID, STRING, GraphView, ViewNode
from sandbox.model.request import Answer, ChatRequest
from sandbox.model.sheets import RELATED_WORDS
from sandbox.text.missions import Mission, parse_mission
from sandbox.text.tokens import fold, join_with_and, shorten, stems, topic_stems

MAX_QUERIES = 3
MAX_QUERIES_BESIDE_INSIGHTS = 2
MAX_INSIGHTS = 2
MAX_NODES = 6
MAX_SUBJECTS = 12
MAX_FIGURES = 3
MISSION_CHARS = 160
REQUEST_CHARS = 300
EMPTY = "The graph is still empty"
REPEAT = re.compile(rf"^- \w+ ({STRING}): ")
NEWS = re.compile(r"^- new document: (?:(?P<title>.+): )?(?P<url>https?://\S+)")
WANTED = re.compile(
    rf"^- \[request:(?P<id>{ID})\] (?P<wanted>.*?)(?: \(lacking since iteration \d+\))?$"
)


class Gap(NamedTuple):
    """A query: an objective without full stop, the reason as a clause, and searches."""

    objective: str
    reason: str
    hints: Sequence[str]
    answers: Sequence[str] = ()
    """Ids of investigation requests."""

    def query(self, mission: str) -> dict[str, Any]:
        quoted = shorten(" ".join(mission.split()), MISSION_CHARS).rstrip(".")
        return {
            "objective": f"{self.objective}.",
            "reasoning": f"{self.reason}. The mission is: “{quoted}”.",
            "searchHints": self.hints,
            "answers": self.answers,
        }


def observe(request: ChatRequest) -> Answer:
    """Plan at most four items; both lists are empty if nothing is missing."""
    view = GraphView(request.section("graph_context"))
    mission = parse_mission(request.mission)
    matches = map(REPEAT.match, request.section("repeats").splitlines())
    repeats = {json.loads(match[1]) for match in matches if match}
    insights = [item for item in _insights(mission, view) if item["observation"] not in repeats][
        :MAX_INSIGHTS
    ]
    asked = [fold(line) for line in view.lines("recently asked")]
    queries: dict[str, dict[str, Any]] = {}
    for gap in _gaps(request, mission, view):
        item = gap.query(request.mission)
        was_asked = any(fold(gap.objective) in line for line in asked)
        if item["objective"] not in repeats and not was_asked:
            queries.setdefault(item["objective"], item)
    most = MAX_QUERIES_BESIDE_INSIGHTS if insights else MAX_QUERIES
    plan = {"queries": list(queries.values())[:most], "insights": insights}
    return Answer(json.dumps(plan, ensure_ascii=False))


def _gaps(request: ChatRequest, mission: Mission, view: GraphView) -> Iterator[Gap]:
    for line in view.lines("open investigation requests"):
        if match := WANTED.match(line):
            wanted = shorten(match["wanted"].rstrip("."), REQUEST_CHARS)
            yield Gap(f"Find {wanted}", "An analysis needs it", [wanted], [match["id"]])
    known = topic_stems(" ".join([*mission.terms, *(node.name for node in view.nodes)]))
    for line in request.section("news").splitlines():
        match = NEWS.match(line)
        if match and match["title"] and not known.isdisjoint(topic_stems(match["title"])):
            read = f"Read {match['url']} and find out which figures it states"
            yield Gap(read, "The document is new", [match["title"]])
    yield from _mission_gaps(request.mission, mission, view)
    yield from _node_gaps(mission, view)
    for name in view.stale_names():
        yield Gap(
            f"Find the newest figures of {name}", "They have not been updated recently", [name]
        )


def _mission_gaps(text: str, mission: Mission, view: GraphView) -> Iterator[Gap]:
    """Each topic of each name; without names the topics, without topics the names, without both the whole mission."""
    why = EMPTY if not view.nodes else "The graph has no such figures yet"
    for topic in mission.topics:
        for name in mission.names or ("",):
            figures = f"the figures on {topic} of {name}" if name else f"the figures on {topic}"
            yield Gap(f"Find {figures}", why, _hints(topic, name))
    for name in mission.names if not view.nodes else ():
        yield Gap(f"Find the figures of {name}", why, [name])
    if not mission.terms and text.strip():
        yield Gap(f"Find figures on “{shorten(text, MISSION_CHARS)}”", why, [text])


def _node_gaps(mission: Mission, view: GraphView) -> Iterator[Gap]:
    """What nodes lack that have figures, then nodes without any; the first nodes of the context first."""
    described = [node for node in view.nodes if figures_of(node)]
    for node in described[:MAX_SUBJECTS]:
        labels = topic_stems(" ".join(node.properties))
        for topic in mission.topics:
            if topic_stems(topic).isdisjoint(labels):
                why = f"The graph has figures of {node.name}, but none on {topic}"
                objective = f"Find the figures on {topic} of {node.name}"
                yield Gap(objective, why, _hints(topic, node.name))
    types = {node.type for node in described}
    bare = [node for node in view.nodes if node.type in types and node not in described]
    for node in bare[:MAX_SUBJECTS]:
        why = f"The graph mentions {node.name}, but has no figures of it"
        yield Gap(f"Find the figures of {node.name}", why, [node.name])


def _hints(topic: str, name: str) -> tuple[str, ...]:
    """The words of the mission, and those that fact sheets use for them."""
    related = " ".join(RELATED_WORDS[word] for word in stems(topic) if word in RELATED_WORDS)
    return tuple(f"{words} {name}".strip() for words in (topic, related) if words)


@dataclass(frozen=True, slots=True)
class _Pattern:
    """Nodes that share a `theme`."""

    theme: str
    observation: str
    direction: str
    nodes: tuple[ViewNode, ...]

    def is_covered(self, texts: list[str]) -> bool:
        """Whether an analysis covers half of the theme's words and two thirds of the nodes."""
        theme = topic_stems(self.theme)
        for text in texts:
            mentions = sum(fold(node.name) in fold(text) for node in self.nodes)
            shared = len(theme & topic_stems(text))
            if shared * 2 >= len(theme) and mentions * 3 >= len(self.nodes) * 2:
                return True
        return False


def _insights(mission: Mission, view: GraphView) -> Iterator[dict[str, Any]]:
    """Comparisons closest to the mission first, then shared edges; without those that an analysis covers."""
    topic = topic_stems(" ".join(mission.terms))
    texts = [node.text for node in view.analyses] + view.lines("recently asked")
    texts.append(" ".join(view.lines("data that was missing")))
    patterns = [*_comparison_patterns(view), *_edge_patterns(view)]
    for pattern in sorted(patterns, key=lambda each: -len(topic & topic_stems(each.theme))):
        if not pattern.is_covered(texts):
            texts.append(pattern.observation)
            yield {
                "observation": pattern.observation,
                "relevantNodeIds": [node.id for node in pattern.nodes],
                "synthesisDirection": pattern.direction,
            }


def _comparison_patterns(view: GraphView) -> Iterator[_Pattern]:
    for comparison in comparisons(view.nodes):
        nodes = tuple(comparison.nodes[:MAX_NODES])
        figures = [f"{each.value} for {each.node.name}" for each in comparison.figures]
        lead = "The highest are " if len(figures) > MAX_FIGURES else "These are "
        yield _Pattern(
            comparison.key,
            f"{join_with_and([node.name for node in nodes])} each have a figure for “{comparison.key}”. "
            f"{lead}{join_with_and(figures[:MAX_FIGURES])}.",
            f"Compare “{comparison.key}” across these nodes: which is highest, which is lowest, and how each has changed.",
            nodes,
        )


def _edge_patterns(view: GraphView) -> Iterator[_Pattern]:
    """Several nodes with the same type of edge to the same node."""
    sources: dict[tuple[str, str], list[ViewNode]] = {}
    for edge in view.edges:
        source = view.by_name.get(fold(edge.source))
        group = sources.setdefault((edge.type, edge.target), [])
        if source and source not in group:
            group.append(source)
    for (edge_type, name), nodes in sources.items():
        target = view.by_name.get(fold(name))
        if target and len(nodes) >= 2:
            relation = edge_type.replace("_", " ")
            names = join_with_and([node.name for node in nodes[:MAX_NODES]])
            yield _Pattern(
                f"{relation} {target.name}",
                f"{names} each have an edge of type “{relation}” to {target.name}.",
                f"Explain what they have in common through {target.name} ({relation}).",
                (target, *nodes[:MAX_NODES]),
            )
