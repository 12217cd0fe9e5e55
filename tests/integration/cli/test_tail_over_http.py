"""`vigil tail --url`: events over HTTP, across interruptions of the connection."""

import asyncio
import json
import os
import signal
from asyncio.subprocess import PIPE
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
from tests.support.api.signed_in import create_token
from tests.support.factories import make_agent
from tests.support.streams import (
    OwnersApi,
    Reachable,
    insight_completed,
    publish,
    query_completed,
    serving,
)
from tests.support.warm_processes import WarmProcess, start_python

PATIENCE_SECONDS = 30


@pytest.fixture
async def agent_id(database: Database) -> UUID:
    return (await make_agent(database, name="Lithium")).id


@asynccontextmanager
async def tail(api: Reachable, *arguments: str) -> AsyncIterator[WarmProcess]:
    """Run the command for as long as the block runs."""
    process = await start_python(
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


async def read_output(process: WarmProcess, lines: int) -> list[str]:
    assert process.stdout is not None
    async with asyncio.timeout(PATIENCE_SECONDS):
        return [(await process.stdout.readline()).decode() for _ in range(lines)]


async def read_error(process: WarmProcess) -> str:
    assert process.stderr is not None
    async with asyncio.timeout(PATIENCE_SECONDS):
        return (await process.stderr.readline()).decode()


async def test_events_are_printed_as_they_come_from_the_bus(
    settings: Settings, bus: Bus, agent_id: UUID, database: Database
) -> None:
    other = await make_agent(database, name="Cobalt")
    await publish(bus, agent_id, 1, 2)
    await bus.publish(insight_completed(agent_id))
    await publish(bus, other.id, 3)
    async with serving(settings) as api:
        async with tail(api, "--from-start") as process:
            lines = await read_output(process, 4)
        assert ["Lithium" in line for line in lines] == [True, True, True, False]
        assert "query.completed" in lines[0]
        assert "1 node" in lines[0]
        assert "Cobalt" in lines[3]
        filters = ("--since", "10m", "--agent", "lithium", "insight")
        async with tail(api, *filters) as process:
            assert "insight.completed" in (await read_output(process, 1))[0]
            process.send_signal(signal.SIGINT)
            assert await process.wait() == 0


async def test_the_tail_continues_after_a_restart_of_the_api(
    settings: Settings, bus: Bus, agent_id: UUID, tmp_path: Path
) -> None:
    events = [query_completed(agent_id, number) for number in range(4)]
    api = OwnersApi(settings, tmp_path / "api.log", await create_token(settings))
    try:
        await api.start()
        async with tail(api, "--from-start", "--json") as process:
            await bus.publish_all(events[:2])
            lines = await read_output(process, 2)
            await api.end(signal.SIGKILL)
            assert "listening" not in (first := await read_error(process))
            assert "reconnecting" in first
            await bus.publish_all(events[2:])
            await api.start()
            lines += await read_output(process, 2)
    finally:
        await api.end(signal.SIGKILL)
    assert lines == [f"{encode(event).decode()}\n" for event in events]


async def test_a_recreated_stream_is_reported_and_the_tail_continues(
    settings: Settings, bus: Bus, agent_id: UUID
) -> None:
    async with serving(settings) as api, tail(api, "--since", "10m", "--json") as process:
        assert process.stderr is not None
        await publish(bus, agent_id, 1)
        await read_output(process, 1)
        await bus.jetstream.delete_stream(STREAM)
        await publish_in_new_stream(settings, bus, agent_id)
        assert json.loads((await read_output(process, 1))[0])["nodes"] == 2
        assert "the stream was recreated" in await read_error(process)


async def publish_in_new_stream(settings: Settings, bus: Bus, agent_id: UUID) -> None:
    from shared.runtime.provision import provision_stream

    await provision_stream(settings)
    await publish(bus, agent_id, 2)


async def test_errors_are_reported(settings: Settings, nats_url: str) -> None:
    async with serving(settings) as api, tail(api, "--agent", "nobody") as process:
        assert "There is no agent 'nobody'" in await read_error(process)
        assert await process.wait() == 1
    async with tail(api) as process:
        await read_error(process)  # the line that names the API
        assert "Vigil does not answer" in await read_error(process)
