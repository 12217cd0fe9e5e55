"""Repair of a weak model's answers when it configures an agent: a valid configuration, or an error."""

import random
import re
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from services.assistant import default_configuration
from services.assistant.agent_schema import AgentConfiguration, AgentTypes, NewEdgeType, NewNodeType
from services.assistant.answer_repair import repair_configuration, repair_types
from shared.enums import PROMPTED_PHASES, Phase
from shared.graph.validation import refuse_bad_schema
from shared.llm.repair import Repairs, UnreadableError, read_json
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
from tests.support.mutation_statements import broken_text, damage
from tests.support.seeds import first_seed, repeatable, seed_count

CASES = read_cases(__file__)

MISSION = "Watch battery makers and their lithium supply"
LONG = "What good work is, at length. " * 10


def _repair_types(answer: Any) -> tuple[AgentTypes, str]:
    repairs = Repairs()
    result = repair_types(answer, repairs)
    return result, " ".join(repairs.all_notes)


def test_a_valid_answer_is_returned_unchanged_and_without_notes() -> None:
    repairs = Repairs()
    assert repair_types(types(), repairs) == AgentTypes.model_validate(types())
    assert repair_configuration(MISSION, configuration(), repairs) == (
        AgentConfiguration.model_validate(configuration())
    )
    assert repairs.all_notes == []


@pytest.mark.parametrize(
    ("raw", "name"),
    [
        ("trade deal", "TradeDeal"),
        ("TRADE_DEALS", "TradeDeals"),
        ("COMPANIES", "Companies"),
        ("company", "Company"),
        ("3rd-party Supplier", "RdPartySupplier"),
        ("Société", "Societe"),
        ("GPU", "GPU"),
        ("TradeDeal", "TradeDeal"),
        ("x" * 90, f"X{'x' * 63}"),
    ],
)
def test_node_types_are_named_in_pascal_case(raw: str, name: str) -> None:
    result, notes = _repair_types(types(nodes=[node_type(raw)], edges=[]))
    assert [new_type.name for new_type in result.node_types] == [name]
    assert (name == raw) is ("was renamed" not in notes)


@pytest.mark.parametrize(("raw", "name"), CASES["edge_types_are_named_in_snake_case"])
def test_edge_types_are_named_in_snake_case(raw: str, name: str) -> None:
    result, _ = _repair_types(types(edges=[edge_type(raw)]))
    assert result.edge_types[0].name == name


def test_reserved_names_and_duplicates_are_left_out() -> None:
    nodes = [*(node_type(name) for name in NODE_TYPES), node_type("agent_analysis")]
    nodes += [node_type("AgentAdvice"), node_type("makers", properties=[a_property(name="seat")])]
    edges = [*(edge_type(name) for name in EDGE_TYPES), edge_type("ABOUT"), edge_type("Buys")]
    result, notes = _repair_types(types(nodes=nodes, edges=edges))
    assert [new_type.name for new_type in result.node_types] == list(NODE_TYPES)
    assert [new_type.name for new_type in result.edge_types] == list(EDGE_TYPES)
    assert [new_property.name for new_property in result.node_types[0].properties] == [
        "outputTonnes",
        "seat",
    ]
    for note in ("AgentAnalysis is reserved", "Every agent has the edge type about"):
        assert note in notes
    assert "The edge type buys was defined twice; the definitions were merged." in notes


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        (["MAKER"], ["Maker"]),
        (["makers"], ["Maker"]),
        ("Maker, metal", ["Maker", "Metal"]),
        (["Maker", "Moon"], ["Maker"]),
        ([], list(NODE_TYPES)),
        (["Any"], list(NODE_TYPES)),
        (["Moon"], list(NODE_TYPES)),
        (None, list(NODE_TYPES)),
    ],
)
def test_edge_ends_are_matched_to_node_types(ends: Any, expected: list[str]) -> None:
    edges = [edge_type(name) for name in EDGE_TYPES]
    result, notes = _repair_types(types(edges=[*edges, edge_type("sells", targetTypes=ends)]))
    assert result.edge_types[-1].target_types == expected
    assert "sells.targetTypes" in notes or "edgeTypes[6].targetTypes" in notes


@pytest.mark.parametrize(
    ("fields", "kind", "example"), CASES["properties_get_a_type_and_a_matching_example"]
)
def test_properties_get_a_type_and_a_matching_example(
    fields: dict[str, Any], kind: str, example: Any
) -> None:
    result, notes = _repair_types(
        types(nodes=[node_type("Maker", properties=[a_property(**fields)])])
    )
    [new_property] = result.node_types[0].properties
    assert (new_property.type, new_property.example) == (kind, example)
    assert "Maker.outputTonnes" in notes


def test_few_types_are_accepted_and_too_many_are_cut() -> None:
    few, notes = _repair_types(types(edges=[edge_type(name) for name in EDGE_TYPES[:5]]))
    assert len(few.edge_types) == 5
    assert "There are 5 edge types instead of at least 6; that is enough." in notes
    properties = [a_property(name=f"p{n}") for n in range(20)]
    many, notes = _repair_types(
        types(
            nodes=[
                node_type(f"Type{'abcdefghijklmnop'[n]}", properties=properties) for n in range(16)
            ],
            edges=[edge_type(f"does_{'abcdefghijklmnopqrst'[n]}") for n in range(20)],
        )
    )
    assert (len(many.node_types), len(many.edge_types)) == (12, 15)
    assert len(many.node_types[0].properties) == 12
    assert "There were 16 node types; the first 12 are used." in notes
    default, _ = _repair_types(types(nodes=[node_type("Maker")], edges=[]))
    assert [new_type.name for new_type in default.edge_types] == [
        "related_to",
        "part_of",
        "affects",
    ]
    assert all(new_type.source_types == ["Maker"] for new_type in default.edge_types)


def test_missing_fields_are_filled_in_and_long_texts_are_cut() -> None:
    bare = [{"name": name} for name in NODE_TYPES]
    result, _ = _repair_types(
        {"nodeTypes": bare, "edgeTypes": [{"name": name} for name in EDGE_TYPES]}
    )
    assert result.node_types[0].description == "Maker, as the mission uses the term."
    long = node_type(
        "Maker", description="word " * 500, properties=[a_property(enum=["x" * 9_000] * 9)]
    )
    short, _ = _repair_types(types(nodes=[long]))
    assert len(short.node_types[0].description) <= 500


def test_prompts_that_are_all_too_short_are_named_with_their_lengths() -> None:
    with pytest.raises(
        ValueError, match=r"observerSystemPrompt 5, .*analysisGenerationSystemPrompt 0"
    ):
        repair_configuration(MISSION, {"observer": "Look."}, Repairs())


@pytest.mark.parametrize(
    "answer", [[], {}, "x", {"nodeTypes": []}, {"nodeTypes": ["", "!!"]}, None]
)
def test_an_unusable_answer_is_rejected(answer: Any) -> None:
    with pytest.raises(ValueError, match="node"):
        repair_types(answer, Repairs())
    with pytest.raises(ValueError, match="system prompts"):
        repair_configuration(MISSION, answer, Repairs())


@pytest.mark.parametrize(
    ("answer", "name"),
    [
        (
            {"observerSystemPrompt": LONG, "name": "The Lithium Supply Watch Agent"},
            "The Lithium Supply Watch",
        ),
        ({"observer": LONG, "name": "Lithium"}, "Lithium"),
        ({"prompts": {"observer_prompt": LONG}, "name": ""}, "Battery Makers Lithium Watch"),
        ({"prompts": [{"phase": "observer", "prompt": LONG}]}, "Battery Makers Lithium Watch"),
        ({"Observer System Prompt": [LONG, LONG], "name": "A/B \x00"}, "A B"),
    ],
)
def test_a_missing_prompt_is_replaced_by_the_built_in_one(
    answer: dict[str, Any], name: str
) -> None:
    repairs = Repairs()
    result = repair_configuration(MISSION, answer, repairs)
    assert result.name == name
    assert result.observer_system_prompt.startswith(LONG.strip())
    others = {phase: text for phase, text in result.prompts.items() if phase is not Phase.OBSERVER}
    assert others == {phase: default_configuration.PROMPTS[phase] for phase in others}
    assert (
        "The conversation prompt was missing or too short; the built-in one is used."
        in repairs.all_notes
    )


def test_the_built_in_configuration_is_valid() -> None:
    built_in = default_configuration.default_types()
    new_types: list[NewNodeType | NewEdgeType] = [*built_in.node_types, *built_in.edge_types]
    assert {"Organisation", "Person", "Place", "Event", "Product", "Measure", "Topic"} <= {
        new_type.name for new_type in built_in.node_types
    }
    for new_type in new_types:
        refuse_bad_schema(new_type.json_schema)
        Draft202012Validator(new_type.json_schema).validate(new_type.example)
    prompts = default_configuration.default_configuration(MISSION)
    assert prompts.name == "Battery Makers Lithium Watch"
    assert list(prompts.prompts) == list(PROMPTED_PHASES)
    assert all("data" in text and "instruction" in text for text in prompts.prompts.values())
    for mission in ("", "?!", "Was kostet Lithium?", "x" * 500, "\ud800 a/b", "監視"):
        assert default_configuration.name_from_mission(mission)


def test_the_answer_of_a_small_model_is_repaired() -> None:
    """The answer is by Qwen2.5-Coder 1.5B on llama.cpp without a grammar; its types lack descriptions and ends."""
    repairs = Repairs()
    text = (Path(__file__).parent / "small_model_types.txt").read_text()
    result = repair_types(read_json(text, repairs), repairs)
    names = [new_type.name for new_type in result.node_types]
    assert names == ["Supplier", "Product", "Market", "Opportunity"]
    assert len(result.edge_types) == 4
    assert all(new_type.source_types == names for new_type in result.edge_types)
    assert {new_property.type for new_property in result.node_types[0].properties} == {"string"}
    assert len(repairs) > 40


@pytest.mark.parametrize("answers", [60, pytest.param(200, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", ["types", "configuration"])
def test_a_randomly_damaged_answer_is_repaired_or_rejected(kind: str, answers: int) -> None:
    start, usable = first_seed(), 0
    count = seed_count() or answers
    for seed in range(start, start + count):
        with repeatable(seed):
            rng = random.Random(seed)
            valid = types() if kind == "types" else configuration()
            text = broken_text(damage(valid, rng, rng.randrange(12)), rng)
            repairs = Repairs()
            try:
                value = read_json(text, repairs, is_cut=rng.random() < 0.3)
                if kind == "types":
                    result = repair_types(value, repairs)
                    assert AgentTypes.model_validate(result.model_dump()) == result
                else:
                    repair_configuration(MISSION, value, repairs)
            except UnreadableError:
                continue
            except ValueError as error:
                message = str(error)
            else:
                message = ""
                usable += 1
            assert not message or re.search("node type|nodeTypes|prompts", message)
    assert usable > count / 3
