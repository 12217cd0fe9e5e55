"""Values in canonical form: with names for ids, and each number in one notation."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from shared.graph.conclusions.citations import Citation, replace_citations

Name = list[Any]
"""The replacement of an id: a node's type and name, an edge's type and the names of its two ends."""
Names = Mapping[Citation, Name]


def plain(value: Any, names: Names) -> Any:
    """`value` with names in its citations, and each number in one notation."""
    if isinstance(value, dict):
        return {key: plain(inner, names) for key, inner in value.items()}
    if isinstance(value, list):
        return [plain(inner, names) for inner in value]
    if isinstance(value, str):
        return _with_names(value, names)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def _with_names(text: str, names: Names) -> str:
    """`text` with names for the ids in its citations: `[node:["Country","Ghana"]]`. Unknown ids are kept."""

    def name_of(citation: Citation) -> str | None:
        name = names.get(citation)
        return None if name is None else f"[{citation.kind}:{one_json(name)}]"

    return replace_citations(text, name_of)


def one_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def moment(at: datetime | None) -> str | None:
    return None if at is None else at.astimezone(UTC).isoformat()
