"""Validation: properties against the JSON Schema of their type, names, sizes and storable values."""

import json
import math
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from jsonschema import Draft202012Validator, validators
from jsonschema.exceptions import SchemaError, ValidationError
from jsonschema.protocols import Validator

from shared.tools import Json, ToolRefusalError

MAX_NAME_CHARS = 200
MAX_PROPERTIES_BYTES = 20_000
_MAX_DEPTH = 32
# Larger than any real figure, and small enough for every JSON implementation.
_MAX_INTEGER = 10**30
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
"""NUL and surrogates."""


def one_line(text: str) -> str:
    """Collapse every run of white space to one space and strip both ends."""
    return " ".join(text.split())


def normalize_name(name: str, label: str = "name") -> str:
    """Normalize a name to NFC with single spaces, so that two spellings do not become two nodes.

    Raises ToolRefusalError if it is empty, too long or cannot be stored. `label` names the argument in the error.
    """
    refuse_unstorable(name, label)
    normal = one_line(unicodedata.normalize("NFC", name))
    if "://" in normal:
        raise ToolRefusalError(
            f"{label}: give a name without an address; an address is a property."
        )
    if not 1 <= len(normal) <= MAX_NAME_CHARS:
        raise ToolRefusalError(
            f"{label}: {len(normal)} characters; give 1 to {MAX_NAME_CHARS}, "
            "and put other information into the properties."
        )
    return normal


def refuse_large(value: Json, label: str, limit_bytes: int = MAX_PROPERTIES_BYTES) -> None:
    size = len(json.dumps(value, ensure_ascii=False).encode())
    if size > limit_bytes:
        raise ToolRefusalError(
            f"{label}: {size} bytes, more than the limit of {limit_bytes}; shorten it."
        )


def refuse_unstorable(
    value: Any, path: str, depth: int = 0, *, largest: int = _MAX_INTEGER
) -> None:
    """Raises ToolRefusalError for what a JSON column cannot hold: NUL, surrogates, infinity, deep nesting, huge
    integers.
    """
    if depth > _MAX_DEPTH:
        raise ToolRefusalError(
            f"{path}: nested more than {_MAX_DEPTH} levels deep; make it flatter."
        )
    if isinstance(value, dict):
        for key, inner in value.items():
            refuse_unstorable(key, f"a key of {path}")
            refuse_unstorable(inner, f"{path}.{key}", depth + 1, largest=largest)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            refuse_unstorable(inner, f"{path}[{index}]", depth + 1, largest=largest)
    elif isinstance(value, str):
        if match := _UNSTORABLE.search(value):
            raise ToolRefusalError(
                f"{path}: contains U+{ord(match[0]):04X}, which cannot be stored; leave it out."
            )
    elif isinstance(value, float) and not math.isfinite(value):
        raise ToolRefusalError(
            f"{path}: {value} is not a JSON number; leave it out, or say it in words."
        )
    elif isinstance(value, int) and abs(value) > largest:
        power = len(str(largest)) - 1
        raise ToolRefusalError(
            f"{path}: the number is beyond 10^{power}; give it in a larger unit."
        )


MAX_SCHEMA_BYTES = 20_000
_MAX_SCHEMA_DEPTH = 8
_MAX_ERRORS_LISTED = 5
_MAX_VALUE_CHARS = 200

# References can be circular or grow exponentially, and patterns can take forever to match. A schema written by a
# model must not be able to stop a worker, and flat properties need neither.
_REFUSED_KEYWORDS = {
    "$ref": "write the definition in its place",
    "$dynamicRef": "write the definition in its place",
    "$id": "leave it out",
    "pattern": "say the form in the property's description, or list the values with enum",
    "patternProperties": "name the properties, or allow others with additionalProperties",
}
_SCHEMA_KEYWORDS = (
    "additionalProperties",
    "contains",
    "else",
    "if",
    "items",
    "not",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
)
_SCHEMA_LIST_KEYWORDS = ("allOf", "anyOf", "oneOf", "prefixItems")
_SCHEMA_MAP_KEYWORDS = ("$defs", "dependentSchemas", "properties")


def _unique_items(
    _: Validator, is_required: Any, instance: Any, __: Any
) -> Iterator[ValidationError]:
    """Compare items by their JSON text: the library compares every pair, which takes 14 seconds for 1,500 objects."""
    if is_required is True and isinstance(instance, list):
        texts = {json.dumps(item, sort_keys=True) for item in instance}
        if len(texts) < len(instance):
            yield ValidationError(f"{_short_json(instance)} has duplicate items")


_Draft: type[Validator] = validators.extend(  # type: ignore[no-untyped-call]  # the library has no types for it
    Draft202012Validator, {"uniqueItems": _unique_items}
)


class InvalidPropertiesError(ToolRefusalError):
    """The properties do not satisfy the schema of their type."""

    def __init__(self, message: str, by_name: Mapping[str, str]) -> None:
        """`by_name`: what is wrong with each invalid property; empty if more is wrong than single properties."""
        super().__init__(message)
        self.by_name = by_name


class Validators:
    """Compiled JSON Schema validators, with the most recently used ones cached. Use one instance per process."""

    def __init__(self, capacity: int = 256) -> None:
        self._compile = lru_cache(capacity)(lambda schema: _Draft(json.loads(schema)))

    def check(self, schema: Json, properties: Json, type_name: str) -> None:
        """Raises InvalidPropertiesError that lists each invalid path, its value and what is allowed there."""
        refuse_unstorable(properties, "properties")
        refuse_large(properties, "properties")
        validator = self._compile(json.dumps(schema))
        errors = sorted(validator.iter_errors(properties), key=lambda error: error.json_path)
        if errors:
            messages = "; ".join(_describe_error(error) for error in errors[:_MAX_ERRORS_LISTED])
            raise InvalidPropertiesError(
                f"The properties do not satisfy the schema of {type_name}: {messages}.",
                _describe_by_name(errors),
            )


def fitting_properties(schema: Json, properties: Json) -> Json:
    """The properties that a schema allows, each by itself."""
    validator = _Draft({**schema, "required": []})
    return {name: value for name, value in properties.items() if validator.is_valid({name: value})}


def refuse_bad_schema(schema: Json) -> None:
    """Raises ToolRefusalError unless `schema` can describe the properties of a type."""
    refuse_unstorable(schema, "propertiesSchema")
    refuse_large(schema, "propertiesSchema", MAX_SCHEMA_BYTES)
    if schema.get("type") != "object":
        raise ToolRefusalError(
            f'propertiesSchema: its top level says "type": {_short_json(schema.get("type"))}; it must say '
            '"type": "object" and list the properties under "properties".'
        )
    for path, subschema in _iter_subschemas(schema, "propertiesSchema", 0):
        for keyword in _REFUSED_KEYWORDS.keys() & subschema.keys():
            raise ToolRefusalError(
                f"{path}: {keyword} is not supported here; {_REFUSED_KEYWORDS[keyword]}."
            )
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        raise ToolRefusalError(
            f"propertiesSchema is not a valid JSON Schema (Draft 2020-12): {_describe_error(error)}."
        ) from error


def _iter_subschemas(schema: Any, path: str, depth: int) -> Iterator[tuple[str, Json]]:
    """Yield `schema` and every schema within it, each with its path."""
    if not isinstance(schema, dict):
        return
    if depth > _MAX_SCHEMA_DEPTH:
        raise ToolRefusalError(
            f"{path}: nested more than {_MAX_SCHEMA_DEPTH} levels deep; make it flatter."
        )
    yield path, schema
    for keyword, inner in schema.items():
        for name, subschema in _direct_subschemas(keyword, inner):
            yield from _iter_subschemas(subschema, f"{path}.{keyword}{name}", depth + 1)


def _direct_subschemas(keyword: str, value: Any) -> Iterator[tuple[str, Any]]:
    if keyword in _SCHEMA_KEYWORDS:
        yield "", value
    elif keyword in _SCHEMA_LIST_KEYWORDS and isinstance(value, list):
        yield from ((f"[{index}]", subschema) for index, subschema in enumerate(value))
    elif keyword in _SCHEMA_MAP_KEYWORDS and isinstance(value, dict):
        yield from ((f".{name}", subschema) for name, subschema in value.items())


def _describe_error(error: ValidationError | SchemaError) -> str:
    path = error.json_path.removeprefix("$").lstrip(".") or "the properties as a whole"
    return f"{path}: {_short_text(error.message)} (allowed: {_describe_allowed(error)})"


def _describe_by_name(errors: Sequence[ValidationError]) -> dict[str, str]:
    """The first error of each property; empty if an error is not one of a property's value."""
    if not all(error.absolute_path for error in errors):
        return {}
    return {str(error.absolute_path[0]): _describe_error(error) for error in reversed(errors)}


def _describe_allowed(error: ValidationError | SchemaError) -> str:
    schema = error.schema
    if error.validator in ("required", "additionalProperties") and isinstance(schema, dict):
        names = ", ".join(schema.get("properties", {}))
        required = ", ".join(schema.get("required", [])) or "none"
        return f"the properties {names or 'none'}; required are {required}"
    return f"{error.validator} {_short_json(error.validator_value)}"


def _short_json(value: Any) -> str:
    return _short_text(json.dumps(value, ensure_ascii=False, default=str))


def _short_text(text: str) -> str:
    return text if len(text) <= _MAX_VALUE_CHARS else f"{text[:_MAX_VALUE_CHARS]}…"
