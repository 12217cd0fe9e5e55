"""Answers of model servers of all kinds, good and bad, over HTTP: streamed and whole."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from shared.llm.answers import COMPLETE_KINDS, AnswerError, FailureKind
from shared.llm.messages import ChatAnswer
from shared.llm.model_server import Stream
from tests.support.model_server import (
    REQUEST,
    USAGE,
    Connection,
    ModelStandIn,
    canned,
    chunk,
    completion,
    events,
    in_flight,
    model_server,
    speaking,
)

CALL = {"id": "a", "type": "function", "function": {"name": "look", "arguments": '{"x": 1}'}}


@dataclass(frozen=True)
class Case:
    """What a server sends, whole and streamed, and what is to come of it."""

    name: str
    whole: bytes
    streamed: bytes
    text: str | None = None
    """Of an answer that is understood."""
    calls: list[tuple[str, Any]] = field(default_factory=list)
    tokens: tuple[int | None, int | None] = (11, 7)
    fails: str | None = None
    """What an answer that is not understood is said to be, as a pattern."""
    counts: bool = True
    kind: str = ""
    """The media type, where it is not what is to be expected."""


def said(
    name: str,
    message: Any,
    text: str | None = None,
    calls: list[tuple[str, Any]] | None = None,
    *,
    finish: Any = "stop",
    fails: str | None = None,
) -> Case:
    """A message in an otherwise ordinary answer; streamed as one chunk."""
    chunks = (chunk(message), chunk({}, finish), {"choices": [], "usage": USAGE})
    whole = json.dumps(completion(message, finish)).encode()
    return Case(name, whole, events(*chunks), text, calls or [], fails=fails)


def calling(name: str, call: Any, *calls: tuple[str, Any], fails: str | None = None) -> Case:
    return said(
        name,
        {"content": None, "tool_calls": call},
        None if fails else "",
        list(calls),
        finish="tool_calls",
        fails=fails,
    )


def counted(name: str, usage: Any) -> Case:
    """Understood, but for how many tokens it took."""
    whole = json.dumps(completion({"content": "Hi"}, usage=usage)).encode()
    streamed = events(chunk({"content": "Hi"}, "stop"), {"choices": [], "usage": usage})
    return Case(name, whole, streamed, "Hi", tokens=(None, None))


def raw(name: str, body: bytes | str, fails: str, *, kind: str = "", counts: bool = True) -> Case:
    """The same bytes whatever was asked for, and no usage that is known."""
    sent = body.encode() if isinstance(body, str) else body
    return Case(name, sent, sent, fails=fails, tokens=(None, None), kind=kind, counts=counts)


def whole(name: str, body: Any, fails: str, *, tokens: Any = (None, None), **more: Any) -> Case:
    """One JSON value, and the same as the one event of a stream."""
    return Case(name, json.dumps(body).encode(), events(body), fails=fails, tokens=tokens, **more)


def streamed(name: str, *chunks: Any, done: bool = True, **more: Any) -> Case:
    """A stream, sent to whoever asks."""
    body = events(*chunks, done=done)
    return Case(name, body, body, **more)


def function(name: Any, arguments: Any, **more: Any) -> dict[str, Any]:
    return {"function": {"name": name, "arguments": arguments}, **more}


LOOK = ("look", {"x": 1})
END = {"choices": [], "usage": USAGE}
DEEP = "[" * 100_000 + "]" * 100_000

UNDERSTOOD = [
    said("ordinary", {"role": "assistant", "content": "Hi"}, "Hi"),
    said("extra fields", {"content": "Hi", "audio": None, "annotations": [], "x": {"y": 1}}, "Hi"),
    said("content as parts", {"content": [{"type": "text", "text": "H"}, {"text": "i"}]}, "Hi"),
    said("content as texts", {"content": ["H", "i"]}, "Hi"),
    said("text as an object", {"content": [{"type": "text", "text": {"value": "Hi"}}]}, "Hi"),
    said("output_text parts", {"content": [{"type": "output_text", "text": "Hi"}]}, "Hi"),
    said(
        "thoughts as a part",
        {"content": [{"type": "thinking", "thinking": "Hm"}, {"type": "text", "text": "Hi"}]},
        "Hi",
    ),
    said("one part", {"content": {"type": "text", "text": "Hi"}}, "Hi"),
    said("content as an object", {"content": {"answer": 42}}, '{"answer": 42}'),
    said("content as a number", {"content": 42}, "42"),
    said("reasoning_content", {"content": "Hi", "reasoning_content": "Hm"}, "Hi"),
    said("thoughts in the text", {"content": "<think>Hm\n</think>\n\nHi"}, "Hi"),
    said("no finish reason", {"content": "Hi"}, "Hi", finish=None),
    said("finish reason of another kind", {"content": "Hi"}, "Hi", finish={"type": "stop"}),
    said("tool_calls null", {"content": "Hi", "tool_calls": None}, "Hi"),
    said("tool_calls empty", {"content": "Hi", "tool_calls": []}, "Hi"),
    said("NUL characters", {"content": "H\x00i"}, "Hi"),
    said("half a character", {"content": "Hi\ud83d"}, "Hi?"),
    said("cut at the limit", {"content": "Half a sen"}, "Half a sen", finish="length"),
    calling("ordinary call", [CALL], LOOK),
    calling("arguments as an object", [function("look", {"x": 1}, id="a")], LOOK),
    calling("no arguments", [function("look", None, id="a")], ("look", {})),
    calling("arguments left out", [{"id": "a", "function": {"name": "look"}}], ("look", {})),
    calling("arguments as a list", [function("look", [1], id="a")], ("look", [1])),
    calling("parameters", [{"function": {"name": "look", "parameters": {"x": 1}}}], LOOK),
    calling("no id", [function("look", '{"x": 1}')], LOOK),
    calling("a number as id", [function("look", '{"x": 1}', id=7)], LOOK),
    calling("no type", [{**CALL, "type": None}], LOOK),
    calling("one call, no list", CALL, LOOK),
    calling("function left out", [{"name": "look", "arguments": {"x": 1}}], LOOK),
    calling("an unknown tool", [function("fly", "{}", id="a")], ("fly", {})),
    calling("numbers as text", [function("look", '{"x": "1"}', index="0")], ("look", {"x": "1"})),
    calling(
        "two without ids or indexes",
        [function("look", '{"x": 1}'), function("fly", {"y": 2})],
        LOOK,
        ("fly", {"y": 2}),
    ),
    calling(
        "300 calls",
        [function("look", '{"x": 1}', index=n, id=str(n)) for n in range(300)],
        *[LOOK] * 300,
    ),
    said(
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
        events({"choices": {"0": {"delta": {"content": "Hi"}}}}, END),
        "Hi",
    ),
    Case(
        "text of older completions",
        json.dumps({"choices": [{"text": "Hi"}], "usage": USAGE}).encode(),
        events({"choices": [{"text": "Hi"}]}, END),
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
    counted("no usage", None),
    counted("negative usage", {"prompt_tokens": -5, "completion_tokens": 7}),
    counted("huge usage", {"prompt_tokens": 10**9, "completion_tokens": 7}),
    counted("usage of 10,000 digits", {"prompt_tokens": int("9" * 4000), "completion_tokens": 1}),
    counted("usage in floats", {"prompt_tokens": 11.0, "completion_tokens": 7}),
    counted("usage as text", {"prompt_tokens": "11", "completion_tokens": "7"}),
    counted("usage that is no number", {"prompt_tokens": float("nan"), "completion_tokens": 7}),
    counted("usage that is true", {"prompt_tokens": True, "completion_tokens": 7}),
    counted("half of the usage", {"prompt_tokens": 11}),
    counted("usage as a list", [11, 7]),
    streamed(
        "llama.cpp",
        chunk({"role": "assistant", "content": None}),
        chunk({"content": "H"}),
        chunk({"content": "i"}),
        chunk({}, "stop"),
        {**END, "timings": {"prompt_n": 11}},
        text="Hi",
    ),
    streamed(
        "vLLM, usage in every chunk",
        chunk({"role": "assistant", "content": ""}, usage={**USAGE, "completion_tokens": 0}),
        chunk({"content": "Hi"}, usage={**USAGE, "completion_tokens": 1}),
        chunk({"content": ""}, "stop", stop_reason=None, usage=USAGE),
        text="Hi",
    ),
    streamed(
        "Ollama, a call whole in one chunk",
        chunk({"role": "assistant", "content": "", "tool_calls": [{**CALL, "index": 0}]}),
        chunk({"role": "assistant", "content": ""}, "tool_calls"),
        END,
        text="",
        calls=[LOOK],
    ),
    streamed(
        "two calls whole under one index",
        chunk({"tool_calls": [{**CALL, "index": 0}]}),
        chunk({"tool_calls": [{**CALL, "index": 0, "id": "b"}]}),
        chunk({}, "tool_calls"),
        END,
        text="",
        calls=[LOOK, LOOK],
    ),
    streamed(
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
    streamed(
        "the name in every piece",
        chunk({"tool_calls": [{"index": 0, "id": "a", **function("look", '{"x"')}]}),
        chunk({"tool_calls": [{"index": 0, "id": "a", **function("look", ": 1}")}]}),
        chunk({}, "tool_calls"),
        END,
        text="",
        calls=[LOOK],
    ),
    streamed(
        "a last piece without a function",
        chunk({"tool_calls": [{"index": 0, **CALL}]}),
        chunk({"tool_calls": [{"index": 0, "function": None}]}, "tool_calls"),
        END,
        text="",
        calls=[LOOK],
    ),
    streamed("no finish reason, but an end", chunk({"content": "Hi"}), END, text="Hi"),
    streamed(
        "a finish reason, but no end", chunk({"content": "Hi"}, "stop"), END, done=False, text="Hi"
    ),
    streamed("a whole answer as one event", completion({"content": "Hi"}), text="Hi"),
    streamed(
        "comments, names and empty events",
        ": OPENROUTER PROCESSING",
        "event: ping",
        "data: {}",
        "data: null",
        f"id: 1\nevent: message\nretry: 5\ndata:{json.dumps(chunk({'content': 'Hi'}, 'stop'))}",
        END,
        text="Hi",
    ),
    streamed("a delta that is null", chunk({"content": "Hi"}), chunk(None, "stop"), END, text="Hi"),
    Case(
        "carriage returns",
        events(chunk({"content": "Hi"}, "stop"), END).replace(b"\n", b"\r\n"),
        events(chunk({"content": "Hi"}, "stop"), END).replace(b"\n", b"\r"),
        "Hi",
    ),
    Case(
        "one object though a stream was asked for",
        json.dumps(completion({"content": "Hi"})).encode(),
        json.dumps(completion({"content": "Hi"})).encode(),
        "Hi",
        kind="application/json",
    ),
]

FAILED = [
    raw("HTML", "<html><body>Sign in</body></html>", "JSON.*Sign in", kind="text/html"),
    raw("nothing", "", "did not answer with JSON"),
    raw("white space", " \n ", "did not answer with JSON"),
    raw("words", "upstream busy", "did not answer with JSON.*upstream busy", kind="text/plain"),
    raw("cut JSON", '{"choices": [{"message": {"content": "Hi', "JSON"),
    raw("bytes", bytes(range(128, 256)) * 10, "JSON", kind="application/octet-stream"),
    raw("deep JSON", DEEP, "nested too deeply"),
    raw("deep JSON in an answer", f'{{"choices": {DEEP}}}', "nested too deeply"),
    raw("JSON of 10,000 digits", "9" * 10_000, "not a chat completion.*a float"),
    whole("a list", [1], r"is a list and no object"),
    Case(
        "null",
        b"null",
        events("data: null"),
        fails="null and no object|any choice",
        tokens=(None, None),
    ),
    Case("a text", b'"Hi"', events('data: "Hi"'), fails="is a text and no", tokens=(None, None)),
    whole("a number", 42, "is a int and no object"),
    whole("no choices", {"usage": USAGE}, "no choices|any choice", tokens=(11, 7)),
    whole(
        "empty choices", {"choices": [], "usage": USAGE}, "no choices|any choice", tokens=(11, 7)
    ),
    whole(
        "choices of null", {"choices": [None], "usage": USAGE}, "choices are a list", tokens=(11, 7)
    ),
    whole(
        "choices as a text", {"choices": "Hi", "usage": USAGE}, "choices are a text", tokens=(11, 7)
    ),
    Case(
        "message null",
        json.dumps(completion(None)).encode(),
        events({"choices": [{"message": None}], "usage": USAGE}, done=False),
        fails="message is null|without a finish reason",
    ),
    said("message as a text", "Hi", fails="message is a text|delta is no object"),
    Case(
        "an empty message",
        json.dumps(completion({})).encode(),
        events(END),
        fails="neither content nor tool calls|without any choice",
    ),
    calling("function null", [{"id": "a", "function": None}], fails="function|names no tool"),
    calling("function as a text", [{"id": "a", "function": "look"}], fails="function .* is a text"),
    calling("a name that is a number", [function(7, "{}")], fails="name of a tool call is a int"),
    calling("a call without a name", [function("", "{}", id="a")], fails="names no tool"),
    calling("calls as a text", "look", fails="tool calls are a text"),
    calling("calls as texts", ["look"], fails="tool calls are a list"),
    calling(
        "1,001 calls",
        [function("look", "{}", index=n, id=str(n)) for n in range(1001)],
        fails="1001 tool calls, more than 1000",
    ),
    calling(
        "arguments of 10 MB",
        [function("look", " ".join(map(str, range(1_500_000)))[:10_000_000], id="a")],
        fails="1000000. characters",
    ),
    said(
        "a refusal", {"content": None, "refusal": "I would rather not"}, fails="I would rather not"
    ),
    said(
        "a refusal as a part",
        {"content": [{"type": "refusal", "refusal": "I would rather not"}]},
        fails="I would rather not",
    ),
    said(
        "filtered",
        {"content": "How to b"},
        finish="content_filter",
        fails="content filter.*How to b",
    ),
    said("given up", {"content": "Hm"}, finish="error", fails="gave the answer up"),
    said(
        "repetition",
        {"content": "Go. " + "on and on, " * 3000},
        finish="length",
        fails="repeated itself",
    ),
    said(
        "only thoughts",
        {"content": None, "reasoning": "Hm"},
        finish="length",
        fails="MOST_OUTPUT_TOKENS",
    ),
    whole("an error", {"error": {"message": "no memory"}}, "with an error: no memory"),
    whole("an error as a text", {"error": "no memory"}, "with an error: no memory"),
    whole(
        "an error of vLLM", {"object": "error", "message": "no memory"}, "with an error: no memory"
    ),
    whole("a detail", {"detail": "no memory"}, "with an error: no memory"),
    whole(
        "an error that says 502",
        {"error": {"code": 502, "message": "no memory"}},
        "with an error: no memory",
        counts=False,
    ),
    whole(
        "an error that says overloaded",
        {"error": {"type": "overloaded_error", "message": "busy"}},
        "busy",
        counts=False,
    ),
    streamed(
        "an error within a stream",
        chunk({"content": "Hi"}),
        {"error": {"message": "no memory", "code": 500}},
        fails="with an error: no memory",
        counts=False,
        tokens=(None, None),
    ),
    streamed(
        "broken JSON within a stream",
        chunk({"content": "Hi"}),
        "data: {broken",
        chunk({}, "stop"),
        fails="no chunk of a chat completion",
        tokens=(None, None),
    ),
    streamed(
        "deep JSON within a stream", f"data: {DEEP}", fails="nested too deeply", tokens=(None, None)
    ),
    streamed("only an end", fails="without any choice", tokens=(None, None)),
    streamed(
        "a stream that ends",
        chunk({"content": "Hi"}),
        done=False,
        fails="broke off after 2 characters",
        tokens=(None, None),
    ),
    Case(
        "a stream that ends amid an event",
        events(chunk({"content": "Hi"}), done=False) + b'data: {"choi',
        events(chunk({"content": "Hi"}), done=False) + b'data: {"choi',
        fails="broke off after 2 characters",
        tokens=(None, None),
    ),
]


def named(case: Case) -> str:
    return case.name


async def asked(
    respond: Callable[[Connection], Any], stand_ins: list[ModelStandIn], stream: Stream
) -> ChatAnswer:
    async with model_server(respond) as stand_in, speaking(stand_in, stream=stream) as provider:
        stand_ins.append(stand_in)
        return await provider.complete(REQUEST, in_flight())


def body_of(case: Case, stream: Stream) -> bytes:
    return case.whole if stream == "never" else case.streamed


def loads(arguments: str) -> Any:
    return json.loads(arguments)


@pytest.mark.parametrize("stream", ["never", "auto"])
@pytest.mark.parametrize("case", UNDERSTOOD, ids=named)
async def test_an_answer_that_differs_a_little_is_understood(case: Case, stream: Stream) -> None:
    answer = await asked(canned(body_of(case, stream), kind=case.kind), [], stream)
    assert answer.text == case.text
    assert [(call.name, loads(call.arguments)) for call in answer.tool_calls] == case.calls
    assert len({call.id for call in answer.tool_calls}) == len(case.calls)
    assert (answer.input_tokens, answer.output_tokens) == case.tokens
    assert (answer.usage_fault is None) == (case.tokens == (11, 7))
    expected = {"length"} if "limit" in case.name else {"stop", "tool_calls", "function_call"}
    assert answer.finish_reason in expected


@pytest.fixture
def no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tries follow each other at once."""
    monkeypatch.setattr("shared.llm.model_server.QUICK_TRIES", 1)


@pytest.mark.usefixtures("no_waits")
@pytest.mark.parametrize("stream", ["never", "auto"])
@pytest.mark.parametrize("case", FAILED, ids=named)
async def test_an_answer_that_is_none_is_a_billed_failure_that_says_what_came(
    case: Case, stream: Stream
) -> None:
    assert case.fails is not None
    stand_ins: list[ModelStandIn] = []
    with pytest.raises(AnswerError) as raised:
        await asked(canned(body_of(case, stream), kind=case.kind), stand_ins, stream)
    error = raised.value
    assert re.search(case.fails, str(error), re.DOTALL)
    assert stand_ins[0].url in str(error)
    assert (error.unbilled, error.counts) == (False, case.counts)
    assert error.kind in (*COMPLETE_KINDS, FailureKind.CUT_OFF)
    assert len(error.excerpt) <= 500
    assert bool(error.excerpt.strip()) == bool(body_of(case, stream).strip()), error.excerpt
    known = (error.usage.input_tokens, error.usage.output_tokens)
    assert known in (case.tokens, (None, None))
    if stream == "never" and case.tokens == (11, 7):
        assert known == (11, 7)
