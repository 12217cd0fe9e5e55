"""Valid and invalid responses of model servers over HTTP, streamed and not streamed."""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from shared.llm.answer_errors import COMPLETE_KINDS, AnswerError, FailureKind
from shared.llm.answers import Received
from shared.llm.messages import ChatAnswer
from shared.llm.model_server import Stream
from shared.llm.usage import parse_usage
from tests.support.case_files import read_cases
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

ExpectedCall = Sequence[Any]
"""The name of a tool, and its arguments."""
CALL = {"id": "a", "type": "function", "function": {"name": "look", "arguments": '{"x": 1}'}}


@dataclass(frozen=True)
class Case:
    """A server's response, whole and streamed, and the expected result."""

    name: str
    whole: bytes
    streamed: bytes
    text: str | None = None
    """The text of an accepted response."""
    calls: Sequence[ExpectedCall] = ()
    tokens: Sequence[int | None] = (11, 7)
    fails: str | None = None
    """A pattern for the error message of a rejected response."""
    counts: bool = True
    kind: str = ""
    """The media type, if it is not the default."""


def message_case(
    name: str,
    message: Any,
    text: str | None = None,
    calls: Sequence[ExpectedCall] = (),
    *,
    finish: Any = "stop",
    fails: str | None = None,
) -> Case:
    """A message in an ordinary response; streamed as one chunk."""
    chunks = (chunk(message), chunk({}, finish), {"choices": [], "usage": USAGE})
    whole = json.dumps(completion(message, finish)).encode()
    return Case(name, whole, events(*chunks), text, calls, fails=fails)


def call_case(name: str, call: Any, *calls: ExpectedCall, fails: str | None = None) -> Case:
    return message_case(
        name,
        {"content": None, "tool_calls": call},
        None if fails else "",
        calls,
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


def exact_case(name: str, whole: str, streamed: str, text: str | None = None, **more: Any) -> Case:
    return Case(name, whole.encode(), streamed.encode(), text, **more)


BUILDERS: dict[str, Callable[..., Case]] = {
    "message": message_case,
    "call": call_case,
    "usage": usage_case,
    "raw": raw_case,
    "json": json_case,
    "stream": stream_case,
    "exact": exact_case,
}


def from_file(table: str) -> list[Case]:
    """The cases of the YAML file: the builder of each, its name, and the other arguments."""
    return [
        BUILDERS[kind](name, *arguments, **(named[0] if named else {}))
        for kind, name, arguments, *named in read_cases(__file__)[table]
    ]


def function(name: Any, arguments: Any, **more: Any) -> dict[str, Any]:
    return {"function": {"name": name, "arguments": arguments}, **more}


LOOK = ("look", {"x": 1})
END = {"choices": [], "usage": USAGE}
DEEP = "[" * 100_000 + "]" * 100_000

ACCEPTED = [
    *from_file("accepted"),
    Case(
        "no finish reason in a whole answer",
        json.dumps(completion({"content": "Hi"}, None)).encode(),
        json.dumps(completion({"content": "Hi"}, None)).encode(),
        "Hi",
    ),
    message_case("half a character", {"content": "Hi\ud83d"}, "Hi?"),
    call_case(
        "300 calls",
        [function("look", '{"x": 1}', index=n, id=str(n)) for n in range(300)],
        *[LOOK] * 300,
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
    usage_case(
        "usage of 10,000 digits", {"prompt_tokens": int("9" * 4000), "completion_tokens": 1}
    ),
    usage_case("usage that is no number", {"prompt_tokens": float("nan"), "completion_tokens": 7}),
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
    *from_file("rejected"),
    raw_case("bytes", bytes(range(128, 256)) * 10, "JSON", kind="application/octet-stream"),
    raw_case("deep JSON", DEEP, "nested too deeply"),
    raw_case("deep JSON in an answer", f'{{"choices": {DEEP}}}', "nested too deeply"),
    raw_case("JSON of 10,000 digits", "9" * 10_000, "not a chat completion.*a float"),
    Case(
        "message null",
        json.dumps(completion(None)).encode(),
        events({"choices": [{"message": None}], "usage": USAGE}, done=False),
        fails="message is null|without a finish reason",
    ),
    Case(
        "an empty message",
        json.dumps(completion({})).encode(),
        events(END),
        fails="neither content nor tool calls|without choices",
    ),
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
        "repetition",
        {"content": "Go. " + "on and on, " * 3000},
        finish="length",
        fails="repeated itself",
    ),
    stream_case(
        "deep JSON within a stream", f"data: {DEEP}", fails="nested too deeply", tokens=(None, None)
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
    assert [(call.name, loads(call.arguments)) for call in answer.tool_calls] == [
        tuple(call) for call in case.calls
    ]
    assert len({call.id for call in answer.tool_calls}) == len(case.calls)
    assert (answer.input_tokens, answer.output_tokens) == tuple(case.tokens)
    assert (answer.usage_fault is None) == (tuple(case.tokens) == (11, 7))
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
    assert (error.is_unbilled, error.counts) == (False, case.counts)
    assert error.kind in (*COMPLETE_KINDS, FailureKind.CUT_OFF)
    assert len(error.excerpt) <= 500
    assert bool(error.excerpt.strip()) == bool(body_of(case, stream).strip()), error.excerpt
    usage = (error.usage.input_tokens, error.usage.output_tokens)
    assert usage in (tuple(case.tokens), (None, None))
    if stream == "never" and tuple(case.tokens) == (11, 7):
        assert usage == (11, 7)


@pytest.mark.parametrize(("total", "read"), [(33_010, 33_000), (3_010, 3_000), (None, 3_000)])
def test_cached_tokens_are_added_to_the_input_if_the_total_has_them(
    total: int | None, read: int
) -> None:
    usage = {
        "prompt_tokens": 3_000,
        "completion_tokens": 10,
        "total_tokens": total,
        "prompt_tokens_details": {"cached_tokens": 30_000},
    }
    parsed = parse_usage({"usage": usage})
    assert (parsed.input_tokens, parsed.cached_tokens) == (read, 30_000 if read > 30_000 else 0)


def test_the_words_of_an_error_line_in_a_stream_are_shown() -> None:
    """llama.cpp ends a stream with such a line, which is not in the standard."""
    received = Received("the server")
    received.take(events(chunk({"content": "Half"})))
    with pytest.raises(AnswerError, match="Compute error"):
        received.take(b'error: {"code": 500, "message": "Compute error."}\n\n')


@pytest.mark.parametrize("tag", ["think", "thinking", "thought", "reasoning"])
def test_reasoning_in_tags_before_the_text_is_left_out(tag: str) -> None:
    message = {"role": "assistant", "content": f"<{tag}>Hm.</{tag}>\n\nYes."}
    assert ChatAnswer(message, "stop").text == "Yes."
