"""Invalid responses of the other interfaces: background responses and embeddings."""

import base64
import json
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from shared.billing import resumable_call
from shared.billing.embedding_cache import EmbeddingRequest
from shared.billing.resumable_call import CallLostError, ResumableCall
from shared.database.tables.graph import DIMENSIONS
from shared.errors import PermanentError, TransientError, VigilError
from shared.llm.answer_errors import AnswerError
from shared.llm.background_provider import BackgroundProvider
from shared.llm.model_server import Limits, ModelServer
from shared.llm.provider import ChatProvider, Embedder
from tests.support.model_server import (
    REQUEST,
    Connection,
    fixed_response,
    make_resumable_call,
    model_server,
)

USAGE = {"input_tokens": 11, "output_tokens": 7}
HI = {"type": "message", "content": [{"type": "output_text", "text": "Hi"}]}
DEEP = b"[" * 100_000 + b"]" * 100_000


def response(**changes: Any) -> dict[str, Any]:
    return {"id": "r1", "status": "completed", "output": [HI], "usage": USAGE, **changes}


@pytest.fixture(autouse=True)
def no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shared.llm.model_server.QUICK_TRIES", 1)
    monkeypatch.setattr(resumable_call, "FIRST_POLL_SECONDS", 0.01)


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[ModelServer]:
    server = ModelServer(api_key="k", base_url=url, limits=Limits())
    try:
        yield server
    finally:
        await server.close()


def call() -> ResumableCall:
    async def store_reference(_: str) -> None:
        return None

    return ResumableCall("key", None, store_reference, make_resumable_call().attempt)


async def complete(start_body: Any, result_body: Any) -> str:
    """Start a background response, poll it once and return its text and tokens."""

    async def respond(connection: Connection) -> None:
        body = result_body if connection.path.endswith("/r1") else start_body
        await connection.head(kind="application/json")
        await connection.send(body if isinstance(body, bytes) else json.dumps(body).encode())

    async with model_server(respond) as stand_in, connected(stand_in.url) as server:
        answer = await BackgroundProvider(server).complete(REQUEST, call())
        return f"{answer.text} {answer.input_tokens}"


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (response(), "Hi 11"),
        (response(extra={"x": 1}), "Hi 11"),
        (response(usage=None), "Hi None"),
        (response(usage={"input_tokens": -1, "output_tokens": 2}), "Hi None"),
        (response(output=[{"type": "reasoning"}, None, HI]), "Hi 11"),
        (response(output=[{"type": "message", "content": "Hi"}]), "Hi 11"),
    ],
)
async def test_a_response_with_small_deviations_is_accepted(result: Any, expected: str) -> None:
    assert await complete({"id": "r1"}, result) == expected


async def test_a_response_that_is_complete_at_once_is_not_polled() -> None:
    assert await complete(response(id="r9"), b"never read") == "Hi 11"


async def test_background_mode_is_left_out_if_the_server_refuses_it() -> None:
    bodies: list[dict[str, Any]] = []

    async def respond(connection: Connection) -> None:
        bodies.append(connection.body)
        is_refused = "background" in bodies[-1]
        error = {"error": {"message": "Unsupported parameter: 'background'"}}
        await connection.head(400 if is_refused else 200, kind="application/json")
        await connection.send(json.dumps(error if is_refused else response()).encode())

    async with model_server(respond) as stand_in, connected(stand_in.url) as server:
        answer = await BackgroundProvider(server).complete(REQUEST, call())
    assert answer.text == "Hi"
    assert ["background" in body for body in bodies] == [True, False]
    assert bodies[0]["include"] == ["reasoning.encrypted_content"]


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (404, "This model is only supported in v1/responses and not in v1/chat/completions."),
        (400, "This model is only supported in v1/responses and not in v1/chat/completions."),
        (405, "use the Responses API for this model"),
        (400, 'model "gpt-5-codex" is not accessible via the /chat/completions endpoint'),
        (400, "The chatCompletion operation does not work with the specified model"),
    ],
)
async def test_a_model_that_only_the_responses_api_has_is_used_by_it(
    status: int, words: str
) -> None:
    paths: list[str] = []

    async def respond(connection: Connection) -> None:
        paths.append(connection.path.rpartition("/v1")[2])
        is_chat = connection.path.endswith("/chat/completions")
        await connection.head(status if is_chat else 200, kind="application/json")
        body = {"error": {"message": words}} if is_chat else response()
        await connection.send(json.dumps(body).encode())

    warnings: list[str] = []
    async with model_server(respond) as stand_in:
        server = ModelServer(
            api_key="k", base_url=stand_in.url, limits=Limits(), warn=warnings.append
        )
        provider = ChatProvider(server, BackgroundProvider(server))
        answers = [await provider.complete(REQUEST, call()) for _ in range(2)]
        await server.close()
    assert [answer.text for answer in answers] == ["Hi", "Hi"]
    assert [path.rpartition("/")[2] for path in paths] == ["completions", "responses", "responses"]
    assert len(warnings) == 1
    assert "Responses API" in warnings[0]


async def test_the_words_of_another_server_are_no_reason_without_a_responses_api() -> None:
    async def respond(connection: Connection) -> None:
        is_chat = connection.path.endswith("/chat/completions")
        words = "Please use /v1/responses instead" if is_chat else "Not found"
        await connection.head(400 if is_chat else 404, kind="application/json")
        await connection.send(json.dumps({"error": {"message": words}}).encode())

    async with model_server(respond) as stand_in, connected(stand_in.url) as server:
        with pytest.raises(PermanentError, match="use /v1/responses instead"):
            await ChatProvider(server, BackgroundProvider(server)).complete(REQUEST, call())


@pytest.mark.parametrize(
    "start_body", [b"<html>", b"[]", b"null", b"{}", {"id": 7}, {"id": ""}, DEEP]
)
async def test_a_start_response_without_an_id_is_an_error(start_body: Any) -> None:
    with pytest.raises(AnswerError, match=r"127\.0\.0\.1"):
        await complete(start_body, response())


@pytest.mark.parametrize(
    "result",
    [
        response(output=None),
        response(output="Hi"),
        response(output=[{"type": "function_call", "name": None}]),
        response(output=[{"type": "message", "content": [{"type": "refusal", "refusal": "No"}]}]),
        {"status": "failed", "error": None},
        {"status": "failed", "error": "broken"},
        {"status": "failed", "error": {"code": "server_error", "message": None}},
        {"status": ["odd"]},
        {},
    ],
)
async def test_an_invalid_response_is_started_again(result: Any) -> None:
    with pytest.raises(CallLostError):
        await complete({"id": "r1"}, result)


async def test_a_failed_response_with_an_odd_code_is_refused() -> None:
    failed = {"status": "failed", "error": {"code": {"number": 7}, "message": "no memory"}}
    with pytest.raises(PermanentError, match="no memory"):
        await complete({"id": "r1"}, failed)


async def test_an_unreadable_response_is_polled_again_and_then_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(resumable_call, "MAX_FAILED_POLLS", 1)
    with pytest.raises(TransientError, match="did not return JSON"):
        await complete({"id": "r1"}, DEEP)


VECTOR = [0.5] * DIMENSIONS
PACKED = base64.b64encode(struct.pack(f"<{DIMENSIONS}f", *VECTOR)).decode()
TEXTS = EmbeddingRequest("e", ("a", "b"))


def vectors(*embeddings: Any, **more: Any) -> dict[str, Any]:
    data = [{"index": index, "embedding": embedding} for index, embedding in enumerate(embeddings)]
    return {"data": data, "usage": {"prompt_tokens": 3}, **more}


async def embed(body: Any) -> tuple[list[list[float]], int | None]:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    async with model_server(fixed_response(content)) as stand_in, connected(stand_in.url) as server:
        answer = await Embedder(server, lambda _: None).embed(TEXTS, make_resumable_call())
    return [list(vector) for vector in answer.vectors], answer.input_tokens


@pytest.mark.parametrize(
    ("body", "tokens"),
    [
        (vectors(VECTOR, PACKED), 3),
        (vectors(VECTOR, VECTOR, usage={"prompt_tokens": -3}), None),
        (vectors(VECTOR, VECTOR, usage=None), None),
    ],
)
async def test_vectors_are_read_as_numbers_or_base64(body: Any, tokens: int | None) -> None:
    assert await embed(body) == ([VECTOR, VECTOR], tokens)


@pytest.mark.parametrize(
    "body",
    [
        b"<html>",
        b"null",
        b"[]",
        DEEP,
        {},
        {"data": None},
        {"data": "Hi"},
        {"data": [None, None]},
        {"data": [{"embedding": VECTOR, "index": 0}, {"embedding": VECTOR, "index": "x"}]},
        vectors(VECTOR),
        vectors(VECTOR, VECTOR, VECTOR),
        vectors(None, None),
        vectors(["a"], ["b"]),
        vectors("no base64!", PACKED),
        vectors(PACKED[:-6], PACKED),
        vectors([float("nan")] * DIMENSIONS, VECTOR),
        vectors([10**400] * DIMENSIONS, VECTOR),
        vectors([1.0], [1.0]),
        {"error": {"message": "no memory"}},
    ],
)
async def test_invalid_vectors_are_billed_errors(body: Any) -> None:
    with pytest.raises(VigilError) as error:
        await embed(body)
    assert isinstance(error.value, AnswerError | PermanentError)
    assert not error.value.is_unbilled
