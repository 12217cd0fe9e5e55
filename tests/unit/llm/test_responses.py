"""Chat requests in the words of the Responses API, and its answers as chat answers."""

from typing import Any

import pytest

from sandbox.http.responses import to_chat_body
from shared.llm.answers import AnswerError
from shared.llm.background_provider import parse_response, request_body
from shared.llm.messages import ChatAnswer, ChatRequest, assistant_message
from shared.llm.messages import ToolCall as Call

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
    {"role": "tool", "tool_call_id": "a_0", "content": "{}"},
    {"role": "tool", "tool_call_id": "a_1", "content": "[1]"},
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


def said(text: str, **more: Any) -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": []}
    return {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [part],
        **more,
    }


def called(call_id: str, name: str = "find", arguments: str = "{}") -> dict[str, Any]:
    return {
        "type": "function_call",
        "id": "fc_1",
        "call_id": call_id,
        "name": name,
        "arguments": arguments,
    }


THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": []}
TALK = ChatRequest(
    "m",
    (SYSTEM, USER, assistant_message("Let me see.", [Call("a", "find", "{}")] * 2), *REPLIES, USER),
    (TOOL,),
)


@pytest.mark.parametrize(
    "request_",
    [
        ChatRequest("m", (SYSTEM, USER), (), SCHEMA),
        TALK,
        ChatRequest("m", (SYSTEM, USER, assistant_message(None, [Call("a", "find", "{")]))),
        ChatRequest("m", (USER, {"role": "assistant", "content": "no JSON"}, USER), (), SCHEMA),
    ],
)
def test_nothing_is_lost_on_the_way_there(request_: ChatRequest) -> None:
    assert to_chat_body(request_body(request_)) == request_.body


def test_calls_and_their_results_are_items_that_share_an_id_and_have_none_of_their_own() -> None:
    kinds = [(item["type"], item.get("call_id")) for item in request_body(TALK)["input"]]
    assert kinds == [
        ("message", None),
        ("message", None),
        ("message", None),
        ("function_call", "a_0"),
        ("function_call", "a_1"),
        ("function_call_output", "a_0"),
        ("function_call_output", "a_1"),
        ("message", None),
    ]
    assert not any("id" in item for item in request_body(TALK)["input"])


def test_tools_may_leave_arguments_out() -> None:
    assert request_body(TALK)["tools"][0]["strict"] is False


def test_an_answer_has_its_text_and_tokens() -> None:
    answer = response(THOUGHT, said("Done.\x00"))
    assert (answer.text, answer.finish_reason) == ("Done.", "stop")
    assert (answer.input_tokens, answer.output_tokens) == (7, 5)
    assert answer.tool_calls == []


def test_calls_with_the_same_id_are_told_apart() -> None:
    answer = response(THOUGHT, said("I look."), called("c"), called("c", "read"))
    assert [(call.id, call.name) for call in answer.tool_calls] == [
        ("c_0", "find"),
        ("c_1", "read"),
    ]
    assert (answer.text, answer.finish_reason) == ("I look.", "tool_calls")


def test_last_words_come_without_the_thoughts_before_them() -> None:
    thinking = said("I will now write JSON. ", phase="commentary")
    assert response(thinking, said("{}", phase="final_answer")).text == "{}"
    assert response(thinking).text == "I will now write JSON. "


@pytest.mark.parametrize("reason", ["max_output_tokens", None])
def test_an_answer_that_was_cut_short_says_why(reason: str | None) -> None:
    details = {"reason": reason} if reason else None
    cut = response(said("Half"), status="incomplete", incomplete_details=details)
    assert (cut.text, cut.finish_reason) == ("Half", "length")


def test_nothing_said_is_an_empty_text() -> None:
    assert response(said("")).text == ""
    assert response(said("Hi"), usage=None).input_tokens is None


REFUSED = {**said(""), "content": [{"type": "refusal", "refusal": "I would rather not."}]}
FILTERED: dict[str, Any] = {
    "status": "incomplete",
    "incomplete_details": {"reason": "content_filter"},
}


@pytest.mark.parametrize(
    ("output", "more", "words"),
    [
        ([REFUSED], {}, "refused: I would rather not"),
        ([said("Half")], FILTERED, "content filter withheld the answer: Half"),
        (None, {}, "its output is no list"),
        ([{"type": "function_call", "call_id": "a", "name": None}], {}, "has no name"),
    ],
)
def test_what_is_no_answer_says_what_the_server_said(
    output: list[dict[str, Any]] | None, more: dict[str, Any], words: str
) -> None:
    with pytest.raises(AnswerError, match=words) as error:
        response(**{"output": output, **more})
    assert (error.value.usage.input_tokens, error.value.usage.output_tokens) == (7, 5)
    assert "the server" in str(error.value)
