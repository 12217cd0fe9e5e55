"""What a node says: a summary, a sentence letter by letter, its figures; and which sentences say so."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jsonschema import Draft202012Validator

from sandbox.reader.construct.candidates import Candidate, Mention
from sandbox.text.english import shortened
from sandbox.text.figures import figures
from sandbox.text.sentences import MAX_SENTENCE_CHARS
from sandbox.text.words import stem, words

MAX_SUMMARY_CHARS = 200
MAX_FIGURES = 20
OVERVIEWS = ("overview", "background", "summary", "description")
DEFINING = (" is a ", " is an ", " is the ", " was a ", " are a ", " is one of ")

NODE_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "summary": {"type": "string", "description": "One sentence on what this is."},
        "quote": {"type": "string", "description": "A sentence of the source, letter by letter."},
    },
    "required": ["summary"],
    "additionalProperties": {
        "type": ["string", "number"],
        "description": "Figures by their label.",
    },
}


@dataclass(frozen=True, slots=True)
class Told:
    """The value of a property, and the mention that says so."""

    value: str
    mention: Mention


def node_properties(
    candidate: Candidate, wanted: frozenset[str], *, is_known: bool
) -> dict[str, Told]:
    """What the document adds to what is known; a node that exists keeps its summary unless there is a better one."""
    best = max(candidate.named_mentions(), key=lambda mention: _weight(candidate, mention, wanted))
    defined = _definition_of(candidate)
    summary = defined or Told("" if is_known else _summary(best), best)
    told = {
        "summary": Told(shortened(summary.value, MAX_SUMMARY_CHARS), summary.mention),
        "quote": Told(best.sentence, best),
        **dict(list(_figures(candidate).items())[:MAX_FIGURES]),
    }
    return {key: one for key, one in told.items() if one.value}


def example_properties(properties: Mapping[str, Any]) -> dict[str, Any]:
    """A short sample for a new type: the fixed properties of the first node of its kind."""
    return {key: properties[key] for key in NODE_SCHEMA["properties"] if key in properties}


def fitted(
    properties: Mapping[str, Any], schema: Mapping[str, Any], known: Mapping[str, Any]
) -> dict[str, Any] | None:
    """What of the properties an existing type takes; None where they and those known cannot satisfy it."""
    allowed = schema.get("properties") or {}
    kept = dict(properties)
    if schema.get("additionalProperties") is False:
        kept = {key: value for key, value in kept.items() if key in allowed}
    kept = {
        key: value
        for key, value in kept.items()
        if key not in allowed or _valid(value, allowed[key])
    }
    return kept if _valid({**known, **kept}, schema) else None


def _valid(value: Any, schema: Mapping[str, Any]) -> bool:
    return Draft202012Validator(schema).is_valid(value)


def _weight(
    candidate: Candidate, mention: Mention, wanted: frozenset[str]
) -> tuple[int, int, int, int]:
    """Short enough to quote, then on the objective, then with a figure, then early in the sentence."""
    sentence = mention.sentence
    held = len(wanted & {stem(word) for word in words(sentence)})
    return (
        len(sentence) <= MAX_SENTENCE_CHARS,
        held,
        any(character.isdigit() for character in sentence),
        -candidate.place_in(sentence),
    )


def _definition_of(candidate: Candidate) -> Told | None:
    found = (Told(_definition(candidate, one), one) for one in candidate.mentions)
    return next((one for one in found if one.value), None)


def _summary(best: Mention) -> str:
    line = best.line
    if line and line.subject and best.listed:
        beside = f" ({best.figure})" if best.figure else ""
        return f"Listed under “{line.label}” of {line.subject}{beside}."
    return best.sentence


def _definition(candidate: Candidate, mention: Mention) -> str:
    """`X is a …`, or an overview that is labelled as one; empty where the sentence defines nothing."""
    name, line = candidate.name, mention.line
    if line:
        is_overview = line.subject == name and line.label.lower().endswith(OVERVIEWS)
        return f"{name}: {line.value}" if is_overview else ""
    start = candidate.place_in(mention.sentence)
    defines = 0 <= start <= 4 and mention.sentence[start + len(name) :].startswith(DEFINING)
    return mention.sentence if defines else ""


def _figures(candidate: Candidate) -> dict[str, Told]:
    """By label those of facts on the candidate and of prose about it; an entry's own figure stands on its edge."""
    found: dict[str, Told] = {}
    for mention in candidate.mentions:
        if _is_about(candidate, mention):
            for figure in figures(mention.sentence, [candidate.name]):
                found.setdefault(figure.label, Told(figure.value, mention))
    return found


def _is_about(candidate: Candidate, mention: Mention) -> bool:
    """Prose is about the name it begins with, and about its source's subject where it holds no name."""
    if mention.line:
        return mention.line.subject == candidate.name and not mention.listed
    return candidate.place_in(mention.sentence) in {0, -1}
