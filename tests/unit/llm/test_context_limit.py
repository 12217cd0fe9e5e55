"""Requests fit into the context of the model, whatever they hold."""

from random import Random
from typing import Any

import pytest

from shared.errors import PermanentError
from shared.llm.context_limit import (
    ANSWER_SHARE,
    LEFT_OUT,
    estimate_tokens,
    fit,
)
from shared.llm.messages import ChatRequest

CONTEXT = 16_384
SMALLEST_CONTEXT = 8_192


def request(*messages: dict[str, Any], **values: Any) -> ChatRequest:
    system = {"role": "system", "content": "Follow the rules."}
    return ChatRequest("local", (system, *messages), max_output_tokens=16_000, **values)


def result(number: int, length: int) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": str(number), "content": f"{number} " + "x" * length}


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def test_a_long_answer_of_the_model_itself_is_cut() -> None:
    """A weak model writes pages in place of a call, and code goes on from there."""
    answer = {"role": "assistant", "content": "The Researcher should search. " * 1_000}
    fitted = fit(request(user("Find out."), answer, user("Answer now.")), SMALLEST_CONTEXT)
    contents = [message["content"] for message in fitted.messages]
    assert (contents[1], contents[3]) == ("Find out.", "Answer now.")
    assert len(contents[2]) < len(answer["content"])
    assert estimate_tokens(fitted) <= SMALLEST_CONTEXT * (1 - ANSWER_SHARE)


def test_a_short_request_stays_as_it_is_and_its_answer_has_the_rest() -> None:
    short = request(user("Plan."))
    fitted = fit(short, CONTEXT)
    assert fitted.messages == short.messages
    assert fitted.max_output_tokens == 16_000
    assert fit(short, SMALLEST_CONTEXT).max_output_tokens == SMALLEST_CONTEXT - estimate_tokens(
        short
    )


def test_the_oldest_results_are_left_out_first() -> None:
    long = request(user("Search."), *(result(number, 12_000) for number in range(5)))
    fitted = fit(long, CONTEXT)
    contents = [message["content"] for message in fitted.messages[2:]]
    assert contents[:2] == [LEFT_OUT, LEFT_OUT]
    assert contents[2:] == [message["content"] for message in long.messages[4:]]


def calling(number: int, length: int) -> dict[str, Any]:
    function = {"name": "add", "arguments": "y" * length}
    call = {"id": str(number), "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def test_old_rounds_of_calls_are_left_out_with_their_results() -> None:
    rounds = [
        message for number in range(12) for message in (calling(number, 3_000), result(number, 10))
    ]
    fitted = fit(request(user("Build."), *rounds), SMALLEST_CONTEXT)
    called = [call["id"] for message in fitted.messages for call in message.get("tool_calls", ())]
    answered = [message["tool_call_id"] for message in fitted.messages if message["role"] == "tool"]
    assert called == answered == [str(number) for number in range(12)][-len(called) :]
    assert 0 < len(called) < 12


def test_many_long_messages_are_all_cut() -> None:
    fitted = fit(request(*(user("z" * 3_000) for _ in range(20))), SMALLEST_CONTEXT)
    assert len(fitted.messages) == 21


def test_a_long_message_is_cut_in_the_middle() -> None:
    text = "The mission. " + "graph " * 20_000 + " The task."
    (_, message) = fit(request(user(text)), CONTEXT).messages
    assert message["content"].startswith("The mission. ")
    assert message["content"].endswith(" The task.")


def test_instructions_that_do_not_fit_are_an_error_that_says_what_to_do() -> None:
    tools = ({"type": "function", "function": {"name": "x", "description": "y" * 60_000}},)
    with pytest.raises(PermanentError, match="VIGIL_MODEL_CONTEXT_TOKENS") as error:
        fit(request(user("Plan."), tools=tools), CONTEXT)
    assert error.value.is_unbilled


@pytest.mark.parametrize("seed", range(50))
def test_random_requests_fit_and_are_the_same_each_time(seed: int) -> None:
    random = Random(seed)
    letters = random.choice(['a"b\\', "abc ", "中文字", "é\n\t", "\ud800x"])
    messages: list[dict[str, Any]] = [user(letters * random.randrange(30_000))]
    for number in range(random.randrange(12)):
        messages.append(calling(number, random.randrange(3_000)))
        messages.append(result(number, random.randrange(30_000)))
    if random.random() < 0.5:
        messages.append(user(letters * random.randrange(100)))
    context = random.choice([SMALLEST_CONTEXT, CONTEXT, 32_768])
    fitted = fit(request(*messages), context)
    assert estimate_tokens(fitted) <= context * (1 - ANSWER_SHARE)
    assert fitted.max_output_tokens is not None
    assert estimate_tokens(fitted) + fitted.max_output_tokens <= context
    called = [call["id"] for message in fitted.messages for call in message.get("tool_calls", ())]
    answered = [message["tool_call_id"] for message in fitted.messages if message["role"] == "tool"]
    assert called == answered
    assert fitted == fit(request(*messages), context)
