"""Export as GraphML: nodes and edges with typed attributes, the number of their evidence, and what stands beside the values.

Properties that a type declares as number, boolean or string become attributes; all others are JSON in the attribute
`properties`. Edges between nodes that were merged are left out.
"""

import json
import re
from collections.abc import AsyncIterator, Iterable, Mapping
from io import StringIO
from typing import Any, Final
from xml.sax.saxutils import XMLGenerator
from xml.sax.xmlreader import AttributesImpl

from shared.graph.transfer.exporter import EdgeLine, Exported, GraphContent, NodeLine
from shared.graph.types import EdgeType, NodeType

NAMESPACE: Final = "http://graphml.graphdrawing.org/xmlns"
_OWN_ATTRIBUTES: Final = {
    "node": {"type": "string", "name": "string"},
    "edge": {"type": "string"},
}
_COMMON_ATTRIBUTES: Final = {
    "properties": "string",
    "evidence": "int",
    "beside": "string",
    "created_at": "string",
    "updated_at": "string",
}
_ATTRIBUTE_TYPES: Final = {
    "string": "string",
    "boolean": "boolean",
    "integer": "long",
    "number": "double",
}
# Characters that XML 1.0 cannot represent.
_INVALID_XML: Final = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_LONG_LIMIT: Final = 2**63

Attributes = Mapping[str, str]
"""Attribute types by name."""


async def export_graphml(content: GraphContent) -> AsyncIterator[bytes]:
    """Yield the document in chunks of one node or edge."""
    writer = _XmlWriter()
    node_types, edge_types = await content.types()
    declared = {"node": _declared_attributes(node_types), "edge": _declared_attributes(edge_types)}
    writer.xml.startDocument()
    writer.begin("graphml", xmlns=NAMESPACE)
    for element_kind, attributes in declared.items():
        all_attributes = {**_OWN_ATTRIBUTES[element_kind], **attributes, **_COMMON_ATTRIBUTES}
        for name, attribute_type in all_attributes.items():
            key = {
                "id": f"{element_kind}.{name}",
                "for": element_kind,
                "attr.name": name,
                "attr.type": attribute_type,
            }
            writer.element("key", **key)
    writer.begin("graph", id=str((await content.agent()).id), edgedefault="directed")
    yield writer.take_bytes()
    async for node in content.nodes():
        _write_element(writer, "node", node, declared["node"])
        yield writer.take_bytes()
    async for edge in content.edges():
        if edge.line.source_id == edge.line.target_id:
            continue
        _write_element(writer, "edge", edge, declared["edge"])
        yield writer.take_bytes()
    writer.xml.endElement("graph")
    writer.xml.endElement("graphml")
    yield writer.take_bytes() + b"\n"


class _XmlWriter:
    def __init__(self) -> None:
        self._buffer = StringIO()
        self.xml = XMLGenerator(self._buffer, "utf-8", short_empty_elements=True)

    def begin(self, name: str, **attributes: str) -> None:
        clean = {key: _clean(value) for key, value in attributes.items()}
        self.xml.startElement(name, AttributesImpl(clean))

    def element(self, name: str, text: str = "", **attributes: str) -> None:
        self.begin(name, **attributes)
        if text:
            self.xml.characters(_clean(text))
        self.xml.endElement(name)

    def take_bytes(self) -> bytes:
        """The bytes written since the last call."""
        text = self._buffer.getvalue()
        self._buffer.seek(0)
        self._buffer.truncate()
        return text.encode()


def _write_element(
    writer: _XmlWriter,
    element_kind: str,
    exported: Exported[NodeLine] | Exported[EdgeLine],
    declared: Attributes,
) -> None:
    element: NodeLine | EdgeLine = exported.line
    ends = {}
    if isinstance(element, EdgeLine):
        ends = {"source": str(element.source_id), "target": str(element.target_id)}
    writer.begin(element_kind, id=str(element.id), **ends)
    beside = {"beside": element.beside} if element.beside else {}
    for name, text in {**_values(element, declared), **beside}.items():
        writer.element("data", text, key=f"{element_kind}.{name}")
    writer.xml.endElement(element_kind)


def _values(element: NodeLine | EdgeLine, declared: Attributes) -> dict[str, str]:
    values = {"type": element.type}
    if isinstance(element, NodeLine):
        values["name"] = element.name
    other_properties = {}
    for name, value in element.properties.items():
        if name in declared and _fits(value, declared[name]):
            values[name] = value if isinstance(value, str) else json.dumps(value)
        else:
            other_properties[name] = value
    return values | {
        "properties": json.dumps(other_properties, ensure_ascii=False),
        "evidence": str(len(element.evidence)),
        "created_at": element.created_at.isoformat(),
        "updated_at": element.updated_at.isoformat(),
    }


def _declared_attributes(types: Iterable[NodeType | EdgeType]) -> dict[str, str]:
    """Attributes of all types, without those that two types declare differently."""
    attributes: dict[str, str] = {}
    conflicting = set[str]()
    for graph_type in types:
        for name, schema in graph_type.properties_schema.get("properties", {}).items():
            attribute_type = _attribute_type(schema)
            if (
                attribute_type is None
                or attributes.setdefault(name, attribute_type) != attribute_type
            ):
                conflicting.add(name)
    reserved = {
        *_OWN_ATTRIBUTES["node"],
        *_OWN_ATTRIBUTES["edge"],
        *_COMMON_ATTRIBUTES,
        *conflicting,
    }
    return {
        name: attribute_type for name, attribute_type in attributes.items() if name not in reserved
    }


def _attribute_type(schema: Any) -> str | None:
    json_type = schema.get("type") if isinstance(schema, dict) else None
    return _ATTRIBUTE_TYPES.get(json_type) if isinstance(json_type, str) else None


def _fits(value: Any, attribute_type: str) -> bool:
    match attribute_type:
        case "string":
            return isinstance(value, str)
        case "boolean":
            return isinstance(value, bool)
        case "long":
            return type(value) is int and -_LONG_LIMIT <= value < _LONG_LIMIT
        case _:
            return type(value) in (int, float)


def _clean(text: str) -> str:
    return _INVALID_XML.sub("\ufffd", text)
