"""The smallest instance of a JSON Schema that the model does not know, worded from the mission."""

import json
from collections.abc import Mapping
from typing import Any

from jsonschema import Draft202012Validator

from sandbox.model.request import Answer, ChatRequest
from sandbox.text.english import shorten
from sandbox.text.missions import parse_mission

Schema = Mapping[str, Any]
MAX_DEPTH = 12
NAME_CHARS = 60
FORMATS = {
    "date": "1970-01-01",
    "date-time": "1970-01-01T00:00:00Z",
    "time": "00:00:00Z",
    "uuid": "00000000-0000-0000-0000-000000000000",
    "uri": "https://corpus.local/",
    "email": "reader@corpus.local",
}


def fill_schema(request: ChatRequest) -> Answer:
    """Answer with JSON that is valid for the schema, if it only uses types, enums, bounds, references and choices."""
    schema = request.schema or {}
    value = _Filler(schema, request.mission).value(schema, "", 0)
    return Answer(json.dumps(value, ensure_ascii=False))


class _Filler:
    def __init__(self, root: Schema, mission: str) -> None:
        self._root = root
        self._mission = " ".join(mission.split())
        terms = parse_mission(mission).terms()
        self._short_name = shorten(" ".join(terms) or self._mission, NAME_CHARS)

    def value(self, schema: Schema, name: str, depth: int) -> Any:
        schema = self._resolved(schema)
        for keyword in ("const", "default"):
            if keyword in schema:
                return schema[keyword]
        if schema.get("enum"):
            return schema["enum"][0]
        for choice in ("anyOf", "oneOf"):
            if schema.get(choice):
                return self._first_valid(schema[choice], name, depth)
        kind = _type_of(schema)
        if kind == "object":
            return self._object(schema, depth)
        if kind == "array":
            return self._array(schema, name, depth)
        if kind in {"number", "integer"}:
            return _number(schema, kind)
        return (
            self._text(schema, name) if kind == "string" else False if kind == "boolean" else None
        )

    def _first_valid(self, options: list[Schema], name: str, depth: int) -> Any:
        values = [self.value(option, name, depth + 1) for option in options]
        valid = (
            value
            for value, option in zip(values, options, strict=True)
            if self._is_valid(value, option)
        )
        return next(valid, values[0])

    def _is_valid(self, value: Any, schema: Schema) -> bool:
        definitions = {
            key: self._root[key] for key in ("$defs", "definitions") if key in self._root
        }
        return Draft202012Validator({**definitions, **schema}).is_valid(value)

    def _object(self, schema: Schema, depth: int) -> dict[str, Any]:
        properties: Mapping[str, Schema] = schema.get("properties") or {}
        selected = (
            schema.get("required", []) if depth else [*schema.get("required", []), *properties]
        )
        names = [name for name in properties if name in selected]
        return {
            name: self.value(properties[name], name, depth + 1)
            for name in names
            if depth < MAX_DEPTH
        }

    def _array(self, schema: Schema, name: str, depth: int) -> list[Any]:
        min_items = int(schema.get("minItems", 0))
        items = schema.get("items") or {}
        return [self.value(items, name, depth + 1) for _ in range(min_items)]

    def _text(self, schema: Schema, name: str) -> str:
        if schema.get("format") in FORMATS:
            return FORMATS[schema["format"]]
        words = name.replace("_", " ").strip()
        is_name = words.endswith(("name", "title"))
        text = (
            self._short_name if is_name else f"{words}: {self._mission}" if words else self._mission
        )
        text = text[:1].upper() + text[1:]
        min_chars, max_chars = int(schema.get("minLength", 0)), schema.get("maxLength")
        while len(text) < min_chars:
            text = f"{text} {self._mission or words or 'text'}"
        return text if max_chars is None else text[: int(max_chars)]

    def _resolved(self, schema: Schema) -> Schema:
        for _ in range(MAX_DEPTH):
            reference = schema.get("$ref")
            if not isinstance(reference, str):
                break
            schema = {**self._target(reference), **{k: v for k, v in schema.items() if k != "$ref"}}
        merged = dict(schema)
        for part in schema.get("allOf") or []:
            merged = _merged(merged, self._resolved(part))
        return merged

    def _target(self, reference: str) -> Schema:
        target: Any = self._root
        for step in reference.removeprefix("#").strip("/").split("/"):
            target = target.get(step.replace("~1", "/").replace("~0", "~"), {}) if step else target
        return target if isinstance(target, dict) else {}


def _merged(first: Schema, second: Schema) -> dict[str, Any]:
    properties = {**(first.get("properties") or {}), **(second.get("properties") or {})}
    required = [*first.get("required", []), *second.get("required", [])]
    joined = {**first, **second}
    return (
        joined
        | ({"properties": properties} if properties else {})
        | ({"required": required} if required else {})
    )


def _type_of(schema: Schema) -> str:
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((name for name in kind if name != "null"), "null")
    return str(
        kind or ("object" if "properties" in schema else "array" if "items" in schema else "string")
    )


def _number(schema: Schema, kind: str) -> int | float:
    step = schema.get("multipleOf", 1)
    minimum = schema.get("minimum", schema.get("exclusiveMinimum"))
    maximum = schema.get("maximum", schema.get("exclusiveMaximum"))
    value = 0 if minimum is None else minimum
    if "exclusiveMinimum" in schema and value <= schema["exclusiveMinimum"]:
        gap = (maximum - value) / 2 if maximum is not None and kind == "number" else step
        value = value + gap
    if minimum is None and maximum is not None and value > maximum:
        value = maximum
    return int(value) if kind == "integer" else value
