"""Graph layout data for the explorer. Pure."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from shared.schemas.base import Json
from shared.schemas.graph import GraphLayout


def encode_drawing(picture: GraphLayout) -> bytes:
    """Encodes a drawing as JSON.

    `types`, `nodes` of [id, index of its type, name, time of the last update in ms, 1 if
    unsupported], `edges` of [index of its source, index of its target, index of its type], and
    `cut` where nodes were left out.
    """
    types: dict[str, int] = {}
    nodes = [
        [
            str(node.id),
            types.setdefault(node.type, len(types)),
            node.name,
            int(node.updated_at.timestamp() * 1000),
            int(node.unsupported_since is not None),
        ]
        for node in picture.nodes
    ]
    places = {node.id: place for place, node in enumerate(picture.nodes)}
    edges = [
        [
            places[edge.source_id],
            places[edge.target_id],
            types.setdefault(edge.type, len(types)),
        ]
        for edge in picture.edges
    ]
    document = {"types": list(types), "nodes": nodes, "edges": edges, "cut": picture.cut}
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


_LIMIT_WORDS: Final[Mapping[str, str]] = {
    "minimum": "at least {}",
    "maximum": "at most {}",
    "exclusiveMinimum": "more than {}",
    "exclusiveMaximum": "less than {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
    "pattern": "like {}",
    "format": "as {}",
    "const": "always {}",
}


@dataclass(frozen=True)
class PropertyRow:
    name: str
    kind: str
    is_required: bool
    description: str
    limits: str


def property_rows(schema: Json) -> list[PropertyRow]:
    """Returns the properties of a schema as rows; none if it lists no properties."""
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return []
    required = schema.get("required")
    required_names = required if isinstance(required, list) else []
    return [
        PropertyRow(
            name=name,
            kind=_kind(prop) if isinstance(prop, dict) else "anything",
            is_required=name in required_names,
            description=str(prop.get("description", "")) if isinstance(prop, dict) else "",
            limits=", ".join(_limits(prop)) if isinstance(prop, dict) else "",
        )
        for name, prop in properties.items()
    ]


def _kind(schema: Mapping[str, Any]) -> str:
    if isinstance(schema.get("enum"), list):
        return "one of " + ", ".join(map(str, schema["enum"]))
    kind = schema.get("type", "anything")
    words = " or ".join(map(str, kind)) if isinstance(kind, list) else str(kind)
    items = schema.get("items")
    if words == "array" and isinstance(items, dict):
        return f"list of {_kind(items)}"
    return words


def _limits(schema: Mapping[str, Any]) -> Iterator[str]:
    for name, words in _LIMIT_WORDS.items():
        if name in schema:
            yield words.format(schema[name])
