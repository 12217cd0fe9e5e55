"""What the model may answer, and what it is told where it may not."""

from typing import Any

import pytest
from jsonschema import Draft202012Validator
from pydantic import ValidationError

from services.assistant.agent_schema import (
    AgentConfiguration,
    AgentTypes,
    NewEdgeType,
    NewNodeType,
    StrictModel,
)
from shared.enums import PROMPTED_PHASES
from shared.graph.validation import refuse_bad_schema
from shared.tools.schemas import MAX_PORTABLE_ITEMS
from tests.support.assistant.making import (
    EDGE_TYPES,
    NODE_TYPES,
    a_property,
    configuration,
    edge_type,
    node_type,
    types,
)


def test_a_configuration_has_a_prompt_for_each_phase() -> None:
    made = AgentConfiguration.model_validate(configuration())
    assert list(made.prompts) == list(PROMPTED_PHASES)
    assert len(set(made.prompts.values())) == 6


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"name": "The Lithium Supply Watch Agent"}, "has 5 words"),
        ({"name": "Lithium/Cobalt Watch"}, "no slash"),
        ({"name": "a b" + "c" * 90}, "1 to 80 characters"),
        ({"observerSystemPrompt": "Plan well."}, "200 to 20000 characters, this one 10"),
        ({"observerSystemPrompt": "x" * 20_001}, "200 to 20000 characters"),
        ({"observerSystemPrompt": "x\x00" * 200}, "NUL"),
        (
            {"observerSystemPrompt": "x" * 300, "conversationSystemPrompt": "x" * 300},
            "two system prompts are the same",
        ),
        ({"wisdom": "more"}, "Extra inputs"),
    ],
)
def test_a_configuration_that_will_not_do(changed: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        AgentConfiguration.model_validate(configuration(**changed))


@pytest.mark.parametrize("shape", [AgentConfiguration, AgentTypes])
def test_shapes_are_what_strict_answers_allow(shape: type[StrictModel]) -> None:
    """Every object names all its properties as required and allows no others; nothing has a default or a length,
    but every list a maximum."""
    unknown = {"default", "minLength", "maxLength", "pattern", "minItems", "oneOf"}

    def look(part: Any) -> None:
        if isinstance(part, dict):
            assert not unknown & part.keys()
            if part.get("type") == "object":
                assert part["additionalProperties"] is False
                assert part["required"] == list(part["properties"])
            if part.get("type") == "array":
                assert 1 <= part["maxItems"] <= MAX_PORTABLE_ITEMS
            for each in part.values():
                look(each)
        elif isinstance(part, list):
            for each in part:
                look(each)

    look(shape.model_json_schema())


def test_types_become_schemas_that_their_examples_satisfy() -> None:
    made = AgentTypes.model_validate(types())
    assert [each.name for each in made.node_types] == list(NODE_TYPES)
    every: list[NewNodeType | NewEdgeType] = [*made.node_types, *made.edge_types]
    for each in every:
        refuse_bad_schema(each.json_schema)
        Draft202012Validator(each.json_schema).validate(each.example)
        assert all(one["description"] for one in each.json_schema["properties"].values())


def test_nodes_have_what_every_node_has() -> None:
    schema = NewNodeType.model_validate(node_type("Maker")).json_schema
    assert list(schema["properties"]) == ["summary", "outputTonnes"]
    assert schema["required"] == ["summary"]
    assert schema["properties"]["outputTonnes"]["type"] == "number"
    further = Draft202012Validator(schema)
    assert further.is_valid({"summary": "A maker.", "staff": 3200, "outputTonnes": 1.5})
    assert not further.is_valid({"summary": "A maker.", "outputTonnes": "much"})
    assert not further.is_valid({"outputTonnes": 1.5})


@pytest.mark.parametrize(
    ("given", "schema"),
    [
        ({"type": "string", "enum": ["hot", "cold"], "example": "hot"}, {"enum": ["hot", "cold"]}),
        ({"type": "integer", "example": 3}, {"type": "integer"}),
        ({"type": "boolean", "example": True}, {"type": "boolean"}),
        ({"type": "date", "example": "2026-01-31"}, {"type": "string", "format": "date"}),
        ({"type": "list", "example": ["a", "b"]}, {"type": "array", "items": {"type": "string"}}),
    ],
)
def test_each_kind_of_property_has_its_schema(
    given: dict[str, Any], schema: dict[str, Any]
) -> None:
    made = NewNodeType.model_validate(node_type("Maker", properties=[a_property(**given)]))
    assert made.json_schema["properties"]["outputTonnes"].items() >= schema.items()
    assert made.json_schema["required"] == ["summary"]
    assert made.example["outputTonnes"] == given.get("example", 1200)
    Draft202012Validator(made.json_schema).validate(made.example)


def _nodes(*changed: dict[str, Any]) -> list[dict[str, Any]]:
    return [*(node_type(name) for name in NODE_TYPES), *changed]


def _edges(*changed: dict[str, Any]) -> list[dict[str, Any]]:
    return [*(edge_type(name) for name in EDGE_TYPES), *changed]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"nodes": []}, "0 node types; give 6 to 12"),
        ({"edges": []}, "0 edge types; give 6 to 15"),
        ({"nodes": [node_type(f"Type{n}") for n in range(13)]}, "13 node types; give 6 to 12"),
        ({"nodes": _nodes(node_type("MAKER"))}, "2 node types are called maker"),
        ({"nodes": _nodes(node_type("AgentAnalysis"))}, "AgentAnalysis is reserved"),
        ({"nodes": _nodes(node_type("agentadvice"))}, "capital letter"),
        ({"nodes": _nodes(node_type("Agentadvice"))}, "Agentadvice is reserved"),
        ({"edges": _edges(edge_type("about"))}, "every agent has this edge type already"),
        ({"edges": _edges(edge_type("Sells"))}, "small letter"),
        ({"edges": _edges(edge_type("sells", sourceTypes=[]))}, "sells: sourceTypes is empty"),
        ({"edges": _edges(edge_type("sells", targetTypes=["Moon"]))}, "Moon, which is none of"),
        (
            {"edges": _edges(edge_type("sells", targetTypes=["AgentAnalysis"]))},
            "AgentAnalysis, which is none of your node types",
        ),
        ({"nodes": _nodes(node_type("Port", description=" "))}, "Port: description"),
        (
            {"nodes": _nodes(node_type("Port", properties=[a_property(example="much")]))},
            "Port .exampleProperties.*outputTonnes",
        ),
        (
            {"nodes": _nodes(node_type("Port", properties=[a_property(), a_property()]))},
            "Port: 2 properties are called outputTonnes",
        ),
        (
            {"nodes": _nodes(node_type("Port", properties=[a_property(description="")]))},
            "Port: outputTonnes has no description",
        ),
        (
            {
                "nodes": _nodes(
                    node_type("Port", properties=[a_property(name=f"p{n}") for n in range(13)])
                )
            },
            "Port: 13 properties are too many",
        ),
    ],
)
def test_types_that_will_not_do(given: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        AgentTypes.model_validate(types(**given))


def test_all_that_is_wrong_is_told_at_once_and_always_in_the_same_words() -> None:
    """It is sent back to the model: other words would be another call, and paid for again."""
    bad = types(
        nodes=_nodes(node_type("AgentAnalysis")),
        edges=_edges(edge_type("sells", sourceTypes=["Moon", "Sun", "Mars"])),
    )
    told = set()
    for _ in range(3):
        with pytest.raises(ValidationError) as refused:
            AgentTypes.model_validate(bad)
        told.add(str(refused.value))
    assert len(told) == 1
    (words,) = told
    assert all(word in words for word in ("AgentAnalysis is reserved", "Moon", "Sun", "Mars"))
