"""Answers put together from the chunks of servers of all kinds."""

import json
from typing import Any

import pytest

from sandbox.http.openai_format import chunks
from sandbox.model.request import Answer, ToolCall
from shared.errors import TransientError
from shared.llm.streamed import Streamed


def chunk(finish: str | None = None, **delta: Any) -> str:
    return json.dumps({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})


def call(
    index: int, name: str | None, arguments: str, call_id: str | None = None
) -> dict[str, Any]:
    return {"index": index, "id": call_id, "function": {"name": name, "arguments": arguments}}


def test_the_sandboxs_own_answer_comes_out_whole() -> None:
    said = Answer(
        "one two three four five six seven eight", (ToolCall.of("look", text="a b c d"),) * 2
    )
    usage = {"prompt_tokens": 7, "completion_tokens": 9, "total_tokens": 16}
    streamed = Streamed("the server")
    grown = [streamed.take(json.dumps(each)) for each in chunks("m", "h", said, usage)]
    answer = streamed.answer()
    assert grown.count(True) > 1
    assert answer.text == said.text
    assert [(each.name, each.arguments) for each in answer.tool_calls] == [
        (each.name, each.arguments) for each in said.calls
    ]
    assert (answer.finish_reason, answer.input_tokens, answer.output_tokens) == ("tool_calls", 7, 9)


def test_calls_in_turns_keep_apart() -> None:
    streamed = Streamed("the server")
    for piece in (
        call(0, "a", '{"x"', "1"),
        call(1, "b", '{"y"', "2"),
        call(0, None, ":1}"),
        call(1, None, ":2}"),
    ):
        streamed.take(chunk(tool_calls=[piece]))
    streamed.take(chunk("tool_calls"))
    told = [(each.name, each.arguments) for each in streamed.answer().tool_calls]
    assert told == [("a", '{"x":1}'), ("b", '{"y":2}')]


def test_whole_calls_under_one_index_are_told_apart_by_their_ids() -> None:
    streamed = Streamed("the server")
    streamed.take(chunk(tool_calls=[call(0, "a", "{}", "1")]))
    streamed.take(chunk(tool_calls=[call(0, "b", "{}", "2")]))
    streamed.take(chunk("tool_calls"))
    assert [each.name for each in streamed.answer().tool_calls] == ["a", "b"]


def test_an_answer_that_breaks_off_is_none() -> None:
    streamed = Streamed("the server")
    streamed.take(chunk(content="Lith"))
    with pytest.raises(TransientError, match="broke off"):
        streamed.answer()
