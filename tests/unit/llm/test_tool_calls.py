"""Tool calls as a weak model writes them, and text that only resembles a call."""

import json
import random
import time
from dataclasses import replace
from typing import Any, Literal
from uuid import UUID

import pytest
from pydantic import Field, ValidationError

from shared.database.transaction import Transaction
from shared.llm.messages import ChatAnswer, ToolCall, assistant_message
from shared.llm.repair import Repairs
from shared.llm.tool_calls import call_repairs, normalize_tool_calls, parse_arguments
from shared.tools import Arguments, Json, StateTool
from tests.support.case_files import read_cases
from tests.support.mutation_statements import broken_text, damage
from tests.support.seeds import first_seed, repeatable, seed_count

CASES = read_cases(__file__)

NODE = "85d48d86-daca-506d-8dce-f463264aab4d"
ARGUMENTS: Json = {
    "name": "Ghana",
    "sourceId": NODE,
    "properties": {"area": 1},
    "aliases": ["Gold Coast"],
    "confidence": 0.5,
    "action": "BUY",
}


class NodeArguments(Arguments):
    name: str
    source_id: UUID
    properties: dict[str, Any]
    aliases: list[str] = Field(default_factory=list)
    confidence: float | None = None
    action: Literal["BUY", "SELL"] = "SELL"


async def _run(session: Transaction, arguments: NodeArguments) -> Json:
    return {}


TOOL = StateTool("addGraphNode", "Adds.", NodeArguments, _run)
NAMES = ["addGraphNode", "queryGraph"]


def _answer(text: str | None = None, *calls: tuple[str, str]) -> ChatAnswer:
    tool_calls = [
        ToolCall(str(index), name, arguments) for index, (name, arguments) in enumerate(calls)
    ]
    return ChatAnswer(assistant_message(text, tool_calls), "stop")


@pytest.mark.parametrize("text", CASES["a_text_that_consists_of_calls_is_parsed_as_calls"])
def test_a_text_that_consists_of_calls_is_parsed_as_calls(text: str) -> None:
    answer = _answer(text)
    parsed = normalize_tool_calls(answer, NAMES)
    [call] = parsed.tool_calls
    assert (call.name, json.loads(call.arguments)) == ("queryGraph", {"text": "x"})
    assert parsed.text == ""
    assert parsed.message["tool_calls"][0]["id"] == call.id
    assert [repairs.all_notes for repairs in call_repairs(answer, parsed)] == [
        ["The call was written as text."]
    ]
    assert normalize_tool_calls(answer, NAMES) == parsed, (
        "a resumed phase run parses the same calls"
    )


def test_several_calls_have_distinct_ids() -> None:
    call_text = '{"name": "queryGraph", "arguments": {}}'
    for text in (
        f"{call_text}\n{call_text}",
        f"[{call_text}, {call_text}]",
        f"```json\n{call_text}\n```\n```json\n{call_text}\n```",
    ):
        ids = [call.id for call in normalize_tool_calls(_answer(text), NAMES).tool_calls]
        assert len(set(ids)) == len(ids) == 2


def test_complete_calls_of_a_truncated_answer_are_parsed() -> None:
    text = '{{"name": "createGraphNode", "arguments": {"name": "Oil"}}\n' * 3
    cut = replace(_answer(text + '{{"name": "createGra'), finish_reason="length")
    assert [call.name for call in normalize_tool_calls(cut, NAMES).tool_calls] == [
        "addGraphNode"
    ] * 3
    stopped = replace(cut, finish_reason="stop")
    assert normalize_tool_calls(stopped, NAMES) is stopped
    only_cut = replace(_answer('{"name": "queryGra'), finish_reason="length")
    assert normalize_tool_calls(only_cut, NAMES) is only_cut


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Written.",
        'The page says: {"name": "queryGraph", "arguments": {}}',
        '{"name": "queryGraph", "arguments": {}} as the page demands',
        '```json\n{"name": "queryGraph", "arguments": {}}\n```\nThat is what stood there.',
        '{"name": "deleteEverything", "arguments": {}}',
        '{"name": "queryGraph", "arguments": {}} {"name": "deleteEverything"}',
        '{"name": "Ghana", "area": 1}',
        '{"name": "queryGraph", "arguments": {}, "because": "the page says so"}',
        '["queryGraph"]',
        '{"name": "queryGraph", "arguments": {',
        "[" * 50_000,
        "{}",
        "[]",
        "3",
    ],
)
def test_a_text_with_more_than_calls_stays_a_text(text: str) -> None:
    answer = _answer(text)
    assert normalize_tool_calls(answer, NAMES) is answer


@pytest.mark.parametrize(("name", "expected"), CASES["similar_tool_names_are_corrected"])
def test_similar_tool_names_are_corrected(name: str, expected: str) -> None:
    answer = _answer(None, (name, "{}"))
    parsed = normalize_tool_calls(answer, NAMES)
    assert [call.name for call in parsed.tool_calls] == [expected]
    assert [call.id for call in parsed.tool_calls] == [call.id for call in answer.tool_calls]
    assert bool(call_repairs(answer, parsed)[0]) is (name != expected)


@pytest.mark.parametrize(
    ("arguments", "expected"), CASES["arguments_sent_back_to_the_server_are_always_a_json_object"]
)
def test_arguments_sent_back_to_the_server_are_always_a_json_object(
    arguments: str, expected: str
) -> None:
    parsed = normalize_tool_calls(_answer(None, ("queryGraph", arguments)), NAMES)
    assert parsed.message["tool_calls"][0]["function"]["arguments"] == expected


@pytest.mark.parametrize(
    ("arguments", "has_note"),
    [
        (ARGUMENTS, False),
        ({**ARGUMENTS, "confidence": "0.5"}, False),
        ({"arguments": ARGUMENTS}, True),
        ({"parameters": json.dumps(ARGUMENTS)}, True),
        ({"name": "addGraphNode", "arguments": ARGUMENTS}, True),
        ({**ARGUMENTS, "sourceId": f"[node:{NODE}]"}, False),
        ({**ARGUMENTS, "aliases": "Gold Coast"}, True),
        ({**ARGUMENTS, "properties": '{"area": 1}'}, True),
        ({**ARGUMENTS, "properties": [{"name": "area", "value": 1}]}, True),
        ({**ARGUMENTS, "action": "buy"}, True),
        ({**ARGUMENTS, "Source ID": NODE, "sourceId": None} | {"more": None}, True),
        ({("Name" if key == "name" else key): value for key, value in ARGUMENTS.items()}, True),
    ],
)
def test_unambiguous_arguments_are_repaired(arguments: Json, has_note: bool) -> None:
    if arguments.get("sourceId", "") is None:
        del arguments["sourceId"]
    repairs = Repairs()
    assert parse_arguments(TOOL, json.dumps(arguments), repairs) == NodeArguments.model_validate(
        ARGUMENTS
    )
    assert bool(repairs) is has_note


def test_null_arguments_get_their_defaults() -> None:
    parsed = parse_arguments(
        TOOL, json.dumps({**ARGUMENTS, "aliases": None, "confidence": "null"}), Repairs()
    )
    assert parsed == NodeArguments.model_validate({**ARGUMENTS, "aliases": [], "confidence": None})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("no JSON", "Invalid JSON"),
        (json.dumps({**ARGUMENTS, "because": "so"}), "because"),
        (json.dumps({**ARGUMENTS, "action": "HOLD"}), "action"),
        (json.dumps({**ARGUMENTS, "confidence": "very"}), "confidence"),
        ("{}", "name"),
    ],
)
def test_ambiguous_arguments_are_rejected(text: str, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        parse_arguments(TOOL, text, Repairs())


def test_randomly_damaged_calls_are_parsed_or_rejected() -> None:
    start, accepted = first_seed(), 0
    count = seed_count() or 400
    for seed in range(start, start + count):
        with repeatable(seed):
            rng = random.Random(seed)
            text = broken_text(damage(ARGUMENTS, rng, rng.randrange(4)), rng)
            answer = _answer(None, ("add_graph_node", text))
            parsed = normalize_tool_calls(answer, NAMES)
            assert isinstance(json.loads(parsed.tool_calls[0].arguments), dict)
            assert normalize_tool_calls(_answer(text), NAMES).message is not None
            try:
                parse_arguments(TOOL, parsed.tool_calls[0].arguments, Repairs())
            except ValidationError:
                continue
            accepted += 1
    assert accepted > count / 5


@pytest.mark.parametrize(
    "text",
    [
        "<function=queryGraph>" + "<parameter=a>" * 20_000,
        "<queryGraph>" * 20_000,
        "queryGraph(" * 5_000,
        "queryGraph(a=\n" * 20_000,
        "<|channel|>" * 20_000,
        "Action: queryGraph" + "\n" * 300_000,
        "<think>" * 40_000,
        "a</think>" * 30_000,
        "```" * 100_000,
        " " * 300_000 + "x",
    ],
    ids=lambda text: text.strip()[:20],
)
def test_hostile_text_is_read_in_bounded_time(text: str) -> None:
    started = time.process_time()
    normalize_tool_calls(_answer(text), NAMES)
    assert time.process_time() - started < 2
