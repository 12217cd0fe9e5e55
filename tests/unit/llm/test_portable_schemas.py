"""Every schema that is sent to a model server is in the part of the language that all servers take."""

import importlib
import pkgutil
from collections.abc import Iterator
from typing import Any, Literal
from uuid import UUID

import pytest
from jsonschema import Draft202012Validator
from pydantic import BaseModel, Field, ValidationError

import services
import shared
from services.assistant.agent_schema import AgentConfiguration, AgentTypes
from services.observer.prompts import ObserverPlan
from shared.llm.structured_output import response_format
from shared.llm.tool_loop import faults
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
    """Of every tool that there is."""
    for package in (shared, services):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not found.name.endswith("__main__") and ".migrations" not in found.name:
                importlib.import_module(found.name)
    return sorted(
        (
            each
            for each in Arguments.__subclasses__()
            if each.__module__.startswith(("shared", "services"))
        ),
        key=lambda each: each.__name__,
    )


def parameters(arguments: type[Arguments]) -> dict[str, Any]:
    async def call(_: Any) -> dict[str, Any]:
        return {}

    made: dict[str, Any] = declaration(PaidTool("t", "d", arguments, call))["function"]
    return made["parameters"]  # type: ignore[no-any-return]


def schemas_in(schema: Any) -> Iterator[dict[str, Any]]:
    """A schema and all within it."""
    if not isinstance(schema, dict):
        return
    yield schema
    for named in ("properties", "$defs"):
        for inner in schema.get(named, {}).values():
            yield from schemas_in(inner)
    for inner in (
        schema.get("items"),
        schema.get("additionalProperties"),
        *schema.get("anyOf", []),
    ):
        yield from schemas_in(inner)


def test_every_tool_of_every_phase_sends_the_portable_subset() -> None:
    found = all_arguments()
    assert {"TavilyResearch", "QueryGraph", "AddGraphNode", "Remember"} <= {
        each.__name__ for each in found
    }
    for arguments in found:
        schema = parameters(arguments)
        Draft202012Validator.check_schema(schema)
        for each in schemas_in(schema):
            assert each.keys() <= PORTABLE_KEYWORDS, (arguments.__name__, each)
        assert schema["type"] == "object"
        assert schema["additionalProperties"] is False


@pytest.mark.parametrize("shape", STRUCTURED)
def test_every_structured_answer_is_asked_for_in_the_portable_subset_and_strictly(
    shape: type[BaseModel],
) -> None:
    schema = response_format(shape, "x")["json_schema"]["schema"]
    Draft202012Validator.check_schema(schema)
    for each in schemas_in(schema):
        assert each.keys() <= PORTABLE_KEYWORDS | {MAX_ITEMS}
        if each.get("type") == "object":
            assert each["additionalProperties"] is False
            assert each["required"] == list(each["properties"])
        if each.get("type") == "array":
            assert 1 <= each[MAX_ITEMS] <= MAX_PORTABLE_ITEMS, (
                "a model that repeats itself is stopped"
            )
    assert all(each.keys() <= PORTABLE_KEYWORDS for each in schemas_in(without_max_items(schema)))


def test_only_small_maxima_are_kept_and_only_where_they_are_wanted() -> None:
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
    kept = portable_schema(schema, keep_max_items=True)["properties"]
    assert kept["maxItems"]["maxItems"] == MAX_PORTABLE_ITEMS
    assert "maxItems" not in kept["many"]
    assert kept["many"]["description"] == "At most 101 entries."
    plain = portable_schema(schema)["properties"]
    assert plain.keys() == kept.keys(), "a property may have that name"
    assert "maxItems" not in plain["maxItems"]


def test_limits_are_told_and_still_checked() -> None:
    sent = parameters(TavilyResearch)["properties"]["input"]
    assert sent["description"].endswith("10 to 2000 characters.")
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
    made = portable_schema(Tree.model_json_schema())
    for each in schemas_in(made):
        assert each.keys() <= PORTABLE_KEYWORDS
    told = {name: each.get("description") for name, each in made["properties"].items()}
    assert told == {
        "title": "What it is called.",
        "id": "A UUID.",
        "root": None,
        "leaf": "The first one",
        "any": None,
        "code": "It matches the regular expression ^x+$",
        "share": "More than 0. Less than 1.",
        "more": None,
    }
    assert made["properties"]["title"]["anyOf"] == [
        {"type": "string", "description": "At most 2000 characters."},
        {"type": "null"},
    ]
    leaf = made["properties"]["leaf"]["properties"]
    assert leaf == {
        "kind": {"type": "string", "enum": ["leaf"]},
        "size": {"type": "integer", "description": "How large. 1 to 10. Default: 3."},
    }
    assert set(made["$defs"]) == {"Branch"}, "only what contains itself is referred to"
    assert made["$defs"]["Branch"]["properties"]["leaves"]["description"] == "1 to 5 entries."
    branch = {"kind": "twig", "leaves": [], "branches": []}
    tree = {
        "id": "a",
        "root": branch,
        "leaf": {"kind": "leaf"},
        "any": branch,
        "code": "y",
        "share": 9,
    }
    assert Draft202012Validator(made).is_valid(tree)
    assert not Draft202012Validator(made).is_valid({**tree, "any": {"kind": "stone"}})
