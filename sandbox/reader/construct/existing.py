"""What the graph holds already, as far as this request tells."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sandbox.reader.graph_view import OWN_TYPES, GraphView
from sandbox.reader.request import ChatRequest
from sandbox.text.words import fold


@dataclass(frozen=True, slots=True)
class KnownNode:
    """A node that exists."""

    id: str
    type: str
    name: str
    properties: Mapping[str, Any]


class Existing:
    """Types and nodes from the graph context and from what tools answered."""

    def __init__(self, request: ChatRequest) -> None:
        self._request = request

    @cached_property
    def node_types(self) -> Mapping[str, Mapping[str, Any]]:
        """The JSON Schema of each type's properties."""
        listed = _entries(self._request, "listNodeTypes", "nodeTypes")
        return {str(one.get("name")): one.get("propertiesSchema") or {} for one in listed}

    @cached_property
    def edge_types(self) -> Mapping[str, Mapping[str, Any]]:
        """Each type with its allowed ends."""
        return {
            str(one.get("name")): one
            for one in _entries(self._request, "listEdgeTypes", "edgeTypes")
        }

    @cached_property
    def nodes(self) -> Mapping[str, KnownNode]:
        """By name in lower case without accents."""
        found: dict[str, KnownNode] = {}
        for one in _entries(self._request, "queryGraph", "nodes"):
            node = KnownNode(
                str(one.get("id")),
                str(one.get("type")),
                str(one.get("name")),
                one.get("properties") or {},
            )
            if node.type not in OWN_TYPES:
                found.setdefault(fold(node.name), node)
        for shown in GraphView(self._request.section("graph_context")).nodes:
            found.setdefault(
                fold(shown.name), KnownNode(shown.id, shown.type, shown.name, shown.properties)
            )
        return found

    def type_called(self, wanted: str) -> str:
        """The type that there is where one of the name `wanted` was to be made: it may be spelled another way."""
        return self._called.get(wanted, wanted)

    @cached_property
    def _called(self) -> Mapping[str, str]:
        return {
            str(one.arguments.get("name")): str((one.result or {}).get("name"))
            for tool in ("createNodeType", "createEdgeType")
            for one in self._request.results(tool)
        }

    @cached_property
    def kinds(self) -> Mapping[str, str]:
        """The type of each node by the same keys."""
        return {key: node.type for key, node in self.nodes.items()}


def _entries(request: ChatRequest, tool: str, key: str) -> list[Mapping[str, Any]]:
    return [
        entry
        for exchange in request.results(tool)
        for entry in (exchange.result or {}).get(key) or []
        if isinstance(entry, dict)
    ]
