"""Tool calls as a weak model writes them, and what is no call however much it looks like one."""

import json
import random
from dataclasses import replace
from typing import Any, Literal
from uuid import UUID

import pytest
from pydantic import Field, ValidationError
from sqlalchemy.ext.asyncio import AsyncSession

from shared.llm.messages import ChatAnswer, ToolCall, assistant_message
from shared.llm.repair import Repairs
from shared.llm.tool_calls import arguments_of, call_repairs, understood
from shared.tools import Arguments, Json, StateTool
from tests.support.mutating import broken_text, damaged
from tests.support.seeds import first_seed, repeatable, seed_count

NODE = "85d48d86-daca-506d-8dce-f463264aab4d"
GIVEN: Json = {
    "name": "Ghana",
    "sourceId": NODE,
    "properties": {"area": 1},
    "aliases": ["Gold Coast"],
    "confidence": 0.5,
    "action": "BUY",
}


class Wanted(Arguments):
    name: str
    source_id: UUID
    properties: dict[str, Any]
    aliases: list[str] = Field(default_factory=list)
    confidence: float | None = None
    action: Literal["BUY", "SELL"] = "SELL"


async def _run(session: AsyncSession, given: Wanted) -> Json:
    return {}


TOOL = StateTool("addGraphNode", "Adds.", Wanted, _run)
NAMES = ["addGraphNode", "queryGraph"]


def _answer(text: str | None = None, *calls: tuple[str, str]) -> ChatAnswer:
    made = [ToolCall(str(at), name, given) for at, (name, given) in enumerate(calls)]
    return ChatAnswer(assistant_message(text, made), "stop")


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "queryGraph", "arguments": {"text": "x"}}',
        '```json\n{"name": "queryGraph", "arguments": {"text": "x"}}\n```',
        '<tool_call>\n{"name": "queryGraph", "arguments": {"text": "x"}}\n</tool_call>',
        '<think>Which one?</think>\n<tool_call>{"name":"queryGraph","arguments":{"text":"x"}}',
        '[TOOL_CALLS] [{"name": "queryGraph", "arguments": {"text": "x"}}]',
        '<|python_tag|>{"name": "query_graph", "parameters": {"text": "x"}}',
        '{"type": "function", "function": {"name": "queryGraph", "arguments": "{\\"text\\": \\"x\\"}"}}',
        '{"tool": "functions.queryGraph", "args": {"text": "x"}}',
        '{{"name": "queryGraph", "arguments": {"text": "x"}}',
        '```json\n{{"name": "searchGraph", "arguments": {"text": "x"}}}\n```',
    ],
)
def test_an_answer_that_consists_of_calls_is_one(text: str) -> None:
    said = _answer(text)
    read = understood(said, NAMES)
    [call] = read.tool_calls
    assert (call.name, json.loads(call.arguments)) == ("queryGraph", {"text": "x"})
    assert read.text == ""
    assert read.message["tool_calls"][0]["id"] == call.id
    assert [each.all_notes for each in call_repairs(said, read)] == [
        ["The call was written as text."]
    ]
    assert understood(said, NAMES) == read, "a resumed run reads the same"


def test_several_calls_have_ids_of_their_own() -> None:
    call = '{"name": "queryGraph", "arguments": {}}'
    for text in (
        f"{call}\n{call}",
        f"[{call}, {call}]",
        f"```json\n{call}\n```\n```json\n{call}\n```",
    ):
        ids = [each.id for each in understood(_answer(text), NAMES).tool_calls]
        assert len(set(ids)) == len(ids) == 2


def test_of_calls_that_the_limit_cut_off_the_whole_ones_are_made() -> None:
    text = '{{"name": "createGraphNode", "arguments": {"name": "Oil"}}\n' * 3
    cut = replace(_answer(text + '{{"name": "createGra'), finish_reason="length")
    assert [call.name for call in understood(cut, NAMES).tool_calls] == ["addGraphNode"] * 3
    stopped = replace(cut, finish_reason="stop")
    assert understood(stopped, NAMES) is stopped
    only_cut = replace(_answer('{"name": "queryGra'), finish_reason="length")
    assert understood(only_cut, NAMES) is only_cut


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
def test_what_is_more_than_calls_stays_a_text(text: str) -> None:
    said = _answer(text)
    assert understood(said, NAMES) is said


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("addGraphNode", "addGraphNode"),
        ("add_graph_node", "addGraphNode"),
        ("functions.addGraphNode", "addGraphNode"),
        ("ADDGRAPHNODE", "addGraphNode"),
        ("tools/query-graph", "queryGraph"),
        ("createGraphNode", "addGraphNode"),
        ("insert_graph_node", "addGraphNode"),
        ("SearchGraph", "queryGraph"),
        ("createNodeType", "createNodeType"),
        ("removeGraphNode", "removeGraphNode"),
        ("", ""),
    ],
)
def test_names_are_those_of_tools_where_they_are_meant(name: str, meant: str) -> None:
    said = _answer(None, (name, "{}"))
    read = understood(said, NAMES)
    assert [call.name for call in read.tool_calls] == [meant]
    assert [call.id for call in read.tool_calls] == [call.id for call in said.tool_calls]
    assert bool(call_repairs(said, read)[0]) is (name != meant)


@pytest.mark.parametrize(
    ("arguments", "sent_back"),
    [
        ('{"a": 1}', '{"a": 1}'),
        ("{'a': 1,}", '{"a": 1}'),
        ("", "{}"),
        ("three of them", "{}"),
        ("[1, 2]", "{}"),
    ],
)
def test_what_is_sent_back_to_the_server_is_always_json(arguments: str, sent_back: str) -> None:
    read = understood(_answer(None, ("queryGraph", arguments)), NAMES)
    assert read.message["tool_calls"][0]["function"]["arguments"] == sent_back


@pytest.mark.parametrize(
    ("given", "is_noted"),
    [
        (GIVEN, False),
        ({**GIVEN, "confidence": "0.5"}, False),
        ({"arguments": GIVEN}, True),
        ({"parameters": json.dumps(GIVEN)}, True),
        ({"name": "addGraphNode", "arguments": GIVEN}, True),
        ({**GIVEN, "sourceId": f"[node:{NODE}]"}, False),
        ({**GIVEN, "aliases": "Gold Coast"}, True),
        ({**GIVEN, "properties": '{"area": 1}'}, True),
        ({**GIVEN, "properties": [{"name": "area", "value": 1}]}, True),
        ({**GIVEN, "action": "buy"}, True),
        ({**GIVEN, "Source ID": NODE, "sourceId": None} | {"more": None}, True),
        ({("Name" if key == "name" else key): value for key, value in GIVEN.items()}, True),
    ],
)
def test_arguments_are_understood_where_they_are_unambiguous(given: Json, is_noted: bool) -> None:
    if given.get("sourceId", "") is None:
        del given["sourceId"]
    repairs = Repairs()
    assert arguments_of(TOOL, json.dumps(given), repairs) == Wanted.model_validate(GIVEN)
    assert bool(repairs) is is_noted


def test_nothing_that_is_left_out_has_another_value_than_its_own() -> None:
    made = arguments_of(
        TOOL, json.dumps({**GIVEN, "aliases": None, "confidence": "null"}), Repairs()
    )
    assert made == Wanted.model_validate({**GIVEN, "aliases": [], "confidence": None})


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("no JSON", "Invalid JSON"),
        (json.dumps({**GIVEN, "because": "so"}), "because"),
        (json.dumps({**GIVEN, "action": "HOLD"}), "action"),
        (json.dumps({**GIVEN, "confidence": "very"}), "confidence"),
        ("{}", "name"),
    ],
)
def test_what_is_ambiguous_is_refused(text: str, told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        arguments_of(TOOL, text, Repairs())


def test_random_damage_is_understood_or_refused() -> None:
    begin, fit = first_seed(), 0
    count = seed_count() or 400
    for seed in range(begin, begin + count):
        with repeatable(seed):
            rng = random.Random(seed)
            text = broken_text(damaged(GIVEN, rng, rng.randrange(4)), rng)
            said = _answer(None, ("add_graph_node", text))
            read = understood(said, NAMES)
            assert isinstance(json.loads(read.tool_calls[0].arguments), dict)
            assert understood(_answer(text), NAMES).message is not None
            try:
                arguments_of(TOOL, read.tool_calls[0].arguments, Repairs())
            except ValidationError:
                continue
            fit += 1
    assert fit > count / 5
