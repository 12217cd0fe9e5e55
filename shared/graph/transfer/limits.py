"""Limits for the lines of an imported file, the same as the tools have for these fields."""

from datetime import UTC, datetime
from typing import Final

from pydantic import BaseModel

from shared.graph.provenance.sources import MAX_URL_BYTES
from shared.graph.transfer.exporter import (
    ContentLine,
    EdgeLine,
    EdgeTypeLine,
    NodeLine,
    NodeTypeLine,
    SourceLine,
)
from shared.graph.types import (
    MAX_TYPES,
    RESERVED_TYPES,
    SYSTEM_CREATOR,
    normalize_description,
    normalize_justification,
    refuse_edge_type_name,
    refuse_node_type_name,
)
from shared.graph.validation import (
    MAX_NAME_CHARS,
    refuse_bad_schema,
    refuse_large,
    refuse_unstorable,
)
from shared.tools import ToolRefusalError

MAX_INTEGER: Final = 10**309
"""A float written out in full has at most this many digits."""
MAX_BYTE: Final = 2**31 - 1
MAX_CREATOR_CHARS: Final = 100


class Limits:
    """The limits for one file. Types precede the elements that use them."""

    def __init__(self) -> None:
        self._node_types: set[str] = set()
        self._edge_types: set[str] = set()

    def refuse(self, line: ContentLine) -> None:
        """Raises ToolRefusalError if the tools could not have written the line."""
        _refuse_moments(line)
        match line:
            case EdgeTypeLine():
                refuse_edge_type_name(line.name)
                _refuse_type(line, self._edge_types)
            case NodeTypeLine():
                if line.name not in RESERVED_TYPES or line.created_by != SYSTEM_CREATOR:
                    refuse_node_type_name(line.name)
                _refuse_type(line, self._node_types)
            case SourceLine():
                _refuse_source(line)
            case NodeLine():
                _refuse_unknown(line.type, "node type", self._node_types)
                _refuse_names(line)
                _refuse_element(line)
            case EdgeLine():
                _refuse_unknown(line.type, "edge type", self._edge_types)
                _refuse_element(line)


def _refuse_type(line: NodeTypeLine, type_names: set[str]) -> None:
    normalize_description(line.description)
    normalize_justification(line.justification)
    if not 1 <= len(line.created_by) <= MAX_CREATOR_CHARS:
        raise ToolRefusalError(f"created_by: give 1 to {MAX_CREATOR_CHARS} characters.")
    # System edge types, and those from before edges had properties, have no schema.
    if line.properties_schema or not isinstance(line, EdgeTypeLine):
        refuse_bad_schema(line.properties_schema)
    refuse_unstorable(line.example_properties, "example_properties")
    refuse_large(line.example_properties, "example_properties")
    if line.name in type_names:
        raise ToolRefusalError(f"the type {line.name} is defined twice.")
    type_names.add(line.name)
    # System types do not count towards the limit.
    if len(type_names) > MAX_TYPES + len(RESERVED_TYPES):
        raise ToolRefusalError(f"an agent has at most {MAX_TYPES} such types.")


def _refuse_source(line: SourceLine) -> None:
    if not line.url or len(line.url.encode()) > MAX_URL_BYTES:
        raise ToolRefusalError(f"url: give 1 to {MAX_URL_BYTES} bytes.")
    for name in ("url", "title", "retraction_reason", "text"):
        refuse_unstorable(getattr(line, name), name)
    refuse_unstorable(line.reading, "reading", largest=MAX_BYTE)


def _refuse_unknown(type_name: str, type_kind: str, type_names: set[str]) -> None:
    if type_name not in type_names:
        raise ToolRefusalError(f"the file has no {type_kind} {type_name[:80]!r}.")


def _refuse_names(line: NodeLine) -> None:
    for name in (line.name, *line.names.values()):
        refuse_unstorable(name, "name")
        if not 1 <= len(name) <= MAX_NAME_CHARS:
            raise ToolRefusalError(f"name: {len(name)} characters; give 1 to {MAX_NAME_CHARS}.")
    for key in line.names:
        refuse_unstorable(key, "a key of names")


def _refuse_element(line: NodeLine | EdgeLine) -> None:
    refuse_unstorable(line.properties, "properties", largest=MAX_INTEGER)
    for evidence in line.evidence:
        _refuse_moments(evidence)
        refuse_unstorable(evidence.claims, "claims", largest=MAX_INTEGER)
        if not 0 <= evidence.first_byte < evidence.end_byte <= MAX_BYTE:
            raise ToolRefusalError("evidence: its byte range is invalid.")
    if isinstance(line, NodeLine):
        for doubt in line.doubts:
            _refuse_moments(doubt)


def _refuse_moments(line: BaseModel) -> None:
    for name, value in line:
        if isinstance(value, datetime):
            try:
                has_zone = value.tzinfo is not None and value.astimezone(UTC) is not None
            except OverflowError:
                has_zone = False
            if not has_zone:
                raise ToolRefusalError(f"{name}: {value} is not a UTC time.")
