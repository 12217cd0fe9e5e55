"""Answers assembled from the stream chunks of different servers."""

import json
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from sandbox.http.openai_format import chunks
from sandbox.model.request import Answer, ToolCall
from shared.errors import TransientError
from shared.llm.answer_errors import AnswerError, FailureKind
from shared.llm.answers import Received
from shared.llm.messages import ChatAnswer
from tests.support.case_files import read_cases

CASES = read_cases(__file__)


def event(data: Any) -> bytes:
    return f"data: {json.dumps(data)}\n\n".encode()


def chunk(finish: str | None = None, **delta: Any) -> bytes:
    return event({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})


def call(
    index: int, name: str | None, arguments: str, call_id: str | None = None
) -> dict[str, Any]:
    return {"index": index, "id": call_id, "function": {"name": name, "arguments": arguments}}


def answer_of(*pieces: bytes) -> ChatAnswer:
    received = Received("the server")
    for piece in pieces:
        received.take(piece)
    return received.answer()


def test_a_streamed_sandbox_answer_is_assembled() -> None:
    expected = Answer(
        "one two three four five six seven eight", (ToolCall.of("look", text="a b c d"),) * 2
    )
    usage = {"prompt_tokens": 7, "completion_tokens": 9, "total_tokens": 16}
    received = Received("the server")
    changes = [received.take(event(data)) for data in chunks("m", "h", expected, usage)]
    answer = received.answer()
    assert changes.count(True) > 1
    assert answer.text == expected.text
    assert [(tool_call.name, tool_call.arguments) for tool_call in answer.tool_calls] == [
        (tool_call.name, tool_call.arguments) for tool_call in expected.calls
    ]
    assert (answer.finish_reason, answer.input_tokens, answer.output_tokens) == ("tool_calls", 7, 9)


def test_interleaved_calls_are_kept_apart() -> None:
    received = Received("the server")
    for piece in (
        call(0, "a", '{"x"', "1"),
        call(1, "b", '{"y"', "2"),
        call(0, None, ":1}"),
        call(1, None, ":2}"),
    ):
        received.take(chunk(tool_calls=[piece]))
    received.take(chunk("tool_calls"))
    calls = [(tool_call.name, tool_call.arguments) for tool_call in received.answer().tool_calls]
    assert calls == [("a", '{"x":1}'), ("b", '{"y":2}')]


def test_whole_calls_under_one_index_are_distinguished_by_their_ids() -> None:
    received = Received("the server")
    received.take(chunk(tool_calls=[call(0, "a", "{}", "1")]))
    received.take(chunk(tool_calls=[call(0, "b", "{}", "2")]))
    received.take(chunk("tool_calls"))
    assert [tool_call.name for tool_call in received.answer().tool_calls] == ["a", "b"]


TOPICS = CASES["topics"]
ADVICE = "".join(
    f"The Researcher should ask {topic} experts for exact and recent facts on what changes {topic}. "
    for topic in TOPICS
)


def _item(number: int) -> str:
    return f'{{"name": "Country {number}", "properties": {{"summary": "A state of Africa."}}}},'


@pytest.mark.parametrize(
    "piece",
    [
        lambda _: "The answer is lithium. ",
        lambda _: " ",
        lambda number: _item(number % 30),
        lambda _: ADVICE,
    ],
)
@pytest.mark.parametrize("is_call", [False, True])
def test_an_answer_that_repeats_itself_is_stopped(
    piece: Callable[[int], str], is_call: bool
) -> None:
    received = Received("the server")
    beginning = "Chile, Australia and China mine lithium. " * 3
    received.take(_part(beginning, is_call=is_call))

    def stream() -> None:
        for number in range(20_000):
            received.take(_part(piece(number), is_call=is_call))

    with pytest.raises(AnswerError, match="repeated itself") as raised:
        stream()
    assert raised.value.kind is FailureKind.NO_ANSWER
    assert received.characters < 17_000


def test_reasoning_that_repeats_itself_is_stopped() -> None:
    received = Received("the server")

    def stream() -> None:
        for _ in range(20_000):
            received.take(chunk(reasoning_content="Let me think again. "))

    with pytest.raises(AnswerError, match="repeated itself"):
        stream()
    assert received.characters < 10_000


def test_tables_and_lists_are_no_repetition() -> None:
    figures = "".join(f"{year}: {year * 7919 % 900} tonnes\n" for year in range(1900, 2150))
    nodes = "".join(
        f'{{"name": "{Random(number).randbytes(9).hex()}", "type": "Country", "properties": {{"summary": "A state."}}}},'
        for number in range(400)
    )
    facts = "".join(
        f"The population of {Random(number).randbytes(4).hex()} is {number * 7919 % 300} million, and its economy grew"
        f" by {number * 31 % 9} % in 2024, according to the World Factbook.\n"
        for number in range(300)
    )
    closed = "".join(f"| {day} | closed | closed | not available |\n" for day in range(600))
    items = "".join(map(_item, range(300)))
    for text in (figures, nodes, facts, closed, items, "-" * 1_900):
        received = Received("the server")
        for start in range(0, len(text), 50):
            received.take(chunk(content=text[start : start + 50]))
        received.take(chunk("stop"))
        assert received.answer().text == text


def _part(text: str, *, is_call: bool) -> bytes:
    return chunk(tool_calls=[call(0, "add", text, "1")]) if is_call else chunk(content=text)


def test_a_truncated_stream_is_an_error() -> None:
    received = Received("the server")
    received.take(chunk(content="Lith"))
    with pytest.raises(TransientError, match="broke off"):
        received.answer()


@pytest.mark.parametrize("ending", ["", "data: {broken\n\n"])
def test_the_usage_of_a_part_of_an_answer_is_not_that_of_the_answer(ending: str) -> None:
    """Some servers send it with every chunk. Without the rest, what the answer costs is unknown."""
    usage = {"prompt_tokens": 7, "completion_tokens": 1}
    part = event({"choices": [{"index": 0, "delta": {"content": "Li"}}], "usage": usage})
    with pytest.raises(AnswerError) as raised:
        answer_of(part, ending.encode())
    assert (raised.value.usage.input_tokens, raised.value.usage.output_tokens) == (None, None)


@pytest.mark.parametrize("has_priced_tiers", [True, False])
@pytest.mark.parametrize("is_stream", [True, False])
def test_the_service_tier_is_read_where_it_has_a_price(
    is_stream: bool, has_priced_tiers: bool
) -> None:
    usage = {"usage": {"prompt_tokens": 7, "completion_tokens": 9}}
    message = {"index": 0, "finish_reason": "stop"}
    pieces = [
        event({"choices": [{**message, "delta": {"content": "Li"}}], "service_tier": "flex"}),
        event({"choices": [], **usage}),
    ]
    if not is_stream:
        whole = {"choices": [{**message, "message": {"content": "Li"}}], "service_tier": "flex"}
        pieces = [json.dumps({**whole, **usage}).encode()]
    received = Received("the server", has_priced_tiers=has_priced_tiers)
    for piece in pieces:
        received.take(piece)
    answer = received.answer()
    assert (answer.text, answer.input_tokens) == ("Li", 7)
    assert answer.service_tier == ("flex" if has_priced_tiers else None)


def test_the_usage_of_a_complete_answer_is_known_though_the_connection_breaks() -> None:
    usage = {"prompt_tokens": 7, "completion_tokens": 9}
    received = Received("the server")
    choice = {"index": 0, "delta": {"content": "Lithium"}, "finish_reason": "stop"}
    received.take(event({"choices": [choice], "usage": usage}))
    error = received.explained(AnswerError("reset", kind=FailureKind.CUT_OFF))
    assert (error.usage.input_tokens, error.usage.output_tokens) == (7, 9)


DEEP = f"{'[' * 1010}{']' * 1010}"
"""As deep as the parser accepts, and deeper than Python 3.11 can write it."""


@pytest.mark.parametrize("prefix", ["", "data: "])
def test_deep_json_in_place_of_a_message_is_a_billed_error(prefix: str) -> None:
    with pytest.raises(AnswerError, match="with an error"):
        answer_of(f'{prefix}{{"error": {DEEP}}}\n\n'.encode())


def test_deep_json_in_place_of_a_token_count_leaves_the_answer_usable() -> None:
    choices = '[{"message": {"content": "Lithium"}}]'
    answer = answer_of(f'{{"choices": {choices}, "usage": {{"prompt_tokens": {DEEP}}}}}'.encode())
    assert (answer.text, answer.input_tokens) == ("Lithium", None)
    assert answer.usage_fault is not None
