"""The graph as a request shows it, parsed from its Markdown."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from sandbox.text.tokens import fold

UUID = r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"
ID = rf"(?:{UUID}|[ne]\d+)"
STRING = r'"(?:[^"\\]|\\.)*"'
NODE_LINE = re.compile(
    rf"^- (?:\[(?:node:)?(?P<id>{ID})\] )?(?P<type>\w+) (?P<name>{STRING})(?P<rest>.*)$"
)
EDGE_LINE = re.compile(
    rf"^- (?:\[(?:edge:)?(?P<id>{ID})\] )?(?P<source>{STRING}) -(?P<type>[^\s>]+)-> (?P<target>{STRING})"
)
NAMES_LINE = re.compile(rf"^- \w+: (?P<names>{STRING}(?:, {STRING})*)$")
TYPE_LINE = re.compile(r"^- (?P<name>\w+)(?:: (?P<description>.*))?$")
COUNT = re.compile(r"\((\d+) edges?\)")
COUNTS = re.compile(r"^As of \S+ (\d+)\+? nodes\b.* (\d+)\+? analyses, (\d+)\+? advice")
PAIR = re.compile(r'"((?:[^"\\]|\\.)*)"\s*:\s*"((?:[^"\\]|\\.)*)"')
ANCHOR = re.compile(rf"\[(?:node:)?({ID})\] ({STRING})")
OWN_TYPES = frozenset({"AgentAnalysis", "AgentAdvice"})
"""The types of agents' conclusions, which are not facts of the graph."""


@dataclass(frozen=True, slots=True)
class ViewNode:
    """A node of the request. `remark` is the text after its name besides the properties."""

    id: str
    """Its name where the request shows no id."""
    type: str
    name: str
    properties: Mapping[str, Any] = field(default_factory=dict)
    remark: str = ""

    @property
    def text(self) -> str:
        """All text on the node."""
        values = " ".join(
            f"{key} {value}" for key, value in self.properties.items() if key != "sourceUrl"
        )
        return f"{self.name} {self.remark} {values}"


@dataclass(frozen=True, slots=True)
class ViewEdge:
    """An edge of the request, its ends by name."""

    id: str
    source: str
    type: str
    target: str


class GraphView:
    """The nodes and edges of one or more texts; of a repeated node, the form with more properties."""

    def __init__(self, *texts: str) -> None:
        self._lines = [
            (heading, line) for text in texts for heading, line in _lines_under_headings(text)
        ]

    @cached_property
    def nodes(self) -> list[ViewNode]:
        """The nodes that are no conclusions of agents, in order."""
        own = {node.id for node in [*self.analyses, *self.advice]}
        return [
            node
            for node in self._nodes_by_id.values()
            if node.id not in own and node.type not in OWN_TYPES
        ]

    @cached_property
    def listed_names(self) -> list[str]:
        """Names of nodes in lists of names alone."""
        matches = [NAMES_LINE.match(line) for line in self.lines("nodes by type")]
        return [
            _unquoted(name)
            for match in matches
            if match
            for name in re.findall(STRING, match["names"])
        ]

    @cached_property
    def by_name(self) -> Mapping[str, ViewNode]:
        """Nodes by name in lower case without accents; the first of two with the same name."""
        by_name: dict[str, ViewNode] = {}
        for node in self.nodes:
            by_name.setdefault(fold(node.name), node)
        return by_name

    @cached_property
    def edges(self) -> list[ViewEdge]:
        """The edges, without duplicates."""
        edges: dict[str, ViewEdge] = {}
        for _, line in self._lines:
            if match := EDGE_LINE.match(line):
                edge = _edge(match)
                edges.setdefault(edge.id, edge)
        return list(edges.values())

    @cached_property
    def analyses(self) -> list[ViewNode]:
        """The analyses."""
        return [
            node
            for heading, node in self._nodes_with_headings
            if _is_about(heading, node, "analyses", "AgentAnalysis")
        ]

    @cached_property
    def advice(self) -> list[ViewNode]:
        """The advice."""
        return [
            node
            for heading, node in self._nodes_with_headings
            if _is_about(heading, node, "advice", "AgentAdvice")
        ]

    @cached_property
    def edge_types(self) -> list[str]:
        """The names of the listed edge types."""
        matches = [TYPE_LINE.match(line) for line in self.lines("edge types")]
        return [match["name"] for match in matches if match]

    @cached_property
    def degrees(self) -> Mapping[str, int]:
        """Number of edges by node id: as stated, else as shown."""
        degrees: dict[str, int] = {}
        for edge in self.edges:
            for end in (edge.source, edge.target):
                if node := self.by_name.get(fold(end)):
                    degrees[node.id] = degrees.get(node.id, 0) + 1
        for _, node in self._nodes_with_headings:
            if match := COUNT.search(node.remark):
                degrees[node.id] = max(degrees.get(node.id, 0), int(match.group(1)))
        return degrees

    @cached_property
    def is_partial(self) -> bool:
        """Whether the graph has more nodes than are shown with properties."""
        if len(self.listed_names) > sum(bool(node.properties) for node in self.nodes):
            return True
        stated = next((match for _, line in self._lines if (match := COUNTS.search(line))), None)
        described = sum(bool(node.properties) for node in self.nodes)
        return stated is not None and int(stated[1]) - int(stated[2]) - int(stated[3]) > described

    def lines(self, heading: str) -> list[str]:
        """The list items below a heading (in lower case)."""
        return [line for above, line in self._lines if above == heading and line.startswith("- ")]

    def stale_nodes(self) -> list[ViewNode]:
        """The stale nodes, or one node for each stale region."""
        listed = [parse_node(line) for line in self.lines("stale nodes")]
        if nodes := [node for node in listed if node]:
            return nodes
        matches = [ANCHOR.search(line) for line in self.lines("stale regions")]
        return [
            self._nodes_by_id.get(
                match.group(1), ViewNode(match.group(1), "", _unquoted(match.group(2)))
            )
            for match in matches
            if match
        ]

    @cached_property
    def _nodes_with_headings(self) -> list[tuple[str, ViewNode]]:
        return [(heading, node) for heading, line in self._lines if (node := parse_node(line))]

    @cached_property
    def _nodes_by_id(self) -> Mapping[str, ViewNode]:
        nodes: dict[str, ViewNode] = {}
        for _, node in self._nodes_with_headings:
            if node.id not in nodes or len(node.properties) > len(nodes[node.id].properties):
                nodes[node.id] = node
        return nodes


def cite(kind: str, element_id: str) -> str:
    """The citation of a node or edge: `[node:UUID]`, or `[n17]` where ids are short."""
    return f"[{kind}:{element_id}]" if re.fullmatch(UUID, element_id) else f"[{element_id}]"


def parse_node(line: str) -> ViewNode | None:
    """Parse the node in a line; None if there is none."""
    match = NODE_LINE.match(line.strip())
    if not match:
        return None
    properties, remark = _split_properties(match["rest"])
    name = _unquoted(match["name"])
    return ViewNode(match["id"] or name, match["type"], name, properties, remark)


def _edge(match: re.Match[str]) -> ViewEdge:
    source, target = _unquoted(match["source"]), _unquoted(match["target"])
    edge_id = match["id"] or f"{source} {match['type']} {target}"
    return ViewEdge(edge_id, source, match["type"], target)


def _unquoted(string: str) -> str:
    """Parse a name, which is a JSON string."""
    try:
        return str(json.loads(string))
    except ValueError:
        return string.strip('"')


def _split_properties(text: str) -> tuple[dict[str, Any], str]:
    """Split properties from the rest. Truncated properties are parsed as far as possible."""
    start = text.find("{")
    if start < 0:
        return {}, text.strip(" :")
    try:
        parsed, end = json.JSONDecoder().raw_decode(text[start:])
    except ValueError:
        return dict(PAIR.findall(text)), ""
    return parsed, f"{text[:start]} {text[start + end :]}".strip(" :")


def _is_about(heading: str, node: ViewNode, topic: str, node_type: str) -> bool:
    return heading == topic or node.type == node_type


def _lines_under_headings(text: str) -> Iterator[tuple[str, str]]:
    heading = ""
    for raw in text.splitlines():
        line = raw.strip()
        if line.startswith("#"):
            heading = line.lstrip("# ").lower()
        elif line:
            yield heading, line
