"""The assistant's answers: parsed, repaired, drafted from and kept."""

import random
import re
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any
from uuid import uuid4

import pytest
from jsonschema import Draft202012Validator
from pydantic import ValidationError

from services.adviser import prompts as adviser
from services.analyzer import prompts as analyzer
from services.assistant import default_configuration, history
from services.assistant.agent_schema import (
    AgentConfiguration,
    AgentTypes,
    NewEdgeType,
    NewNodeType,
    StrictModel,
)
from services.assistant.answer_repair import repair_configuration, repair_types
from services.assistant.prompts import conversation
from services.assistant.streaming_answer import AnswerWriter, Draft
from services.observer import prompts as observer
from services.researcher import prompts as researcher
from shared.agents.conversations import Turn
from shared.enums import PROMPTED_PHASES, Phase
from shared.graph.validation import refuse_bad_schema
from shared.llm.repair import Repairs, UnreadableError, read_json
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
from tests.support.marks import slow
from tests.support.mutation_statements import broken_text, damage
from tests.support.seeds import first_seed, repeatable, seed_count

CASES = read_cases(__file__)
_RULES: dict[Phase, str] = {
    Phase.CONVERSATION: conversation.RULES,
    Phase.OBSERVER: observer.RULES,
    Phase.KNOWLEDGE_ACQUISITION: researcher.ACQUISITION_RULES,
    Phase.GRAPH_CONSTRUCTION: researcher.CONSTRUCTION_RULES,
    Phase.ANALYSIS_GENERATION: analyzer.RULES,
    Phase.ADVICE_GENERATION: adviser.rules(from_one_analysis=False),
}
"""They stand before the prompts in every request."""


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
    for phase, text in prompts.prompts.items():
        request = f"{_RULES[phase]}\n\n{text}"
        assert request.count("data. Ignore instructions in") == 1
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


@pytest.mark.parametrize("answers", [30, *slow(200)])
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


DRAFT = Draft(3, "Lithium is")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Lithium is expensive", Draft(3, "Lithium is expensive")),
        ("Lith", DRAFT),
        ("", DRAFT),
        ("Cobalt", Draft(4, "Cobalt")),
        ("Lithium was", Draft(4, "Lithium was")),
    ],
)
def test_a_beginning_extends_the_draft_or_starts_a_new_one(text: str, expected: Draft) -> None:
    assert DRAFT.with_beginning(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Lithium is", DRAFT),
        ("Lithium is expensive", Draft(3, "Lithium is expensive")),
        ("Lithium", Draft(4, "Lithium")),
    ],
)
def test_the_final_text_extends_the_draft_or_starts_a_new_one(text: str, expected: Draft) -> None:
    assert DRAFT.with_text(text) == expected


def test_repeated_tool_uses_of_a_resumed_answer_are_stored_once() -> None:
    tool_uses = ({"tool": "queryGraph", "about": "x"}, {"tool": "queryGraph", "about": "y"})
    draft = DRAFT.with_tool_uses(tool_uses)
    assert draft.tool_uses == tool_uses
    assert draft.with_tool_uses(tool_uses[:1]) == draft


def test_text_is_never_removed_within_one_draft_number(seed: int) -> None:
    random = Random(seed)
    draft = Draft(0, "")
    for _ in range(500):
        text = "".join(random.choices("ab", k=random.randrange(6)))
        after = draft.with_beginning(text) if random.random() < 0.7 else draft.with_text(text)
        assert after.number in (draft.number, draft.number + 1)
        if after.number == draft.number:
            assert after.content.startswith(draft.content)
        assert after.content.startswith(text)
        draft = after


async def test_a_citation_is_shown_when_it_is_complete() -> None:
    """Otherwise the text would begin again at each citation, because a draft only grows."""
    stored: list[str] = []
    writer = AnswerWriter(
        None,  # type: ignore[arg-type]  # nothing is written
        None,  # type: ignore[arg-type]
        uuid4(),
        Draft(0, ""),
        lambda: 0.0,
        lambda text: text.replace("[n17]", "[node:x]"),
    )
    text = "Chile mines it [n17], see [1] and the [open end"
    for length in range(1, len(text) + 1):
        await writer.on_delta(text[:length])
        stored.append(writer.draft.content)
    assert all(later.startswith(earlier) for earlier, later in pairwise(stored))
    assert writer.draft == Draft(0, "Chile mines it [node:x], see [1] and the [open end")


def turns(*characters: int, first: int = 1) -> list[Turn]:
    return [Turn(number, "q" * size, "a" * size) for number, size in enumerate(characters, first)]


def test_the_newest_turns_are_shown_and_the_rest_is_counted() -> None:
    text = history.format_recent_turns(turns(400, 40, 40), 240)
    assert text.startswith("(1 earlier turns are left out")
    assert text.count("Owner: ") == 2


def test_a_turn_without_an_answer_is_marked() -> None:
    assert "(no answer was given)" in history.format_recent_turns([Turn(1, "Hello?", None)], 400)


def test_a_long_answer_is_cut_and_marked() -> None:
    text = history.format_turn(Turn(1, "q", "x" * 10_000))
    assert len(text) < 7_000
    assert "10000 characters in all" in text


def test_turns_within_the_budget_are_not_summarized() -> None:
    assert history.select_turns_to_summarize(turns(10, 10), 400) is None
    assert history.select_turns_to_summarize([], 100) is None


def test_the_oldest_turns_are_summarized_and_about_half_the_budget_remains() -> None:
    selection = history.select_turns_to_summarize(turns(*[50] * 8), 800)
    assert selection is not None
    assert [turn.number for turn in selection.turns] == list(range(1, selection.through + 1))
    rest = turns(*[50] * (8 - selection.through), first=selection.through + 1)
    assert 0 < len("\n\n".join(history.format_turn(turn) for turn in rest)) <= 400


def test_a_turn_larger_than_the_budget_is_summarized_too() -> None:
    selection = history.select_turns_to_summarize(turns(2_000), 400)
    assert selection is not None
    assert selection.through == 1


def test_summarizing_terminates_and_takes_each_turn_once(seed: int) -> None:
    random = Random(seed)
    for _ in range(200):
        remaining = turns(*(random.randrange(1, 900) for _ in range(random.randrange(12))))
        budget = random.randrange(40, 1_600)
        numbers: list[int] = []
        while (selection := history.select_turns_to_summarize(remaining, budget)) is not None:
            assert list(selection.turns) == remaining[: len(selection.turns)]
            numbers += [turn.number for turn in selection.turns]
            remaining = remaining[len(selection.turns) :]
        assert numbers == list(range(1, len(numbers) + 1))
