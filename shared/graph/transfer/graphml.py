"""A graph as GraphML, for other tools: nodes and edges with typed attributes. What is proved is told by their counts.

Properties that a type declares as a number, a flag or a text are attributes of their own; whatever else there is stands
as JSON in the attribute `properties`.
"""

import json
import re
from collections.abc import AsyncIterator, Iterable, Mapping
from io import StringIO
from typing import Any, Final
from xml.sax.saxutils import XMLGenerator
from xml.sax.xmlreader import AttributesImpl

from shared.graph.provenance.integrity import EdgeRow, NodeRow
from shared.graph.transfer.exporter import Content, ThingTold
from shared.graph.types import EdgeType, NodeType

NAMESPACE: Final = "http://graphml.graphdrawing.org/xmlns"
_OWN: Final = {
    "node": {"type": "string", "name": "string"},
    "edge": {"type": "string"},
}
_OF_BOTH: Final = {
    "properties": "string",
    "evidence": "int",
    "created_at": "string",
    "updated_at": "string",
}
_ATTRIBUTE_OF: Final = {
    "string": "string",
    "boolean": "boolean",
    "integer": "long",
    "number": "double",
}
# What XML 1.0 cannot hold, in whatever way it is written.
_NO_XML: Final = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_LONGEST: Final = 2**63

Attributes = Mapping[str, str]
"""Attribute to its type."""


async def written(content: Content) -> AsyncIterator[bytes]:
    """In pieces of one node or edge."""
    pen = _Pen()
    types = await content.types()
    declared = {"node": _declared(types.nodes), "edge": _declared(types.edges)}
    pen.xml.startDocument()
    pen.begin("graphml", xmlns=NAMESPACE)
    for of, attributes in declared.items():
        for name, kind in _all_of(of, attributes).items():
            key = {"id": f"{of}.{name}", "for": of, "attr.name": name, "attr.type": kind}
            pen.element("key", **key)
    pen.begin("graph", id=str((await content.agent()).id), edgedefault="directed")
    yield pen.taken()
    async for node in content.nodes():
        _thing(pen, "node", node, declared["node"])
        yield pen.taken()
    async for edge in content.edges():
        _thing(pen, "edge", edge, declared["edge"])
        yield pen.taken()
    pen.xml.endElement("graph")
    pen.xml.endElement("graphml")
    yield pen.taken() + b"\n"


class _Pen:
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

    def taken(self) -> bytes:
        """What was written since it was last asked."""
        text = self._buffer.getvalue()
        self._buffer.seek(0)
        self._buffer.truncate()
        return text.encode()


def _thing(pen: _Pen, of: str, told: ThingTold, declared: Attributes) -> None:
    row = told.row
    ends = {}
    if isinstance(row, EdgeRow):
        ends = {"source": str(row.source_id), "target": str(row.target_id)}
    pen.begin(of, id=str(row.id), **ends)
    for name, text in _values(told, declared).items():
        pen.element("data", text, key=f"{of}.{name}")
    pen.xml.endElement(of)


def _values(told: ThingTold, declared: Attributes) -> dict[str, str]:
    row = told.row
    values = {"type": row.type} | ({"name": row.name} if isinstance(row, NodeRow) else {})
    others = {}
    for name, value in row.properties.items():
        if name in declared and _fits(value, declared[name]):
            values[name] = value if isinstance(value, str) else json.dumps(value)
        else:
            others[name] = value
    return values | {
        "properties": json.dumps(others, ensure_ascii=False),
        "evidence": str(len(told.evidence)),
        "created_at": row.created_at.isoformat(),
        "updated_at": row.updated_at.isoformat(),
    }


def _declared(types: Iterable[NodeType | EdgeType]) -> dict[str, str]:
    """Of all types together, without what two of them declare differently."""
    found: dict[str, str] = {}
    unclear = set[str]()
    for each in types:
        for name, schema in each.properties_schema.get("properties", {}).items():
            kind = _attribute(schema)
            if kind is None or found.setdefault(name, kind) != kind:
                unclear.add(name)
    taken = {*_OWN["node"], *_OWN["edge"], *_OF_BOTH, *unclear}
    return {name: kind for name, kind in found.items() if name not in taken}


def _attribute(schema: Any) -> str | None:
    kind = schema.get("type") if isinstance(schema, dict) else None
    return _ATTRIBUTE_OF.get(kind) if isinstance(kind, str) else None


def _fits(value: Any, kind: str) -> bool:
    match kind:
        case "string":
            return isinstance(value, str)
        case "boolean":
            return isinstance(value, bool)
        case "long":
            return type(value) is int and -_LONGEST <= value < _LONGEST
        case _:
            return type(value) in (int, float)


def _all_of(of: str, declared: Attributes) -> dict[str, str]:
    return {**_OWN[of], **declared, **_OF_BOTH}


def _clean(text: str) -> str:
    return _NO_XML.sub("\ufffd", text)
