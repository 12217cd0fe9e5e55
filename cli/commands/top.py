"""`vigil top`: the load of each service, read from NATS and PostgreSQL directly."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.live import Live
from rich.table import Table

from cli.config.discovery import engine_settings, nats_of
from cli.options import AsJson, Data, finite
from cli.render.console import out
from services.api.queries.operations import Leases, Workforce, read_workforce
from shared.database.engine import Database
from shared.errors import TransientError
from shared.events.permissions import OPERATOR
from shared.events.stream_admin import Queue, list_queues
from shared.events.stream_reader import connect_reader
from shared.runtime.credentials import build_database_url

_HEADINGS: Final = ("Replicas", "Lag", "In flight", "Idle slots", "Per second", "Leases", "Workers")


def top(
    every: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.2, callback=finite, help="Update interval.")
    ] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Measure one interval, and exit.")] = False,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Show each service's lag, messages in flight, rate, leases and replicas, live until Ctrl-C.

    With --json one JSON object is printed for each interval.
    """
    with suppress(KeyboardInterrupt):
        asyncio.run(Top(every_seconds=every, once=once, data=data, as_json=as_json).run())


@dataclass(frozen=True)
class Load:
    """The load of one service during an interval. None is unknown."""

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
class _Sample:
    at: float
    """Of the monotonic clock."""
    queues: Sequence[Queue]
    crew: Workforce


@dataclass(frozen=True)
class Top:
    every_seconds: float
    once: bool
    data: Path | None
    as_json: bool

    async def run(self) -> None:
        """Runs until Ctrl-C, or for one interval. Raises VigilError if NATS or PostgreSQL is not accessible."""
        if self.as_json:
            async for loads in self._loads():
                print(json.dumps([asdict(load) for load in loads]), flush=True)
            return
        with Live(console=out(), auto_refresh=False, screen=False) as live:
            async for loads in self._loads():
                live.update(load_table(loads), refresh=True)

    async def _loads(self) -> AsyncIterator[list[Load]]:
        bus, credentials = nats_of(self.data)
        url = build_database_url(engine_settings(OPERATOR, self.data), OPERATOR)
        database = Database(url, name="top", pool_size=1)
        try:
            async with connect_reader(bus, credentials) as client:
                before: _Sample | None = None
                while True:
                    try:
                        now = _Sample(
                            time.monotonic(), await list_queues(client), await _load_crew(database)
                        )
                    except TimeoutError as error:
                        raise TransientError("NATS does not answer") from error
                    if before is not None:
                        yield _loads_between(before, now)
                        if self.once:
                            return
                    before = now
                    await asyncio.sleep(self.every_seconds)
        finally:
            await database.close()


async def _load_crew(database: Database) -> Workforce:
    async with database.transaction() as session:
        return await read_workforce(session)


def load_table(loads: Sequence[Load]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("Service", style="agent")
    for heading in _HEADINGS:
        table.add_column(heading, justify="right")
    for load in loads:
        lapsed = f" [bad]+{load.lapsed_leases} lapsed[/]" if load.lapsed_leases else ""
        table.add_row(
            load.actor,
            str(load.replicas) if load.replicas else "[bad]0[/]",
            _number(load.lag),
            _number(load.in_flight),
            _number(load.idle_slots),
            "?" if load.per_second is None else f"{load.per_second:.1f}",
            f"{load.leases}{lapsed}",
            str(load.workers),
        )
    return table


def _number(value: int | None) -> str:
    return "[bad]no consumer[/]" if value is None else str(value)


def _loads_between(before: _Sample, now: _Sample) -> list[Load]:
    delivered = {queue.actor: queue.delivered for queue in before.queues}
    seconds = now.at - before.at
    return [_load(queue, delivered.get(queue.actor), seconds, now.crew) for queue in now.queues]


def _load(queue: Queue, delivered_before: int | None, seconds: float, crew: Workforce) -> Load:
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
