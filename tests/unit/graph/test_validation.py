"""Validation of schemas written by a model, and of properties against them."""

from contextlib import suppress
from random import Random
from time import process_time
from typing import Any

import pytest

from shared.graph.system_types import NODE_TYPES
from shared.graph.validation import Validators, normalize_name, refuse_bad_schema
from shared.tools import ToolRefusalError
from tests.support.case_files import read_cases
from tests.support.seeds import repeatable

CASES = read_cases(__file__)

SCHEMA = {
    "type": "object",
    "properties": {
        "population": {"type": "integer", "minimum": 0},
        "status": {"enum": ["free", "occupied"]},
        "parts": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["population"],
    "additionalProperties": False,
}


def test_valid_properties_pass() -> None:
    Validators().check(SCHEMA, {"population": 3, "parts": ["a"]}, "Country")


@pytest.mark.parametrize(
    ("properties", "message"), CASES["a_refusal_names_the_path_the_value_and_the_allowed_values"]
)
def test_a_refusal_names_the_path_the_value_and_the_allowed_values(
    properties: dict[str, Any], message: str
) -> None:
    with pytest.raises(ToolRefusalError) as error:
        Validators().check(SCHEMA, properties, "Country")
    assert message in str(error.value)
    assert "Country" in str(error.value)


def test_a_refusal_of_a_large_value_is_short() -> None:
    with pytest.raises(ToolRefusalError) as error:
        Validators().check(SCHEMA, {"population": "x" * 10_000}, "Country")
    assert len(str(error.value)) < 600


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("a\x00b", "properties.x: contains U+0000"),
        (["\udcff"], "properties.x[0]: contains U+DCFF"),
        (float("nan"), "properties.x: nan is not a JSON number"),
        (float("inf"), "inf is not a JSON number"),
        (10**40, "beyond 10^30"),
    ],
)
def test_values_that_cannot_be_stored_are_refused(value: Any, message: str) -> None:
    with pytest.raises(ToolRefusalError) as error:
        Validators().check({}, {"x": value}, "Country")
    assert message in str(error.value)


def test_deep_nesting_is_refused() -> None:
    value: Any = "x"
    for _ in range(200):
        value = [value]
    with pytest.raises(ToolRefusalError, match="nested more than"):
        Validators().check({}, {"x": value}, "Country")


def test_validation_works_after_eviction_from_the_cache() -> None:
    validators = Validators(capacity=2)
    for number in [*range(5), *range(5)]:
        schema = {"type": "object", "properties": {"x": {"const": number}}}
        validators.check(schema, {"x": number}, "T")
        with pytest.raises(ToolRefusalError):
            validators.check(schema, {"x": -1}, "T")


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({}, '"type": null; it must say "type": "object"'),
        ({"type": "array"}, '"type": "array"'),
        ({"type": "object", "properties": {"a": {"type": "text"}}}, "not a valid JSON Schema"),
        ({"type": "object", "required": "a"}, "required: 'a' is not of type 'array'"),
        ({"type": "object", "properties": {"a": {"$ref": "http://x/y"}}}, "properties.a: $ref"),
        ({"type": "object", "allOf": [{"$ref": "#"}]}, "allOf[0]: $ref is not supported"),
        ({"type": "object", "properties": {"a": {"pattern": "(a+)+"}}}, "properties.a: pattern"),
        ({"type": "object", "description": "x" * 20_000}, "more than the limit of 20000"),
    ],
)
def test_an_unsupported_schema_is_refused(schema: dict[str, Any], message: str) -> None:
    with pytest.raises(ToolRefusalError) as error:
        refuse_bad_schema(schema)
    assert message in str(error.value)


def test_a_property_may_have_the_name_of_a_keyword() -> None:
    refuse_bad_schema(
        {
            "type": "object",
            "properties": {"pattern": {"type": "string"}, "$ref": {"type": "string"}},
        }
    )


def test_a_schema_nested_too_deep_is_refused() -> None:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(10):
        schema = {"type": "object", "properties": {"a": schema}}
    with pytest.raises(ToolRefusalError, match="nested more than 8 levels deep"):
        refuse_bad_schema(schema)


@pytest.mark.parametrize("values", NODE_TYPES, ids=lambda values: values["name"])
def test_the_system_types_satisfy_the_schema_rules(values: dict[str, Any]) -> None:
    refuse_bad_schema(values["properties_schema"])
    Validators().check(values["properties_schema"], values["example_properties"], values["name"])


@pytest.mark.parametrize(("name", "expected"), CASES["names_are_normalized"])
def test_names_are_normalized(name: str, expected: str) -> None:
    assert normalize_name(name) == expected


KEYWORDS = (
    *(
        "multipleOf",
        "minimum",
        "maximum",
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
        "const",
    ),
    *("enum", "uniqueItems", "format", "type", "required", "properties", "items", "allOf", "anyOf"),
    *("not", "if", "contains", "propertyNames", "$schema", "$defs", "$anchor", "$recursiveRef"),
    *("dependentSchemas", "dependentRequired", "additionalProperties", "minProperties", "pattern"),
)
VALUES: tuple[Any, ...] = (
    *(0, -1, 1, 0.1, 5e-324, 1e308, float("inf"), float("nan"), 10**30, 10**400, True, None, ""),
    *("string", "object", "x" * 5_000, "\ud800", [], {}, ["string"] * 500, [[]], "(a+)+$", "#"),
)
INSTANCES: tuple[Any, ...] = (
    *(0, -1, 10**29, 10**400, 1e308, 5e-324, float("nan"), True, None, "", "a" * 5_000, "\ud800"),
    *([], {}, [1] * 3_000, [{"b": number} for number in range(1_000)], {"a": {"a": {}}}, [[[]]]),
)


def random_schema(rng: Random, depth: int = 0) -> Any:
    if depth and rng.random() < 0.3:
        return rng.choice(VALUES)
    inner = {
        rng.choice(KEYWORDS): random_schema(rng, depth + 1) if depth < 12 else rng.choice(VALUES)
        for _ in range(rng.choice((1, 1, 2, 3)))
    }
    return {**inner, "type": "object"} if depth == 0 else rng.choice((inner, [inner]))


def test_a_random_schema_is_refused_or_validates_any_instance(seed: int) -> None:
    rng = Random(seed)
    validators = Validators()
    with repeatable(seed):
        for _ in range(400):
            schema = random_schema(rng)
            try:
                refuse_bad_schema(schema)
            except ToolRefusalError:
                continue
            for instance in INSTANCES:
                with suppress(ToolRefusalError):
                    validators.check(schema, {"a": instance}, "Country")


def test_unique_items_are_compared_quickly() -> None:
    schema = {"type": "object", "properties": {"a": {"uniqueItems": True}}}
    items = [{"b": number} for number in range(1_500)]
    start = process_time()
    Validators().check(schema, {"a": items}, "Country")
    assert process_time() - start < 3
    with pytest.raises(ToolRefusalError, match="has duplicate items"):
        Validators().check(schema, {"a": [{"b": 1, "c": 2}, {"c": 2, "b": 1}]}, "Country")
