"""Valid answers of the model, and the error messages for invalid ones."""

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
from tests.support.assistant.configuration_answers import (
    EDGE_TYPES,
    NODE_TYPES,
    a_property,
    configuration,
    edge_type,
    node_type,
    types,
)
from tests.support.case_files import read_cases

CASES = read_cases(__file__)


def test_a_configuration_has_a_prompt_for_each_phase() -> None:
    answer = AgentConfiguration.model_validate(configuration())
    assert list(answer.prompts) == list(PROMPTED_PHASES)
    assert len(set(answer.prompts.values())) == 6


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "The Lithium Supply Watch Agent"}, "has 5 words"),
        ({"name": "Lithium/Cobalt Watch"}, "no slash"),
        ({"name": "a b" + "c" * 90}, "1 to 80 characters"),
        ({"observerSystemPrompt": "Plan well."}, "200 to 20000 characters; this one has 10"),
        ({"observerSystemPrompt": "x" * 20_001}, "200 to 20000 characters"),
        ({"observerSystemPrompt": "x\x00" * 200}, "NUL"),
        (
            {"observerSystemPrompt": "x" * 300, "conversationSystemPrompt": "x" * 300},
            "two system prompts are the same",
        ),
        ({"wisdom": "more"}, "Extra inputs"),
    ],
)
def test_an_invalid_configuration_is_rejected(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        AgentConfiguration.model_validate(configuration(**changes))


@pytest.mark.parametrize("model", [AgentConfiguration, AgentTypes])
def test_schemas_fit_strict_structured_output(model: type[StrictModel]) -> None:
    """Every object requires all its properties and allows no others; nothing has a default or a length,
    but every list has a maximum."""
    unsupported = {"default", "minLength", "maxLength", "pattern", "minItems", "oneOf"}

    def check(schema: Any) -> None:
        if isinstance(schema, dict):
            assert not unsupported & schema.keys()
            if schema.get("type") == "object":
                assert schema["additionalProperties"] is False
                assert schema["required"] == list(schema["properties"])
            if schema.get("type") == "array":
                assert 1 <= schema["maxItems"] <= MAX_PORTABLE_ITEMS
            for item in schema.values():
                check(item)
        elif isinstance(schema, list):
            for item in schema:
                check(item)

    check(model.model_json_schema())


def test_type_examples_satisfy_the_generated_schemas() -> None:
    answer = AgentTypes.model_validate(types())
    assert [new_type.name for new_type in answer.node_types] == list(NODE_TYPES)
    new_types: list[NewNodeType | NewEdgeType] = [*answer.node_types, *answer.edge_types]
    for new_type in new_types:
        refuse_bad_schema(new_type.json_schema)
        Draft202012Validator(new_type.json_schema).validate(new_type.example)
        assert all(
            property_schema["description"]
            for property_schema in new_type.json_schema["properties"].values()
        )


def test_node_schemas_include_the_summary() -> None:
    schema = NewNodeType.model_validate(node_type("Maker")).json_schema
    assert list(schema["properties"]) == ["summary", "outputTonnes"]
    assert schema["required"] == ["summary"]
    assert schema["properties"]["outputTonnes"]["type"] == "number"
    validator = Draft202012Validator(schema)
    assert validator.is_valid({"summary": "A maker.", "staff": 3200, "outputTonnes": 1.5})
    assert not validator.is_valid({"summary": "A maker.", "outputTonnes": "much"})
    assert not validator.is_valid({"outputTonnes": 1.5})


@pytest.mark.parametrize(("fields", "schema"), CASES["each_kind_of_property_has_its_schema"])
def test_each_kind_of_property_has_its_schema(
    fields: dict[str, Any], schema: dict[str, Any]
) -> None:
    new_type = NewNodeType.model_validate(node_type("Maker", properties=[a_property(**fields)]))
    assert new_type.json_schema["properties"]["outputTonnes"].items() >= schema.items()
    assert new_type.json_schema["required"] == ["summary"]
    assert new_type.example["outputTonnes"] == fields.get("example", 1200)
    Draft202012Validator(new_type.json_schema).validate(new_type.example)


def _nodes(*extra: dict[str, Any]) -> list[dict[str, Any]]:
    return [*(node_type(name) for name in NODE_TYPES), *extra]


def _edges(*extra: dict[str, Any]) -> list[dict[str, Any]]:
    return [*(edge_type(name) for name in EDGE_TYPES), *extra]


@pytest.mark.parametrize(
    ("changes", "message"),
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
def test_invalid_types_are_rejected(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        AgentTypes.model_validate(types(**changes))


def test_all_errors_are_reported_at_once_in_stable_wording() -> None:
    """The message is sent back to the model; another wording would be another paid call."""
    bad = types(
        nodes=_nodes(node_type("AgentAnalysis")),
        edges=_edges(edge_type("sells", sourceTypes=["Moon", "Sun", "Mars"])),
    )
    messages = set()
    for _ in range(3):
        with pytest.raises(ValidationError) as error:
            AgentTypes.model_validate(bad)
        messages.add(str(error.value))
    assert len(messages) == 1
    (message,) = messages
    assert all(word in message for word in ("AgentAnalysis is reserved", "Moon", "Sun", "Mars"))
