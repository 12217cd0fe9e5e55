"""Requests to model servers: retries, lost requests and known quirks."""

import asyncio
import json
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from random import Random

import pytest
from aiohttp.client_proto import ResponseHandler

from cli.trial.conformance import converse, request_of
from services.observer.prompts import ObserverPlan
from shared.errors import PermanentError, TransientError, VigilError
from shared.llm import model_server as model_server_module
from shared.llm import provider as provider_module
from shared.llm.answer_errors import AnswerError, AnswerTimeoutError, FailureKind
from shared.llm.answers import Received
from shared.llm.model_server import (
    MAX_BODY_BYTES,
    MAX_RETRY_AFTER_SECONDS,
    QUEUED_WAITS,
    Limits,
    ModelServer,
    Patience,
    Stream,
)
from shared.llm.structured_output import response_format
from shared.retry_after import retry_after_seconds
from shared.telemetry.metrics import ProviderHealth
from shared.tools.schemas import without_max_items
from tests.support.model_server import (
    REQUEST,
    USAGE,
    Connection,
    Respond,
    chunk,
    completion,
    events,
    fixed_response,
    make_resumable_call,
    model_server,
    provider_for,
)
from tests.support.providers.quirk_server import QuirkServer
from tests.support.providers.quirks import Quirk, quirks, with_table

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
GOOD = events(chunk({"content": "Hi"}, "stop"), {"choices": [], "usage": USAGE})
QUICK = Limits(whole=0.3, silence=0.3, first_token=0.6, total=30.0)


@pytest.fixture(autouse=True)
def no_quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disable immediate retries."""
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
def test_retry_after_is_parsed_and_bounded(header: str | None, seconds: float | None) -> None:
    assert retry_after_seconds(header, at_most=MAX_RETRY_AFTER_SECONDS, now=NOW) == seconds


@pytest.mark.parametrize(
    ("date", "seconds"),
    [
        ("Wed, 21 Oct 2015 07:28:00 GMT", 30.0),
        ("Wed, 21 Oct 2099 07:28:00 GMT", 0.0),
        ("nonsense", 0.0),
        (None, 0.0),
    ],
)
def test_a_date_is_counted_from_the_clock_of_the_server(date: str | None, seconds: float) -> None:
    header = "Wed, 21 Oct 2015 07:28:30 GMT"
    assert retry_after_seconds(header, at_most=60, date=date) == seconds


async def complete_error(
    respond: Respond, *, stream: Stream = "auto", limits: Limits | None = None
) -> BaseException:
    """Return the error of one attempt."""
    attempt_errors: list[BaseException | None] = []
    async with model_server(respond) as stand_in:
        async with provider_for(stand_in, stream=stream, limits=limits) as provider:
            with pytest.raises((TransientError, PermanentError)):
                await provider.complete(REQUEST, make_resumable_call(attempt_errors))
        assert len(stand_in.requests) == 1
    [error] = attempt_errors
    assert error is not None
    assert "127.0.0.1" in str(error)
    return error


@pytest.mark.parametrize(
    ("reasoning", "is_failure"),
    [
        ("Let me list the makers.", True),
        ("", True),
        ('I use it.\n<tool_call>\n{"name": "look", "arguments": {}}\n</tool_call>', False),
    ],
)
async def test_reasoning_alone_in_place_of_a_call_is_a_failed_attempt_unless_it_has_one(
    reasoning: str, *, is_failure: bool
) -> None:
    """The call would be there again: the phase goes on without it, and its owner is told."""
    tool = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
    answer = completion({"role": "assistant", "content": "", "reasoning_content": reasoning})
    respond = fixed_response(json.dumps(answer).encode())
    request = replace(REQUEST, tools=(tool,), tool_choice="required")
    async with model_server(respond) as stand_in, provider_for(stand_in) as provider:
        completing = provider.complete(request, make_resumable_call())
        if is_failure:
            with pytest.raises(AnswerError, match="reasoning alone") as caught:
                await completing
            assert caught.value.kind is FailureKind.NO_ANSWER
        else:
            assert (await completing).thoughts == reasoning


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504, 529])
async def test_an_unavailable_or_rate_limited_server_does_not_count_as_an_attempt(
    status: int,
) -> None:
    body = json.dumps({"error": {"message": "try later"}}).encode()
    error = await complete_error(fixed_response(body, status, Retry_After="7"))
    assert isinstance(error, TransientError)
    assert (error.counts, error.retry_in_seconds) == (False, 7.0)
    assert f"answered {status}: try later" in str(error)


@pytest.mark.parametrize(
    ("status", "is_unavailable"),
    [(408, True), (409, False), (425, False), (429, False), (503, True), (400, False)],
)
async def test_a_server_that_answers_a_single_request_so_is_available(
    monkeypatch: pytest.MonkeyPatch, status: int, *, is_unavailable: bool
) -> None:
    health = ProviderHealth()
    monkeypatch.setattr(model_server_module, "PROVIDER_HEALTH", health)
    await complete_error(fixed_response(b"no", status))
    assert health.is_unavailable("model") == is_unavailable


@pytest.mark.parametrize(
    ("status", "code"),
    [(400, "llm_request"), (401, "llm_key"), (402, "llm_quota"), (403, "llm_key"), (404, "llm_model"),
     (413, "llm_request"), (422, "llm_request"), (501, "llm_request"), (304, "llm_request")],
)  # fmt: skip
async def test_errors_that_a_retry_cannot_fix_are_permanent(status: int, code: str) -> None:
    error = await complete_error(fixed_response(b'{"error": {"message": "no"}}', status))
    assert isinstance(error, PermanentError)
    assert error.code == code
    assert error.is_unbilled


async def test_an_exhausted_quota_is_permanent() -> None:
    body = json.dumps({"error": {"message": "pay", "code": "insufficient_quota"}}).encode()
    error = await complete_error(fixed_response(body, 429))
    assert isinstance(error, PermanentError)
    assert error.code == "llm_quota"


async def test_an_endless_error_body_is_read_in_part() -> None:
    async def respond(connection: Connection) -> None:
        await connection.head(503)
        while True:
            await connection.send(b"x" * 65536)

    error = await complete_error(respond)
    assert isinstance(error, TransientError)
    assert not error.counts
    assert len(str(error)) < 3000


async def test_an_error_with_a_truncated_body_keeps_its_status() -> None:
    error = await complete_error(fixed_response(b'{"error"', 503, Content_Length="1000"))
    assert isinstance(error, TransientError)
    assert (error.counts, "answered 503" in str(error)) == (False, True)


async def test_an_unreachable_server_is_unbilled_and_does_not_count_as_an_attempt() -> None:
    async with model_server(fixed_response(b"")) as stand_in:
        pass
    async with provider_for(stand_in) as provider:
        with pytest.raises(TransientError, match=r"127\.0\.0\.1") as error:
            await provider.complete(REQUEST, make_resumable_call())
    assert (error.value.counts, error.value.is_unbilled) == (False, True)


@pytest.mark.parametrize("end", [Connection.reset, Connection.close])
async def test_a_connection_lost_before_any_response_does_not_count_as_an_attempt(
    end: Callable[[Connection], None],
) -> None:
    """The request was received, so it may be billed."""

    async def respond(connection: Connection) -> None:
        end(connection)

    error = await complete_error(respond)
    assert isinstance(error, TransientError)
    assert (error.counts, error.is_unbilled) == (False, False)


async def test_a_connection_closed_within_the_response_head_is_an_explained_error() -> None:
    async def respond(connection: Connection) -> None:
        await connection.send(b"HTTP/1.1 200 OK\r\nContent-Ty")
        connection.close()

    error = await complete_error(respond)
    assert isinstance(error, TransientError)
    assert (error.counts, error.is_unbilled) == (False, False)
    assert str(error).endswith("it closed the connection")


async def test_a_response_that_is_no_http_is_an_explained_error() -> None:
    async def respond(connection: Connection) -> None:
        await connection.send(b"SMTP is spoken here\r\n\r\n")
        connection.close()

    error = await complete_error(respond)
    assert isinstance(error, TransientError)
    assert not error.is_unbilled
    assert "did not return a valid HTTP response" in str(error)


@pytest.mark.parametrize("stream", ["auto", "never"])
async def test_a_truncated_response_is_an_error_with_the_received_part(stream: Stream) -> None:
    async def respond(connection: Connection) -> None:
        await connection.head(200, {"Content-Length": "10000"})
        await connection.send(
            events(chunk({"content": "Hi"}), done=False) if connection.streams else b'{"choices": ['
        )

    error = await complete_error(respond, stream=stream)
    assert isinstance(error, AnswerError)
    assert (error.kind, error.counts, error.is_unbilled) == (FailureKind.CUT_OFF, True, False)
    assert error.excerpt == ("Hi" if stream == "auto" else '{"choices": [')


@pytest.mark.parametrize("stream", ["auto", "never"])
async def test_an_endless_body_is_rejected_at_the_size_limit(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shared.llm.model_server.MAX_BODY_BYTES", 2**20)
    assert MAX_BODY_BYTES == 32 * 2**20

    async def respond(connection: Connection) -> None:
        await connection.head()
        for number in count():
            words = Random(number).randbytes(8).hex()
            piece = events(chunk({"content": f"and {words} "}), done=False)
            await connection.send(piece if connection.streams else b"[" * 65536)

    error = await complete_error(respond, stream=stream)
    assert isinstance(error, AnswerError)
    assert "1048576 bytes" in str(error)


async def send_with_pauses(connection: Connection, *pieces: bytes | float) -> None:
    """Send the bytes; a number is a pause in seconds."""
    for piece in pieces:
        if isinstance(piece, bytes):
            await connection.send(piece)
        else:
            await asyncio.sleep(piece)


HI = events(chunk({"content": "Hi"}), done=False)
FOREVER = 1000.0


@pytest.mark.parametrize(
    ("stream", "limits", "pieces", "setting", "received"),
    [
        ("auto", QUICK, (FOREVER,), "VIGIL_LLM_FIRST_TOKEN_SECONDS", "0 bytes"),
        ("auto", QUICK, (b": wait\n\n", FOREVER), "VIGIL_LLM_FIRST_TOKEN_SECONDS", "8 bytes"),
        ("auto", QUICK, (HI, FOREVER), "VIGIL_LLM_SILENCE_SECONDS", "2 characters"),
        ("auto", Limits(total=0.4), (HI, FOREVER), "VIGIL_LLM_TOTAL_SECONDS", "2 characters"),
        ("never", QUICK, (b'{"choices"', FOREVER), "VIGIL_LLM_TIMEOUT_SECONDS", "10 bytes"),
    ],
)
async def test_a_timeout_names_the_setting(
    stream: Stream, limits: Limits, pieces: tuple[bytes | float, ...], setting: str, received: str
) -> None:
    async def respond(connection: Connection) -> None:
        await connection.head()
        await send_with_pauses(connection, *pieces)

    error = await complete_error(respond, stream=stream, limits=limits)
    assert isinstance(error, AnswerTimeoutError)
    assert error.kind is FailureKind.TIMEOUT
    assert setting in str(error)
    assert received in str(error)


async def test_missing_response_headers_time_out() -> None:
    async def respond(connection: Connection) -> None:
        await asyncio.sleep(FOREVER)

    error = await complete_error(respond, limits=QUICK)
    assert isinstance(error, AnswerTimeoutError)
    assert "VIGIL_LLM_FIRST_TOKEN_SECONDS" in str(error)


async def test_a_slow_response_is_accepted_while_data_arrives() -> None:
    """Takes four times the silence limit, with keep-alives before the first token."""

    async def respond(connection: Connection) -> None:
        await connection.head()
        for piece in (*[b": wait\n\n"] * 2, *[HI] * 8):
            await send_with_pauses(connection, piece, 0.15)
        await connection.send(GOOD)

    async with model_server(respond) as stand_in, provider_for(stand_in, limits=QUICK) as provider:
        answer = await provider.complete(REQUEST, make_resumable_call())
    assert answer.text == "Hi" * 9


async def test_a_request_may_wait_while_the_server_processes_another() -> None:
    """A server with one slot: the second request receives nothing for three times the first-token limit."""
    slot = asyncio.Lock()

    async def respond(connection: Connection) -> None:
        async with slot:
            await connection.head()
            for _ in range(12):
                await send_with_pauses(connection, HI, 0.15)
            await connection.send(GOOD)

    async with model_server(respond) as stand_in, provider_for(stand_in, limits=QUICK) as provider:
        answers = await asyncio.gather(
            *(provider.complete(REQUEST, make_resumable_call()) for _ in range(2)),
        )
    assert [answer.text for answer in answers] == ["Hi" * 13] * 2
    assert len(stand_in.requests) == 2, "no request was repeated"


async def test_a_request_times_out_when_no_other_request_is_in_progress() -> None:
    """The server answers one request and never the other."""
    answered = asyncio.Event()

    async def respond(connection: Connection) -> None:
        await connection.head()
        if answered.is_set():
            await asyncio.sleep(FOREVER)
        answered.set()
        await send_with_pauses(connection, HI, 0.2, HI, 0.2)
        await connection.send(GOOD)

    async with model_server(respond) as stand_in, provider_for(stand_in, limits=QUICK) as provider:
        first = asyncio.create_task(provider.complete(REQUEST, make_resumable_call()))
        await asyncio.wait_for(answered.wait(), 10)
        with pytest.raises(AnswerTimeoutError, match="VIGIL_LLM_FIRST_TOKEN_SECONDS"):
            await provider.complete(REQUEST, make_resumable_call())
        assert (await first).text == "HiHiHi"


async def test_progress_is_reported_in_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provider_module, "PROGRESS_SECONDS", 0.05)
    call = {"index": 0, "id": "a", "function": {"name": "look", "arguments": '{"x": 1}'}}
    counts: list[int] = []

    async def record(characters: int) -> None:
        counts.append(characters)

    async def respond(connection: Connection) -> None:
        await connection.head()
        pieces = [HI, events(chunk({"reasoning_content": "Hm"}), done=False)]
        pieces.append(events(chunk({"tool_calls": [call]}), done=False))
        for piece in pieces:
            await send_with_pauses(connection, 0.1, piece)
        await send_with_pauses(connection, 0.1, GOOD)

    async with model_server(respond) as stand_in, provider_for(stand_in) as provider:
        await provider.complete(REQUEST, make_resumable_call(progressed=record))
    assert counts == [2, 4, 12, 14]


def rejecting(*parameters: str, message: str, status: int = 400) -> Respond:
    """Answer with an error if the request has one of these parameters."""

    async def respond(connection: Connection) -> None:
        for parameter in parameters:
            if connection.body.get(parameter):
                body = {"error": {"message": message.format(parameter)}}
                await connection.head(status, kind="application/json")
                await connection.send(json.dumps(body).encode())
                return
        await connection.head()
        answer = GOOD if connection.streams else json.dumps(completion({"content": "Hi"})).encode()
        await connection.send(answer)

    return respond


@pytest.mark.parametrize(
    ("refused", "message", "status"),
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
async def test_a_rejected_parameter_is_omitted_from_later_requests(
    refused: tuple[str, ...], message: str, status: int
) -> None:
    warnings: list[str] = []
    respond = rejecting(*refused, message=message, status=status)
    async with (
        model_server(respond) as stand_in,
        provider_for(stand_in, warnings=warnings) as provider,
    ):
        for _ in range(2):
            assert (await provider.complete(REQUEST, make_resumable_call())).text == "Hi"
    assert len(stand_in.requests) == 2 + len(refused)
    assert not set(refused) & stand_in.requests[-1].keys()
    assert {"max_tokens", "max_completion_tokens"} & stand_in.requests[-1].keys()
    assert [warning.split("'")[1] for warning in warnings] == list(refused)


OPTIONS = {"reasoning_effort": "low", "verbosity": "low", "service_tier": "flex"}


async def test_options_of_a_phase_are_sent_until_the_server_rejects_one() -> None:
    respond = rejecting("verbosity", message="Unknown parameter: 'verbosity'.")
    request = replace(REQUEST, options=OPTIONS, cache_key="agent:observer")
    async with (
        model_server(respond) as stand_in,
        provider_for(stand_in, warnings=[]) as provider,
    ):
        for _ in range(2):
            assert (await provider.complete(request, make_resumable_call())).text == "Hi"
        sent = [
            {name: body[name] for name in OPTIONS if name in body} for body in stand_in.requests
        ]
        accepted = {name: value for name, value in OPTIONS.items() if name != "verbosity"}
        assert sent == [OPTIONS, accepted, accepted]
        assert not any("prompt_cache_key" in body for body in stand_in.requests), (
            "only OpenAI's own servers know it"
        )


def test_options_are_no_part_of_the_identity_of_a_call() -> None:
    request = replace(REQUEST, options=OPTIONS, cache_key="agent:observer")
    assert request.call.hash == REQUEST.call.hash


@pytest.mark.parametrize(
    "words",
    [
        "Invalid schema for response_format 'plan': In context=('properties', 'queries'), 'maxItems' is not permitted.",
        "Unsupported schema keyword: maxItems",
    ],
)
async def test_max_items_is_omitted_from_schemas_if_the_server_rejects_it(
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
        provider_for(stand_in, warnings=warnings) as provider,
    ):
        for _ in range(2):
            assert (await provider.complete(request, make_resumable_call())).text == "Hi"
    rejected, *accepted = stand_in.requests
    assert len(accepted) == 2
    schemas = [body["response_format"]["json_schema"]["schema"] for body in (rejected, accepted[0])]
    assert schemas[0]["properties"]["queries"]["maxItems"] > 0
    assert schemas[1] == without_max_items(schemas[0])
    assert [warning.split("'")[1] for warning in warnings] == ["maxItems"]


async def test_stream_always_does_not_fall_back_to_whole_responses() -> None:
    respond = rejecting("stream", message="Streaming is not supported")
    error = await complete_error(respond, stream="always")
    assert isinstance(error, PermanentError)


async def test_a_token_limit_that_is_too_large_is_not_omitted() -> None:
    message = "'max_tokens' is too large: 16000. The model's context has 8192 tokens"
    error = await complete_error(rejecting("max_tokens", message=message))
    assert "too large" in str(error)


async def test_stream_never_sends_no_stream_parameters() -> None:
    async with (
        model_server(rejecting(message="")) as stand_in,
        provider_for(stand_in, stream="never") as provider,
    ):
        assert (await provider.complete(REQUEST, make_resumable_call())).text == "Hi"
    [body] = stand_in.requests
    assert not {"stream", "stream_options"} & body.keys()


async def test_the_stream_listener_receives_the_growing_text() -> None:
    texts: list[str] = []

    async def on_delta(text: str) -> None:
        texts.append(text)

    async def respond(connection: Connection) -> None:
        await connection.head()
        for word in ("Hi", " there"):
            await connection.send(events(chunk({"content": word}), done=False))
            await asyncio.sleep(0.05)
        await connection.send(events(chunk({}, "stop")))

    async with model_server(respond) as stand_in, provider_for(stand_in) as provider:
        await provider.complete(REQUEST, make_resumable_call(), on_delta)
    assert texts == ["Hi", "Hi there"]


async def test_the_events_of_a_stream_are_read_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_server_module, "READ_SECONDS", 0.5)
    event_count = 50
    receive = ResponseHandler.data_received
    received: list[bytes] = []

    def data_received(self: ResponseHandler, data: bytes) -> None:
        received.extend([data] if data else [])
        receive(self, data)

    monkeypatch.setattr(ResponseHandler, "data_received", data_received)

    async def respond(connection: Connection) -> None:
        await connection.head()
        for _ in range(event_count):
            await connection.send(HI)
            for _ in range(3):  # the client may read the event
                await asyncio.sleep(0)
        await connection.send(GOOD)

    async with model_server(respond) as stand_in, provider_for(stand_in) as provider:
        answer = await provider.complete(REQUEST, make_resumable_call())
    assert answer.text == "Hi" * (event_count + 1)
    assert len(received) < event_count / 2


async def test_credentials_in_the_url_are_not_in_the_server_name() -> None:
    server = ModelServer(
        api_key="k", base_url="http://user:password@127.0.0.1:9/v1?key=secret", limits=Limits()
    )
    try:
        assert server.name == "the model server at http://127.0.0.1:9/v1"
    finally:
        await server.close()


LIMITS = Limits(first_token=0.3, total=30.0)
OTHERS_SECONDS = 0.05
"""Between two answers to other requests."""


@pytest.mark.parametrize(
    ("is_serial", "longest"), [(False, LIMITS.first_token), (True, QUEUED_WAITS * 0.3)]
)
async def test_answers_to_other_requests_prolong_the_wait_for_a_serial_server_alone(
    *, is_serial: bool, longest: float
) -> None:
    patience = Patience("s", LIMITS, Received("s"), streams=True, is_serial=is_serial)
    clock = asyncio.get_running_loop().time

    async def answer_others() -> None:
        for _ in count():
            await asyncio.sleep(OTHERS_SECONDS)
            patience.server_answers()

    others = asyncio.create_task(answer_others())
    begun_at = clock()
    with pytest.raises(AnswerTimeoutError, match="VIGIL_LLM_FIRST_TOKEN_SECONDS"):
        await patience.wait_for(asyncio.sleep(60))
    others.cancel()
    assert longest - 0.02 <= clock() - begun_at < longest + 10
    if is_serial:
        assert clock() - begun_at > 2 * LIMITS.first_token


@pytest.mark.parametrize("is_serial", [False, True])
@pytest.mark.parametrize(
    "piece", [b": keep-alive\n\n", b'event: ping\ndata: {"type": "ping"}\n\n', b"data: {}\n\n"]
)
async def test_events_without_a_token_do_not_prolong_the_wait(
    *, is_serial: bool, piece: bytes
) -> None:
    received = Received("s")
    patience = Patience("s", LIMITS, received, streams=True, is_serial=is_serial)
    clock = asyncio.get_running_loop().time
    begun_at = clock()

    async def read_events() -> None:
        while clock() - begun_at < 10:
            await patience.wait_for(asyncio.sleep(OTHERS_SECONDS))
            received.take(piece)

    with pytest.raises(AnswerTimeoutError, match="VIGIL_LLM_FIRST_TOKEN_SECONDS"):
        await read_events()
    assert clock() - begun_at >= LIMITS.first_token - 0.02


STREAMS: tuple[Stream, ...] = ("auto", "never")


def test_there_are_many_quirks_with_what_they_need() -> None:
    assert len(quirks()) >= 60
    for quirk in quirks():
        assert quirk.refuse or quirk.answer, quirk.name
        assert all((quirk.servers, quirk.does, quirk.expected)), quirk.name


def test_the_table_of_quirks_is_up_to_date() -> None:
    page = Path("docs/models.md").read_text("utf-8")
    assert with_table(page) == page, "run `make quirks`"


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("quirk", quirks(), ids=lambda quirk: quirk.name)
async def test_the_client_copes_with_the_quirk(quirk: Quirk, stream: Stream) -> None:
    expect = dict(quirk.expect)
    if stream not in expect.pop("streams", STREAMS):
        pytest.skip("the quirk is one of the other kind of answer")
    warnings: list[str] = []
    request = request_of(quirk.request, "m", expect.pop("options", None))
    async with (
        model_server(QuirkServer(quirk)) as stand_in,
        provider_for(stand_in, stream=stream, warnings=warnings) as provider,
    ):
        if "error" in expect:
            with pytest.raises(VigilError, match=expect.pop("error")) as error:
                await converse(provider, request, make_resumable_call())
            assert getattr(error.value, "counts", True), "it uses up an attempt, so it ends"
        else:
            conversation = await converse(provider, request, make_resumable_call())
            assert conversation.is_complete, conversation
            assert conversation.calls == (2 if request.tools else 0)
            assert conversation.answers[-1].cached_tokens == expect.pop("cached", 0)
            again = len(stand_in.requests)
            await converse(provider, request, make_resumable_call())
            assert len(stand_in.requests) - again <= len(conversation.answers) + expect.pop(
                "again", 0
            ), "what helped is remembered"
    warning = expect.pop("warning", None)
    if warning is not None:
        assert sum(bool(re.search(warning, each)) for each in warnings) == 1, warnings
    assert not expect, f"unknown expectations: {expect}"
