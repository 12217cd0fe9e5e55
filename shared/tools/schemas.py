"""Portable JSON Schemas: only keywords that all model servers support."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

Json = dict[str, Any]

PORTABLE_KEYWORDS: Final = frozenset(
    {
        "type", "description", "properties", "required", "additionalProperties", "items", "enum",
        "anyOf", "$ref", "$defs",
    }
)  # fmt: skip
"""Supported by OpenAI's strict mode, llama.cpp's grammars, vLLM and Ollama. Others fail: llama.cpp refuses a request with a
`maxLength` of 2000, and OpenAI's strict mode refuses unknown keywords."""

MAX_ITEMS: Final = "maxItems"
"""Stops a model that repeats itself in a list. Servers that turn schemas into grammars support it. Some others refuse it;
`without_max_items` removes it."""
MAX_PORTABLE_ITEMS: Final = 100
"""A larger limit makes grammars large, because llama.cpp expands every repetition."""

_DEFINITION: Final = "#/$defs/"
_FORMATS: Final = {
    "uuid": "A UUID.",
    "date": "A date: YYYY-MM-DD.",
    "date-time": "A date and time of ISO 8601, with its time zone.",
}


def portable_schema(schema: Mapping[str, Any], *, keep_max_items: bool = False) -> Json:
    """Converts a pydantic schema to PORTABLE_KEYWORDS, and `maxItems` with `keep_max_items`.

    Removed limits move to the descriptions: code checks them, and the model should know them. Definitions are inlined,
    except recursive ones.
    """
    definitions = schema.get("$defs", {})
    recursive = {name for name in definitions if _reaches(name, name, definitions)}
    converted: Json = _portable(schema, definitions, recursive)
    recursive_definitions = {
        name: _portable(definitions[name], definitions, recursive) for name in recursive
    }
    if recursive_definitions:
        converted["$defs"] = dict(sorted(recursive_definitions.items()))
    if keep_max_items:
        return converted
    portable: Json = without_max_items(converted)
    return portable


def compact_parameters(schema: Json) -> Json:
    """Removes from the schema of a tool's parameters what the validation checks, and what models do not need.

    An optional parameter is one that is not required: that it may be null too needs no words.
    """
    compact: Json = {"required": [], **_compact(schema)}
    compact.pop("description", None)
    # Servers that turn schemas into grammars then allow no other parameters.
    return {**compact, "additionalProperties": False}


def _compact(schema: Any) -> Any:
    if not isinstance(schema, Mapping):
        return schema
    kept = {
        name: value
        for name, value in schema.items()
        if name != "additionalProperties" or isinstance(value, Mapping)
    }
    match kept.get("anyOf"):
        case [Mapping() as only, {"type": "null"}]:
            kept = {**only, **{name: value for name, value in kept.items() if name != "anyOf"}}
            return _compact(kept)
        case list() as alternatives:
            kept["anyOf"] = [_compact(each) for each in alternatives]
    for name in ("items", "additionalProperties"):
        if name in kept:
            kept[name] = _compact(kept[name])
    for name in ("properties", "$defs"):
        if isinstance(kept.get(name), Mapping):
            kept[name] = {key: _compact(value) for key, value in kept[name].items()}
    return kept


def without_max_items(value: Any) -> Any:
    """Removes `maxItems` from a schema, or from a value that contains schemas."""
    if isinstance(value, Mapping):
        return {
            name: without_max_items(inner)
            for name, inner in value.items()
            if name != MAX_ITEMS or not isinstance(inner, int)
        }
    return [without_max_items(inner) for inner in value] if isinstance(value, list) else value


def _portable(schema: Any, definitions: Mapping[str, Any], recursive: set[str]) -> Any:
    if not isinstance(schema, Mapping):
        return schema

    def convert(inner: Any) -> Any:
        return _portable(inner, definitions, recursive)

    resolved = _resolved(schema, definitions, recursive)
    portable = {
        name: value
        for name, value in resolved.items()
        if name in PORTABLE_KEYWORDS and name not in ("$defs", "description")
    }
    if resolved.get(MAX_ITEMS, MAX_PORTABLE_ITEMS + 1) <= MAX_PORTABLE_ITEMS:
        portable[MAX_ITEMS] = resolved[MAX_ITEMS]
    if "const" in resolved:
        portable["enum"] = [resolved["const"]]
    if "properties" in resolved:
        portable["properties"] = {
            name: convert(inner) for name, inner in resolved["properties"].items()
        }
    for name in ("items", "additionalProperties"):
        if name in resolved:
            portable[name] = convert(resolved[name])
    if alternatives := resolved.get("anyOf", resolved.get("oneOf")):
        portable["anyOf"] = [convert(alternative) for alternative in alternatives]
    if description := _description(resolved):
        portable["description"] = description
    return portable


def _resolved(
    schema: Mapping[str, Any], definitions: Mapping[str, Any], recursive: set[str]
) -> Mapping[str, Any]:
    """Replaces the reference in `schema` by its definition. Keywords beside the reference take precedence."""
    if len(schema.get("allOf", ())) == 1:
        other_keywords = {name: value for name, value in schema.items() if name != "allOf"}
        return _resolved({**schema["allOf"][0], **other_keywords}, definitions, recursive)
    name = str(schema.get("$ref", "")).removeprefix(_DEFINITION)
    if name not in definitions or name in recursive:
        return schema
    other_keywords = {key: value for key, value in schema.items() if key != "$ref"}
    return _resolved({**definitions[name], **other_keywords}, definitions, recursive)


def _description(schema: Mapping[str, Any]) -> str:
    """Returns the schema's description, with the limits that portable schemas cannot express."""
    sentences = [str(schema["description"]).strip()] if schema.get("description") else []
    sentences += [
        *_range(schema, "minLength", "maxLength", " characters"),
        *_range(schema, "minItems", "maxItems", " entries"),
        *_range(schema, "minimum", "maximum", ""),
    ]
    if "exclusiveMinimum" in schema:
        sentences.append(f"More than {schema['exclusiveMinimum']:g}.")
    if "exclusiveMaximum" in schema:
        sentences.append(f"Less than {schema['exclusiveMaximum']:g}.")
    if "pattern" in schema:
        sentences.append(f"It matches the regular expression {schema['pattern']}")
    if "format" in schema:
        sentences.append(_FORMATS.get(schema["format"], f"Format: {schema['format']}."))
    if schema.get("default") not in (None, [], {}, ""):
        sentences.append(f"Default: {schema['default']}.")
    return " ".join(
        sentence if is_last or sentence.endswith((".", "!", "?", ":")) else f"{sentence}."
        for is_last, sentence in (
            (place == len(sentences) - 1, sentence) for place, sentence in enumerate(sentences)
        )
    )


def _range(
    schema: Mapping[str, Any], min_keyword: str, max_keyword: str, unit: str
) -> Iterator[str]:
    match schema.get(min_keyword), schema.get(max_keyword):
        case None, None:
            return
        case None, high:
            yield f"At most {high:g}{unit}."
        case (low, None) if low:
            yield f"At least {low:g}{unit}."
        case low, high if high is not None:
            yield f"{low:g} to {high:g}{unit}."


def _references(schema: Any) -> set[str]:
    """Returns the names of the definitions that `schema` refers to directly."""
    if isinstance(schema, Mapping):
        names = set().union(*map(_references, schema.values()))
        reference = schema.get("$ref")
        if isinstance(reference, str):
            names.add(reference.removeprefix(_DEFINITION))
        return names
    if isinstance(schema, list):
        return set().union(*map(_references, schema))
    return set()


def _reaches(name: str, target: str, definitions: Mapping[str, Any]) -> bool:
    """Whether the definition of `name` refers to that of `target`, directly or indirectly."""
    visited: set[str] = set()
    pending = [name]
    while pending:
        for reference in _references(definitions.get(pending.pop(), {})):
            if reference == target:
                return True
            if reference not in visited:
                visited.add(reference)
                pending.append(reference)
    return False
