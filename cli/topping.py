"""Watching how busy the actors are."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.live import Live

from cli.config.discovery import engine_settings, nats_of
from cli.render.console import out
from cli.render.top import load_table
from services.api.queries.operations import Crew, Leases, crew
from shared.database.engine import Database
from shared.errors import TransientError
from shared.events.permissions import OPERATOR
from shared.events.stream_admin import Queue, queues
from shared.events.stream_reader import listening
from shared.runtime.credentials import database_url_of


@dataclass(frozen=True)
class Load:
    """How busy one actor is. None is what is not known."""

    actor: str
    replicas: int
    lag: int | None
    in_flight: int | None
    idle_slots: int | None
    per_second: float | None
    leases: int
    lapsed_leases: int
    workers: int


@dataclass(frozen=True)
class _Look:
    at: float
    queues: Sequence[Queue]
    crew: Crew


@dataclass(frozen=True)
class Top:
    every_seconds: float
    once: bool
    data: Path | None
    as_json: bool

    async def run(self) -> None:
        """Until Ctrl-C, or for one interval. Raises VigilError where NATS or Postgres does not let us look."""
        if self.as_json:
            async for loads in self._loads():
                print(json.dumps([asdict(load) for load in loads]), flush=True)
            return
        with Live(console=out(), auto_refresh=False, screen=False) as live:
            async for loads in self._loads():
                live.update(load_table(loads), refresh=True)

    async def _loads(self) -> AsyncIterator[list[Load]]:
        bus, credentials = nats_of(self.data)
        url = database_url_of(engine_settings(OPERATOR, self.data), OPERATOR)
        database = Database(url, name="top", pool_size=1)
        try:
            async with listening(bus, credentials) as client:
                before: _Look | None = None
                while True:
                    try:
                        now = _Look(
                            time.monotonic(), await queues(client), await _crew_of(database)
                        )
                    except TimeoutError as error:
                        raise TransientError("NATS does not answer") from error
                    if before is not None:
                        yield _between(before, now)
                        if self.once:
                            return
                    before = now
                    await asyncio.sleep(self.every_seconds)
        finally:
            await database.close()


async def _crew_of(database: Database) -> Crew:
    async with database.transaction() as session:
        return await crew(session)


def _between(before: _Look, now: _Look) -> list[Load]:
    earlier = {queue.actor: queue.delivered for queue in before.queues}
    seconds = now.at - before.at
    return [_load(queue, earlier.get(queue.actor), seconds, now.crew) for queue in now.queues]


def _load(queue: Queue, delivered_before: int | None, seconds: float, crew: Crew) -> Load:
    leases = crew.leases.get(queue.actor, Leases())
    known = queue.delivered is not None and delivered_before is not None
    return Load(
        actor=queue.actor,
        replicas=crew.replicas.get(queue.actor, 0),
        lag=queue.lag,
        in_flight=queue.in_flight,
        idle_slots=queue.idle_slots,
        per_second=((queue.delivered or 0) - (delivered_before or 0)) / seconds if known else None,
        leases=leases.held,
        lapsed_leases=leases.lapsed,
        workers=leases.workers,
    )
