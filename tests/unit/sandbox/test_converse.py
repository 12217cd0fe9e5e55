"""Conversations, and answers by unknown schemas."""

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from sandbox.model import ChatRequest, Phase, phase_of
from tests.support.sandbox.asking import (
    ADVICE,
    ANALYSIS,
    CONSTRUCTION,
    answer,
    arguments,
    followed,
    request,
)

MISSION = "Watch wheat prices in Argentina"


def test_answers_with_the_nearest_sentence_it_was_sent_and_says_what_it_is() -> None:
    messages = [
        {"role": "user", "content": "Wheat costs 210 dollars. Rain fell in Cordoba."},
        {"role": "assistant", "content": "Noted."},
        {"role": "user", "content": [{"type": "text", "text": "What does wheat cost?"}]},
    ]
    told = answer({"messages": messages}).text
    assert "I am the sandbox reader" in told
    assert "- Wheat costs 210 dollars." in told
    assert "Rain" not in told


def test_says_when_it_has_nothing() -> None:
    assert (
        "nothing I was sent" in answer({"messages": [{"role": "user", "content": "Who won?"}]}).text
    )


def test_asks_the_graph_and_then_answers_from_it() -> None:
    asked = request({}, ("queryGraph",))
    asked["messages"][-1]["content"] = "What about Ghana?"
    look = answer(asked)
    assert arguments(look, "queryGraph")[0]["text"] == "Ghana"
    node = {"name": "Ghana", "properties": {"summary": "Ghana exports gold."}}
    told = followed(asked, look, [{"nodes": [node], "edges": []}])
    assert "- Ghana exports gold." in answer(told).text


@pytest.mark.parametrize(
    ("tools", "phase"),
    [
        (CONSTRUCTION, Phase.GRAPH_CONSTRUCTION),
        (ANALYSIS, Phase.ANALYSIS_GENERATION),
        (ADVICE, Phase.ADVICE_GENERATION),
        (("tavilySearch",), Phase.KNOWLEDGE_ACQUISITION),
        (("queryGraph", "tavilySearch"), Phase.CONVERSATION),
        (("somethingElse",), Phase.CONVERSATION),
        ((), Phase.CONVERSATION),
    ],
)
def test_tools_tell_the_phase(tools: tuple[str, ...], phase: Phase) -> None:
    assert phase_of(ChatRequest(request({"mission": MISSION}, tools))) is phase


@pytest.mark.parametrize(
    "messages", [None, [], [None, 3], [{"role": "user"}], [{"role": "user", "content": 7}]]
)
def test_odd_messages_are_answered_too(messages: Any) -> None:
    assert answer({"messages": messages}).text


@pytest.mark.parametrize(
    "schema",
    [
        {
            "type": "object",
            "properties": {"name": {"type": "string", "maxLength": 8}},
            "required": ["name"],
        },
        {
            "type": "object",
            "properties": {"prompt": {"type": "string", "minLength": 400}},
            "required": ["prompt"],
        },
        {
            "type": "object",
            "properties": {
                "kind": {"enum": ["a", "b"]},
                "fixed": {"const": 3},
                "share": {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
                "count": {"type": "integer", "minimum": 2},
                "tags": {"type": "array", "items": {"type": "string"}, "minItems": 2},
                "when": {"type": "string", "format": "date-time"},
                "maybe": {"anyOf": [{"type": "integer", "minimum": 5}, {"type": "null"}]},
                "either": {"type": ["null", "boolean"]},
            },
            "required": ["kind", "fixed", "share", "count", "tags", "when", "maybe", "either"],
            "additionalProperties": False,
        },
        {
            "$defs": {
                "Part": {
                    "type": "object",
                    "properties": {"text": {"type": "string"}},
                    "required": ["text"],
                }
            },
            "type": "object",
            "properties": {
                "part": {"$ref": "#/$defs/Part"},
                "all": {"allOf": [{"$ref": "#/$defs/Part"}]},
            },
            "required": ["part", "all"],
        },
    ],
)
def test_any_schema_is_satisfied(schema: dict[str, Any]) -> None:
    given = json.loads(answer(request({"mission": MISSION}, schema=schema, name="anything")).text)
    Draft202012Validator(schema).validate(given)


def test_texts_speak_of_the_mission() -> None:
    schema = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "prompt": {"type": "string"}},
    }
    given = json.loads(answer(request({"mission": MISSION}, schema=schema, name="anything")).text)
    assert given == {"name": "Wheat prices Argentina", "prompt": f"Prompt: {MISSION}"}


NODE_ID = "0f8fad5b-d9cb-469f-a165-70867728950e"
CONTEXT = f'- [node:{NODE_ID}] Country "Ghana" {{"summary": "Ghana exports gold."}}'
TALK = ("queryGraph", "tavilySearch", "remember")


def talk(message: str, **sections: str) -> dict[str, Any]:
    return request({"mission": MISSION, **sections, "message": message}, TALK)


def test_what_the_context_says_is_cited() -> None:
    asked = talk("What does Ghana export?", graph_context=CONTEXT)
    told = followed(asked, answer(asked), [{"nodes": [], "edges": []}] * 2)
    assert f"- Ghana exports gold. [node:{NODE_ID}]" in answer(told).text


def test_it_searches_only_where_the_graph_says_nothing() -> None:
    asked = talk("Who won in Togo?", graph_context=CONTEXT)
    looked = answer(asked)
    told = followed(asked, looked, [{"nodes": [], "edges": []}] * len(looked.calls))
    search = answer(told)
    assert [call.name for call in search.calls] == ["tavilySearch"]
    hit = {"title": "Togo", "url": "https://togo.example", "excerpt": "Togo won again."}
    assert (
        "Togo won again. https://togo.example"
        in answer(followed(told, search, [{"results": [hit]}])).text
    )


@pytest.mark.parametrize(
    ("message", "kind", "content"),
    [
        ("Please also watch cobalt prices.", "wish", "Watch cobalt prices."),
        ("Remember that I own shares of Halden.", "fact", "I own shares of Halden."),
        ("I prefer European makers.", "wish", "I prefer European makers."),
        ("Hi, remember that I want no options.", "wish", "I want no options."),
    ],
)
def test_what_is_wished_is_remembered_in_the_users_own_words(
    message: str, kind: str, content: str
) -> None:
    asked = talk(message)
    calls = answer(asked)
    [given] = arguments(calls, "remember")
    assert given == {"kind": kind, "content": content, "quote": message}
    told = answer(followed(asked, calls, [{"remembered": content}]))
    assert content in told.text
    assert not told.calls


@pytest.mark.parametrize("message", ["What do I prefer?", "Do you watch cobalt?", "Ghana is hot."])
def test_questions_and_remarks_are_not_remembered(message: str) -> None:
    assert arguments(answer(talk(message)), "remember") == []


def test_it_says_what_it_is_doing_and_what_it_remembers() -> None:
    doing = answer(talk("What are you doing right now?", current_state="Iteration 4 runs."))
    assert "Iteration 4 runs." in doing.text
    kept = answer(talk("What do you remember?", memories="- wish: Watch cobalt."))
    assert "wish: Watch cobalt." in kept.text
    assert "nothing" in answer(talk("What do you remember?")).text


def test_older_turns_are_summarized() -> None:
    older = "Owner: What of Ghana?\nAgent: It exports gold. And cocoa."
    told = answer(request({"summary_so_far": "Togo was asked about.", "older_turns": older})).text
    assert told == "Togo was asked about.\nThe owner said: What of Ghana?\nIt exports gold."
