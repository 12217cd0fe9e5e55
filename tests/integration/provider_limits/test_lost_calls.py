"""A provider that swallows requests: it is probed without a step, and lost calls are sent again when it is back."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from shared.database.engine import Database
from shared.errors import TransientError, UnavailableError, WaitForProviderError
from shared.llm.answer_errors import FailureKind
from shared.llm.messages import ChatRequest
from shared.llm.model_server import Limits, ModelServer
from shared.llm.provider import ChatProvider
from shared.provider_limits import gate as gate_module
from shared.provider_limits import state as limit_states
from shared.provider_limits.gate import ProviderGate
from shared.provider_limits.state import Limits as CallLimits
from shared.provider_limits.store import StateStore
from tests.support.model_server import (
    Connection,
    ModelStandIn,
    completion,
    make_resumable_call,
    model_server,
)
from tests.support.waiting import wait_until

KEY = "1" * 64
LOST, LATER = "the lost request", "a later request"
NAME = "the server"


def request(text: str) -> ChatRequest:
    return ChatRequest("m", ({"role": "user", "content": text},), max_output_tokens=100)


@dataclass
class Swallower:
    """A server that works, refuses, or accepts connections and never answers."""

    mode: str = "works"
    freed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set at the end of the test."""

    async def respond(self, connection: Connection) -> None:
        match self.mode:
            case "works":
                await connection.head(kind="application/json")
                await connection.send(json_bytes("Yes."))
            case "refuses":
                await connection.head(503)
            case _:
                await self.freed.wait()


def json_bytes(text: str) -> bytes:
    return json.dumps(completion({"role": "assistant", "content": text})).encode()


@pytest.fixture
def short_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limit_states, "FAILURES", 2)
    monkeypatch.setattr(limit_states, "FAILING_SECONDS", 0.0)
    monkeypatch.setattr(limit_states, "FIRST_PROBE_SECONDS", 0.05)
    monkeypatch.setattr(limit_states, "MAX_PROBE_SECONDS", 0.05)
    for name, seconds in {
        "PROBE_SECONDS": 1.0,
        "WATCH_SECONDS": 0.05,
        "LOOK_SECONDS": 0.0,
        "HANGING_SECONDS": 0.1,
        "LOST_SECONDS": 0.2,
    }.items():
        monkeypatch.setattr(gate_module, name, seconds)


@asynccontextmanager
async def provider_of(
    database: Database, stand_in: ModelStandIn
) -> AsyncIterator[tuple[ChatProvider, ModelServer]]:
    """As one process: it shares only the row with others."""
    gate = ProviderGate(NAME, limits=CallLimits(), store=StateStore(database, "model", KEY, NAME))
    server = ModelServer(
        api_key="k", base_url=stand_in.url, limits=Limits(), gate=gate, stream="never"
    )
    try:
        yield ChatProvider(server), server
    finally:
        await server.close()


def sent(stand_in: ModelStandIn, text: str) -> int:
    return sum(each["messages"][0]["content"] == text for each in stand_in.requests)


async def begin_outage(provider: ChatProvider) -> None:
    for _ in range(2):
        with pytest.raises(UnavailableError):
            await provider._complete_once(
                provider._body(request(LATER)), make_resumable_call(), None
            )


@pytest.mark.usefixtures("short_times")
@pytest.mark.parametrize("another_process", [False, True])
async def test_a_call_that_an_outage_swallowed_is_sent_again_when_the_provider_is_back(
    database: Database, *, another_process: bool
) -> None:
    """Also by a process that makes no other call, and so notices nothing of the outage."""
    swallower = Swallower("swallows")
    attempts: list[BaseException | None] = []
    async with (
        model_server(swallower.respond) as stand_in,
        provider_of(database, stand_in) as (first, server),
        provider_of(database, stand_in) as (second, _),
    ):
        lost = asyncio.create_task(first.complete(request(LOST), make_resumable_call(attempts)))

        async def is_sent() -> bool:
            return sent(stand_in, LOST) == 1

        await wait_until(is_sent, what="the call")
        swallower.mode = "refuses"
        await begin_outage(second if another_process else first)
        with pytest.raises(WaitForProviderError):
            await second.complete(request(LATER), make_resumable_call())
        swallower.mode = "works"
        async with asyncio.timeout(20):
            answer = await lost
        swallower.freed.set()
        assert answer.text == "Yes."
        assert server.gate.outage is None
        assert sent(stand_in, LOST) == 2
    error, none = attempts
    assert none is None
    assert isinstance(error, TransientError)
    assert getattr(error, "kind", None) is FailureKind.CUT_OFF
    assert not error.counts
    assert not error.is_unbilled, "the server may have received it"
    assert "key" in stand_in.keys
    assert len({key for key in stand_in.keys if key}) == 1, "a server can tell the repetition"


@pytest.mark.usefixtures("short_times")
async def test_a_hanging_provider_is_probed_by_small_requests_until_it_is_back(
    database: Database,
) -> None:
    swallower = Swallower("refuses")
    async with (
        model_server(swallower.respond) as stand_in,
        provider_of(database, stand_in) as (provider, server),
    ):
        await begin_outage(provider)
        swallower.mode = "swallows"
        before = len(stand_in.requests)

        async def has_probed() -> bool:
            return len(stand_in.requests) >= before + 3

        # A busy machine takes up to 15 s for them.
        await wait_until(has_probed, what="three probes, none of which is answered", seconds=120)
        assert sent(stand_in, LATER) == 2, "no call of a step is a probe"
        assert all(each["max_tokens"] == 1 for each in stand_in.requests[before:])
        assert server.gate._running == 0
        swallower.mode = "works"

        async def is_back() -> bool:
            return server.gate.outage is None

        await wait_until(is_back, what="the end of the outage")
        assert (await provider.complete(request(LATER), make_resumable_call())).text == "Yes."
        swallower.freed.set()
