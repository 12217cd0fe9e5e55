"""What a weak model answers when it configures an agent becomes a configuration that works, or is told to be nonsense."""

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
from tests.support.assistant.making import (
    EDGE_TYPES,
    NODE_TYPES,
    a_property,
    configuration,
    edge_type,
    node_type,
    types,
)
from tests.support.mutating import broken_text, damaged
from tests.support.seeds import first_seed, repeatable, seed_count

MISSION = "Watch battery makers and their lithium supply"
LONG = "What good work is, at length. " * 10


def _types(given: Any) -> tuple[AgentTypes, str]:
    repairs = Repairs()
    made = repair_types(given, repairs)
    return made, " ".join(repairs.all_notes)


def test_what_fits_comes_back_equal_and_unnoted() -> None:
    repairs = Repairs()
    assert repair_types(types(), repairs) == AgentTypes.model_validate(types())
    assert repair_configuration(MISSION, configuration(), repairs) == (
        AgentConfiguration.model_validate(configuration())
    )
    assert repairs.all_notes == []


@pytest.mark.parametrize(
    ("written", "name"),
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
def test_node_types_are_named_in_pascal_case(written: str, name: str) -> None:
    made, told = _types(types(nodes=[node_type(written)], edges=[]))
    assert [each.name for each in made.node_types] == [name]
    assert (name == written) is ("was called" not in told)


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("SUPPLIES", "supplies"),
        ("SuppliesTo", "supplies_to"),
        ("Is Part Of", "is_part_of"),
        ("has-product", "has_product"),
        ("IS_PART_OF", "is_part_of"),
        ("supplies", "supplies"),
    ],
)
def test_edge_types_are_named_in_snake_case(written: str, name: str) -> None:
    made, _ = _types(types(edges=[edge_type(written)]))
    assert made.edge_types[0].name == name


def test_reserved_names_and_doubles_are_left_out() -> None:
    nodes = [*(node_type(name) for name in NODE_TYPES), node_type("agent_analysis")]
    nodes += [node_type("AgentAdvice"), node_type("makers", properties=[a_property(name="seat")])]
    edges = [*(edge_type(name) for name in EDGE_TYPES), edge_type("ABOUT"), edge_type("Buys")]
    made, told = _types(types(nodes=nodes, edges=edges))
    assert [each.name for each in made.node_types] == list(NODE_TYPES)
    assert [each.name for each in made.edge_types] == list(EDGE_TYPES)
    assert [each.name for each in made.node_types[0].properties] == ["outputTonnes", "seat"]
    for word in ("AgentAnalysis is the system's own", "Every agent has the edge type about"):
        assert word in told
    assert "The edge type buys came twice and was made one." in told


@pytest.mark.parametrize(
    ("ends", "meant"),
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
def test_ends_of_edges_are_the_node_types_that_are_meant(ends: Any, meant: list[str]) -> None:
    edges = [edge_type(name) for name in EDGE_TYPES]
    made, told = _types(types(edges=[*edges, edge_type("sells", targetTypes=ends)]))
    assert made.edge_types[-1].target_types == meant
    assert "sells.targetTypes" in told or "edgeTypes[6].targetTypes" in told


@pytest.mark.parametrize(
    ("given", "kind", "example"),
    [
        ({"type": "float", "example": "1,200 t"}, "number", 1200.0),
        ({"type": "int", "example": "12 staff"}, "integer", 12),
        ({"type": "number", "example": "much"}, "number", 1.5),
        ({"type": "bool", "example": "no"}, "boolean", False),
        ({"type": "datetime", "example": 2024}, "date", "2024-01-01"),
        ({"type": "string[]", "example": "one"}, "list", ["one"]),
        ({"type": "STRING", "example": 7}, "string", "7"),
        ({"type": "string", "enum": ["hot", "cold"], "example": "warm"}, "string", "hot"),
        ({"type": ["null", "integer"], "example": None}, "integer", 1),
        ({"type": "quaternion", "example": {}}, "string", "output tonnes"),
        ({"type": None, "example": 12}, "integer", 12),
    ],
)
def test_properties_have_a_kind_and_an_example_of_it(
    given: dict[str, Any], kind: str, example: Any
) -> None:
    made, told = _types(types(nodes=[node_type("Maker", properties=[a_property(**given)])]))
    [found] = made.node_types[0].properties
    assert (found.type, found.example) == (kind, example)
    assert "Maker.outputTonnes" in told


def test_ranges_are_wide_and_what_is_too_much_is_cut() -> None:
    few, told = _types(types(edges=[edge_type(name) for name in EDGE_TYPES[:5]]))
    assert len(few.edge_types) == 5
    assert "There are 5 edge types in place of at least 6; that is enough." in told
    properties = [a_property(name=f"p{n}") for n in range(20)]
    many, told = _types(
        types(
            nodes=[
                node_type(f"Type{'abcdefghijklmnop'[n]}", properties=properties) for n in range(16)
            ],
            edges=[edge_type(f"does_{'abcdefghijklmnopqrst'[n]}") for n in range(20)],
        )
    )
    assert (len(many.node_types), len(many.edge_types)) == (12, 15)
    assert len(many.node_types[0].properties) == 12
    assert "There were 16 node types; the first 12 are used." in told
    none, _ = _types(types(nodes=[node_type("Maker")], edges=[]))
    assert [each.name for each in none.edge_types] == ["related_to", "part_of", "affects"]
    assert all(each.source_types == ["Maker"] for each in none.edge_types)


def test_missing_fields_and_long_texts_are_filled_in_and_cut() -> None:
    bare = [{"name": name} for name in NODE_TYPES]
    made, _ = _types({"nodeTypes": bare, "edgeTypes": [{"name": name} for name in EDGE_TYPES]})
    assert made.node_types[0].description == "Maker, as the mission speaks of it."
    long = node_type(
        "Maker", description="word " * 500, properties=[a_property(enum=["x" * 9_000] * 9)]
    )
    cut, _ = _types(types(nodes=[long]))
    assert len(cut.node_types[0].description) <= 500


@pytest.mark.parametrize("given", [[], {}, "x", {"nodeTypes": []}, {"nodeTypes": ["", "!!"]}, None])
def test_nonsense_is_told(given: Any) -> None:
    with pytest.raises(ValueError, match="node"):
        repair_types(given, Repairs())
    with pytest.raises(ValueError, match="system prompts"):
        repair_configuration(MISSION, given, Repairs())


@pytest.mark.parametrize(
    ("given", "name"),
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
def test_each_missing_prompt_is_the_built_in_one(given: dict[str, Any], name: str) -> None:
    repairs = Repairs()
    made = repair_configuration(MISSION, given, repairs)
    assert made.name == name
    assert made.observer_system_prompt.startswith(LONG.strip())
    others = {phase: text for phase, text in made.prompts.items() if phase is not Phase.OBSERVER}
    assert others == {phase: default_configuration.PROMPTS[phase] for phase in others}
    assert (
        "The conversation prompt was missing or too short; the built-in one is used."
        in repairs.all_notes
    )


def test_what_is_built_in_is_fit_for_use() -> None:
    made = default_configuration.default_types()
    every: list[NewNodeType | NewEdgeType] = [*made.node_types, *made.edge_types]
    assert {"Organisation", "Person", "Place", "Event", "Product", "Measure", "Topic"} <= {
        each.name for each in made.node_types
    }
    for each in every:
        refuse_bad_schema(each.json_schema)
        Draft202012Validator(each.json_schema).validate(each.example)
    prompts = default_configuration.default_configuration(MISSION)
    assert prompts.name == "Battery Makers Lithium Watch"
    assert list(prompts.prompts) == list(PROMPTED_PHASES)
    assert all("data" in text and "instruction" in text for text in prompts.prompts.values())
    for mission in ("", "?!", "Was kostet Lithium?", "x" * 500, "\ud800 a/b", "監視"):
        assert default_configuration.name_from_mission(mission)


def test_what_a_small_model_answered_is_a_graph_that_works() -> None:
    """Qwen2.5-Coder with 1.5 billion parameters, on llama.cpp, without a grammar: types without descriptions or ends."""
    repairs = Repairs()
    text = (Path(__file__).parent / "small_model_types.txt").read_text()
    made = repair_types(read_json(text, repairs), repairs)
    names = [each.name for each in made.node_types]
    assert names == ["Supplier", "Product", "Market", "Opportunity"]
    assert len(made.edge_types) == 4
    assert all(each.source_types == names for each in made.edge_types)
    assert {each.type for each in made.node_types[0].properties} == {"string"}
    assert len(repairs) > 40


@pytest.mark.parametrize("what", ["types", "configuration"])
def test_random_damage_ends_in_what_is_valid_or_told(what: str) -> None:
    begin, usable = first_seed(), 0
    count = seed_count() or 200
    for seed in range(begin, begin + count):
        with repeatable(seed):
            rng = random.Random(seed)
            valid = types() if what == "types" else configuration()
            text = broken_text(damaged(valid, rng, rng.randrange(12)), rng)
            repairs = Repairs()
            try:
                value = read_json(text, repairs, is_cut=rng.random() < 0.3)
                if what == "types":
                    made = repair_types(value, repairs)
                    assert AgentTypes.model_validate(made.model_dump()) == made
                else:
                    repair_configuration(MISSION, value, repairs)
            except UnreadableError:
                continue
            except ValueError as error:
                told = str(error)
            else:
                told = ""
                usable += 1
            assert not told or re.search("node type|nodeTypes|prompts", told)
    assert usable > count / 3
