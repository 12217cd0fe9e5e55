"""A server that fails at one request and answers others: the request is at fault, and there is no outage."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from shared.database.engine import Database
from shared.errors import TransientError, UnavailableError
from shared.llm.messages import ChatRequest
from shared.llm.model_server import Limits, ModelServer
from shared.llm.provider import ChatProvider
from shared.provider_limits import state as limit_states
from shared.provider_limits.gate import ProviderGate
from shared.provider_limits.state import ProviderState
from shared.provider_limits.store import StateStore
from tests.support.model_server import Connection, completion, make_resumable_call, model_server

KEY = "3" * 64
NAME = "the server"
POISON = "quartzite"
WORDS = "Failed to parse input at pos 1843"
BODIES: dict[str, Any] = {
    "object": {"error": {"message": WORDS}},
    "array": [{"error": {"code": 500, "message": WORDS}}],
    "text": WORDS,
    "page": f"<html><head><style>p {{}}</style></head><body><p>{WORDS}</p></body></html>",
    "detail": {"detail": WORDS},
    "fault": {"fault": {"text": WORDS}},
}


@dataclass
class Poisoned:
    """Fails at requests that contain the poison, and at all while it `is_away`."""

    status: int | None = 500
    """None: closes the connection without an answer."""
    body: Any = field(default_factory=lambda: BODIES["object"])
    is_away: bool = False
    restart_seconds: float = 0.0
    """After such a request, for so long the server answers 503 to all."""
    _loads_until: float = 0.0

    async def respond(self, connection: Connection) -> None:
        text = json.dumps(connection.body)
        clock = asyncio.get_running_loop().time
        if clock() < self._loads_until:
            await connection.head(503, kind="application/json")
            await connection.send(b'{"error": {"message": "Loading model"}}')
            return
        if POISON in text:
            self._loads_until = clock() + self.restart_seconds
        if self.is_away or POISON in text:
            if self.status is None:
                connection.close()
                return
            await connection.head(self.status, kind="application/json")
            body = self.body if isinstance(self.body, str) else json.dumps(self.body)
            await connection.send(body.encode())
            return
        await connection.head(kind="application/json")
        answer = completion({"role": "assistant", "content": "Yes."})
        await connection.send(json.dumps(answer).encode())


def request(text: str) -> ChatRequest:
    return ChatRequest("m", ({"role": "user", "content": text},), max_output_tokens=100)


@asynccontextmanager
async def provider_of(database: Database, url: str) -> AsyncIterator[ChatProvider]:
    gate = ProviderGate(NAME, store=StateStore(database, "model", KEY, NAME))
    server = ModelServer(
        api_key="k", base_url=url, limits=Limits(), gate=gate, stream="never", name=NAME
    )
    try:
        yield ChatProvider(server)
    finally:
        await server.close()


async def read_state(database: Database) -> ProviderState:
    return (await StateStore(database, "model", KEY, NAME).read()).state


@pytest.fixture(autouse=True)
def quick_outages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limit_states, "FAILING_SECONDS", 0.0)
    monkeypatch.setattr(limit_states, "FAILURES", 2)


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
async def test_a_request_that_alone_fails_uses_an_attempt_and_says_why(
    database: Database, body: Any
) -> None:
    """No other agent calls the server: it is asked by a small request."""
    poisoned = Poisoned(body=body)
    async with (
        model_server(poisoned.respond) as stand_in,
        provider_of(database, stand_in.url) as provider,
    ):
        with pytest.raises(TransientError, match=WORDS) as caught:
            await provider.complete(request(POISON), make_resumable_call())
    assert caught.value.counts
    assert not isinstance(caught.value, UnavailableError)
    assert caught.value.is_unbilled
    assert "answers other requests" in str(caught.value)
    assert (await read_state(database)).unavailable_since is None


async def test_a_request_at_which_the_server_closes_the_connection_uses_an_attempt(
    database: Database,
) -> None:
    poisoned = Poisoned(status=None)
    async with (
        model_server(poisoned.respond) as stand_in,
        provider_of(database, stand_in.url) as provider,
    ):
        with pytest.raises(TransientError, match="answers other requests") as caught:
            await provider.complete(request(POISON), make_resumable_call())
        poisoned.is_away = True
        with pytest.raises(TransientError) as away:
            await provider.complete(request("fine"), make_resumable_call())
    assert (caught.value.counts, away.value.counts) == (True, False)
    assert not caught.value.is_unbilled, "the server may have received it"


@pytest.mark.parametrize("status", [500, 502, 520])
async def test_several_such_requests_at_once_are_no_outage_for_others(
    database: Database, status: int
) -> None:
    poisoned = Poisoned(status)
    async with (
        model_server(poisoned.respond) as stand_in,
        provider_of(database, stand_in.url) as provider,
    ):
        calls = [
            provider.complete(request(f"{POISON} {number}"), make_resumable_call())
            for number in range(4)
        ]
        answers = [
            provider.complete(request(f"fine {number}"), make_resumable_call())
            for number in range(4)
        ]
        outcomes = await asyncio.gather(*calls, *answers, return_exceptions=True)
    for error in outcomes[:4]:
        assert isinstance(error, TransientError)
        assert error.counts
    assert [getattr(each, "text", each) for each in outcomes[4:]] == ["Yes."] * 4
    assert (await read_state(database)).unavailable_since is None


async def test_an_overloaded_server_gets_time_before_the_request_is_at_fault(
    database: Database,
) -> None:
    poisoned = Poisoned(503)
    async with (
        model_server(poisoned.respond) as stand_in,
        provider_of(database, stand_in.url) as provider,
    ):
        for waited, counts in ((0.0, False), (1000.0, True)):
            call = replace(make_resumable_call(), waited_seconds=waited)
            with pytest.raises(TransientError, match=WORDS) as caught:
                await provider.complete(request(POISON), call)
            assert caught.value.counts == counts


@pytest.mark.parametrize("status", [500, None])
async def test_a_server_that_the_request_crashes_has_time_to_start_again(
    database: Database, monkeypatch: pytest.MonkeyPatch, status: int | None
) -> None:
    monkeypatch.setattr("shared.llm.model_server.RESTART_PAUSES", (0.4, 0.8))
    monkeypatch.setattr(limit_states, "FAILING_SECONDS", 60.0)
    poisoned = Poisoned(status, restart_seconds=0.6)
    async with (
        model_server(poisoned.respond) as stand_in,
        provider_of(database, stand_in.url) as provider,
    ):
        call = replace(make_resumable_call(), waited_seconds=1000.0)
        with pytest.raises(TransientError, match="answers other requests") as caught:
            await provider.complete(request(POISON), call)
    assert caught.value.counts


async def test_an_outage_stays_an_outage(database: Database) -> None:
    poisoned = Poisoned(is_away=True)
    async with (
        model_server(poisoned.respond) as stand_in,
        provider_of(database, stand_in.url) as provider,
    ):
        with pytest.raises(TransientError) as caught:
            await provider.complete(request("fine"), make_resumable_call())
    assert isinstance(caught.value, UnavailableError)
    assert (await read_state(database)).unavailable_since is not None


async def test_a_server_that_fails_at_forced_calls_gets_the_request_without_one(
    database: Database,
) -> None:
    async def respond(connection: Connection) -> None:
        requests.append(connection.body)
        if "tool_choice" in connection.body:
            await connection.head(500, kind="application/json")
            await connection.send(b'{"message": "AssertionError()"}')
        else:
            await connection.head(kind="application/json")
            answer = completion({"role": "assistant", "content": "Yes."})
            await connection.send(json.dumps(answer).encode())

    requests: list[Any] = []
    tool = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
    forced = replace(request("Look."), tools=(tool,), tool_choice="required")
    async with (
        model_server(respond) as stand_in,
        provider_of(database, stand_in.url) as provider,
    ):
        for _ in range(2):
            assert (await provider.complete(forced, make_resumable_call())).text == "Yes."
    forced_requests = [each for each in requests if "tool_choice" in each]
    assert len(forced_requests) == 3, "what helped is remembered"
