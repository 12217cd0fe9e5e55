"""Chat requests converted to the Responses API, and its responses converted to chat answers."""

import re
from dataclasses import replace
from typing import Any

import pytest

from shared.llm.answer_errors import AnswerError
from shared.llm.background_provider import parse_response, request_body
from shared.llm.messages import ChatAnswer, ChatRequest, assistant_message
from shared.llm.messages import ToolCall as Call
from tests.support.sandbox.responses import to_chat_body

USAGE = {
    "input_tokens": 7,
    "output_tokens": 5,
    "total_tokens": 12,
    "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
    "output_tokens_details": {"reasoning_tokens": 2},
}
TOOL = {
    "type": "function",
    "function": {"name": "find", "description": "Finds.", "parameters": {"type": "object"}},
}
SCHEMA = {
    "type": "json_schema",
    "json_schema": {"name": "plan", "strict": True, "schema": {"type": "object"}},
}
SYSTEM = {"role": "system", "content": "You plan."}
USER = {"role": "user", "content": "Go on."}
REPLIES = [
    {"role": "tool", "tool_call_id": "a", "content": "{}"},
    {"role": "tool", "tool_call_id": "b", "content": "[1]"},
]


def response(*output: dict[str, Any], status: str = "completed", **more: Any) -> ChatAnswer:
    return parse_response(
        "the server",
        {
            "id": "resp_1",
            "object": "response",
            "created_at": 0,
            "model": "m",
            "status": status,
            "output": list(output),
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "usage": USAGE,
            **more,
        },
    )


def message(text: str, **more: Any) -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": []}
    return {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [part],
        **more,
    }


def function_call(call_id: str, name: str = "find", arguments: str = "{}") -> dict[str, Any]:
    return {
        "type": "function_call",
        "id": "fc_1",
        "call_id": call_id,
        "name": name,
        "arguments": arguments,
    }


REASONING = {"type": "reasoning", "id": "rs_1", "summary": []}
CONVERSATION = ChatRequest(
    "m",
    (
        SYSTEM,
        USER,
        assistant_message("Let me see.", [Call("a", "find", "{}"), Call("b", "find", "{}")]),
        *REPLIES,
        USER,
    ),
    (TOOL,),
)


@pytest.mark.parametrize(
    "request_",
    [
        ChatRequest("m", (SYSTEM, USER), (), SCHEMA),
        CONVERSATION,
        ChatRequest("m", (SYSTEM, USER, assistant_message(None, [Call("a", "find", "{")]))),
        ChatRequest("m", (USER, {"role": "assistant", "content": "no JSON"}, USER), (), SCHEMA),
    ],
)
def test_a_request_survives_the_round_trip(request_: ChatRequest) -> None:
    assert to_chat_body(request_body(request_)) == request_.body


def test_tool_calls_and_results_are_items_with_a_shared_call_id() -> None:
    kinds = [(item["type"], item.get("call_id")) for item in request_body(CONVERSATION)["input"]]
    assert kinds == [
        ("message", None),
        ("message", None),
        ("message", None),
        ("function_call", "a"),
        ("function_call", "b"),
        ("function_call_output", "a"),
        ("function_call_output", "b"),
        ("message", None),
    ]
    assert not any("id" in item for item in request_body(CONVERSATION)["input"])


def test_options_have_their_place_in_the_body() -> None:
    options = {"reasoning_effort": "low", "verbosity": "low", "service_tier": "flex"}
    body = request_body(replace(CONVERSATION, options=options, cache_key="agent:observer"))
    assert body["reasoning"] == {"effort": "low"}
    assert body["text"]["verbosity"] == "low"
    assert (body["service_tier"], body["prompt_cache_key"]) == ("flex", "agent:observer")
    assert "text" not in request_body(ChatRequest("m", (USER,)))


def test_tool_schemas_are_not_strict() -> None:
    assert request_body(CONVERSATION)["tools"][0]["strict"] is False


def test_an_answer_has_text_and_token_counts() -> None:
    answer = response(REASONING, message("Done.\x00"))
    assert (answer.text, answer.finish_reason) == ("Done.", "stop")
    assert (answer.input_tokens, answer.output_tokens) == (7, 5)
    assert answer.tool_calls == []


def test_calls_with_the_same_id_get_distinct_ids() -> None:
    answer = response(REASONING, message("I look."), function_call("c"), function_call("c", "read"))
    first, second = answer.tool_calls
    assert (first.id, first.name, second.name) == ("c", "find", "read")
    assert re.fullmatch("[a-z0-9]{9}", second.id)
    assert (answer.text, answer.finish_reason) == ("I look.", "tool_calls")


def test_the_final_answer_excludes_the_commentary() -> None:
    commentary = message("I will now write JSON. ", phase="commentary")
    assert response(commentary, message("{}", phase="final_answer")).text == "{}"
    assert response(commentary).text == "I will now write JSON. "


@pytest.mark.parametrize("reason", ["max_output_tokens", None])
def test_a_truncated_answer_has_the_finish_reason_length(reason: str | None) -> None:
    details = {"reason": reason} if reason else None
    answer = response(message("Half"), status="incomplete", incomplete_details=details)
    assert (answer.text, answer.finish_reason) == ("Half", "length")


def test_the_reasoning_of_a_message_with_calls_is_sent_back() -> None:
    items = [REASONING, message("I look."), function_call("c")]
    answer = response(*items)
    request = ChatRequest("m", (USER, answer.message, {**REPLIES[0], "tool_call_id": "c"}))
    assert request_body(request)["input"][1:-1] == [dict(item.items()) for item in items]
    assert "output" not in response(message("Done.")).message


def test_an_empty_message_is_an_empty_text() -> None:
    assert response(message("")).text == ""
    assert response(message("Hi"), usage=None).input_tokens is None


REFUSED = {**message(""), "content": [{"type": "refusal", "refusal": "I would rather not."}]}
FILTERED: dict[str, Any] = {
    "status": "incomplete",
    "incomplete_details": {"reason": "content_filter"},
}


@pytest.mark.parametrize(
    ("output", "more", "expected"),
    [
        ([REFUSED], {}, "refused: I would rather not"),
        ([message("Half")], FILTERED, "content filter withheld the answer: Half"),
        (None, {}, "its output is not a list"),
        ([{"type": "function_call", "call_id": "a", "name": None}], {}, "has no name"),
    ],
)
def test_an_invalid_response_is_an_error_with_the_servers_message(
    output: list[dict[str, Any]] | None, more: dict[str, Any], expected: str
) -> None:
    with pytest.raises(AnswerError, match=expected) as error:
        response(**{"output": output, **more})
    assert (error.value.usage.input_tokens, error.value.usage.output_tokens) == (7, 5)
    assert "the server" in str(error.value)
