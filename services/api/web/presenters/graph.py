"""The graph as the explorer draws it. Pure."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from shared.schemas.base import Json
from shared.schemas.graph import DrawingView


def drawn(picture: DrawingView) -> bytes:
    """JSON: `types`, `nodes` of [id, place of its type, name, when it was touched in ms, 1 where nothing supports it],
    `edges` of [place of its source, place of its target, place of its type], and whether it is `cut`.
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
    told = {"types": list(types), "nodes": nodes, "edges": edges, "cut": picture.cut}
    return json.dumps(told, ensure_ascii=False, separators=(",", ":")).encode()


_TOLD: Final[Mapping[str, str]] = {
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


def rows(schema: Json) -> list[PropertyRow]:
    """None where the schema allows any properties, or says it in a way that is no plain list of them."""
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return []
    required = schema.get("required")
    needed = required if isinstance(required, list) else []
    return [
        PropertyRow(
            name=name,
            kind=_kind(told) if isinstance(told, dict) else "anything",
            is_required=name in needed,
            description=str(told.get("description", "")) if isinstance(told, dict) else "",
            limits=", ".join(_limits(told)) if isinstance(told, dict) else "",
        )
        for name, told in properties.items()
    ]


def _kind(told: Mapping[str, Any]) -> str:
    if isinstance(told.get("enum"), list):
        return "one of " + ", ".join(map(str, told["enum"]))
    kind = told.get("type", "anything")
    words = " or ".join(map(str, kind)) if isinstance(kind, list) else str(kind)
    items = told.get("items")
    if words == "array" and isinstance(items, dict):
        return f"list of {_kind(items)}"
    return words


def _limits(told: Mapping[str, Any]) -> Iterator[str]:
    for name, words in _TOLD.items():
        if name in told:
            yield words.format(told[name])
