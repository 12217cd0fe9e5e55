"""Valid and invalid responses of model servers over HTTP, streamed and not streamed."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from shared.llm.answer_errors import COMPLETE_KINDS, AnswerError, FailureKind
from shared.llm.messages import ChatAnswer
from shared.llm.model_server import Stream
from tests.support.model_server import (
    REQUEST,
    USAGE,
    Connection,
    ModelStandIn,
    chunk,
    completion,
    events,
    fixed_response,
    make_resumable_call,
    model_server,
    provider_for,
)

CALL = {"id": "a", "type": "function", "function": {"name": "look", "arguments": '{"x": 1}'}}


@dataclass(frozen=True)
class Case:
    """A server's response, whole and streamed, and the expected result."""

    name: str
    whole: bytes
    streamed: bytes
    text: str | None = None
    """The text of an accepted response."""
    calls: list[tuple[str, Any]] = field(default_factory=list)
    tokens: tuple[int | None, int | None] = (11, 7)
    fails: str | None = None
    """A pattern for the error message of a rejected response."""
    counts: bool = True
    kind: str = ""
    """The media type, if it is not the default."""


def message_case(
    name: str,
    message: Any,
    text: str | None = None,
    calls: list[tuple[str, Any]] | None = None,
    *,
    finish: Any = "stop",
    fails: str | None = None,
) -> Case:
    """A message in an ordinary response; streamed as one chunk."""
    chunks = (chunk(message), chunk({}, finish), {"choices": [], "usage": USAGE})
    whole = json.dumps(completion(message, finish)).encode()
    return Case(name, whole, events(*chunks), text, calls or [], fails=fails)


def call_case(name: str, call: Any, *calls: tuple[str, Any], fails: str | None = None) -> Case:
    return message_case(
        name,
        {"content": None, "tool_calls": call},
        None if fails else "",
        list(calls),
        finish="tool_calls",
        fails=fails,
    )


def usage_case(name: str, usage: Any) -> Case:
    """An accepted response whose token usage is invalid."""
    whole = json.dumps(completion({"content": "Hi"}, usage=usage)).encode()
    streamed = events(chunk({"content": "Hi"}, "stop"), {"choices": [], "usage": usage})
    return Case(name, whole, streamed, "Hi", tokens=(None, None))


def raw_case(
    name: str, body: bytes | str, fails: str, *, kind: str = "", counts: bool = True
) -> Case:
    """The same bytes, streamed or not, without usage."""
    content = body.encode() if isinstance(body, str) else body
    return Case(name, content, content, fails=fails, tokens=(None, None), kind=kind, counts=counts)


def json_case(name: str, body: Any, fails: str, *, tokens: Any = (None, None), **more: Any) -> Case:
    """One JSON value; as a stream, one event with this value."""
    return Case(name, json.dumps(body).encode(), events(body), fails=fails, tokens=tokens, **more)


def stream_case(name: str, *chunks: Any, done: bool = True, **more: Any) -> Case:
    """A stream, sent even if no stream was requested."""
    body = events(*chunks, done=done)
    return Case(name, body, body, **more)


def function(name: Any, arguments: Any, **more: Any) -> dict[str, Any]:
    return {"function": {"name": name, "arguments": arguments}, **more}


LOOK = ("look", {"x": 1})
END = {"choices": [], "usage": USAGE}
DEEP = "[" * 100_000 + "]" * 100_000

ACCEPTED = [
    message_case("ordinary", {"role": "assistant", "content": "Hi"}, "Hi"),
    message_case(
        "extra fields", {"content": "Hi", "audio": None, "annotations": [], "x": {"y": 1}}, "Hi"
    ),
    message_case(
        "content as parts", {"content": [{"type": "text", "text": "H"}, {"text": "i"}]}, "Hi"
    ),
    message_case("content as texts", {"content": ["H", "i"]}, "Hi"),
    message_case(
        "text as an object", {"content": [{"type": "text", "text": {"value": "Hi"}}]}, "Hi"
    ),
    message_case("output_text parts", {"content": [{"type": "output_text", "text": "Hi"}]}, "Hi"),
    message_case(
        "reasoning as a part",
        {"content": [{"type": "thinking", "thinking": "Hm"}, {"type": "text", "text": "Hi"}]},
        "Hi",
    ),
    message_case("one part", {"content": {"type": "text", "text": "Hi"}}, "Hi"),
    message_case("content as an object", {"content": {"answer": 42}}, '{"answer": 42}'),
    message_case("content as a number", {"content": 42}, "42"),
    message_case("reasoning_content", {"content": "Hi", "reasoning_content": "Hm"}, "Hi"),
    message_case("reasoning in the text", {"content": "<think>Hm\n</think>\n\nHi"}, "Hi"),
    Case(
        "no finish reason in a whole answer",
        json.dumps(completion({"content": "Hi"}, None)).encode(),
        json.dumps(completion({"content": "Hi"}, None)).encode(),
        "Hi",
    ),
    message_case("finish reason of another kind", {"content": "Hi"}, "Hi", finish={"type": "stop"}),
    message_case("tool_calls null", {"content": "Hi", "tool_calls": None}, "Hi"),
    message_case("tool_calls empty", {"content": "Hi", "tool_calls": []}, "Hi"),
    message_case("NUL characters", {"content": "H\x00i"}, "Hi"),
    message_case("half a character", {"content": "Hi\ud83d"}, "Hi?"),
    message_case("cut at the limit", {"content": "Half a sen"}, "Half a sen", finish="length"),
    call_case("ordinary call", [CALL], LOOK),
    call_case("arguments as an object", [function("look", {"x": 1}, id="a")], LOOK),
    call_case("no arguments", [function("look", None, id="a")], ("look", {})),
    call_case("arguments left out", [{"id": "a", "function": {"name": "look"}}], ("look", {})),
    call_case("arguments as a list", [function("look", [1], id="a")], ("look", [1])),
    call_case("parameters", [{"function": {"name": "look", "parameters": {"x": 1}}}], LOOK),
    call_case("no id", [function("look", '{"x": 1}')], LOOK),
    call_case("a number as id", [function("look", '{"x": 1}', id=7)], LOOK),
    call_case("no type", [{**CALL, "type": None}], LOOK),
    call_case("one call, no list", CALL, LOOK),
    call_case("function left out", [{"name": "look", "arguments": {"x": 1}}], LOOK),
    call_case("an unknown tool", [function("fly", "{}", id="a")], ("fly", {})),
    call_case("numbers as text", [function("look", '{"x": "1"}', index="0")], ("look", {"x": "1"})),
    call_case(
        "two without ids or indexes",
        [function("look", '{"x": 1}'), function("fly", {"y": 2})],
        LOOK,
        ("fly", {"y": 2}),
    ),
    call_case(
        "300 calls",
        [function("look", '{"x": 1}', index=n, id=str(n)) for n in range(300)],
        *[LOOK] * 300,
    ),
    message_case(
        "the older function_call",
        {"content": None, "function_call": {"name": "look", "arguments": '{"x": 1}'}},
        "",
        [LOOK],
        finish="function_call",
    ),
    Case(
        "choices as an object",
        json.dumps({"choices": {"message": {"content": "Hi"}}, "usage": USAGE}).encode(),
        events({"choices": {"delta": {"content": "Hi"}, "finish_reason": "stop"}}, END),
        "Hi",
    ),
    Case(
        "numbered choices",
        json.dumps({"choices": {"0": {"message": {"content": "Hi"}}}, "usage": USAGE}).encode(),
        events({"choices": {"0": {"delta": {"content": "Hi"}, "finish_reason": "stop"}}}, END),
        "Hi",
    ),
    Case(
        "text of older completions",
        json.dumps({"choices": [{"text": "Hi"}], "usage": USAGE}).encode(),
        events({"choices": [{"text": "Hi", "finish_reason": "stop"}]}, END),
        "Hi",
    ),
    Case(
        "white space before the answer",
        b"\n \n" * 50 + json.dumps(completion({"content": "Hi"})).encode(),
        b"\n\n" + events(chunk({"content": "Hi"}, "stop"), END),
        "Hi",
    ),
    Case(
        "a byte order mark",
        b"\xef\xbb\xbf" + json.dumps(completion({"content": "Hi"})).encode(),
        b"\xef\xbb\xbf" + events(chunk({"content": "Hi"}, "stop"), END),
        "Hi",
    ),
    usage_case("no usage", None),
    usage_case("negative usage", {"prompt_tokens": -5, "completion_tokens": 7}),
    usage_case("huge usage", {"prompt_tokens": 10**9, "completion_tokens": 7}),
    usage_case(
        "usage of 10,000 digits", {"prompt_tokens": int("9" * 4000), "completion_tokens": 1}
    ),
    usage_case("usage in fractions", {"prompt_tokens": 11.5, "completion_tokens": 7}),
    usage_case("usage as text", {"prompt_tokens": "11", "completion_tokens": "7"}),
    usage_case("usage that is no number", {"prompt_tokens": float("nan"), "completion_tokens": 7}),
    usage_case("usage that is true", {"prompt_tokens": True, "completion_tokens": 7}),
    usage_case("half of the usage", {"prompt_tokens": 11}),
    usage_case("usage as a list", [11, 7]),
    stream_case(
        "llama.cpp",
        chunk({"role": "assistant", "content": None}),
        chunk({"content": "H"}),
        chunk({"content": "i"}),
        chunk({}, "stop"),
        {**END, "timings": {"prompt_n": 11}},
        text="Hi",
    ),
    stream_case(
        "vLLM, usage in every chunk",
        chunk({"role": "assistant", "content": ""}, usage={**USAGE, "completion_tokens": 0}),
        chunk({"content": "Hi"}, usage={**USAGE, "completion_tokens": 1}),
        chunk({"content": ""}, "stop", stop_reason=None, usage=USAGE),
        text="Hi",
    ),
    stream_case(
        "Ollama, a call whole in one chunk",
        chunk({"role": "assistant", "content": "", "tool_calls": [{**CALL, "index": 0}]}),
        chunk({"role": "assistant", "content": ""}, "tool_calls"),
        END,
        text="",
        calls=[LOOK],
    ),
    stream_case(
        "two calls whole under one index",
        chunk({"tool_calls": [{**CALL, "index": 0}]}),
        chunk({"tool_calls": [{**CALL, "index": 0, "id": "b"}]}),
        chunk({}, "tool_calls"),
        END,
        text="",
        calls=[LOOK, LOOK],
    ),
    stream_case(
        "LM Studio, the name only at first",
        chunk(
            {"tool_calls": [{"index": 0, "id": "a", "type": "function", **function("look", "")}]}
        ),
        chunk({"tool_calls": [{"index": 0, "function": {"arguments": '{"x"'}}]}),
        chunk({"tool_calls": [{"index": 0, "function": {"arguments": ": 1}"}}]}),
        chunk({}, "tool_calls"),
        END,
        text="",
        calls=[LOOK],
    ),
    stream_case(
        "the name in every piece",
        chunk({"tool_calls": [{"index": 0, "id": "a", **function("look", '{"x"')}]}),
        chunk({"tool_calls": [{"index": 0, "id": "a", **function("look", ": 1}")}]}),
        chunk({}, "tool_calls"),
        END,
        text="",
        calls=[LOOK],
    ),
    stream_case(
        "a last piece without a function",
        chunk({"tool_calls": [{"index": 0, **CALL}]}),
        chunk({"tool_calls": [{"index": 0, "function": None}]}, "tool_calls"),
        END,
        text="",
        calls=[LOOK],
    ),
    stream_case(
        "a finish reason, but no end", chunk({"content": "Hi"}, "stop"), END, done=False, text="Hi"
    ),
    stream_case("a whole answer as one event", completion({"content": "Hi"}), text="Hi"),
    stream_case(
        "comments, names and empty events",
        ": OPENROUTER PROCESSING",
        "event: ping",
        "data: {}",
        "data: null",
        f"id: 1\nevent: message\nretry: 5\ndata:{json.dumps(chunk({'content': 'Hi'}, 'stop'))}",
        END,
        text="Hi",
    ),
    stream_case(
        "a delta that is null", chunk({"content": "Hi"}), chunk(None, "stop"), END, text="Hi"
    ),
    Case(
        "carriage returns",
        events(chunk({"content": "Hi"}, "stop"), END).replace(b"\n", b"\r\n"),
        events(chunk({"content": "Hi"}, "stop"), END).replace(b"\n", b"\r"),
        "Hi",
    ),
    Case(
        "one object in place of a stream",
        json.dumps(completion({"content": "Hi"})).encode(),
        json.dumps(completion({"content": "Hi"})).encode(),
        "Hi",
        kind="application/json",
    ),
]

REJECTED = [
    raw_case("HTML", "<html><body>Sign in</body></html>", "JSON.*Sign in", kind="text/html"),
    raw_case("nothing", "", "did not return JSON"),
    raw_case("white space", " \n ", "did not return JSON"),
    raw_case("words", "upstream busy", "did not return JSON.*upstream busy", kind="text/plain"),
    raw_case("cut JSON", '{"choices": [{"message": {"content": "Hi', "JSON"),
    raw_case("bytes", bytes(range(128, 256)) * 10, "JSON", kind="application/octet-stream"),
    raw_case("deep JSON", DEEP, "nested too deeply"),
    raw_case("deep JSON in an answer", f'{{"choices": {DEEP}}}', "nested too deeply"),
    raw_case("JSON of 10,000 digits", "9" * 10_000, "not a chat completion.*a float"),
    json_case("a list", [1], r"is a list, not an object"),
    Case(
        "null",
        b"null",
        events("data: null"),
        fails="null, not an object|without choices",
        tokens=(None, None),
    ),
    Case("a text", b'"Hi"', events('data: "Hi"'), fails="is a text, not an", tokens=(None, None)),
    json_case("a number", 42, "is a int, not an object"),
    json_case("no choices", {"usage": USAGE}, "no choices|without choices", tokens=(11, 7)),
    json_case(
        "empty choices",
        {"choices": [], "usage": USAGE},
        "no choices|without choices",
        tokens=(11, 7),
    ),
    json_case(
        "choices of null", {"choices": [None], "usage": USAGE}, "choices are a list", tokens=(11, 7)
    ),
    json_case(
        "choices as a text", {"choices": "Hi", "usage": USAGE}, "choices are a text", tokens=(11, 7)
    ),
    Case(
        "message null",
        json.dumps(completion(None)).encode(),
        events({"choices": [{"message": None}], "usage": USAGE}, done=False),
        fails="message is null|without a finish reason",
    ),
    message_case("message as a text", "Hi", fails="message is a text|delta is not an object"),
    Case(
        "an empty message",
        json.dumps(completion({})).encode(),
        events(END),
        fails="neither content nor tool calls|without choices",
    ),
    call_case("function null", [{"id": "a", "function": None}], fails="function|names no tool"),
    call_case(
        "function as a text", [{"id": "a", "function": "look"}], fails="function .* is a text"
    ),
    call_case("a name that is a number", [function(7, "{}")], fails="name of a tool call is a int"),
    call_case("a call without a name", [function("", "{}", id="a")], fails="names no tool"),
    call_case("calls as a text", "look", fails="tool calls are a text"),
    call_case("calls as texts", ["look"], fails="tool calls are a list"),
    call_case(
        "1,001 calls",
        [function("look", "{}", index=n, id=str(n)) for n in range(1001)],
        fails="1001 tool calls, more than 1000",
    ),
    call_case(
        "arguments of 10 MB",
        [function("look", " ".join(map(str, range(1_500_000)))[:10_000_000], id="a")],
        fails="1000000. characters",
    ),
    message_case(
        "a refusal", {"content": None, "refusal": "I would rather not"}, fails="I would rather not"
    ),
    message_case(
        "a refusal as a part",
        {"content": [{"type": "refusal", "refusal": "I would rather not"}]},
        fails="I would rather not",
    ),
    message_case(
        "filtered",
        {"content": "How to b"},
        finish="content_filter",
        fails="content filter.*How to b",
    ),
    message_case("given up", {"content": "Hm"}, finish="error", fails="cancelled the answer"),
    message_case(
        "repetition",
        {"content": "Go. " + "on and on, " * 3000},
        finish="length",
        fails="repeated itself",
    ),
    message_case(
        "only reasoning",
        {"content": None, "reasoning": "Hm"},
        finish="length",
        fails="MAX_OUTPUT_TOKENS",
    ),
    json_case("an error", {"error": {"message": "no memory"}}, "with an error: no memory"),
    json_case("an error as a text", {"error": "no memory"}, "with an error: no memory"),
    json_case(
        "an error of vLLM", {"object": "error", "message": "no memory"}, "with an error: no memory"
    ),
    json_case("a detail", {"detail": "no memory"}, "with an error: no memory"),
    json_case(
        "an error with an odd code",
        {"error": {"code": {"number": 502}, "message": "no memory"}},
        "with an error: no memory",
    ),
    json_case(
        "an error that says 502",
        {"error": {"code": 502, "message": "no memory"}},
        "with an error: no memory",
        counts=False,
    ),
    json_case(
        "an error that says overloaded",
        {"error": {"type": "overloaded_error", "message": "busy"}},
        "busy",
        counts=False,
    ),
    stream_case(
        "no finish reason, but an end",
        chunk({"content": "Hi"}),
        END,
        fails="broke off after 2 characters: the stream ended without a finish reason",
        tokens=(None, None),
    ),
    stream_case(
        "an error within a stream",
        chunk({"content": "Hi"}),
        {"error": {"message": "no memory", "code": 500}},
        fails="with an error: no memory",
        counts=False,
        tokens=(None, None),
    ),
    stream_case(
        "broken JSON within a stream",
        chunk({"content": "Hi"}),
        "data: {broken",
        chunk({}, "stop"),
        fails="not a chunk of a chat completion",
        tokens=(None, None),
    ),
    stream_case(
        "deep JSON within a stream", f"data: {DEEP}", fails="nested too deeply", tokens=(None, None)
    ),
    stream_case("only an end", fails="without choices", tokens=(None, None)),
    stream_case(
        "a stream that ends",
        chunk({"content": "Hi"}),
        done=False,
        fails="broke off after 2 characters",
        tokens=(None, None),
    ),
    Case(
        "a stream that ends inside an event",
        events(chunk({"content": "Hi"}), done=False) + b'data: {"choi',
        events(chunk({"content": "Hi"}), done=False) + b'data: {"choi',
        fails="broke off after 2 characters",
        tokens=(None, None),
    ),
]


def case_name(case: Case) -> str:
    return case.name


async def complete(
    respond: Callable[[Connection], Any], stand_ins: list[ModelStandIn], stream: Stream
) -> ChatAnswer:
    async with model_server(respond) as stand_in, provider_for(stand_in, stream=stream) as provider:
        stand_ins.append(stand_in)
        return await provider.complete(REQUEST, make_resumable_call())


def body_of(case: Case, stream: Stream) -> bytes:
    return case.whole if stream == "never" else case.streamed


def loads(arguments: str) -> Any:
    return json.loads(arguments)


@pytest.mark.parametrize("stream", ["never", "auto"])
@pytest.mark.parametrize("case", ACCEPTED, ids=case_name)
async def test_a_response_with_small_deviations_is_accepted(case: Case, stream: Stream) -> None:
    answer = await complete(fixed_response(body_of(case, stream), kind=case.kind), [], stream)
    assert answer.text == case.text
    assert [(call.name, loads(call.arguments)) for call in answer.tool_calls] == case.calls
    assert len({call.id for call in answer.tool_calls}) == len(case.calls)
    assert (answer.input_tokens, answer.output_tokens) == case.tokens
    assert (answer.usage_fault is None) == (case.tokens == (11, 7))
    expected = {"length"} if "limit" in case.name else {"stop", "tool_calls", "function_call"}
    assert answer.finish_reason in expected


@pytest.fixture
def no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disable immediate retries."""
    monkeypatch.setattr("shared.llm.model_server.QUICK_TRIES", 1)


@pytest.mark.usefixtures("no_waits")
@pytest.mark.parametrize("stream", ["never", "auto"])
@pytest.mark.parametrize("case", REJECTED, ids=case_name)
async def test_an_invalid_response_is_a_billed_error_with_an_excerpt(
    case: Case, stream: Stream
) -> None:
    assert case.fails is not None
    stand_ins: list[ModelStandIn] = []
    with pytest.raises(AnswerError) as raised:
        await complete(fixed_response(body_of(case, stream), kind=case.kind), stand_ins, stream)
    error = raised.value
    assert re.search(case.fails, str(error), re.DOTALL)
    assert stand_ins[0].url in str(error)
    assert (error.unbilled, error.counts) == (False, case.counts)
    assert error.kind in (*COMPLETE_KINDS, FailureKind.CUT_OFF)
    assert len(error.excerpt) <= 500
    assert bool(error.excerpt.strip()) == bool(body_of(case, stream).strip()), error.excerpt
    usage = (error.usage.input_tokens, error.usage.output_tokens)
    assert usage in (case.tokens, (None, None))
    if stream == "never" and case.tokens == (11, 7):
        assert usage == (11, 7)
