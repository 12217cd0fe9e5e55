"""What a line of a file may hold: the limits that the tools have for the same fields when they write them."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Final

from pydantic import BaseModel

from shared.graph.provenance.sources import LONGEST_URL_BYTES
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
    SYSTEM,
    folded_description,
    refuse_bad_justification,
    refuse_edge_type_name,
    refuse_node_type_name,
)
from shared.graph.validation import (
    MAX_NAME_CHARACTERS,
    refuse_bad_schema,
    refuse_large,
    refuse_unstorable,
)
from shared.tools import ToolRefusalError

LARGEST_INTEGER: Final = 10**309
"""A float that is written out has no more digits."""
LARGEST_BYTE: Final = 2**31 - 1
MOST_MAKER_CHARACTERS: Final = 100


class Limits:
    """Of one file: its types stand before what has them."""

    def __init__(self) -> None:
        self._node_types: set[str] = set()
        self._edge_types: set[str] = set()

    def refuse(self, line: ContentLine) -> None:
        """Raises ToolRefusalError, in words, where the tools could not have written the line."""
        _refuse_moments(line)
        match line:
            case EdgeTypeLine():
                refuse_edge_type_name(line.name)
                _refuse_type(line, self._edge_types)
            case NodeTypeLine():
                if line.name not in RESERVED_TYPES or line.created_by != SYSTEM:
                    refuse_node_type_name(line.name)
                _refuse_type(line, self._node_types)
            case SourceLine():
                _refuse_source(line)
            case NodeLine():
                _refuse_unknown(line.type, "node type", self._node_types)
                _refuse_names(line)
                _refuse_thing(line)
            case EdgeLine():
                _refuse_unknown(line.type, "edge type", self._edge_types)
                _refuse_thing(line)


def _refuse_type(line: NodeTypeLine, known: set[str]) -> None:
    folded_description(line.description)
    refuse_bad_justification(line.justification)
    if not 1 <= len(line.created_by) <= MOST_MAKER_CHARACTERS:
        raise ToolRefusalError(f"created_by: give 1 to {MOST_MAKER_CHARACTERS} characters.")
    # The system's edge types, and those from before edges had properties, have no schema.
    if line.properties_schema or not isinstance(line, EdgeTypeLine):
        refuse_bad_schema(line.properties_schema)
    refuse_unstorable(line.example_properties, "example_properties")
    refuse_large(line.example_properties, "example_properties")
    if line.name in known:
        raise ToolRefusalError(f"the type {line.name} is there twice.")
    known.add(line.name)
    # Beside those that an agent may make it has the system's own.
    if len(known) > MAX_TYPES + len(RESERVED_TYPES):
        raise ToolRefusalError(f"an agent has at most {MAX_TYPES} such types.")


def _refuse_source(line: SourceLine) -> None:
    if not line.url or len(line.url.encode()) > LONGEST_URL_BYTES:
        raise ToolRefusalError(f"url: give 1 to {LONGEST_URL_BYTES} bytes.")
    for name in ("url", "title", "retracted_because", "text"):
        refuse_unstorable(getattr(line, name), name)


def _refuse_unknown(type_name: str, what: str, known: set[str]) -> None:
    if type_name not in known:
        raise ToolRefusalError(f"the file has no {what} {type_name[:80]!r}.")


def _refuse_names(line: NodeLine) -> None:
    for name in (line.name, *line.names.values()):
        refuse_unstorable(name, "name")
        if not 1 <= len(name) <= MAX_NAME_CHARACTERS:
            raise ToolRefusalError(
                f"name: {len(name)} characters; give 1 to {MAX_NAME_CHARACTERS}."
            )
    for key in line.names:
        refuse_unstorable(key, "a key of names")


def _refuse_thing(line: NodeLine | EdgeLine) -> None:
    refuse_unstorable(line.properties, "properties", largest=LARGEST_INTEGER)
    for each in line.evidence:
        _refuse_moments(each)
        refuse_unstorable(each.claims, "claims", largest=LARGEST_INTEGER)
        if not 0 <= each.first_byte < each.end_byte <= LARGEST_BYTE:
            raise ToolRefusalError("evidence: its bytes are no span of a page.")
    if isinstance(line, NodeLine):
        for doubt in line.doubts:
            _refuse_moments(doubt)


def _refuse_moments(line: BaseModel) -> None:
    for name, value in _values(line):
        if isinstance(value, datetime):
            try:
                has_zone = value.tzinfo is not None and value.astimezone(UTC) is not None
            except OverflowError:
                has_zone = False
            if not has_zone:
                raise ToolRefusalError(f"{name}: {value} is no moment in UTC.")


def _values(line: BaseModel) -> Iterable[tuple[str, Any]]:
    return line.__dict__.items()
