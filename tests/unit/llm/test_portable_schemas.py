"""Every schema sent to a model server uses only the JSON Schema keywords that all servers accept."""

import importlib
import pkgutil
from collections.abc import Iterator
from typing import Any, Literal
from uuid import UUID

import pytest
from jsonschema import Draft202012Validator
from pydantic import BaseModel, Field, ValidationError
from pydantic.json_schema import SkipJsonSchema

import services
import shared
from services.assistant.agent_schema import AgentConfiguration, AgentTypes
from services.observer.prompts import ObserverPlan
from shared.billing.resumable_call import ResumableCall
from shared.llm.structured_output import response_format
from shared.llm.toolset import faults
from shared.tools import Arguments, PaidTool, declaration
from shared.tools.schemas import (
    MAX_ITEMS,
    MAX_PORTABLE_ITEMS,
    PORTABLE_KEYWORDS,
    portable_schema,
    without_max_items,
)
from shared.web_search.tools import TavilyResearch

STRUCTURED = [ObserverPlan, AgentConfiguration, AgentTypes]


def all_arguments() -> list[type[Arguments]]:
    """Return the argument models of all tools."""
    for package in (shared, services):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.endswith("__main__") and ".migrations" not in module.name:
                importlib.import_module(module.name)
    return sorted(
        (
            arguments
            for arguments in Arguments.__subclasses__()
            if arguments.__module__.startswith(("shared", "services"))
        ),
        key=lambda model: model.__name__,
    )


def parameters(arguments: type[Arguments]) -> dict[str, Any]:
    async def call(_: Any, __: ResumableCall) -> dict[str, Any]:
        return {}

    function: dict[str, Any] = declaration(PaidTool("t", "d", arguments, call, "search"))[
        "function"
    ]
    return function["parameters"]  # type: ignore[no-any-return]


def schemas_in(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield a schema and its subschemas."""
    if not isinstance(schema, dict):
        return
    yield schema
    for keyword in ("properties", "$defs"):
        for inner in schema.get(keyword, {}).values():
            yield from schemas_in(inner)
    for inner in (
        schema.get("items"),
        schema.get("additionalProperties"),
        *schema.get("anyOf", []),
    ):
        yield from schemas_in(inner)


def test_every_tool_schema_is_in_the_portable_subset() -> None:
    argument_types = all_arguments()
    assert {"TavilyResearch", "QueryGraph", "AddGraphNode", "Remember"} <= {
        arguments.__name__ for arguments in argument_types
    }
    for arguments in argument_types:
        schema = parameters(arguments)
        Draft202012Validator.check_schema(schema)
        for subschema in schemas_in(schema):
            assert subschema.keys() <= PORTABLE_KEYWORDS, (arguments.__name__, subschema)
        assert schema["type"] == "object"
        assert schema["additionalProperties"] is False


@pytest.mark.parametrize("model", STRUCTURED)
def test_every_structured_output_schema_is_portable_and_strict(
    model: type[BaseModel],
) -> None:
    schema = response_format(model, "x")["json_schema"]["schema"]
    Draft202012Validator.check_schema(schema)
    for subschema in schemas_in(schema):
        assert subschema.keys() <= PORTABLE_KEYWORDS | {MAX_ITEMS}
        if subschema.get("type") == "object":
            assert subschema["additionalProperties"] is False
            assert subschema["required"] == list(subschema["properties"])
        if subschema.get("type") == "array":
            assert 1 <= subschema[MAX_ITEMS] <= MAX_PORTABLE_ITEMS, (
                "list lengths are limited, for models that repeat themselves"
            )
    assert all(
        subschema.keys() <= PORTABLE_KEYWORDS for subschema in schemas_in(without_max_items(schema))
    )


def test_only_small_max_items_are_kept_and_only_on_request() -> None:
    schema = {
        "type": "object",
        "properties": {
            "maxItems": {
                "type": "array",
                "items": {"type": "string"},
                "maxItems": MAX_PORTABLE_ITEMS,
            },
            "many": {
                "type": "array",
                "items": {"type": "string"},
                "maxItems": MAX_PORTABLE_ITEMS + 1,
            },
        },
    }
    limited = portable_schema(schema, keep_max_items=True)["properties"]
    assert limited["maxItems"]["maxItems"] == MAX_PORTABLE_ITEMS
    assert "maxItems" not in limited["many"]
    assert limited["many"]["description"] == "At most 101 entries."
    plain = portable_schema(schema)["properties"]
    assert plain.keys() == limited.keys(), "a property may have that name"
    assert "maxItems" not in plain["maxItems"]


def test_length_limits_are_described_and_still_validated() -> None:
    schema = parameters(TavilyResearch)["properties"]["input"]
    assert schema["description"].endswith("10 to 2000 characters.")
    with pytest.raises(ValidationError) as error:
        TavilyResearch(input="x" * 2001)
    assert "at most 2000 characters" in faults("tavilyResearch", error.value)


class Leaf(BaseModel):
    """A leaf."""

    kind: Literal["leaf"]
    size: int = Field(3, ge=1, le=10, description="How large")


class Branch(BaseModel):
    kind: Literal["branch", "twig"]
    leaves: list[Leaf] = Field(min_length=1, max_length=5)
    branches: "list[Branch]" = []


class Tree(BaseModel):
    title: str | None = Field(None, max_length=2000, title="Name", description="What it is called.")
    id: UUID
    root: Branch
    leaf: Leaf = Field(description="The first one")
    any: Leaf | Branch = Field(discriminator="kind")
    code: str = Field(pattern="^x+$")
    share: float = Field(gt=0, lt=1)
    more: dict[str, Any] = {}


def test_a_schema_keeps_its_meaning() -> None:
    portable = portable_schema(Tree.model_json_schema())
    for subschema in schemas_in(portable):
        assert subschema.keys() <= PORTABLE_KEYWORDS
    descriptions = {
        name: schema.get("description") for name, schema in portable["properties"].items()
    }
    assert descriptions == {
        "title": "What it is called.",
        "id": "A UUID.",
        "root": None,
        "leaf": "The first one",
        "any": None,
        "code": "It matches the regular expression ^x+$",
        "share": "More than 0. Less than 1.",
        "more": None,
    }
    assert portable["properties"]["title"]["anyOf"] == [
        {"type": "string", "description": "At most 2000 characters."},
        {"type": "null"},
    ]
    leaf = portable["properties"]["leaf"]["properties"]
    assert leaf == {
        "kind": {"type": "string", "enum": ["leaf"]},
        "size": {"type": "integer", "description": "How large. 1 to 10. Default: 3."},
    }
    assert set(portable["$defs"]) == {"Branch"}, "only recursive schemas are referenced"
    assert portable["$defs"]["Branch"]["properties"]["leaves"]["description"] == "1 to 5 entries."
    branch = {"kind": "twig", "leaves": [], "branches": []}
    tree = {
        "id": "a",
        "root": branch,
        "leaf": {"kind": "leaf"},
        "any": branch,
        "code": "y",
        "share": 9,
    }
    assert Draft202012Validator(portable).is_valid(tree)
    assert not Draft202012Validator(portable).is_valid({**tree, "any": {"kind": "stone"}})


class Sparse(Arguments):
    needed: str = Field(description="It must be given.")
    optional: list[int] | None = Field(None, max_length=3, description="It may be given.")
    hidden: SkipJsonSchema[str | None] = None


def test_parameters_of_tools_have_no_words_that_say_nothing() -> None:
    assert parameters(Sparse) == {
        "type": "object",
        "required": ["needed"],
        "additionalProperties": False,
        "properties": {
            "needed": {"type": "string", "description": "It must be given."},
            "optional": {
                "type": "array",
                "items": {"type": "integer"},
                "description": "It may be given.",
            },
        },
    }
    assert Sparse.model_validate({"needed": "x", "hidden": "y"}).hidden == "y"
