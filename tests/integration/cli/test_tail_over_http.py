"""`vigil tail --url`: the same over HTTP, across breaks of the connection."""

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import UUID

import pytest

from shared.database.engine import Database
from shared.events.codec import encode
from shared.events.topology import STREAM
from shared.runtime.bus import Bus
from shared.runtime.settings import Settings
from tests.support.api.signed_in import token_of
from tests.support.making import make_agent
from tests.support.streams import OwnersApi, Reachable, concluded, learned, publish, serving

PATIENCE_SECONDS = 30


@pytest.fixture
async def agent_id(database: Database) -> UUID:
    return (await make_agent(database, name="Lithium")).id


@asynccontextmanager
async def tail(api: Reachable, *arguments: str) -> AsyncIterator[Process]:
    """The command, for as long as the block runs."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "cli", "tail", "--url", api.url, *arguments),
        env={**os.environ, "PYTHONUNBUFFERED": "1", "VIGIL_TOKEN": api.token},
        stdout=PIPE,
        stderr=PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def said(process: Process, lines: int) -> list[str]:
    assert process.stdout is not None
    async with asyncio.timeout(PATIENCE_SECONDS):
        return [(await process.stdout.readline()).decode() for _ in range(lines)]


async def complained(process: Process) -> str:
    assert process.stderr is not None
    async with asyncio.timeout(PATIENCE_SECONDS):
        return (await process.stderr.readline()).decode()


async def test_events_are_told_as_by_the_bus(
    settings: Settings, bus: Bus, agent_id: UUID, database: Database
) -> None:
    other = await make_agent(database, name="Cobalt")
    await publish(bus, agent_id, 1, 2)
    await bus.publish(concluded(agent_id))
    await publish(bus, other.id, 3)
    async with serving(settings) as api:
        async with tail(api, "--from-start") as process:
            lines = await said(process, 4)
        assert ["Lithium" in line for line in lines] == [True, True, True, False]
        assert "query.completed" in lines[0]
        assert "1 node" in lines[0]
        assert "Cobalt" in lines[3]
        wanted = ("--since", "10m", "--agent", "lithium", "insight")
        async with tail(api, *wanted) as process:
            assert "insight.completed" in (await said(process, 1))[0]
            process.send_signal(signal.SIGINT)
            assert await process.wait() == 0


async def test_a_restart_of_the_api_is_outlived(
    settings: Settings, bus: Bus, agent_id: UUID, tmp_path: Path
) -> None:
    events = [learned(agent_id, number) for number in range(4)]
    api = OwnersApi(settings, tmp_path / "api.log", await token_of(settings))
    try:
        await api.start()
        async with tail(api, "--from-start", "--json") as process:
            await bus.publish_all(events[:2])
            lines = await said(process, 2)
            await api.end(signal.SIGKILL)
            assert "listening" not in (first := await complained(process))
            assert "reconnecting" in first
            await bus.publish_all(events[2:])
            await api.start()
            lines += await said(process, 2)
    finally:
        await api.end(signal.SIGKILL)
    assert lines == [f"{encode(event).decode()}\n" for event in events]


async def test_it_says_what_is_no_longer_kept_and_goes_on(
    settings: Settings, bus: Bus, agent_id: UUID
) -> None:
    async with serving(settings) as api, tail(api, "--since", "10m", "--json") as process:
        assert process.stderr is not None
        await publish(bus, agent_id, 1)
        await said(process, 1)
        await bus.jetstream.delete_stream(STREAM)
        await publish_in_a_new_one(settings, bus, agent_id)
        assert json.loads((await said(process, 1))[0])["nodes"] == 2
        assert "created again" in await complained(process)


async def publish_in_a_new_one(settings: Settings, bus: Bus, agent_id: UUID) -> None:
    from shared.runtime.provision import provision_stream

    await provision_stream(settings)
    await publish(bus, agent_id, 2)


async def test_it_says_what_is_wrong(settings: Settings, nats_url: str) -> None:
    async with serving(settings) as api, tail(api, "--agent", "nobody") as process:
        assert "There is no agent 'nobody'" in await complained(process)
        assert await process.wait() == 1
    async with tail(api) as process:
        await complained(process)  # where it listens
        assert "no Vigil answers" in await complained(process)
