"""The properties of a planned node, and the evidence for each of them."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from jsonschema import Draft202012Validator

from sandbox.model.construct.entities import Candidate, Mention
from sandbox.text.english import shorten
from sandbox.text.figures import find_figures
from sandbox.text.sentences import MAX_SENTENCE_CHARS
from sandbox.text.tokens import stem, words

MAX_SUMMARY_CHARS = 200
CONTINUES = re.compile(
    r"(?:Also|And|As a result|As such|But|For example|For instance|Furthermore|Hence|However|Instead|It|Moreover|Or"
    r"|Otherwise|So|Still|Such|That|Then|Therefore|These|They|This|Those|Thus|Yet)\b"
)
"""Starts of sentences that need the one before them."""
REFERS_BACK = re.compile(r"\b(?:above|below|it|so|that|these|this|those)[.!?]$")
MAX_FIGURES = 20
OVERVIEWS = ("overview", "background", "summary", "description")
DEFINING = (" is a ", " is an ", " is the ", " was a ", " are a ", " is one of ")

NODE_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "summary": {"type": "string", "description": "One sentence that describes the node."},
        "quote": {"type": "string", "description": "A sentence of the source, word for word."},
    },
    "required": ["summary"],
    "additionalProperties": {
        "type": ["string", "number"],
        "description": "Figures by their label.",
    },
}


@dataclass(frozen=True, slots=True)
class PropertyValue:
    """The value of a property and the mention that supports it."""

    value: str
    mention: Mention


def node_properties(
    candidate: Candidate, topic: frozenset[str], *, is_known: bool
) -> dict[str, PropertyValue]:
    """The properties that the document adds; an existing node keeps its summary unless a definition is found."""
    best = max(candidate.named_mentions(), key=lambda mention: _weight(candidate, mention, topic))
    defined = _definition_of(candidate)
    summary = defined or PropertyValue("" if is_known else _summary(best), best)
    values = {
        "summary": PropertyValue(shorten(summary.value, MAX_SUMMARY_CHARS), summary.mention),
        # Where sentences have numbers, the evidence cites them, and nothing is typed again.
        "quote": PropertyValue("" if _number(best) else best.sentence, best),
        **dict(list(_figures(candidate).items())[:MAX_FIGURES]),
    }
    return {key: value for key, value in values.items() if value.value}


def example_properties(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Example properties of a new type: the fixed properties of the first node."""
    return {key: properties[key] for key in NODE_SCHEMA["properties"] if key in properties}


def fit_to_schema(
    properties: Mapping[str, Any], schema: Mapping[str, Any], existing: Mapping[str, Any]
) -> dict[str, Any] | None:
    """The properties that an existing type allows; None if they are invalid together with the known ones."""
    schemas = schema.get("properties") or {}
    allowed_properties = dict(properties)
    if schema.get("additionalProperties") is False:
        allowed_properties = {
            key: value for key, value in allowed_properties.items() if key in schemas
        }
    allowed_properties = {
        key: value
        for key, value in allowed_properties.items()
        if key not in schemas or _is_valid(value, schemas[key])
    }
    return allowed_properties if _is_valid({**existing, **allowed_properties}, schema) else None


def _is_valid(value: Any, schema: Mapping[str, Any]) -> bool:
    return Draft202012Validator(schema).is_valid(value)


def _weight(
    candidate: Candidate, mention: Mention, topic: frozenset[str]
) -> tuple[int, int, int, int]:
    """Sort key: a sentence that stands alone, then relevant, then with a figure, then early in the sentence."""
    sentence = mention.sentence
    shared_words = len(topic & {stem(word) for word in words(sentence)})
    return (
        _stands_alone(mention),
        shared_words,
        any(character.isdigit() for character in sentence),
        -candidate.position_in(sentence),
    )


def _stands_alone(mention: Mention) -> bool:
    """Whether its sentence is whole, short enough to quote, and does not continue the one before it."""
    sentence = mention.sentence
    is_whole = mention.line is not None or sentence[-1] in ".!?"
    needs_another = CONTINUES.match(sentence) or REFERS_BACK.search(sentence)
    return len(sentence) <= MAX_SENTENCE_CHARS and is_whole and not needs_another


def _definition_of(candidate: Candidate) -> PropertyValue | None:
    definitions = (
        PropertyValue(_definition(candidate, mention), mention) for mention in candidate.mentions
    )
    return next((definition for definition in definitions if definition.value), None)


def _summary(best: Mention) -> str:
    line = best.line
    if line and line.subject and best.is_listed:
        beside = f" ({best.figure})" if best.figure else ""
        return f"Listed under “{line.label}” for {line.subject}{beside}."
    return best.sentence


def _definition(candidate: Candidate, mention: Mention) -> str:
    """The sentence `X is a …`, or a labelled overview; empty if the mention defines nothing."""
    name, line = candidate.name, mention.line
    if line:
        is_overview = line.subject == name and line.label.lower().endswith(OVERVIEWS)
        return f"{name}: {line.value}" if is_overview else ""
    start = candidate.position_in(mention.sentence)
    defines = 0 <= start <= 4 and mention.sentence[start + len(name) :].startswith(DEFINING)
    return mention.sentence if defines else ""


def _figures(candidate: Candidate) -> dict[str, PropertyValue]:
    """Figures by label, from facts on the candidate and prose about it; a list entry's figure is on its edge."""
    values: dict[str, PropertyValue] = {}
    for mention in candidate.mentions:
        if _is_about(candidate, mention):
            for figure in find_figures(mention.sentence, [candidate.name]):
                values.setdefault(figure.label, PropertyValue(figure.value, mention))
    return values


def _is_about(candidate: Candidate, mention: Mention) -> bool:
    """Whether a mention is about the candidate. Prose is if it starts with the name, or contains no name."""
    if mention.line:
        return mention.line.subject == candidate.name and not mention.is_listed
    return candidate.position_in(mention.sentence) in {0, -1}


def _number(mention: Mention) -> str | None:
    """The number of its sentence, such as `2.3`; None if it has none."""
    return mention.source.numbers.get(mention.sentence)


MAX_ENTRIES = 10
MAX_QUOTE_CHARS = 1_000


def mention_evidence(mention: Mention) -> dict[str, Any]:
    """The evidence of a mention: the number of its sentence, or its words if it has none."""
    if number := _number(mention):
        page, sentence = number.split(".")
        return {"page": int(page), "sentences": [int(sentence)]}
    return {"sourceUrl": mention.source.url, "quote": mention.sentence[:MAX_QUOTE_CHARS].strip()}


def property_evidence(values: Mapping[str, PropertyValue]) -> list[dict[str, Any]]:
    """The evidence of properties: one entry per sentence, with the names of its properties if there are several."""
    entries: dict[str, dict[str, Any]] = {}
    for name, value in values.items():
        entry = mention_evidence(value.mention)
        named = entries.setdefault(json.dumps(entry), entry | {"properties": []})
        named["properties"].append(name)
    if len(entries) == 1:
        return [mention_evidence(value.mention) for value in list(values.values())[:1]]
    return list(entries.values())


def with_evidence(values: Mapping[str, PropertyValue]) -> dict[str, PropertyValue]:
    """The values whose evidence has a URL and fits in MAX_ENTRIES entries."""
    supported: dict[str, PropertyValue] = {}
    for name, value in values.items():
        if (
            value.mention.source.url
            and len(property_evidence({**supported, name: value})) <= MAX_ENTRIES
        ):
            supported[name] = value
    return supported


def plain_values(values: Mapping[str, PropertyValue]) -> dict[str, Any]:
    """The values without their mentions."""
    return {name: value.value for name, value in values.items()}


def select_values(
    values: Mapping[str, PropertyValue], names: Iterable[str]
) -> dict[str, PropertyValue]:
    """The values with these names."""
    return {name: values[name] for name in names}
