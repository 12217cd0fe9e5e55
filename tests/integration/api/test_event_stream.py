"""The event stream over HTTP: what is told, to whom, from where on."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from uuid import UUID, uuid4

import pytest
from fastapi import Request

from services.api.auth import dependencies
from services.api.streaming import event_stream
from shared.agents import agents
from shared.database.engine import Database
from shared.events.codec import encode
from shared.runtime.bus import Bus
from shared.runtime.settings import Settings
from tests.support.api.asking import assert_problem
from tests.support.making import make_agent
from tests.support.streams import (
    END,
    GAP,
    Serving,
    concluded,
    eventually,
    ids_of,
    learned,
    listening,
    publish,
    serving,
)


@pytest.fixture
async def api(settings: Settings) -> AsyncIterator[Serving]:
    async with serving(settings) as started:
        yield started


@pytest.fixture
async def agent_id(database: Database) -> UUID:
    return (await make_agent(database, name="Lithium")).id


async def a_strangers(settings: Settings, database: Database) -> UUID:
    async with serving(settings, user="stranger") as theirs, theirs.client() as client:
        mission = {"mission": "Watch the price of cobalt in London", "name": "Cobalt"}
        made = await client.post("/agents", json=mission)
    return UUID(made.json()["id"])


async def test_events_are_told_as_they_stand_on_the_bus(
    api: Serving, bus: Bus, agent_id: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("KEEP_ALIVE_SECONDS", "REVALIDATION_SECONDS"):  # nothing but the news wakes it
        monkeypatch.setattr(event_stream, name, 3600.0)
    await publish(bus, agent_id, 1)
    event = learned(agent_id, 2)
    async with listening(api) as ear:
        await ear.has_place()
        await bus.publish(event)
        await ear.hears(2)
    (told,) = ear.events
    assert (told.id, told.event, told.data) == ("2", "query.completed", encode(event).decode())
    assert any(each.retry for each in ear.told)
    assert ear.headers["content-type"].startswith("text/event-stream")
    assert ear.headers["cache-control"] == "no-store"
    assert ear.headers["x-accel-buffering"] == "no"


@pytest.mark.parametrize("how", ["header", "parameter"])
async def test_what_came_after_a_place_is_told_and_then_what_comes(
    api: Serving, bus: Bus, agent_id: UUID, how: str
) -> None:
    await publish(bus, agent_id, 1, 2, 3)
    path, headers = ("/events?after=0", {"last_event_id": "1"})
    if how == "parameter":
        path, headers = "/events?after=1", {}
    async with listening(api, path, **headers) as ear:
        await ear.hears(2, 3)
        await publish(bus, agent_id, 4)
        await ear.hears(2, 3, 4)
    assert ids_of(ear.events) == [2, 3, 4]
    assert ear.of(GAP) == []


async def test_who_was_told_nothing_yet_comes_back_to_the_same_place(
    api: Serving, bus: Bus, agent_id: UUID
) -> None:
    await publish(bus, agent_id, 1)
    async with listening(api) as first:
        await first.has_place()
    await publish(bus, agent_id, 2)
    async with listening(api, last_event_id=first.place) as second:
        await second.hears(2)


async def test_since_a_moment(api: Serving, bus: Bus, agent_id: UUID) -> None:
    await publish(bus, agent_id, 1)
    moment = datetime.now(UTC).isoformat().replace("+00:00", "Z")
    async with listening(api, f"/events?since={moment}") as ear:
        await ear.has_place()
        await publish(bus, agent_id, 2)
        async with listening(api, f"/events?since={moment}") as later:
            await later.hears(2)
        await ear.hears(2)


async def test_one_agents_events_one_kind_of_events(
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
        await bus.publish(concluded(agent_id))
        await publish(bus, other.id, 2)
        await queries.hears(1, 2)
        await named.hears(1, -1)
        await both.hears(1)
        await insights.hears(-1)


async def test_what_is_anothers_is_never_told(
    settings: Settings, api: Serving, bus: Bus, database: Database, agent_id: UUID
) -> None:
    theirs = await a_strangers(settings, database)
    await publish(bus, theirs, 1)
    async with (
        listening(api, "/events?after=0") as whole,
        listening(api) as live,
        api.client() as client,
    ):
        await live.has_place()
        await publish(bus, theirs, 2, 3)
        await bus.publish(concluded(theirs, "the price"))
        await publish(bus, agent_id, 4)
        await whole.hears(4)
        await live.hears(4)
        for path in (f"/agents/{theirs}/events", f"/events?agent={theirs}", "/events?agent=Cobalt"):
            assert_problem(await client.get(path), 404)
    assert str(theirs) not in str(whole.told + live.told)


async def test_a_new_agent_is_heard_at_once_and_a_deleted_one_by_nobody(
    api: Serving, bus: Bus, database: Database, agent_id: UUID
) -> None:
    deleted = await make_agent(database, name="Nickel")
    async with database.transaction() as session:
        await agents.delete_agent(session, deleted.id)
    async with listening(api) as ear:
        await ear.has_place()
        await publish(bus, deleted.id, 1)
        await publish(bus, uuid4(), 2)
        await bus.publish_bytes("query.completed", b"no event", message_id="poison")
        newest = await make_agent(database, name="Cobalt")
        await publish(bus, newest.id, 3)
        await ear.hears(3)


async def test_an_event_of_a_newer_version_is_told_as_it_is(
    api: Serving, bus: Bus, agent_id: UUID
) -> None:
    newer = json.dumps({"type": "vigil.query.v9.dreamt", "agent_id": str(agent_id), "x": "a b"})
    async with listening(api) as ear:
        await ear.has_place()
        await bus.publish_bytes("query.dreamt", newer.encode(), message_id="newer")
        await eventually(lambda: len(ear.events) == 1, "the event")
    assert (ear.events[0].event, ear.events[0].data) == ("query.dreamt", newer)


@pytest.mark.parametrize(
    ("path", "headers", "words"),
    [
        ("/events?after=-1", {}, ["after"]),
        ("/events?after=x", {}, ["after"]),
        (f"/events?after={2**63}", {}, ["after"]),
        ("/events?since=yesterday", {}, ["since"]),
        ("/events?since=2026-01-01T00:00:00", {}, ["since"]),
        ("/events", {"last-event-id": "x"}, ["last-event-id"]),
        ("/events?type=queries", {}, ["type", "queries", "query.completed"]),
    ],
)
async def test_what_cannot_be_understood_is_refused(
    api: Serving, path: str, headers: dict[str, str], words: list[str]
) -> None:
    async with api.client(headers=headers) as client:
        assert_problem(await client.get(path), 422, *words)


async def test_listeners_hold_no_connection_of_the_pool(
    api: Serving, bus: Bus, agent_id: UUID
) -> None:
    async with asyncio.TaskGroup() as group, api.client() as client:
        ended = asyncio.Event()

        async def listen() -> None:
            async with listening(api) as ear:
                await ear.hears(1)
                await ended.wait()

        for _ in range(30):
            group.create_task(listen())
        await eventually(lambda: api.app.state.hub.listeners == 30, "all to listen")
        await publish(bus, agent_id, 1)
        assert (await client.get("/agents")).status_code == 200
        ended.set()
    await eventually(lambda: api.app.state.hub.listeners == 0, "all to be gone")


async def test_there_are_as_many_listeners_as_may_be(settings: Settings) -> None:
    async with (
        serving(settings.model_copy(update={"event_listeners": 1})) as api,
        api.client() as client,
    ):
        async with listening(api):
            refused = await client.get("/events")
            assert_problem(refused, 503, "1 listen")
            assert refused.headers["retry-after"]
        await eventually(lambda: api.app.state.hub.listeners == 0, "the place to be free")
        async with listening(api) as ear:
            await ear.has_place()


async def test_in_silence_there_are_signs_of_life(
    api: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_stream, "KEEP_ALIVE_SECONDS", 0.05)
    async with (
        api.client() as client,
        client.stream("GET", "/events") as answer,
    ):
        signs = 0
        async for line in answer.aiter_lines():
            signs += line == ": ping"
            if signs == 3:
                break


async def test_whoever_is_no_longer_allowed_is_cut_off(
    api: Serving, bus: Bus, agent_id: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_stream, "REVALIDATION_SECONDS", 0.05)
    revoked = asyncio.Event()

    def of_a_token(_: Request) -> Callable[[], Awaitable[bool]]:
        async def still_allowed() -> bool:
            return not revoked.is_set()

        return still_allowed

    api.app.dependency_overrides[dependencies.session_check] = of_a_token
    async with listening(api) as ear:
        await ear.has_place()
        await publish(bus, agent_id, 1)
        await ear.hears(1)
        revoked.set()
        await ear.ends()
    assert [each["why"] for each in ear.of(END)] == ["not_allowed"]
