"""Fields that a server sends with tool calls: which are kept, to whom it is sent back, and in which form it is recorded."""

from typing import Any

import pytest

from shared.database.text import storable
from shared.llm.answers import merged
from shared.llm.messages import (
    ORIGIN,
    ChatRequest,
    ToolCall,
    assistant_message,
    messages_for,
    with_unique_ids,
)
from tests.support.case_files import read_cases

CASES = read_cases(__file__)

SIGNED = {"extra_content": {"google": {"thought_signature": "SIG"}}}
SENT = {
    "reasoning_content": "Hm.",
    "reasoning_details": [{"type": "reasoning.text", "text": "Hm."}],
}
MESSAGE = {
    **assistant_message(
        "<think>Hm.</think>I look.", [ToolCall("call_1", "find", "{}", SIGNED)], SENT
    ),
    ORIGIN: "a/m",
}
REPLY = {"role": "tool", "tool_call_id": "call_1", "content": "{}"}


def test_the_same_model_gets_its_message_as_it_sent_it() -> None:
    own, reply = messages_for((MESSAGE, REPLY), "a/m")
    assert own == {name: value for name, value in MESSAGE.items() if name != ORIGIN}
    assert own["reasoning_content"] == "Hm."
    assert own["tool_calls"][0]["extra_content"] == SIGNED["extra_content"]
    assert reply == REPLY


@pytest.mark.parametrize("other", ["b/m", "m", "a/n"])
def test_another_model_or_provider_gets_text_and_calls_alone(other: str) -> None:
    foreign, reply = messages_for((MESSAGE, REPLY), other)
    [call] = foreign["tool_calls"]
    assert foreign.keys() == {"role", "content", "tool_calls"}
    assert (foreign["content"], call.keys()) == ("I look.", {"id", "type", "function"})
    assert call["id"] == reply["tool_call_id"]
    assert len(call["id"]) == 9
    assert call["id"].isalnum()


def test_what_is_kept_is_part_of_the_identity_of_the_next_call() -> None:
    plain = assistant_message("I look.", [ToolCall("call_1", "find", "{}")])
    hashes = {ChatRequest("m", (message, REPLY)).call.hash for message in (MESSAGE, plain)}
    assert len(hashes) == 2


@pytest.mark.parametrize(
    "value", [1e22, 0.5, -0.0, float("nan"), "a\x00b", [1.0, {"x": None}], 10**30]
)
def test_what_is_kept_is_recorded_without_a_change(value: Any) -> None:
    message = assistant_message(
        None, [ToolCall("a", "find", "{}", {"state": [value]})], {"state": [value]}
    )
    assert storable(message) == message


def test_messages_without_calls_keep_nothing() -> None:
    assert assistant_message("Done.", [], SENT) == {"role": "assistant", "content": "Done."}


def test_ids_are_unique_in_the_conversation() -> None:
    first = assistant_message(None, [ToolCall("a", "find", "{}"), ToolCall("a", "find", "{}")])
    second = with_unique_ids(first, (first,))
    ids = [call["id"] for message in (first, second) for call in message["tool_calls"]]
    assert ids[0] == "a"
    assert len(set(ids)) == 4
    assert with_unique_ids(first, ()) is first
    assert with_unique_ids(first, (first,)) == second, "a resumed run makes the same ids"


@pytest.mark.parametrize(("pieces", "whole"), CASES["pieces_of_a_stream_are_joined"])
def test_pieces_of_a_stream_are_joined(pieces: list[Any], whole: Any) -> None:
    joined: Any = {}
    for piece in pieces:
        joined = merged(joined, piece)
    assert joined == whole
