"""Nodes and edges as lines of a prompt, and sections that fit a token budget. Pure."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from shared.graph.validation import one_line
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


CHARACTERS_PER_TOKEN = 4
"""A careful mean for English and JSON; no tokenizer is asked, since every model has its own."""


@dataclass(frozen=True)
class Section:
    """Lines under a title, the most important first.

    `rank` says who is served first (0 before 1), `keep` how many lines each gets before any section gets more.
    """

    title: str
    lines: Sequence[str]
    rank: int
    keep: int = 3


@dataclass
class _Budget:
    left: int
    shown: dict[str, int] = field(default_factory=dict)

    def fill(self, section: Section, up_to: int) -> None:
        """Shows further lines of the section, up to `up_to` of them, until one does not fit."""
        for line in section.lines[self.shown.get(section.title, 0) : up_to]:
            count = self.shown.get(section.title, 0)
            cost = len(line) + 1 + (0 if count else len(_heading(section)) + 1)
            if cost > self.left:
                return
            self.left -= cost
            self.shown[section.title] = count + 1


def fit(header: str, sections: Sequence[Section], token_budget: int) -> str:
    """`header` and as much of `sections` as the budget holds, in the order given; empty ones are left out.

    First every section gets its `keep` lines, then what is left is spent on further lines, both by rank: so the last
    lines of the highest rank go first. The header always stands, even where the budget is smaller.
    """
    budget = _Budget(token_budget * CHARACTERS_PER_TOKEN - len(header))
    by_rank = sorted(sections, key=lambda section: section.rank)
    for section in by_rank:
        budget.fill(section, section.keep)
    for section in by_rank:
        budget.fill(section, len(section.lines))
    parts = [header]
    for section in sections:
        if count := budget.shown.get(section.title, 0):
            parts += [_heading(section), *section.lines[:count]]
    return "\n".join(parts)


def within(lines: Sequence[str], token_budget: int) -> str:
    """Those of `lines` that the budget holds, and a last line that says how many it does not."""
    left = token_budget * CHARACTERS_PER_TOKEN
    shown = []
    for line in lines:
        if len(line) < left:
            left -= len(line) + 1
            shown.append(line)
    if len(shown) < len(lines):
        shown.append(f"({len(lines) - len(shown)} more left out for their length)")
    return "\n".join(shown)


def _heading(section: Section) -> str:
    return f"## {section.title}"
