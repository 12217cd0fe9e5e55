"""A model server that is slow, away, limits its callers or lacks a feature, over HTTP."""

import asyncio
import json
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count

import pytest

from services.observer.prompts import ObserverPlan
from shared.errors import PermanentError, TransientError
from shared.llm import provider as provider_module
from shared.llm.answers import AnswerError, AnswerTimeoutError, FailureKind
from shared.llm.model_server import (
    MAX_BODY_BYTES,
    MAX_RETRY_AFTER_SECONDS,
    Limits,
    ModelServer,
    Stream,
)
from shared.llm.structured_output import response_format
from shared.retry_after import retry_after_seconds
from shared.tools.schemas import without_max_items
from tests.support.model_server import (
    REQUEST,
    USAGE,
    Connection,
    Respond,
    canned,
    chunk,
    completion,
    events,
    in_flight,
    model_server,
    speaking,
)

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
GOOD = events(chunk({"content": "Hi"}, "stop"), {"choices": [], "usage": USAGE})
QUICK = Limits(whole=0.3, silence=0.3, first_token=0.6, total=30.0)


@pytest.fixture(autouse=True)
def once(monkeypatch: pytest.MonkeyPatch) -> None:
    """No try follows another by itself."""
    monkeypatch.setattr("shared.llm.model_server.QUICK_TRIES", 1)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("90", 90.0),
        ("0.5", 0.5),
        ("-5", 0.0),
        ("1e400", MAX_RETRY_AFTER_SECONDS),
        ("9" * 10_000, MAX_RETRY_AFTER_SECONDS),
        ("-1e400", 0.0),
        ("86400", MAX_RETRY_AFTER_SECONDS),
        ("Sun, 01 Mar 2026 12:01:30 GMT", 90.0),
        ("Sunday, 01-Mar-26 12:01:30 GMT", 90.0),
        ("Sun, 01 Mar 2026 11:00:00 GMT", 0.0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", MAX_RETRY_AFTER_SECONDS),
        ("Fri, 31 Dec 99999999999 23:59:59 GMT", None),
        ("Sun, 01 Mar 2026 12:01:30", 90.0),
        ("nan", None),
        ("soon", None),
        ("", None),
        (None, None),
    ],
)
def test_a_wait_that_is_asked_for_is_bounded(header: str | None, seconds: float | None) -> None:
    assert retry_after_seconds(header, at_most=MAX_RETRY_AFTER_SECONDS, now=NOW) == seconds


async def failing(
    respond: Respond, *, stream: Stream = "auto", limits: Limits | None = None
) -> BaseException:
    """What one sending raises."""
    attempts: list[BaseException | None] = []
    async with model_server(respond) as stand_in:
        async with speaking(stand_in, stream=stream, limits=limits) as provider:
            with pytest.raises((TransientError, PermanentError)):
                await provider.complete(REQUEST, in_flight(attempts))
        assert len(stand_in.requests) == 1
    [error] = attempts
    assert error is not None
    assert "127.0.0.1" in str(error)
    return error


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504, 529])
async def test_who_is_away_or_limits_uses_up_no_attempt(status: int) -> None:
    body = json.dumps({"error": {"message": "try later"}}).encode()
    error = await failing(canned(body, status, Retry_After="7"))
    assert isinstance(error, TransientError)
    assert (error.counts, error.retry_in_seconds) == (False, 7.0)
    assert f"answered {status}: try later" in str(error)


@pytest.mark.parametrize(
    ("status", "code"),
    [(400, "llm_request"), (401, "llm_key"), (402, "llm_quota"), (403, "llm_key"), (404, "llm_model"),
     (413, "llm_request"), (422, "llm_request"), (501, "llm_request"), (304, "llm_request")],
)  # fmt: skip
async def test_what_no_other_try_can_mend_is_permanent(status: int, code: str) -> None:
    error = await failing(canned(b'{"error": {"message": "no"}}', status))
    assert isinstance(error, PermanentError)
    assert error.code == code
    assert error.unbilled


async def test_a_quota_that_is_used_up_is_permanent() -> None:
    body = json.dumps({"error": {"message": "pay", "code": "insufficient_quota"}}).encode()
    error = await failing(canned(body, 429))
    assert isinstance(error, PermanentError)
    assert error.code == "llm_quota"


async def test_an_error_without_end_is_read_as_far_as_it_is_of_use() -> None:
    async def respond(connection: Connection) -> None:
        await connection.head(503)
        while True:
            await connection.send(b"x" * 65536)

    error = await failing(respond)
    assert isinstance(error, TransientError)
    assert not error.counts
    assert len(str(error)) < 3000


async def test_an_error_whose_body_breaks_off_keeps_its_status() -> None:
    error = await failing(canned(b'{"error"', 503, Content_Length="1000"))
    assert isinstance(error, TransientError)
    assert (error.counts, "answered 503" in str(error)) == (False, True)


async def test_a_server_that_cannot_be_reached_uses_up_no_attempt_and_costs_nothing() -> None:
    async with model_server(canned(b"")) as stand_in:
        pass
    async with speaking(stand_in) as provider:
        with pytest.raises(TransientError, match=r"127\.0\.0\.1") as error:
            await provider.complete(REQUEST, in_flight())
    assert (error.value.counts, error.value.unbilled) == (False, True)


async def test_a_connection_that_is_reset_before_any_answer_uses_up_no_attempt() -> None:
    async def respond(connection: Connection) -> None:
        connection.reset()

    error = await failing(respond)
    assert isinstance(error, TransientError)
    assert (error.counts, error.unbilled) == (False, False)


@pytest.mark.parametrize("stream", ["auto", "never"])
async def test_an_answer_that_breaks_off_is_a_failed_one_with_what_came(stream: Stream) -> None:
    async def respond(connection: Connection) -> None:
        await connection.head(200, {"Content-Length": "10000"})
        await connection.send(
            events(chunk({"content": "Hi"}), done=False) if connection.streams else b'{"choices": ['
        )

    error = await failing(respond, stream=stream)
    assert isinstance(error, AnswerError)
    assert (error.kind, error.counts, error.unbilled) == (FailureKind.CUT_OFF, True, False)
    assert error.excerpt == ("Hi" if stream == "auto" else '{"choices": [')


@pytest.mark.parametrize("stream", ["auto", "never"])
async def test_a_body_without_end_is_given_up_at_its_bound(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shared.llm.model_server.MAX_BODY_BYTES", 2**20)
    assert MAX_BODY_BYTES == 32 * 2**20

    async def respond(connection: Connection) -> None:
        await connection.head()
        for number in count():
            piece = events(chunk({"content": f"and {number} "}), done=False)
            await connection.send(piece if connection.streams else b"[" * 65536)

    error = await failing(respond, stream=stream)
    assert isinstance(error, AnswerError)
    assert "1048576 bytes" in str(error)


async def pausing(connection: Connection, *pieces: bytes | float) -> None:
    """Sends pieces, and pauses of so many seconds between them."""
    for piece in pieces:
        if isinstance(piece, bytes):
            await connection.send(piece)
        else:
            await asyncio.sleep(piece)


HI = events(chunk({"content": "Hi"}), done=False)
FOR_EVER = 1000.0


@pytest.mark.parametrize(
    ("stream", "limits", "sent", "setting", "received"),
    [
        ("auto", QUICK, (FOR_EVER,), "VIGIL_LLM_FIRST_TOKEN_SECONDS", "0 bytes"),
        ("auto", QUICK, (b": wait\n\n", FOR_EVER), "VIGIL_LLM_FIRST_TOKEN_SECONDS", "8 bytes"),
        ("auto", QUICK, (HI, FOR_EVER), "VIGIL_LLM_SILENCE_SECONDS", "2 characters"),
        ("auto", Limits(total=0.4), (HI, FOR_EVER), "VIGIL_LLM_TOTAL_SECONDS", "2 characters"),
        ("never", QUICK, (b'{"choices"', FOR_EVER), "VIGIL_LLM_TIMEOUT_SECONDS", "10 bytes"),
    ],
)
async def test_a_server_that_takes_too_long_is_given_up_and_the_setting_named(
    stream: Stream, limits: Limits, sent: tuple[bytes | float, ...], setting: str, received: str
) -> None:
    async def respond(connection: Connection) -> None:
        await connection.head()
        await pausing(connection, *sent)

    error = await failing(respond, stream=stream, limits=limits)
    assert isinstance(error, AnswerTimeoutError)
    assert error.kind is FailureKind.TIMEOUT
    assert setting in str(error)
    assert received in str(error)


async def test_headers_that_never_come_are_given_up_too() -> None:
    async def respond(connection: Connection) -> None:
        await asyncio.sleep(FOR_EVER)

    error = await failing(respond, limits=QUICK)
    assert isinstance(error, AnswerTimeoutError)
    assert "VIGIL_LLM_FIRST_TOKEN_SECONDS" in str(error)


async def test_an_answer_may_take_long_as_long_as_something_comes() -> None:
    """Four times the silence that is borne, and keep-alives for longer than a first token may take."""

    async def respond(connection: Connection) -> None:
        await connection.head()
        for piece in (*[b": wait\n\n"] * 6, *[HI] * 8):
            await pausing(connection, piece, 0.15)
        await connection.send(GOOD)

    async with model_server(respond) as stand_in, speaking(stand_in, limits=QUICK) as provider:
        answer = await provider.complete(REQUEST, in_flight())
    assert answer.text == "Hi" * 9


async def test_a_request_may_wait_while_the_server_answers_another() -> None:
    """A server of one slot: the second request hears nothing for three times as long as a first token may take."""
    slot = asyncio.Lock()

    async def respond(connection: Connection) -> None:
        async with slot:
            await connection.head()
            for _ in range(12):
                await pausing(connection, HI, 0.15)
            await connection.send(GOOD)

    async with model_server(respond) as stand_in, speaking(stand_in, limits=QUICK) as provider:
        answers = await asyncio.gather(
            *(provider.complete(REQUEST, in_flight()) for _ in range(2)),
        )
    assert [each.text for each in answers] == ["Hi" * 13] * 2
    assert len(stand_in.requests) == 2, "neither was sent again"


async def test_a_request_that_waits_for_no_other_is_given_up() -> None:
    """The server answers one request and never the other."""
    answered = asyncio.Event()

    async def respond(connection: Connection) -> None:
        await connection.head()
        if answered.is_set():
            await asyncio.sleep(FOR_EVER)
        answered.set()
        await pausing(connection, HI, 0.2, HI, 0.2)
        await connection.send(GOOD)

    async with model_server(respond) as stand_in, speaking(stand_in, limits=QUICK) as provider:
        first = asyncio.create_task(provider.complete(REQUEST, in_flight()))
        await asyncio.wait_for(answered.wait(), 10)
        with pytest.raises(AnswerTimeoutError, match="VIGIL_LLM_FIRST_TOKEN_SECONDS"):
            await provider.complete(REQUEST, in_flight())
        assert (await first).text == "HiHiHi"


async def test_it_is_told_how_far_an_answer_has_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provider_module, "PROGRESS_SECONDS", 0.05)
    call = {"index": 0, "id": "a", "function": {"name": "look", "arguments": '{"x": 1}'}}
    told: list[int] = []

    async def note(characters: int) -> None:
        told.append(characters)

    async def respond(connection: Connection) -> None:
        await connection.head()
        pieces = [HI, events(chunk({"reasoning_content": "Hm"}), done=False)]
        pieces.append(events(chunk({"tool_calls": [call]}), done=False))
        for piece in pieces:
            await pausing(connection, 0.1, piece)
        await pausing(connection, 0.1, GOOD)

    async with model_server(respond) as stand_in, speaking(stand_in) as provider:
        await provider.complete(REQUEST, in_flight(progressed=note))
    assert told == [2, 4, 12, 14]


def refusing(*parameters: str, words: str, status: int = 400) -> Respond:
    """Answers well to requests that have none of these."""

    async def respond(connection: Connection) -> None:
        for parameter in parameters:
            if connection.body.get(parameter):
                body = {"error": {"message": words.format(parameter)}}
                await connection.head(status, kind="application/json")
                await connection.send(json.dumps(body).encode())
                return
        await connection.head()
        body_ = GOOD if connection.streams else json.dumps(completion({"content": "Hi"})).encode()
        await connection.send(body_)

    return respond


@pytest.mark.parametrize(
    ("refused", "words", "status"),
    [
        (("stream",), "Streaming is not supported", 400),
        (("stream",), "stream: not implemented", 501),
        (("stream_options",), "Unknown parameter: 'stream_options'.", 400),
        (("stream_options", "stream"), "Extra inputs are not permitted: {}", 422),
        (("max_tokens",), "Unsupported parameter: 'max_tokens' is not supported with this model. "
         "Use 'max_completion_tokens' instead.", 400),
        (("max_completion_tokens",), "unexpected keyword argument 'max_completion_tokens'", 400),
        (("stream",), "stream is not supported", 200),
    ],
)  # fmt: skip
async def test_what_a_server_refuses_is_left_out_from_then_on(
    refused: tuple[str, ...], words: str, status: int
) -> None:
    warnings: list[str] = []
    respond = refusing(*refused, words=words, status=status)
    async with (
        model_server(respond) as stand_in,
        speaking(stand_in, warnings=warnings) as provider,
    ):
        for _ in range(2):
            assert (await provider.complete(REQUEST, in_flight())).text == "Hi"
    assert len(stand_in.requests) == 2 + len(refused)
    assert not set(refused) & stand_in.requests[-1].keys()
    assert {"max_tokens", "max_completion_tokens"} & stand_in.requests[-1].keys()
    assert [warning.split("'")[1] for warning in warnings] == list(refused)


@pytest.mark.parametrize(
    "words",
    [
        "Invalid schema for response_format 'plan': In context=('properties', 'queries'), 'maxItems' is not permitted.",
        "Unsupported schema keyword: maxItems",
    ],
)
async def test_maxima_of_lists_are_left_out_of_schemas_where_the_server_refuses_them(
    words: str,
) -> None:
    warnings: list[str] = []

    async def respond(connection: Connection) -> None:
        if "maxItems" in json.dumps(connection.body):
            await connection.head(400, kind="application/json")
            await connection.send(json.dumps({"error": {"message": words}}).encode())
            return
        await connection.head()
        await connection.send(GOOD)

    request = replace(REQUEST, response_format=response_format(ObserverPlan, "plan"))
    async with (
        model_server(respond) as stand_in,
        speaking(stand_in, warnings=warnings) as provider,
    ):
        for _ in range(2):
            assert (await provider.complete(request, in_flight())).text == "Hi"
    refused, *taken = stand_in.requests
    assert len(taken) == 2
    schemas = [each["response_format"]["json_schema"]["schema"] for each in (refused, taken[0])]
    assert schemas[0]["properties"]["queries"]["maxItems"] > 0
    assert schemas[1] == without_max_items(schemas[0])
    assert [warning.split("'")[1] for warning in warnings] == ["maxItems"]


async def test_a_server_that_is_to_stream_always_is_asked_for_nothing_else() -> None:
    respond = refusing("stream", words="Streaming is not supported")
    error = await failing(respond, stream="always")
    assert isinstance(error, PermanentError)


async def test_a_limit_that_is_too_large_is_no_reason_to_leave_it_out() -> None:
    words = "'max_tokens' is too large: 16000. The model's context has 8192 tokens"
    error = await failing(refusing("max_tokens", words=words))
    assert "too large" in str(error)


async def test_without_streaming_nothing_of_it_is_sent() -> None:
    async with (
        model_server(refusing(words="")) as stand_in,
        speaking(stand_in, stream="never") as provider,
    ):
        assert (await provider.complete(REQUEST, in_flight())).text == "Hi"
    [sent] = stand_in.requests
    assert not {"stream", "stream_options"} & sent.keys()


async def test_whoever_listens_is_told_the_text_as_it_grows() -> None:
    heard: list[str] = []

    async def hear(text: str) -> None:
        heard.append(text)

    async def respond(connection: Connection) -> None:
        await connection.head()
        for word in ("Hi", " there"):
            await connection.send(events(chunk({"content": word}), done=False))
            await asyncio.sleep(0.05)
        await connection.send(events(chunk({}, "stop")))

    async with model_server(respond) as stand_in, speaking(stand_in) as provider:
        await provider.complete(REQUEST, in_flight(), hear)
    assert heard == ["Hi", "Hi there"]


async def test_credentials_in_the_url_are_in_no_error() -> None:
    server = ModelServer(
        api_key="k", base_url="http://user:password@127.0.0.1:9/v1?key=secret", limits=Limits()
    )
    try:
        assert server.name == "the model server at http://127.0.0.1:9/v1"
    finally:
        await server.close()
