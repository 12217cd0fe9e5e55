"""`python -m bench.event_stream`: many listeners of one api process, which is killed and started again in their midst.

Half of the listeners follow all of the owner's agents, half one agent each; a stranger's agents talk too. Events are
published at a steady rate, through the api's absence as well, and at the end some as fast as NATS takes them. Every
listener must be told every event of its agents, in order and once, with no gap, and nothing of the stranger's; the api
may never hold more than 400 MiB. Exit code 1 where it is otherwise.
$VIGIL_BENCH_CLIENTS and $VIGIL_BENCH_EVENTS change how many.
"""

import asyncio
import os
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import quantiles
from typing import Final
from uuid import UUID

from bench.api_process import ApiProcess
from bench.engines import engines, provision
from bench.event_publisher import Publisher
from bench.owner import owners_token
from bench.sse_clients import Client, clients_of, listening, until
from shared.agents import agents
from shared.database.engine import Database
from shared.runtime.bus import Bus
from shared.runtime.settings import Settings

CLIENTS: Final = 200
EVENTS: Final = 4000
PER_SECOND: Final = 100
BURST_SHARE: Final = 0.25
"""Of the events, which are published as fast as NATS takes them, behind the others."""
AGENTS: Final = 8
STRANGERS: Final = 2
MOST_BYTES: Final = 400 * 1024**2


@dataclass(frozen=True)
class Load:
    clients: int = CLIENTS
    events: int = EVENTS
    per_second: float = PER_SECOND


@dataclass(frozen=True)
class Result:
    """`faults` says in words what should not have been; latencies are from before the publication to the listener."""

    faults: Sequence[str]
    deliveries: int
    resumed: int
    peak_bytes: int
    steady_seconds: Sequence[float]
    """How late each event was that came while the api was there, at a steady rate."""
    burst_seconds: Sequence[float]


def main() -> int:
    load = Load(
        int(os.environ.get("VIGIL_BENCH_CLIENTS") or CLIENTS),
        int(os.environ.get("VIGIL_BENCH_EVENTS") or EVENTS),
    )
    with tempfile.TemporaryDirectory() as home, engines(Path(home)) as (postgres, nats):
        settings = Settings(database_url=postgres.url("bench"), nats_url=nats.url)
        provision(settings)
        result = asyncio.run(measure(settings, Path(home), load))
    print(
        f"{load.clients} listeners, {load.events} events: {result.deliveries} deliveries, "
        f"{result.resumed} listeners resumed after the api's death"
    )
    print(f"api's peak memory  {result.peak_bytes / 1024**2:7.1f} MiB")
    for name, late in (("steady", result.steady_seconds), ("burst", result.burst_seconds)):
        p50, p95 = _percentiles(late)
        print(f"{name:<6} delivery    p50 {p50 * 1000:7.1f} ms   p95 {p95 * 1000:7.1f} ms")
    for fault in result.faults:
        print(f"FAILED: {fault}")
    return int(bool(result.faults))


async def measure(settings: Settings, home: Path, load: Load) -> Result:
    """On engines that are provisioned."""
    ours = await _make_agents(settings, settings.owner, AGENTS)
    theirs = await _make_agents(settings, "stranger", STRANGERS)
    api = ApiProcess(settings, home / "api.log")
    token = await owners_token(settings)
    clients = clients_of(api.port, token, load.clients, [str(agent_id) for agent_id in ours])
    bus = Bus(settings.nats_url, name="bench")
    await bus.connect()
    publisher = Publisher(bus, [*ours, *theirs])
    try:
        await api.start()
        async with listening(clients):
            await until(lambda: all(client.place is not None for client in clients))
            steady, peak_of_the_first = await _publish(publisher, api, load)
            due = [_due_to(client, publisher) for client in clients]
            await until(
                lambda: all(
                    len(client.heard) >= len(wanted)
                    for client, wanted in zip(clients, due, strict=True)
                )
            )
            peak_bytes = max(peak_of_the_first, api.peak_bytes())
    finally:
        await api.end(signal.SIGKILL)
        await bus.close()
    return _result(clients, due, steady, peak_bytes)


async def _publish(publisher: Publisher, api: ApiProcess, load: Load) -> tuple[range, int]:
    """The api dies after a third, and is back before the last; returns which events came in its presence, and its peak."""
    steady = int(load.events * (1 - BURST_SHARE))
    third = steady // 3
    await publisher.steadily(range(third), load.per_second)
    peak_bytes = api.peak_bytes()
    await api.end(signal.SIGKILL)
    back = asyncio.create_task(api.start())
    await publisher.steadily(range(third, 2 * third), load.per_second)
    await back
    await publisher.steadily(range(2 * third, steady), load.per_second)
    await publisher.at_once(range(steady, load.events))
    return range(2 * third, steady), peak_bytes


def _due_to(client: Client, publisher: Publisher) -> set[int]:
    return {number for agent_id in client.wanted for number in publisher.told[agent_id]}


def _result(
    clients: Sequence[Client], due: Sequence[set[int]], steady: range, peak_bytes: int
) -> Result:
    late = [
        (number, seconds)
        for client in clients
        for number, seconds in zip(client.heard, client.late_seconds, strict=True)
    ]
    return Result(
        faults=[*_faults(clients, due), *_memory_fault(peak_bytes)],
        deliveries=sum(len(client.heard) for client in clients),
        resumed=sum(client.connections > 1 for client in clients),
        peak_bytes=peak_bytes,
        steady_seconds=[seconds for number, seconds in late if number in steady],
        burst_seconds=[seconds for number, seconds in late if number >= steady.stop],
    )


def _faults(clients: Sequence[Client], due: Sequence[set[int]]) -> Iterator[str]:
    for number, (client, wanted) in enumerate(zip(clients, due, strict=True)):
        lacks = len(wanted - set(client.heard))
        doubles = len(client.heard) - len(set(client.heard))
        is_in_order = client.places == sorted(client.places)
        if lacks or doubles or client.strangers or client.gaps or not is_in_order:
            yield (
                f"listener {number} ({client.path}) lacks {lacks} events, has {doubles} twice, "
                f"{client.strangers} of others, {client.gaps} gaps, in order: {is_in_order}"
            )
        if client.connections < 2:
            yield f"listener {number} ({client.path}) did not have to come back"


def _memory_fault(peak_bytes: int) -> Iterator[str]:
    if peak_bytes > MOST_BYTES:
        yield f"the api held {peak_bytes / 1024**2:.0f} MiB"


async def _make_agents(settings: Settings, owner: str, count: int) -> list[UUID]:
    database = Database(settings.database_url, name="bench")
    async with database.transaction() as session:
        owner_id = await agents.ensure_user(session, owner)
        made = [
            await agents.create(
                session, owner_id, name=f"agent {number}", mission="", interval_seconds=3600
            )
            for number in range(count)
        ]
    await database.close()
    return [agent.id for agent in made]


def _percentiles(seconds: Sequence[float]) -> tuple[float, float]:
    """The median, and what 95 of 100 stay under."""
    if len(seconds) < 2:
        return float("nan"), float("nan")
    cuts = quantiles(seconds, n=20)
    return cuts[9], cuts[18]


if __name__ == "__main__":
    sys.exit(main())
