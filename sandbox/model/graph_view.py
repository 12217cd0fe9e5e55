"""The graph as a request shows it, parsed from its Markdown."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

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
PAIR = re.compile(r'"((?:[^"\\]|\\.)*)"\s*:\s*"((?:[^"\\]|\\.)*)"')
NAME = re.compile(STRING)
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

    @classmethod
    def of_result(cls, item: Mapping[str, Any]) -> Self:
        """A node of a graph query's result."""
        properties = item.get("properties")
        known = properties if isinstance(properties, dict) else {}
        return cls(str(item.get("id")), str(item.get("type")), str(item.get("name")), known)

    @property
    def text(self) -> str:
        """All text on the node."""
        return " ".join(
            [self.name, self.remark, *(f"{key} {value}" for key, value in self.properties.items())]
        )

    @property
    def content(self) -> str:
        return str(self.properties.get("content", ""))

    @property
    def summary(self) -> str:
        """The summary; the context has that of an analysis after its name."""
        return str(self.properties.get("summary") or self.remark).strip()


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
        self._lines: list[tuple[str, str]] = []
        nodes: dict[str, ViewNode] = {}
        edges: dict[str, ViewEdge] = {}
        self.analyses: list[ViewNode] = []
        self.advice: list[ViewNode] = []
        for text in texts:
            heading = ""
            for line in filter(None, map(str.strip, text.splitlines())):
                if line.startswith("#"):
                    heading = line.lstrip("# ").lower()
                    continue
                self._lines.append((heading, line))
                if match := EDGE_LINE.match(line):
                    edge = _edge(match)
                    edges.setdefault(edge.id, edge)
                elif node := parse_node(line):
                    if heading == "analyses" or node.type == "AgentAnalysis":
                        self.analyses.append(node)
                    elif heading == "advice" or node.type == "AgentAdvice":
                        self.advice.append(node)
                    elif len(node.properties) >= len(
                        nodes.get(node.id, ViewNode("", "", "")).properties
                    ):
                        nodes[node.id] = node
        self.nodes = list(nodes.values())
        """The nodes that are no conclusions of agents."""
        self.edges = list(edges.values())

    @cached_property
    def by_name(self) -> Mapping[str, ViewNode]:
        """Nodes by folded name; the first of two with the same name."""
        return {fold(node.name): node for node in reversed(self.nodes)}

    def lines(self, heading: str) -> list[str]:
        """The list items below a heading (in lower case)."""
        return [line for above, line in self._lines if above == heading and line.startswith("- ")]

    def stale_names(self) -> list[str]:
        """The names of stale nodes."""
        return [
            _unquoted(name) for line in self.lines("stale nodes") for name in NAME.findall(line)
        ]


def cite(kind: str, element_id: str) -> str:
    """The citation of a node or edge: `[node:UUID]`, or `[n17]` where ids are short."""
    return f"[{kind}:{element_id}]" if re.fullmatch(UUID, element_id) else f"[{element_id}]"


def parse_node(line: str) -> ViewNode | None:
    """Parse the node in a line; None if there is none."""
    match = NODE_LINE.match(line)
    if not match:
        return None
    rest, name = match["rest"], _unquoted(match["name"])
    properties: dict[str, Any] = {}
    start = rest.find("{")
    if start >= 0:
        try:
            properties, end = json.JSONDecoder().raw_decode(rest[start:])
            rest = f"{rest[:start]} {rest[start + end :]}"
        except ValueError:  # truncated properties are parsed as far as possible
            properties, rest = dict(PAIR.findall(rest)), ""
    return ViewNode(match["id"] or name, match["type"], name, properties, rest.strip(" :"))


def _edge(match: re.Match[str]) -> ViewEdge:
    source, target = _unquoted(match["source"]), _unquoted(match["target"])
    return ViewEdge(
        match["id"] or f"{source} {match['type']} {target}", source, match["type"], target
    )


def _unquoted(string: str) -> str:
    """Parse a name, which is a JSON string."""
    try:
        return str(json.loads(string))
    except ValueError:
        return string.strip('"')
