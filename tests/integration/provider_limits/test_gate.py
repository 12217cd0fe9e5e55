"""The gate of one process, with a real PostgreSQL: what each kind of call and error does to the shared state."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import pytest
from sqlalchemy import delete, update

from shared.database.engine import Database
from shared.database.tables import ProviderLimit
from shared.errors import (
    PermanentError,
    RetrySoonError,
    TransientError,
    UnavailableError,
    WaitForProviderError,
)
from shared.llm.answer_errors import AnswerError, AnswerTimeoutError
from shared.llm.messages import ChatRequest
from shared.llm.model_server import Limits as TimeLimits
from shared.llm.model_server import ModelServer
from shared.llm.provider import ChatProvider
from shared.provider_limits import gate as gate_module
from shared.provider_limits import state as limit_states
from shared.provider_limits.gate import ProviderGate
from shared.provider_limits.state import Demand, Grant, Limits, ProviderState, Want
from shared.provider_limits.store import Known, StateStore
from shared.web_search.client import SearchClient
from tests.support.model_server import fixed_response, make_resumable_call, model_server
from tests.support.providers.stand_in import StandIn
from tests.support.sandbox.server import running_app
from tests.support.waiting import wait_until

KEY = "0" * 64
REQUEST = ChatRequest("m", ({"role": "user", "content": "Is it?"},), (), None, 100)


class CollectingLog:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def warning(self, event: str, **_: Any) -> None:
        self.lines.append(event)

    info = warning


def make_gate(
    database: Database, limits: Limits | None = None, log: CollectingLog | None = None
) -> ProviderGate:
    """As another process: it shares only the row."""
    return ProviderGate("the server", limits=limits, store=make_store(database), log=log)


def make_store(database: Database) -> StateStore:
    return StateStore(database, "model", KEY, "the server")


@asynccontextmanager
async def open_gate(
    database: Database, limits: Limits | None = None
) -> AsyncIterator[ProviderGate]:
    gate = make_gate(database, limits)
    try:
        yield gate
    finally:
        await gate.close()


@pytest.fixture
def two_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two failures are an outage."""
    monkeypatch.setattr(limit_states, "FAILURES", 2)
    monkeypatch.setattr(limit_states, "FAILING_SECONDS", 0.0)


async def fail(gate: ProviderGate, error: Exception | None = None) -> None:
    with pytest.raises(TransientError):
        async with gate.passage():
            raise error or UnavailableError("no connection")


@pytest.mark.usefixtures("two_failures")
async def test_an_outage_that_one_process_sees_stops_another_until_one_is_answered(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate_module, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(limit_states, "FIRST_PROBE_SECONDS", 4.0)
    async with open_gate(database) as first, open_gate(database) as second:
        for _ in range(2):
            await fail(first)
        await second.look()
        with pytest.raises(
            WaitForProviderError, match="the server is unavailable: no connection"
        ) as caught:
            async with second.passage():
                raise AssertionError("it was sent")
        assert 8 <= (caught.value.retry_in_seconds or 0) <= 20
        assert caught.value.is_unbilled
        assert second.outage is not None
        await wait_until(lambda: calls_again(second), what="the time of a probe")
        async with second.passage() as probe:
            assert probe.is_probe
            with pytest.raises(WaitForProviderError):
                async with first.passage():
                    raise AssertionError("a second probe")
            probe.answered()
        await wait_until(lambda: is_available(database), what="the success to be stored")
        await wait_until(lambda: calls_again(first), what="the first process to see it")
        async with first.passage() as passage:
            assert not passage.is_probe
            passage.answered()


async def calls_again(gate: ProviderGate) -> bool:
    """Whether the gate, after it has looked at the shared state, lets calls pass."""
    await gate.look()
    return gate.outage is None


async def is_available(database: Database) -> bool:
    return (await make_store(database).read()).state.unavailable_since is None


@pytest.mark.usefixtures("two_failures")
async def test_a_refusal_of_the_key_ends_an_outage_too(database: Database) -> None:
    async with open_gate(database) as gate:
        await fail(gate)
        with pytest.raises(PermanentError):
            async with gate.passage():
                raise PermanentError("llm_key", "wrong key")
        await wait_until(lambda: has_no_failures(database), what="the answer to be stored")


async def has_no_failures(database: Database) -> bool:
    return not (await make_store(database).read()).state.failures


@pytest.mark.usefixtures("two_failures")
async def test_an_error_after_the_answer_began_is_no_outage(database: Database) -> None:
    async with open_gate(database) as gate:
        for _ in range(3):
            with pytest.raises(UnavailableError):
                await break_off(gate)
        assert (await make_store(database).read()).state.unavailable_since is None


async def break_off(gate: ProviderGate) -> None:
    async with gate.passage() as passage:
        passage.answered()
        raise UnavailableError("cut off")


@pytest.mark.usefixtures("two_failures")
async def test_an_outage_is_logged_once(database: Database) -> None:
    log = CollectingLog()
    gate = make_gate(database, log=log)
    errors = [UnavailableError("no connection") for _ in range(6)]
    for error in errors[:2]:
        await fail(gate, error)
    for error in errors[2:]:
        await fail(gate, error)
    assert log.lines == ["provider unavailable; steps wait"]
    assert [error.is_announced for error in errors[:2]] == [False, True]
    await gate.close()


async def test_calls_wait_in_turn_and_long_waits_are_refused(database: Database) -> None:
    async with open_gate(database, Limits(requests_per_minute=60)) as gate:
        loop = asyncio.get_running_loop()
        sent: list[float] = []
        refused: list[float] = []

        async def call() -> None:
            try:
                async with gate.passage():
                    sent.append(loop.time())
            except WaitForProviderError as error:
                refused.append(error.retry_in_seconds or 0)

        started_at = loop.time()
        await asyncio.gather(*(call() for _ in range(20)))
        assert len(sent) in (9, 10)
        assert sent[-1] - started_at < 8 + 3, "turns of up to 8 s, and a late timer"
        gaps = [later - earlier for earlier, later in pairwise(sorted(refused))]
        assert min(gaps[2:]) > 0.9, "one after the other"


async def has_waiter(gate: ProviderGate) -> bool:
    return bool(gate._waiters)


async def test_a_cancelled_call_gives_its_place_back(database: Database) -> None:
    async with open_gate(database, Limits(concurrency=1)) as gate:
        first = gate.passage()
        await first.__aenter__()
        waiting = asyncio.create_task(gate.passage().__aenter__())
        await wait_until(lambda: has_waiter(gate), what="the second call to wait")
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await first.__aexit__(None, None, None)
        async with asyncio.timeout(5), gate.passage():
            pass
        await wait_until(lambda: nothing_is_held(database), what="the place to be given back")


async def test_a_process_that_ends_gives_its_places_back(database: Database) -> None:
    async with open_gate(database, Limits(concurrency=1)) as gate, gate.passage():
        assert not await nothing_is_held(database)
    assert await nothing_is_held(database)


async def nothing_is_held(database: Database) -> bool:
    holders = (await make_store(database).read()).state.holders
    return not any(each.held for each in holders.values())


async def test_a_refused_call_that_is_cancelled_gives_no_place_back(database: Database) -> None:
    """It has none. Else the process would count too few calls in progress from then on."""
    async with open_gate(database, Limits(concurrency=1)) as gate:
        waiting = asyncio.create_task(gate.passage().__aenter__())
        await asyncio.sleep(0)
        (waiter,) = gate._waiters
        gate._settle(waiter, WaitForProviderError("later"))
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert gate._running == 0


async def test_a_state_that_is_older_than_the_known_one_is_used(database: Database) -> None:
    """As after a restore, or when a replica takes over that lacks the last writes."""
    async with open_gate(database, Limits(requests_per_minute=600)) as gate:
        for _ in range(20):
            async with gate.passage():
                pass
        async with database.transaction() as session:
            await session.execute(update(ProviderLimit).values(version=1))
        gate._spare.clear()
        async with asyncio.timeout(10), gate.passage():
            pass
        async with database.transaction() as session:
            await session.execute(delete(ProviderLimit))
        for _ in range(3):
            gate._spare.clear()
            async with asyncio.timeout(10), gate.passage():
                pass


class BlockedStore(StateStore):
    """A store whose writes take until `go_on` is set."""

    def __init__(self, database: Database) -> None:
        super().__init__(database, "model", KEY, "the server")
        self.go_on = asyncio.Event()
        self.go_on.set()
        self.writing = 0

    async def write(self, seen_version: int, state: ProviderState) -> Known:
        self.writing += 1
        try:
            await self.go_on.wait()
        finally:
            self.writing -= 1
        return await super().write(seen_version, state)

    async def is_writing(self) -> bool:
        return self.writing > 0


class CountingGate(ProviderGate):
    looks = 0
    """How often the places of the process were looked at."""
    is_asking = False
    """Whether a request for places is in progress. The store is also written to keep places."""

    @property
    def _held(self) -> int:
        self.looks += 1
        return super()._held

    async def _obtain(self, wants: tuple[Want, ...]) -> Grant:
        self.is_asking = True
        try:
            return await super()._obtain(wants)
        finally:
            self.is_asking = False


@asynccontextmanager
async def blocked_request(
    database: Database,
) -> AsyncIterator[tuple[CountingGate, BlockedStore, asyncio.Task[Any]]]:
    """The gate of a process whose only call in progress has just ended. A second call waits, and its request for a place
    takes long. Another process waits too. All there is is one place.
    """
    store, limits = BlockedStore(database), Limits(concurrency=1)
    gate = CountingGate("the server", limits=limits, store=store)
    other = make_gate(database, limits)
    first, second = gate.passage(), gate.passage()
    await first.__aenter__()
    waiting = asyncio.create_task(second.__aenter__())
    demand = Demand([Want()])
    await other._change(lambda state, now: state.grant(limits, now, "other", demand, 0.5))
    await gate._change(lambda state, now: None)
    store.go_on.clear()
    try:

        async def is_asking() -> bool:
            return gate.is_asking and await store.is_writing()

        await wait_until(is_asking, what="the request for a place")
        await first.__aexit__(None, None, None)
        yield gate, store, waiting
    finally:
        store.go_on.set()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await gate.close()
        await other.close()


async def test_a_process_whose_request_takes_long_does_not_poll(database: Database) -> None:
    async with blocked_request(database) as (gate, _, _):
        before = gate.looks
        for _ in range(1000):
            await asyncio.sleep(0)
        assert gate.looks - before < 10


async def test_a_place_that_is_freed_during_a_request_is_used_at_once(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with blocked_request(database) as (_, store, waiting):
        monkeypatch.setattr(gate_module, "ASK_AGAIN_SECONDS", 1000.0)
        # With a write of its own: the request that is in progress would write its wait back.
        other = make_gate(database, Limits(concurrency=1))
        await other._change(lambda state, now: state.holders.pop("other"))
        await other.close()
        store.go_on.set()
        async with asyncio.timeout(10):
            await waiting


async def test_a_refused_call_holds_no_place(database: Database) -> None:
    async with open_gate(database, Limits(concurrency=1)) as gate:
        with pytest.raises(UnavailableError):
            async with gate.passage():
                raise UnavailableError("429", is_rate_limit=True, retry_in_seconds=30)
        await wait_until(lambda: nothing_is_held(database), what="the place to be given back")
        with pytest.raises(WaitForProviderError):
            async with gate.passage():
                pass
        assert await nothing_is_held(database)


async def test_a_call_that_is_cancelled_during_its_request_holds_no_place(
    database: Database,
) -> None:
    store = BlockedStore(database)
    gate = ProviderGate("the server", limits=Limits(concurrency=1), store=store)
    store.go_on.clear()
    call = gate.passage()
    waiting = asyncio.create_task(call.__aenter__())
    await wait_until(store.is_writing, what="the request")
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    store.go_on.set()
    assert gate._serving is not None
    await gate._serving
    await wait_until(lambda: nothing_is_held(database), what="the place to be given back")
    await gate.close()


@pytest.mark.usefixtures("two_failures")
async def test_a_probe_is_a_call_in_progress(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limit_states, "FIRST_PROBE_SECONDS", 0.0)
    limits = Limits(concurrency=1)
    async with open_gate(database, limits) as gate, open_gate(database, limits) as other:
        for _ in range(2):
            await fail(gate, UnavailableError("503"))
        async with gate.passage() as probe:
            assert probe.is_probe
            probe.answered()
            await wait_until(lambda: is_over(database), what="the outage to end")
            with pytest.raises(WaitForProviderError):
                async with other.passage(max_wait_seconds=0.5):
                    raise AssertionError("two calls are in progress")


async def is_over(database: Database) -> bool:
    return (await make_store(database).read()).state.unavailable_since is None


async def test_a_call_that_waits_ends_when_its_process_stops(database: Database) -> None:
    gate = make_gate(database, Limits(concurrency=1))
    first, second = gate.passage(), gate.passage()
    await first.__aenter__()
    waiting = asyncio.create_task(second.__aenter__())
    await wait_until(lambda: has_waiter(gate), what="the second call to wait")
    await gate.close()
    with pytest.raises(RetrySoonError):
        await asyncio.wait_for(waiting, 5)
    await first.__aexit__(None, None, None)


async def test_a_place_is_kept_whatever_the_error_of_a_renewal(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a standby that has taken over, and refuses writes."""
    monkeypatch.setattr(gate_module, "RENEW_SECONDS", 0.05)
    store = make_store(database)
    write, refused = store.write, 0

    async def refuse_once(seen_version: int, state: ProviderState) -> Known:
        nonlocal refused
        if state.holders and not refused:
            refused += 1
            raise RuntimeError("read-only")
        return await write(seen_version, state)

    gate = ProviderGate("the server", limits=Limits(concurrency=1), store=store)
    async with gate.passage():
        monkeypatch.setattr(store, "write", refuse_once)
        taken = (await store.read()).version

        async def is_renewed() -> bool:
            return refused > 0 and (await store.read()).version > taken + 1

        await wait_until(is_renewed, what="the place to be kept")
    await gate.close()


@pytest.mark.usefixtures("two_failures")
async def test_any_answer_that_is_no_outage_ends_one(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limit_states, "FIRST_PROBE_SECONDS", 0.0)
    gate = make_gate(database)
    for _ in range(2):
        await fail(gate, UnavailableError("503"))
    async with model_server(fixed_response(b"{}", 404)) as stand_in:
        client = SearchClient(api_key="k", base_url=stand_in.url, timeout_seconds=5, gate=gate)
        with pytest.raises(WaitForProviderError):
            await client.search("lithium", max_results=1, topic=None, time_range=None)
        await wait_until(lambda: is_over(database), what="a probe to end the outage")
        with pytest.raises(TransientError, match="404"):
            await client.search("lithium", max_results=1, topic=None, time_range=None)
        await client.close()


async def test_the_first_call_of_a_process_keeps_its_place_however_long_it_takes(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate_module, "RENEW_SECONDS", 0.05)
    async with open_gate(database, Limits(concurrency=1)) as gate, gate.passage():
        taken = (await make_store(database).read()).version

        async def is_renewed() -> bool:
            return (await make_store(database).read()).version > taken + 2

        await wait_until(is_renewed, what="the place to be kept", seconds=10)


async def test_a_call_that_can_be_left_out_waits_for_no_place(database: Database) -> None:
    async with open_gate(database, Limits(concurrency=1)) as gate, gate.passage():
        started_at = asyncio.get_running_loop().time()
        with pytest.raises(WaitForProviderError):
            async with gate.passage(max_wait_seconds=1.0):
                raise AssertionError("another call is in progress")
        assert asyncio.get_running_loop().time() - started_at < 5


@pytest.mark.usefixtures("two_failures")
async def test_any_error_of_a_provider_can_be_stored(database: Database) -> None:
    async with open_gate(database) as gate:
        for _ in range(2):
            await fail(gate, UnavailableError("\x00 \ud800" + "x" * 100_000))
        state = (await make_store(database).read()).state
        assert state.unavailable_since is not None
        assert len(state.error) < 5000


async def test_a_process_with_places_does_not_hurry_while_postgres_is_away(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, other = make_gate(database, Limits(concurrency=2)), make_gate(database)
    calls = [gate.passage() for _ in range(2)]
    for call in calls:
        await call.__aenter__()
    waiting = Demand([Want()])
    await other._change(
        lambda state, now: state.grant(Limits(concurrency=2), now, "o", waiting, 0.5)
    )
    await gate._change(lambda state, now: None)
    tries: list[float] = []

    async def refuse(_: int, __: ProviderState) -> Known:
        tries.append(time.monotonic())
        raise RetrySoonError("PostgreSQL is unavailable")

    async def has_tried_three_times() -> bool:
        return len(tries) >= 3

    assert gate._store is not None
    monkeypatch.setattr(gate._store, "write", refuse)
    await calls[0].__aexit__(None, None, None)
    await wait_until(has_tried_three_times, what="three tries")
    assert min(after - before for before, after in pairwise(tries)) > 0.4
    await gate.close()
    await other.close()


async def test_tokens_are_counted_by_what_was_used(database: Database) -> None:
    async with open_gate(database, Limits(tokens_per_minute=6000)) as gate:
        async with gate.passage(tokens=100) as passage:
            passage.used_tokens = 2000
        with pytest.raises(WaitForProviderError, match="limits that are set"):
            async with gate.passage(tokens=1):
                raise AssertionError("2000 tokens take 20 seconds")


async def test_without_postgres_a_limited_call_waits_and_others_pass(database_url: str) -> None:
    away = Database("postgresql://postgres@127.0.0.1:1/none", name="away")
    limited = ProviderGate("it", limits=Limits(concurrency=1), store=make_store(away))
    free = ProviderGate("it", store=make_store(away))
    with pytest.raises(RetrySoonError):
        async with limited.passage():
            raise AssertionError("the limit is not known")
    async with free.passage() as passage:
        passage.answered()
    await fail(free)
    for gate in (limited, free):
        await gate.close()
    await away.close()


@pytest.mark.usefixtures("two_failures")
async def test_a_server_that_hangs_uses_no_attempt_once_it_is_known(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate_module, "PROBE_SECONDS", 0.3)
    stand_in = StandIn(answer_seconds=60)
    async with running_app(stand_in.app) as url:
        server = ModelServer(
            api_key="k",
            base_url=f"{url}/v1",
            limits=TimeLimits(first_token=0.3),
            gate=make_gate(database),
        )
        errors = []
        for _ in range(2):
            with pytest.raises(AnswerError) as caught:
                await server_call(server)
            errors.append(caught.value)
        with pytest.raises(WaitForProviderError):
            await server_call(server)
        await server.close()
    assert isinstance(errors[0], AnswerTimeoutError)
    assert [error.counts for error in errors] == [True, False]
    assert not any(error.is_unbilled for error in errors), "the server may have billed them"


async def test_a_request_above_the_limit_of_a_minute_is_refused_and_limits_nothing(
    database: Database,
) -> None:
    """It would be refused however long it waits."""
    message = (
        "Request too large for gpt-x in organization o on tokens per min (TPM): Limit 30000, Requested 40000."
        " The input or output tokens must be reduced in order to run successfully."
    )
    stand_in = StandIn(status=429, message=message)
    async with running_app(stand_in.app) as url:
        server = ModelServer(
            api_key="k", base_url=f"{url}/v1", limits=TimeLimits(), gate=make_gate(database)
        )
        with pytest.raises(PermanentError, match="VIGIL_MODEL_CONTEXT_TOKENS"):
            await server_call(server)
        await server.close()
    known = await make_store(database).read()
    assert not known.state.restricts(known.now)


async def server_call(server: ModelServer) -> None:
    provider = ChatProvider(server)
    await provider._complete_once(provider._body(REQUEST), make_resumable_call(), None)


@pytest.mark.usefixtures("two_failures")
async def test_an_outage_of_the_search_service_is_shared(database: Database) -> None:
    client = SearchClient(
        api_key="k", base_url="http://127.0.0.1:1", timeout_seconds=5, gate=make_gate(database)
    )
    for _ in range(2):
        with pytest.raises(UnavailableError):
            await client.search("lithium", max_results=1, topic=None, time_range=None)
    with pytest.raises(WaitForProviderError):
        await client.search("lithium", max_results=1, topic=None, time_range=None)
    await client.close()
