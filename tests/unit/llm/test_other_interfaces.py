"""Odd answers by the other interfaces: responses made in the background, and embeddings."""

import base64
import json
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from shared.billing import resumable_call as in_flight_module
from shared.billing.embedding_cache import EmbeddingRequest
from shared.billing.resumable_call import CallLostError, ResumableCall
from shared.database.tables.graph import DIMENSIONS
from shared.errors import PermanentError, TransientError, VigilError
from shared.llm.answers import AnswerError
from shared.llm.background_provider import BackgroundProvider
from shared.llm.model_server import Limits, ModelServer
from shared.llm.provider import Embedder
from tests.support.model_server import REQUEST, Connection, canned, in_flight, model_server

USAGE = {"input_tokens": 11, "output_tokens": 7}
HI = {"type": "message", "content": [{"type": "output_text", "text": "Hi"}]}
DEEP = b"[" * 100_000 + b"]" * 100_000


def ended(**changed: Any) -> dict[str, Any]:
    return {"id": "r1", "status": "completed", "output": [HI], "usage": USAGE, **changed}


@pytest.fixture(autouse=True)
def no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shared.llm.model_server.QUICK_TRIES", 1)
    monkeypatch.setattr(in_flight_module, "FIRST_POLL_SECONDS", 0.01)


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[ModelServer]:
    server = ModelServer(api_key="k", base_url=url, limits=Limits())
    try:
        yield server
    finally:
        await server.close()


def call() -> ResumableCall:
    async def keep(_: str) -> None:
        return None

    return ResumableCall("key", None, keep, in_flight().attempt)


async def collected(order: Any, result: Any) -> str:
    """What an order and the look at it come to."""

    async def respond(connection: Connection) -> None:
        body = result if connection.path.endswith("/r1") else order
        await connection.head(kind="application/json")
        await connection.send(body if isinstance(body, bytes) else json.dumps(body).encode())

    async with model_server(respond) as stand_in, connected(stand_in.url) as server:
        answer = await BackgroundProvider(server).complete(REQUEST, call())
        return f"{answer.text} {answer.input_tokens}"


@pytest.mark.parametrize(
    ("result", "told"),
    [
        (ended(), "Hi 11"),
        (ended(extra={"x": 1}), "Hi 11"),
        (ended(usage=None), "Hi None"),
        (ended(usage={"input_tokens": -1, "output_tokens": 2}), "Hi None"),
        (ended(output=[{"type": "reasoning"}, None, HI]), "Hi 11"),
        (ended(output=[{"type": "message", "content": "Hi"}]), "Hi 11"),
    ],
)
async def test_a_response_that_differs_a_little_is_understood(result: Any, told: str) -> None:
    assert await collected({"id": "r1"}, result) == told


@pytest.mark.parametrize("order", [b"<html>", b"[]", b"null", b"{}", {"id": 7}, {"id": ""}, DEEP])
async def test_an_order_that_names_nothing_is_a_failed_sending(order: Any) -> None:
    with pytest.raises(AnswerError, match=r"127\.0\.0\.1"):
        await collected(order, ended())


@pytest.mark.parametrize(
    "result",
    [
        ended(output=None),
        ended(output="Hi"),
        ended(output=[{"type": "function_call", "name": None}]),
        ended(output=[{"type": "message", "content": [{"type": "refusal", "refusal": "No"}]}]),
        {"status": "failed", "error": None},
        {"status": "failed", "error": "broken"},
        {"status": "failed", "error": {"code": "server_error", "message": None}},
        {"status": ["odd"]},
        {},
    ],
)
async def test_a_response_that_is_no_answer_is_ordered_anew(result: Any) -> None:
    with pytest.raises(CallLostError):
        await collected({"id": "r1"}, result)


async def test_a_response_that_cannot_be_read_is_looked_at_again_and_then_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(in_flight_module, "MAX_FAILED_POLLS", 1)
    with pytest.raises(TransientError, match="did not answer with JSON"):
        await collected({"id": "r1"}, DEEP)


VECTOR = [0.5] * DIMENSIONS
PACKED = base64.b64encode(struct.pack(f"<{DIMENSIONS}f", *VECTOR)).decode()
TEXTS = EmbeddingRequest("e", ("a", "b"))


def vectors(*embeddings: Any, **more: Any) -> dict[str, Any]:
    data = [{"index": place, "embedding": each} for place, each in enumerate(embeddings)]
    return {"data": data, "usage": {"prompt_tokens": 3}, **more}


async def embedded(body: Any) -> tuple[list[list[float]], int | None]:
    sent = body if isinstance(body, bytes) else json.dumps(body).encode()
    async with model_server(canned(sent)) as stand_in, connected(stand_in.url) as server:
        found = await Embedder(server, lambda _: None).embed(TEXTS, in_flight())
    return [list(each) for each in found.vectors], found.input_tokens


@pytest.mark.parametrize(
    ("body", "tokens"),
    [
        (vectors(VECTOR, PACKED), 3),
        (vectors(VECTOR, VECTOR, usage={"prompt_tokens": -3}), None),
        (vectors(VECTOR, VECTOR, usage=None), None),
    ],
)
async def test_vectors_come_as_numbers_or_packed(body: Any, tokens: int | None) -> None:
    assert await embedded(body) == ([VECTOR, VECTOR], tokens)


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
async def test_vectors_that_are_none_are_failed_sendings(body: Any) -> None:
    with pytest.raises(VigilError) as error:
        await embedded(body)
    assert isinstance(error.value, AnswerError | PermanentError)
    assert not error.value.unbilled
