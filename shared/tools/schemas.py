"""JSON Schemas in the part of the language that every model server takes."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

Json = dict[str, Any]

PORTABLE_KEYWORDS: Final = frozenset(
    {
        "type", "description", "properties", "required", "additionalProperties", "items", "enum",
        "anyOf", "$ref", "$defs",
    }
)  # fmt: skip
"""What OpenAI's strict mode, llama.cpp's grammars, vLLM and Ollama all take. llama.cpp refuses a whole request for one
`maxLength` of 2000, and OpenAI's strict mode an unknown keyword."""

MAX_ITEMS: Final = "maxItems"
"""Stops a model that repeats itself in a list. The servers that make grammars of schemas take it; some others refuse it, so
it can be left out: see `without_max_items`."""
MOST_ITEMS: Final = 100
"""More would make grammars large: llama.cpp writes out every repetition."""

_DEFINITION: Final = "#/$defs/"
_FORMATS: Final = {
    "uuid": "A UUID.",
    "date": "A date: YYYY-MM-DD.",
    "date-time": "A date and time of ISO 8601, with its time zone.",
}


def portable_schema(schema: Mapping[str, Any], *, keep_max_items: bool = False) -> Json:
    """`schema`, as pydantic makes it, in PORTABLE_KEYWORDS alone, and in `maxItems` with `keep_max_items`.

    Limits that are left out stand in the descriptions instead: code checks them, and the model is to know them. Definitions
    are written where they are used, but for those that contain themselves.
    """
    definitions = schema.get("$defs", {})
    recursive = {name for name in definitions if _reaches(name, name, definitions)}
    made = _portable(schema, definitions, recursive)
    kept = {name: _portable(definitions[name], definitions, recursive) for name in recursive}
    whole = {**made, "$defs": dict(sorted(kept.items()))} if kept else made
    return whole if keep_max_items else without_max_items(whole)


def without_max_items(value: Any) -> Any:
    """A schema, or what contains schemas, without that keyword."""
    if isinstance(value, Mapping):
        return {
            name: without_max_items(each)
            for name, each in value.items()
            if name != MAX_ITEMS or not isinstance(each, int)
        }
    return [without_max_items(each) for each in value] if isinstance(value, list) else value


def _portable(schema: Any, definitions: Mapping[str, Any], recursive: set[str]) -> Any:
    if not isinstance(schema, Mapping):
        return schema

    def made(inner: Any) -> Any:
        return _portable(inner, definitions, recursive)

    given = _resolved(schema, definitions, recursive)
    kept = {
        name: value
        for name, value in given.items()
        if name in PORTABLE_KEYWORDS and name not in ("$defs", "description")
    }
    if given.get(MAX_ITEMS, MOST_ITEMS + 1) <= MOST_ITEMS:
        kept[MAX_ITEMS] = given[MAX_ITEMS]
    if "const" in given:
        kept["enum"] = [given["const"]]
    if "properties" in given:
        kept["properties"] = {name: made(each) for name, each in given["properties"].items()}
    for name in ("items", "additionalProperties"):
        if name in given:
            kept[name] = made(given[name])
    if alternatives := given.get("anyOf", given.get("oneOf")):
        kept["anyOf"] = [made(each) for each in alternatives]
    if description := _description(given):
        kept["description"] = description
    return kept


def _resolved(
    schema: Mapping[str, Any], definitions: Mapping[str, Any], recursive: set[str]
) -> Mapping[str, Any]:
    """`schema` with what it refers to in place of the reference; what stands beside the reference comes first."""
    if len(schema.get("allOf", ())) == 1:
        beside = {name: value for name, value in schema.items() if name != "allOf"}
        return _resolved({**schema["allOf"][0], **beside}, definitions, recursive)
    name = str(schema.get("$ref", "")).removeprefix(_DEFINITION)
    if name not in definitions or name in recursive:
        return schema
    beside = {key: value for key, value in schema.items() if key != "$ref"}
    return _resolved({**definitions[name], **beside}, definitions, recursive)


def _description(schema: Mapping[str, Any]) -> str:
    """What the schema says of itself, and the limits that are no part of the portable language."""
    told = [str(schema["description"]).strip()] if schema.get("description") else []
    told += [
        *_range(schema, "minLength", "maxLength", " characters"),
        *_range(schema, "minItems", "maxItems", " entries"),
        *_range(schema, "minimum", "maximum", ""),
    ]
    if "exclusiveMinimum" in schema:
        told.append(f"More than {schema['exclusiveMinimum']:g}.")
    if "exclusiveMaximum" in schema:
        told.append(f"Less than {schema['exclusiveMaximum']:g}.")
    if "pattern" in schema:
        told.append(f"It matches the regular expression {schema['pattern']}")
    if "format" in schema:
        told.append(_FORMATS.get(schema["format"], f"Format: {schema['format']}."))
    if schema.get("default") not in (None, [], {}, ""):
        told.append(f"Default: {schema['default']}.")
    return " ".join(
        each if is_last or each.endswith((".", "!", "?", ":")) else f"{each}."
        for is_last, each in ((place == len(told) - 1, each) for place, each in enumerate(told))
    )


def _range(schema: Mapping[str, Any], least: str, most: str, unit: str) -> Iterator[str]:
    match schema.get(least), schema.get(most):
        case None, None:
            return
        case None, high:
            yield f"At most {high:g}{unit}."
        case (low, None) if low:
            yield f"At least {low:g}{unit}."
        case low, high if high is not None:
            yield f"{low:g} to {high:g}{unit}."


def _references(schema: Any) -> set[str]:
    """The names of the definitions that `schema` refers to itself."""
    if isinstance(schema, Mapping):
        found = set().union(*map(_references, schema.values()))
        reference = schema.get("$ref")
        if isinstance(reference, str):
            found.add(reference.removeprefix(_DEFINITION))
        return found
    if isinstance(schema, list):
        return set().union(*map(_references, schema))
    return set()


def _reaches(name: str, target: str, definitions: Mapping[str, Any]) -> bool:
    """Whether the definition of `name` contains that of `target`, however deep."""
    seen: set[str] = set()
    left = [name]
    while left:
        for reached in _references(definitions.get(left.pop(), {})):
            if reached == target:
                return True
            if reached not in seen:
                seen.add(reached)
                left.append(reached)
    return False
