"""Validation: properties against the JSON Schema of their type, and values in bounds."""

import hashlib
import json
import math
import unicodedata
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

from jsonschema import Draft202012Validator, validators
from jsonschema.exceptions import SchemaError, ValidationError
from jsonschema.protocols import Validator

from shared.tools import Json, ToolRefusalError

MAX_NAME_CHARACTERS = 200
MAX_PROPERTIES_BYTES = 20_000
_MAX_DEPTH = 32
# Far beyond any figure of the world, and well within what JSON numbers survive everywhere.
_MAX_INTEGER = 10**30


def one_line(text: str) -> str:
    """`text` with every run of white space folded into one blank, none at the ends."""
    return " ".join(text.split())


def normal_name(name: str, what: str = "name") -> str:
    """The one spelling of a name (NFC, blanks folded), so that two spellings are not two nodes."""
    refuse_unstorable(name, what)
    normal = one_line(unicodedata.normalize("NFC", name))
    if not 1 <= len(normal) <= MAX_NAME_CHARACTERS:
        raise ToolRefusalError(
            f"{what}: {len(normal)} characters; give 1 to {MAX_NAME_CHARACTERS}, "
            "and put what else there is to say into the properties."
        )
    return normal


def refuse_large(value: Json, what: str, limit_bytes: int = MAX_PROPERTIES_BYTES) -> None:
    size = len(json.dumps(value, ensure_ascii=False).encode())
    if size > limit_bytes:
        raise ToolRefusalError(
            f"{what}: {size} bytes are more than the {limit_bytes} that fit; keep what matters."
        )


def refuse_unstorable(
    value: Any, path: str, depth: int = 0, *, largest: int = _MAX_INTEGER
) -> None:
    """Refuses what JSON columns cannot hold: NUL, half surrogates, infinities, bottomless nesting."""
    if depth > _MAX_DEPTH:
        raise ToolRefusalError(f"{path}: nested more than {_MAX_DEPTH} deep; make it flatter.")
    if isinstance(value, dict):
        for key, inner in value.items():
            refuse_unstorable(key, f"a key of {path}")
            refuse_unstorable(inner, f"{path}.{key}", depth + 1, largest=largest)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            refuse_unstorable(inner, f"{path}[{index}]", depth + 1, largest=largest)
    elif isinstance(value, str):
        _refuse_text(value, path)
    elif isinstance(value, float) and not math.isfinite(value):
        raise ToolRefusalError(
            f"{path}: {value} is no JSON number; leave it out, or say it in words."
        )
    elif isinstance(value, int) and abs(value) > largest:
        power = len(str(largest)) - 1
        raise ToolRefusalError(
            f"{path}: the number is beyond 10^{power}; give it in a larger unit."
        )


def _refuse_text(text: str, path: str) -> None:
    for character in text:
        if character == "\x00" or "\ud800" <= character <= "\udfff":
            raise ToolRefusalError(
                f"{path}: holds U+{ord(character):04X}, which cannot be stored; leave it out."
            )


MAX_SCHEMA_BYTES = 20_000
_MAX_SCHEMA_DEPTH = 8
_MAX_ERRORS_TOLD = 5
_MAX_VALUE_CHARACTERS = 200

# References can run in circles or double at every level, and patterns can take for ever to match: a schema written
# by a model must not be able to stop a worker, and flat properties need neither.
_REFUSED_KEYWORDS = {
    "$ref": "write the definition in its place",
    "$dynamicRef": "write the definition in its place",
    "$id": "leave it out",
    "pattern": "say the form in the property's description, or list the values with enum",
    "patternProperties": "name the properties, or allow others with additionalProperties",
}
_ONE_SCHEMA = (
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
_LISTS_OF_SCHEMAS = ("allOf", "anyOf", "oneOf", "prefixItems")
_NAMED_SCHEMAS = ("$defs", "dependentSchemas", "properties")


def _unique_items(_: Validator, wanted: Any, instance: Any, __: Any) -> Iterator[ValidationError]:
    """By the items' text: the library compares each item with each other, which takes 14 seconds for 1,500 objects."""
    if wanted is True and isinstance(instance, list):
        texts = {json.dumps(item, sort_keys=True) for item in instance}
        if len(texts) < len(instance):
            yield ValidationError(f"{_short(instance)} has items that are the same")


_Draft: type[Validator] = validators.extend(  # type: ignore[no-untyped-call]  # the library has no types for it
    Draft202012Validator, {"uniqueItems": _unique_items}
)


class Validators:
    """Schemas made ready to check properties, the most recently used kept. Give one to each process."""

    def __init__(self, capacity: int = 256) -> None:
        self._capacity = capacity
        self._ready: OrderedDict[str, Validator] = OrderedDict()

    def check(self, schema: Json, properties: Json, type_name: str) -> None:
        """Raises ToolRefusalError naming each path, its value and what is allowed there."""
        refuse_unstorable(properties, "properties")
        refuse_large(properties, "properties")
        errors = sorted(self._validator(schema).iter_errors(properties), key=lambda e: e.json_path)
        if errors:
            told = "; ".join(_told(error) for error in errors[:_MAX_ERRORS_TOLD])
            raise ToolRefusalError(
                f"The properties do not satisfy the schema of {type_name}: {told}."
            )

    def _validator(self, schema: Json) -> Validator:
        key = hashlib.sha256(json.dumps(schema, sort_keys=True).encode()).hexdigest()
        if key not in self._ready:
            self._ready[key] = _Draft(schema)
            if len(self._ready) > self._capacity:
                self._ready.popitem(last=False)
        self._ready.move_to_end(key)
        return self._ready[key]


def refuse_bad_schema(schema: Json) -> None:
    """Raises ToolRefusalError unless `schema` may describe the properties of a type."""
    refuse_unstorable(schema, "propertiesSchema")
    refuse_large(schema, "propertiesSchema", MAX_SCHEMA_BYTES)
    if schema.get("type") != "object":
        raise ToolRefusalError(
            f'propertiesSchema: its top level says "type": {_short(schema.get("type"))}; it must say '
            '"type": "object" and list the properties under "properties".'
        )
    for path, part in _parts(schema, "propertiesSchema", 0):
        for keyword in _REFUSED_KEYWORDS.keys() & part.keys():
            raise ToolRefusalError(
                f"{path}: {keyword} is not supported here; {_REFUSED_KEYWORDS[keyword]}."
            )
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        raise ToolRefusalError(
            f"propertiesSchema is no JSON Schema (Draft 2020-12): {_told(error)}."
        ) from error


def _parts(schema: Any, path: str, depth: int) -> Iterator[tuple[str, Json]]:
    """`schema` and every schema within it, with their paths."""
    if not isinstance(schema, dict):
        return
    if depth > _MAX_SCHEMA_DEPTH:
        raise ToolRefusalError(
            f"{path}: nested more than {_MAX_SCHEMA_DEPTH} deep; make it flatter."
        )
    yield path, schema
    for keyword, inner in schema.items():
        for name, part in _inner(keyword, inner):
            yield from _parts(part, f"{path}.{keyword}{name}", depth + 1)


def _inner(keyword: str, value: Any) -> Iterator[tuple[str, Any]]:
    if keyword in _ONE_SCHEMA:
        yield "", value
    elif keyword in _LISTS_OF_SCHEMAS and isinstance(value, list):
        yield from ((f"[{index}]", part) for index, part in enumerate(value))
    elif keyword in _NAMED_SCHEMAS and isinstance(value, dict):
        yield from ((f".{name}", part) for name, part in value.items())


def _told(error: ValidationError | SchemaError) -> str:
    path = error.json_path.removeprefix("$").lstrip(".") or "the properties as a whole"
    return f"{path}: {_short_text(error.message)} (allowed: {_allowed(error)})"


def _allowed(error: ValidationError | SchemaError) -> str:
    schema = error.schema
    if error.validator in ("required", "additionalProperties") and isinstance(schema, dict):
        names = ", ".join(schema.get("properties", {}))
        required = ", ".join(schema.get("required", [])) or "none"
        return f"the properties {names or 'none'}; required are {required}"
    return f"{error.validator} {_short(error.validator_value)}"


def _short(value: Any) -> str:
    return _short_text(json.dumps(value, ensure_ascii=False, default=str))


def _short_text(text: str) -> str:
    return text if len(text) <= _MAX_VALUE_CHARACTERS else f"{text[:_MAX_VALUE_CHARACTERS]}…"
