"""Requests sent after a server has refused a parameter, in the words of many servers."""

from typing import Any

import pytest

from shared.errors import PermanentError, VigilError
from shared.llm.adaptation import Adaptations
from shared.llm.answer_errors import AnswerError
from shared.llm.model_server import REFUSED_REQUEST, RefusedAloneError
from tests.support.case_files import read_cases

CASES = read_cases(__file__)

Json = dict[str, Any]
CALL = {"id": "a", "type": "function", "function": {"name": "find", "arguments": "{}"}}
BODY: Json = {
    "model": "m",
    "messages": [
        {"role": "user", "content": "Go on."},
        {"role": "assistant", "content": None, "tool_calls": [CALL], "reasoning": "Hm."},
        {"role": "tool", "tool_call_id": "a", "content": "{}"},
    ],
    "tools": [{"type": "function", "function": {"name": "find", "parameters": {}}}],
    "tool_choice": "required",
    "max_tokens": 16000,
    "max_completion_tokens": 16000,
    "stream": True,
    "stream_options": {"include_usage": True},
    "verbosity": "low",
}
OMITTED: Any = object()


class Server:
    """Refuses requests with `words` until a test of the request succeeds."""

    def __init__(self, words: str, accepts: Any = lambda _: False) -> None:
        self.words = words
        self.accepts = accepts
        self.requests: list[Json] = []

    async def __call__(self, body: Json) -> Json:
        self.requests.append(body)
        if not self.accepts(body):
            raise PermanentError(REFUSED_REQUEST, f"the server answered 400: {self.words}")
        return body


@pytest.mark.parametrize(
    ("words", "name", "value"),
    [
        ("Function calling requires reasoning_effort to be 'none' for this model", "reasoning_effort", "none"),
        ("Set `reasoning_effort` to `none` to use tools", "reasoning_effort", "none"),
        ("tools cannot be used here; please use reasoning_effort=\"none\"", "reasoning_effort", "none"),
        ("Disable reasoning (\"reasoning_effort\": \"none\") to call tools", "reasoning_effort", "none"),
        ("Function tools are not available while the model is thinking", "reasoning_effort", "none"),
        ("thinking mode cannot be combined with tools", "reasoning_effort", "none"),
        ("pass enable_thinking=false", "enable_thinking", False),
        ("parameter.enable_thinking should be set to false", "enable_thinking", False),
        ("thinking.type must be 'disabled' when tools are used", "thinking", {"type": "disabled"}),
        ("parallel_tool_calls must be false", "parallel_tool_calls", False),
        ("Invalid value for verbosity: expected one of 'medium', 'high'", "verbosity", "medium"),
        ("verbosity: Input should be 'medium' or 'high'", "verbosity", "medium"),
        ("'verbosity' is not a valid parameter", "verbosity", OMITTED),
        ("unknown field VERBOSITY", "verbosity", OMITTED),
        ("Tool choice is not supported when thinking is enabled", "tool_choice", OMITTED),
        ("streaming is disabled for this key", "stream", OMITTED),
        ("`stream_options` is only allowed when streaming", "stream_options", OMITTED),
        ("max_completion_tokens: 16000 > 8192, which is the maximum allowed", "max_completion_tokens", 8192),
        ("Unsupported parameter: 'max_completion_tokens' is not supported with gpt-5-2025-08-07. Use 'max_tokens' instead.",
         "max_completion_tokens", OMITTED),
        ("'max_tokens' is deprecated since 2024; use 'max_completion_tokens'", "max_tokens", OMITTED),
        ("Invalid max_tokens: the valid range is [1, 4096]", "max_tokens", 4096),
        ("max_tokens参数非法：限制数值范围[1,4095]", "max_tokens", 4095),
        ("<400> InternalError.Algo.InvalidParameter: Range of max_tokens should be [1,8192]", "max_tokens", 8192),
        ("The maximum tokens you requested exceeds the model limit of 4096", "max_completion_tokens", 4096),
        ("maxOutputTokens must be in the range from 1 to less than 8193", "max_completion_tokens", 8192),
        ("max_tokens (16,000) exceeds the maximum of 4,096", "max_tokens", 4096),
    ],
)  # fmt: skip
async def test_a_named_parameter_is_sent_as_the_server_asks(
    words: str, name: str, value: Any
) -> None:
    def accepts(body: Json) -> bool:
        return name not in body if value is OMITTED else body.get(name) == value

    warnings: list[str] = []
    adaptations = Adaptations("the server", warnings.append)
    server = Server(words, accepts)
    for _ in range(2):
        await adaptations.send(BODY, server)
    assert len(server.requests) == 3, "what helped is remembered"
    assert [name in warning for warning in warnings] == [True]
    sent = server.requests[-1]
    assert {"max_tokens", "max_completion_tokens"} & sent.keys(), "budgets depend on the limit"
    assert sent["messages"] == BODY["messages"]
    assert sent["tools"] == BODY["tools"]

    other = Server(words, lambda _: True)
    await adaptations.send({**BODY, "model": "another"}, other)
    assert other.requests == [{**BODY, "model": "another"}], "it is known of one model alone"


def _prompt_tokens(body: Json) -> int:
    return len(str(body["messages"])) // 4


@pytest.mark.parametrize(
    ("words", "context"),
    [
        ("'max_tokens' or 'max_completion_tokens' is too large: 16000. This model's maximum context length is 12000 tokens"
         " and your request has {prompt} input tokens (16000 > 12000 - {prompt}). (parameter=max_tokens)", 12000),
        ("This model's maximum context length is 8192 tokens. However, you requested 20000 tokens ({prompt} in the messages,"
         " 16000 in the completion). Please reduce the length of the messages or completion.", 8192),
        ("This model's maximum context length is 8192 tokens, but you requested 20000", 8192),
        ("max_tokens is too large: the context has 8192 tokens", 8192),
        ("Input validation error: `inputs` tokens + `max_new_tokens` must be <= 12000. Given: {prompt} `inputs` tokens and"
         " 16000 `max_new_tokens`", 12000),
    ],
)  # fmt: skip
async def test_a_limit_leaves_room_for_the_prompt_in_the_context(words: str, context: int) -> None:
    def accepts(body: Json) -> bool:
        server.words = words.replace("{prompt}", str(_prompt_tokens(body)))
        return bool(body["max_tokens"] <= context - _prompt_tokens(body))

    server = Server("", accepts)
    adaptations = Adaptations("the server", lambda _: None)
    long = {"role": "user", "content": "Read all of this. " * 1000}
    for messages in (BODY["messages"], [*BODY["messages"], long], BODY["messages"]):
        sent = await adaptations.send({**BODY, "messages": messages}, server)
        room = context - _prompt_tokens(sent)
        assert room / 3 < sent["max_tokens"] <= room
    assert len(server.requests) == 4, "the context is remembered"


@pytest.mark.parametrize(
    "words",
    [
        "The maximum tokens you requested exceeds the model limit of 4096. Try again with a value that is lower than 4096.",
        "it has a maxOutputTokens value of {sent} but the supported range is from 1 (inclusive) to 4096 (exclusive)",
    ],
)
async def test_a_limit_that_is_named_may_be_the_first_one_that_is_refused(words: str) -> None:
    def accepts(body: Json) -> bool:
        server.words = words.replace("{sent}", str(body["max_tokens"]))
        return bool(body["max_tokens"] < 4096)

    server = Server(words.replace("{sent}", "16000"), accepts)
    adaptations = Adaptations("the server", lambda _: None)
    assert (await adaptations.send(BODY, server))["max_tokens"] == 4095
    assert len(server.requests) == 3


async def test_a_limit_that_a_refusal_computes_is_for_one_request() -> None:
    """The prompt has more tokens than its length lets expect."""
    context, prompt = 12000, 9000
    words = f"max_tokens is too large: 16000. The context length is 12000 (16000 > {context} - {prompt})"
    server = Server(words, lambda body: body["max_tokens"] <= context - prompt)
    adaptations = Adaptations("the server", lambda _: None)
    assert (await adaptations.send(BODY, server))["max_tokens"] == context - prompt
    assert adaptations.changes("m") == ()


@pytest.mark.parametrize(
    "words",
    [
        "The prompt was filtered by the content management policy",
        "This model's maximum context length is 8192 tokens, but your prompt has 20000",
        "max_tokens is too large: the context has 200 tokens",
    ],
)
async def test_a_refusal_for_another_reason_is_not_repeated(words: str) -> None:
    server = Server(words)
    with pytest.raises(PermanentError):
        await Adaptations("the server", print).send(BODY, server)
    assert len(server.requests) == 1


async def test_no_more_than_a_few_changes_are_tried_and_none_is_remembered() -> None:
    server = Server("bad: verbosity, stream, stream_options, tool_choice, max_tokens, reasoning")
    adaptations = Adaptations("the server", print)
    with pytest.raises(PermanentError):
        await adaptations.send(BODY, server)
    assert len(server.requests) <= 7
    assert adaptations.changes("m") == ()


async def test_a_change_that_did_not_help_is_not_remembered() -> None:
    server = Server("tool_choice and verbosity: no", lambda body: "verbosity" not in body)
    adaptations = Adaptations("the server", lambda _: None)
    await adaptations.send(BODY, server)
    assert [change.name for change in adaptations.changes("m")] == ["verbosity"]
    assert server.requests[-1]["tool_choice"] == "required"


async def test_an_effort_that_a_server_refuses_in_other_words_is_omitted() -> None:
    server = Server('"m" does not support thinking', lambda body: "reasoning_effort" not in body)
    adaptations = Adaptations("the server", lambda _: None)
    await adaptations.send({**BODY, "reasoning_effort": "low"}, server)
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("words", "changes"), CASES["a_content_is_sent_beside_calls_only_to_a_server_that_requires_one"]
)
@pytest.mark.parametrize("alone", [False, True])
async def test_a_content_is_sent_beside_calls_only_to_a_server_that_requires_one(
    words: str, changes: list[str], alone: bool
) -> None:
    conversation = {name: value for name, value in BODY.items() if name != "tool_choice"}
    sent: list[Json] = []

    async def refuse(body: Json) -> None:
        sent.append(body)
        if alone:
            raise RefusedAloneError(f"answered 500: {words}")
        raise PermanentError(REFUSED_REQUEST, f"answered 400: {words}")

    with pytest.raises(VigilError):
        await Adaptations("the server", print).send(conversation, refuse)
    contents = [[message["content"] for message in body["messages"]] for body in sent]
    assert contents == [["Go on.", content, "{}"] for content in (None, *changes)]


async def test_a_server_that_fails_on_forced_calls_alone_is_not_forced_again() -> None:
    sent: list[Json] = []

    async def fail(body: Json) -> None:
        sent.append(body)
        if "tool_choice" in body:
            raise RefusedAloneError("answered 500: AssertionError()")

    adaptations = Adaptations("the server", lambda _: None)
    for _ in range(2):
        await adaptations.send(BODY, fail)
    assert ["tool_choice" in each for each in sent] == [True, False, False]
    with pytest.raises(RefusedAloneError):
        await Adaptations("the server", print).send(BODY, always_fail)


async def always_fail(_: Json) -> None:
    raise RefusedAloneError("answered 500: out of memory")


@pytest.mark.parametrize(
    "error",
    [
        AnswerError("the model said: 'stream' is not supported"),
        PermanentError("llm_key", "answered 401: verbosity is not allowed for this key"),
    ],
)
async def test_only_refusals_by_the_server_change_a_request(error: VigilError) -> None:
    sent: list[Json] = []

    async def fail(body: Json) -> None:
        sent.append(body)
        raise error

    with pytest.raises(type(error)):
        await Adaptations("the server", print).send(BODY, fail)
    assert sent == [BODY]


async def test_messages_that_no_model_made_get_what_the_server_requires() -> None:
    """The calls of a fallback model, or of Vigil itself, have no reasoning."""

    def accepts(body: Json) -> bool:
        return all("reasoning_content" in each for each in body["messages"] if "tool_calls" in each)

    words = "The `reasoning_content` in the thinking mode must be passed back to the API."
    server = Server(words, accepts)
    await Adaptations("the server", lambda _: None).send(BODY, server)
    [assistant] = [each for each in server.requests[-1]["messages"] if "tool_calls" in each]
    assert assistant["reasoning_content"]
    assert assistant["reasoning"] == "Hm."


async def test_calls_that_no_model_made_get_the_documented_signature() -> None:
    def accepts(body: Json) -> bool:
        calls = [call for each in body["messages"] for call in each.get("tool_calls", ())]
        return all("google" in call.get("extra_content", {}) for call in calls)

    server = Server("Function call is missing a thought_signature in functionCall parts.", accepts)
    await Adaptations("the server", lambda _: None).send(BODY, server)
    assert len(server.requests) == 2
