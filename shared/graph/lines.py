"""How nodes and edges read in a prompt: one line each, whatever their texts hold."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from shared.graph.values import one_line
from shared.tools import Json

SHORT_TEXT_CHARACTERS = 240
_SHORT_PROPERTIES_CHARACTERS = 1_200
_LEFT_OUT = "…"
_ENCODER = json.JSONEncoder(ensure_ascii=False)
# JSON lets these stand as they are, yet many readers take them for the end of a line.
_LINE_ENDS = {code: f"\\u{code:04x}" for code in (0x85, 0x2028, 0x2029)}


def utc(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def node_line(node_id: UUID, type_name: str, name: str, properties: Json | None = None) -> str:
    shown = "" if properties is None else f" {_json(properties)}"
    return f"- [node:{node_id}] {type_name} {quoted(name)}{shown}"


def edge_line(
    edge_id: UUID, type_name: str, source: str, target: str, properties: Json | None = None
) -> str:
    shown = "" if properties is None else f" {_json(properties)}"
    return f"- [edge:{edge_id}] {quoted(source)} -{type_name}-> {quoted(target)}{shown}"


def conclusion_line(node_id: UUID, word: str, name: str, summary: str) -> str:
    """`word` is the analysis's type or the advice's action."""
    return f"- [node:{node_id}] {word} {quoted(name)}: {short(one_line(summary))}"


def quoted(name: str) -> str:
    return _json(name)


def short(text: str, limit: int = SHORT_TEXT_CHARACTERS) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def shortened(properties: Mapping[str, Any]) -> Json:
    """`properties` for a first look: the summary first, long texts cut, and no more than fit on a line or two."""
    ordered = sorted(properties.items(), key=lambda item: item[0] != "summary")
    cut = {key: _cut(value) for key, value in ordered}
    return cut if len(_json(cut)) <= _SHORT_PROPERTIES_CHARACTERS else _first_of(cut)


def _first_of(properties: Json) -> Json:
    kept: Json = {}
    characters = 0
    for key, value in properties.items():
        # What its own braces take, the comma before it does.
        characters += len(_json({key: value}))
        if characters > _SHORT_PROPERTIES_CHARACTERS:
            break
        kept[key] = value
    return {**kept, _LEFT_OUT: f"{len(properties) - len(kept)} more"}


def ago(age: timedelta) -> str:
    """`age` in words: "3 weeks ago"."""
    days = age.days
    for unit, length_days, from_days in (
        ("year", 365, 730),
        ("month", 30, 60),
        ("week", 7, 14),
        ("day", 1, 1),
    ):
        if days >= from_days:
            count = days // length_days
            return f"{count} {unit}{'s' if count > 1 else ''} ago"
    return "today"


def _cut(value: Any) -> Any:
    if isinstance(value, str):
        return short(value)
    if isinstance(value, list):
        return [_cut(each) for each in value]
    if isinstance(value, dict):
        return {key: _cut(each) for key, each in value.items()}
    return value


def _json(value: Any) -> str:
    text = _ENCODER.encode(value)
    # To look for them takes longer than all else here, and plain text has none.
    return text if text.isascii() else text.translate(_LINE_ENDS)
