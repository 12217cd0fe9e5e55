"""The event stream over HTTP: contents, recipients and start positions."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from uuid import UUID, uuid4

import httpx
import pytest

from services.api.streaming import event_stream
from shared.accounts import authentication
from shared.agents import agents
from shared.database.engine import Database
from shared.events.codec import encode
from shared.runtime.bus import Bus
from shared.runtime.settings import Settings
from tests.support.api.clients import assert_problem
from tests.support.api.signed_in import create_token
from tests.support.factories import make_agent
from tests.support.streams import (
    END,
    GAP,
    Serving,
    eventually,
    ids_of,
    insight_completed,
    listening,
    publish,
    query_completed,
    serving,
)


@pytest.fixture
async def api(settings: Settings) -> AsyncIterator[Serving]:
    async with serving(settings) as started:
        yield started


@pytest.fixture
async def agent_id(database: Database) -> UUID:
    return (await make_agent(database, name="Lithium")).id


async def create_foreign_agent(settings: Settings, database: Database) -> UUID:
    async with serving(settings, user="stranger") as stranger, stranger.client() as client:
        mission = {"mission": "Watch the price of cobalt in London", "name": "Cobalt"}
        response = await client.post("/agents", json=mission)
    return UUID(response.json()["id"])


async def test_events_are_streamed_as_they_are_on_the_bus(
    api: Serving, bus: Bus, agent_id: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("KEEP_ALIVE_SECONDS", "REVALIDATION_SECONDS"):  # only a new event wakes the stream
        monkeypatch.setattr(event_stream, name, 3600.0)
    await publish(bus, agent_id, 1)
    event = query_completed(agent_id, 2)
    async with listening(api) as listener:
        await listener.wait_for_event_id()
        await bus.publish(event)
        await listener.wait_for_numbers(2)
    (received,) = listener.events
    assert (ids_of([received]), received.event, received.data) == (
        [2],
        "query.completed",
        encode(event).decode(),
    )
    assert any(message.retry for message in listener.received)
    assert listener.headers["content-type"].startswith("text/event-stream")
    assert listener.headers["cache-control"] == "no-store"
    assert listener.headers["x-accel-buffering"] == "no"


@pytest.mark.parametrize("how", ["header", "parameter"])
async def test_events_after_a_position_are_replayed_and_new_ones_follow(
    api: Serving, bus: Bus, agent_id: UUID, how: str
) -> None:
    await publish(bus, agent_id, 1, 2, 3)
    path, headers = ("/events?after=0", {"last_event_id": "1"})
    if how == "parameter":
        path, headers = "/events?after=1", {}
    async with listening(api, path, **headers) as listener:
        await listener.wait_for_numbers(2, 3)
        await publish(bus, agent_id, 4)
        await listener.wait_for_numbers(2, 3, 4)
    assert ids_of(listener.events) == [2, 3, 4]
    assert listener.of(GAP) == []


async def test_a_listener_without_events_resumes_at_the_same_position(
    api: Serving, bus: Bus, agent_id: UUID
) -> None:
    await publish(bus, agent_id, 1)
    async with listening(api) as first:
        await first.wait_for_event_id()
    await publish(bus, agent_id, 2)
    async with listening(api, last_event_id=first.last_event_id) as second:
        await second.wait_for_numbers(2)


async def test_events_since_a_time_are_streamed(api: Serving, bus: Bus, agent_id: UUID) -> None:
    await publish(bus, agent_id, 1)
    moment = datetime.now(UTC).isoformat().replace("+00:00", "Z")
    async with listening(api, f"/events?since={moment}") as listener:
        await listener.wait_for_event_id()
        await publish(bus, agent_id, 2)
        async with listening(api, f"/events?since={moment}") as later:
            await later.wait_for_numbers(2)
        await listener.wait_for_numbers(2)


async def test_events_are_filtered_by_agent_and_type(
    api: Serving, bus: Bus, database: Database, agent_id: UUID
) -> None:
    other = await make_agent(database, name="Cobalt")
    async with (
        listening(api, "/events?after=0&type=query") as queries,
        listening(api, "/events?after=0&type=*.failed&type=insight.*") as insights,
        listening(api, "/events?after=0&agent=lithium") as named,
        listening(api, f"/agents/{agent_id}/events?after=0&type=query.completed") as both,
    ):
        await publish(bus, agent_id, 1)
        await bus.publish(insight_completed(agent_id))
        await publish(bus, other.id, 2)
        await queries.wait_for_numbers(1, 2)
        await named.wait_for_numbers(1, -1)
        await both.wait_for_numbers(1)
        await insights.wait_for_numbers(-1)


async def test_events_of_another_owner_are_never_sent(
    settings: Settings, api: Serving, bus: Bus, database: Database, agent_id: UUID
) -> None:
    foreign_agent_id = await create_foreign_agent(settings, database)
    await publish(bus, foreign_agent_id, 1)
    async with (
        listening(api, "/events?after=0") as whole,
        listening(api) as live,
        api.client() as client,
    ):
        await live.wait_for_event_id()
        await publish(bus, foreign_agent_id, 2, 3)
        await bus.publish(insight_completed(foreign_agent_id, "the price"))
        await publish(bus, agent_id, 4)
        await whole.wait_for_numbers(4)
        await live.wait_for_numbers(4)
        for path in (
            f"/agents/{foreign_agent_id}/events",
            f"/events?agent={foreign_agent_id}",
            "/events?agent=Cobalt",
        ):
            assert_problem(await client.get(path), 404)
    assert str(foreign_agent_id) not in str(whole.received + live.received)


async def test_events_of_a_new_agent_are_sent_and_those_of_a_deleted_one_are_not(
    api: Serving, bus: Bus, database: Database, agent_id: UUID
) -> None:
    deleted = await make_agent(database, name="Nickel")
    async with database.transaction() as session:
        await agents.delete_agent(session, deleted.id)
    async with listening(api) as listener:
        await listener.wait_for_event_id()
        await publish(bus, deleted.id, 1)
        await publish(bus, uuid4(), 2)
        await bus.publish_bytes("query.completed", b"no event", message_id="poison")
        newest = await make_agent(database, name="Cobalt")
        await publish(bus, newest.id, 3)
        await listener.wait_for_numbers(3)


async def test_an_event_of_a_newer_version_is_sent_unchanged(
    api: Serving, bus: Bus, agent_id: UUID
) -> None:
    newer = json.dumps({"type": "vigil.query.v9.dreamt", "agent_id": str(agent_id), "x": "a b"})
    async with listening(api) as listener:
        await listener.wait_for_event_id()
        await bus.publish_bytes("query.dreamt", newer.encode(), message_id="newer")
        await eventually(lambda: len(listener.events) == 1, "the event")
    assert (listener.events[0].event, listener.events[0].data) == ("query.dreamt", newer)


INVALID_PARAMETERS: list[tuple[str, dict[str, str], list[str]]] = [
    ("/events?after=-1", {}, ["after"]),
    ("/events?after=x", {}, ["after"]),
    (f"/events?after={2**63}", {}, ["after"]),
    ("/events?since=yesterday", {}, ["since"]),
    ("/events?since=2026-01-01T00:00:00", {}, ["since"]),
    ("/events", {"last-event-id": "x"}, ["last-event-id"]),
    ("/events?type=queries", {}, ["type", "queries", "query.completed"]),
]


async def test_invalid_parameters_are_rejected(api: Serving, subtests: pytest.Subtests) -> None:
    for path, headers, words in INVALID_PARAMETERS:
        with subtests.test(str(path)):
            async with api.client(headers=headers) as client:
                assert_problem(await client.get(path), 422, *words)


async def test_listeners_hold_no_database_connection(
    api: Serving, bus: Bus, agent_id: UUID
) -> None:
    async with asyncio.TaskGroup() as group, api.client() as client:
        ended = asyncio.Event()
        began = list[None]()

        async def listen() -> None:
            async with listening(api) as listener:
                await listener.wait_for_event_id()  # later events are sent to it
                began.append(None)
                await listener.wait_for_numbers(1)
                await ended.wait()

        for _ in range(30):
            group.create_task(listen())
        await eventually(lambda: len(began) == 30, "all to listen")
        assert api.app.state.hub.listeners == 30
        await publish(bus, agent_id, 1)
        assert (await client.get("/agents")).status_code == 200
        ended.set()
    await eventually(lambda: api.app.state.hub.listeners == 0, "all to be gone")


async def test_the_number_of_listeners_is_limited(settings: Settings) -> None:
    async with (
        serving(settings.model_copy(update={"event_listeners": 1})) as api,
        api.client() as client,
    ):
        async with listening(api):
            response = await client.get("/events")
            assert_problem(response, 503, "maximum of 1 event listeners is reached")
            assert response.headers["retry-after"]
        await eventually(lambda: api.app.state.hub.listeners == 0, "no listener to be left")
        async with listening(api) as listener:
            await listener.wait_for_event_id()


async def test_an_idle_stream_sends_pings(api: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "KEEP_ALIVE_SECONDS", 0.05)
    async with (
        api.client() as client,
        client.stream("GET", "/events") as response,
    ):
        pings = 0
        async for line in response.aiter_lines():
            pings += line == ": ping"
            if pings == 3:
                break


async def test_a_listener_whose_access_is_revoked_is_disconnected(
    api: Serving, bus: Bus, agent_id: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_stream, "REVALIDATION_SECONDS", 0.05)
    revoked = asyncio.Event()

    async def is_still_valid(*_: object) -> bool:
        return not revoked.is_set()

    monkeypatch.setattr(authentication, "is_still_valid", is_still_valid)
    async with listening(api) as listener:
        await listener.wait_for_event_id()
        await publish(bus, agent_id, 1)
        await listener.wait_for_numbers(1)
        revoked.set()
        await listener.wait_for_end()
    assert [end["why"] for end in listener.of(END)] == ["not_allowed"]


async def test_a_user_with_too_many_streams_takes_none_of_the_others(settings: Settings) -> None:
    limited = settings.model_copy(update={"event_listeners_per_user": 3})
    async with serving(limited) as api, AsyncExitStack() as stack, api.client() as client:
        for _ in range(3):
            await stack.enter_async_context(listening(api))
        attempts = [client.get("/events") for _ in range(20)]
        for response in await asyncio.gather(*attempts):
            assert_problem(response, 429, "3 event streams open", "close one")
            assert response.headers["retry-after"]
        token = await create_token(limited, "bob")
        async with (
            httpx.AsyncClient(headers={"authorization": f"Bearer {token}"}) as bob,
            bob.stream("GET", f"{client.base_url}events") as response,
        ):
            assert response.status_code == 200
