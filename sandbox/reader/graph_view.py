"""The graph as a request shows it, read back from its Markdown."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from sandbox.text.words import fold

ID = r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"
STRING = r'"(?:[^"\\]|\\.)*"'
NODE_LINE = re.compile(rf"^- \[node:(?P<id>{ID})\] (?P<type>\S+) (?P<name>{STRING})(?P<rest>.*)$")
EDGE_LINE = re.compile(
    rf"^- \[edge:(?P<id>{ID})\] (?P<source>{STRING}) -(?P<type>[^\s>]+)-> (?P<target>{STRING})"
)
TYPE_LINE = re.compile(r"^- (?P<name>\w+)(?:: (?P<description>.*))?$")
COUNT = re.compile(r"\((\d+) edges?\)")
COUNTS = re.compile(r"^As of \S+ (\d+)\+? nodes\b.* (\d+)\+? analyses, (\d+)\+? advice")
PAIR = re.compile(r'"((?:[^"\\]|\\.)*)"\s*:\s*"((?:[^"\\]|\\.)*)"')
ANCHOR = re.compile(rf"\[node:({ID})\] ({STRING})")
OWN_TYPES = frozenset({"AgentAnalysis", "AgentAdvice"})
"""Conclusions of agents stand in the graph, but are not what it is about."""


@dataclass(frozen=True, slots=True)
class ViewNode:
    """A node that was shown. `remark` is what stood behind its name besides the properties."""

    id: str
    type: str
    name: str
    properties: Mapping[str, Any] = field(default_factory=dict)
    remark: str = ""

    @property
    def text(self) -> str:
        """Everything that is said of the node."""
        values = " ".join(
            f"{key} {value}" for key, value in self.properties.items() if key != "sourceUrl"
        )
        return f"{self.name} {self.remark} {values}"


@dataclass(frozen=True, slots=True)
class ViewEdge:
    """An edge that was shown, its ends by name."""

    id: str
    source: str
    type: str
    target: str


class GraphView:
    """Nodes and edges shown in one or more texts; a node shown twice keeps the fuller form."""

    def __init__(self, *texts: str) -> None:
        self._lines = [
            (heading, line) for text in texts for heading, line in _lines_under_headings(text)
        ]

    @cached_property
    def nodes(self) -> list[ViewNode]:
        """What the graph is about, without conclusions of agents, in the order shown."""
        own = {node.id for node in [*self.analyses, *self.advice]}
        return [
            node
            for node in self._every_node.values()
            if node.id not in own and node.type not in OWN_TYPES
        ]

    @cached_property
    def by_name(self) -> Mapping[str, ViewNode]:
        """Nodes by their name in lower case without accents; the first of two that share one."""
        found: dict[str, ViewNode] = {}
        for node in self.nodes:
            found.setdefault(fold(node.name), node)
        return found

    @cached_property
    def edges(self) -> list[ViewEdge]:
        """Each edge once."""
        found: dict[str, ViewEdge] = {}
        for _, line in self._lines:
            if match := EDGE_LINE.match(line):
                found.setdefault(match["id"], _edge(match))
        return list(found.values())

    @cached_property
    def analyses(self) -> list[ViewNode]:
        """Conclusions drawn so far."""
        return [
            node
            for heading, node in self._placed_nodes
            if _is_about(heading, node, "analyses", "AgentAnalysis")
        ]

    @cached_property
    def advice(self) -> list[ViewNode]:
        """Advice given so far."""
        return [
            node
            for heading, node in self._placed_nodes
            if _is_about(heading, node, "advice", "AgentAdvice")
        ]

    @cached_property
    def edge_types(self) -> list[str]:
        """Names of the types of edges listed."""
        found = [TYPE_LINE.match(line) for line in self.lines("edge types")]
        return [match["name"] for match in found if match]

    @cached_property
    def degrees(self) -> Mapping[str, int]:
        """Edges of each node by its id: as stated, else as many as are shown."""
        shown: dict[str, int] = {}
        for edge in self.edges:
            for end in (edge.source, edge.target):
                if node := self.by_name.get(fold(end)):
                    shown[node.id] = shown.get(node.id, 0) + 1
        for _, node in self._placed_nodes:
            if match := COUNT.search(node.remark):
                shown[node.id] = max(shown.get(node.id, 0), int(match.group(1)))
        return shown

    @cached_property
    def is_partial(self) -> bool:
        """Whether the graph is said to hold more nodes than are shown with what they say."""
        stated = next((match for _, line in self._lines if (match := COUNTS.search(line))), None)
        told = sum(bool(node.properties) for node in self.nodes)
        return stated is not None and int(stated[1]) - int(stated[2]) - int(stated[3]) > told

    def lines(self, heading: str) -> list[str]:
        """The lines below a heading, told in lower case."""
        return [line for above, line in self._lines if above == heading and line.startswith("- ")]

    def stale(self) -> list[ViewNode]:
        """A node for each region that has not been touched for long."""
        matches = [ANCHOR.search(line) for line in self.lines("stale regions")]
        return [
            self._every_node.get(
                match.group(1), ViewNode(match.group(1), "", _unquoted(match.group(2)))
            )
            for match in matches
            if match
        ]

    @cached_property
    def _placed_nodes(self) -> list[tuple[str, ViewNode]]:
        return [(heading, node) for heading, line in self._lines if (node := parse_node(line))]

    @cached_property
    def _every_node(self) -> Mapping[str, ViewNode]:
        found: dict[str, ViewNode] = {}
        for _, node in self._placed_nodes:
            if node.id not in found or len(node.properties) > len(found[node.id].properties):
                found[node.id] = node
        return found


def parse_node(line: str) -> ViewNode | None:
    """The node of one line; None where the line shows none."""
    match = NODE_LINE.match(line.strip())
    if not match:
        return None
    properties, remark = _split_properties(match["rest"])
    return ViewNode(match["id"], match["type"], _unquoted(match["name"]), properties, remark)


def _edge(match: re.Match[str]) -> ViewEdge:
    return ViewEdge(
        match["id"], _unquoted(match["source"]), match["type"], _unquoted(match["target"])
    )


def _unquoted(string: str) -> str:
    """Names stand as JSON strings."""
    try:
        return str(json.loads(string))
    except ValueError:
        return string.strip('"')


def _split_properties(rest: str) -> tuple[dict[str, Any], str]:
    """Properties cut short for space are read as far as they go."""
    start = rest.find("{")
    if start < 0:
        return {}, rest.strip(" :")
    try:
        parsed, end = json.JSONDecoder().raw_decode(rest[start:])
    except ValueError:
        return dict(PAIR.findall(rest)), ""
    return parsed, f"{rest[:start]} {rest[start + end :]}".strip(" :")


def _is_about(heading: str, node: ViewNode, wanted: str, node_type: str) -> bool:
    return heading == wanted or node.type == node_type


def _lines_under_headings(text: str) -> Iterator[tuple[str, str]]:
    heading = ""
    for raw in text.splitlines():
        line = raw.strip()
        if line.startswith("#"):
            heading = line.lstrip("# ").lower()
        elif line:
            yield heading, line
