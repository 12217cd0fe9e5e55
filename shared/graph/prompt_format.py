"""Formats nodes and edges as lines of a prompt, and fits sections into a token budget. Pure."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import UUID

from shared.graph.validation import one_line
from shared.tools import Json

SHORT_TEXT_CHARS = 240
_SHORT_PROPERTIES_CHARS = 1_200
_ELLIPSIS = "…"
_ENCODER = json.JSONEncoder(ensure_ascii=False)
# JSON allows these unescaped, but many readers treat them as line ends.
_LINE_SEPARATORS = {code: f"\\u{code:04x}" for code in (0x85, 0x2028, 0x2029)}


def format_utc(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def node_line(
    node_id: UUID | None, type_name: str, name: str, properties: Json | None = None
) -> str:
    suffix = "" if properties is None else f" {json_line(properties)}"
    return f"- {_mark('node', node_id)}{type_name} {quote_name(name)}{suffix}"


def edge_line(
    edge_id: UUID | None, type_name: str, source: str, target: str, properties: Json | None = None
) -> str:
    suffix = "" if properties is None else f" {json_line(properties)}"
    return f"- {_mark('edge', edge_id)}{quote_name(source)} -{type_name}-> {quote_name(target)}{suffix}"


def conclusion_line(node_id: UUID | None, verdict: str, name: str, summary: str) -> str:
    """`verdict` is the analysis's type or the advice's action."""
    return f"- {_mark('node', node_id)}{verdict} {quote_name(name)}: {truncate_text(one_line(summary))}"


def shown_date(day: date | None) -> str:
    return f"{day:%Y-%m-%d}" if day else "undated"


def concluded_on(properties: Mapping[str, Any]) -> str:
    """The date of a conclusion behind its line: ` (2026-11-30)`; empty for one of an early release."""
    at = properties.get("generated_at")
    return f" ({at[:10]})" if isinstance(at, str) else ""


def _mark(kind: str, element_id: UUID | None) -> str:
    """The mark by which the element is cited; empty where nothing needs to cite it."""
    return "" if element_id is None else f"[{kind}:{element_id}] "


def quote_name(name: str) -> str:
    return json_line(name)


def schema_summary(schema: Mapping[str, Any]) -> str:
    """The properties of a JSON Schema in short: `summary*: string, population: integer`; `*` marks required ones.

    `…` stands at the end if others are allowed.
    """
    required = schema.get("required") or ()
    properties = [
        f"{name}{'*' if name in required else ''}: {_kind(inner)}"
        for name, inner in (schema.get("properties") or {}).items()
    ]
    others = [] if schema.get("additionalProperties") is False else ["…"]
    return ", ".join([*properties, *others])


def _kind(schema: Any) -> str:
    if not isinstance(schema, Mapping):
        return "any"
    if values := schema.get("enum"):
        return "|".join(map(str, values))
    kinds = schema.get("type", "any")
    return kinds if isinstance(kinds, str) else "|".join(map(str, kinds))


def truncate_text(text: str, limit: int = SHORT_TEXT_CHARS) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def shorten_properties(properties: Mapping[str, Any], text_chars: int = SHORT_TEXT_CHARS) -> Json:
    """Shorten properties for an overview: the summary first, texts cut to `text_chars`, limited to a few lines."""
    ordered = sorted(properties.items(), key=lambda item: item[0] != "summary")
    cut = {key: _shorten_value(value, text_chars) for key, value in ordered}
    return cut if len(json_line(cut)) <= _SHORT_PROPERTIES_CHARS else _first_properties(cut)


def _first_properties(properties: Json) -> Json:
    visible: Json = {}
    characters = 0
    for key, value in properties.items():
        # The braces of the single entry count for the comma before it.
        characters += len(json_line({key: value}))
        if characters > _SHORT_PROPERTIES_CHARS:
            break
        visible[key] = value
    return {**visible, _ELLIPSIS: f"{len(properties) - len(visible)} more"}


def format_age(age: timedelta) -> str:
    """Format an age in words, for instance "3 weeks ago"."""
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


def _shorten_value(value: Any, text_chars: int) -> Any:
    if isinstance(value, str):
        return truncate_text(value, text_chars)
    if isinstance(value, list):
        return [_shorten_value(item, text_chars) for item in value]
    if isinstance(value, dict):
        return {key: _shorten_value(item, text_chars) for key, item in value.items()}
    return value


def json_line(value: Any) -> str:
    """The value as JSON without line ends."""
    text = _ENCODER.encode(value)
    # Translating is slow, and ASCII text has no such characters.
    return text if text.isascii() else text.translate(_LINE_SEPARATORS)


def byte_length(text: str) -> int:
    """In UTF-8: bytes for a token differ less between languages than characters do."""
    return len(text) if text.isascii() else len(text.encode(errors="replace"))


@dataclass(frozen=True)
class Section:
    """Titled lines, the most important first.

    Sections with a lower `rank` are filled first. Each section gets up to `keep` lines before any section gets more.
    """

    title: str
    lines: Sequence[str]
    rank: int
    keep: int = 3
    share: float = 1.0
    """Maximum share of the budget, so that other sections grow with the graph too."""
    oldest_first: bool = False
    """`lines` have the newest first. They are shown in the other order, so that the text grows at its end."""

    @property
    def heading(self) -> str:
        return f"## {self.title}"


def fit_sections(sections: Sequence[Section], budget_bytes: int) -> str:
    """Render as much of `sections` as fits the budget, in the given order; empty sections are left out.

    By rank, first every section gets its `keep` lines, then the rest of the budget goes to further lines.
    """
    left = budget_bytes
    shown = dict.fromkeys((section.title for section in sections), 0)
    room = {section.title: int(section.share * budget_bytes) for section in sections}
    by_rank = sorted(sections, key=lambda section: section.rank)
    first_lines = [(section, section.keep) for section in by_rank]
    for section, up_to in (*first_lines, *((section, None) for section in by_rank)):
        for line in section.lines[shown[section.title] : up_to]:
            heading = 0 if shown[section.title] else byte_length(section.heading) + 1
            cost = byte_length(line) + 1 + heading
            if cost > min(left, room[section.title]):
                break
            left -= cost
            room[section.title] -= cost
            shown[section.title] += 1
    parts: list[str] = []
    for section in sections:
        if count := shown[section.title]:
            lines = section.lines[:count]
            parts += [section.heading, *(reversed(lines) if section.oldest_first else lines)]
    return "\n".join(parts)


def truncate_to_budget(lines: Sequence[str], budget_bytes: int) -> str:
    """Join the lines that fit the budget; a last line says how many are left out."""
    bytes_left = budget_bytes
    lines_that_fit = []
    for line in lines:
        if (length := byte_length(line)) < bytes_left:
            bytes_left -= length + 1
            lines_that_fit.append(line)
    if len(lines_that_fit) < len(lines):
        lines_that_fit.append(
            f"({len(lines) - len(lines_that_fit)} more left out for their length)"
        )
    return "\n".join(lines_that_fit)
