"""`python -m bench.window`: what the window costs: pages, what a browser loads first, many of them open, and how late
they tell what happens.

A hundred agents, one of them with 100,000 nodes, 200,000 edges, 10,000 iterations, 10,000 items in the inbox and 2,000
conclusions, on embedded engines and one real api process. Pages are asked for one after another over one connection, and
read to their end. Exit code 1 where the p95 of one is not below 100 ms, a first load is not below 600 KB (all that the
page, its styles and scripts and what those ask for send, compressed as browsers ask for it), 100 open pages cost the api
100 MiB or more, or the p95 from an event to the page that shows it is not below 300 ms.
$VIGIL_BENCH_REQUESTS is how often each page is asked for, $VIGIL_BENCH_EVENTS how many events each live page is told.
"""

import asyncio
import os
import re
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from uuid import UUID

import httpx
import psycopg

from bench.api_process import ApiProcess
from bench.engines import engines, provision
from bench.event_publisher import Publisher
from bench.large import AGENT, OWNER, Size, fill
from bench.owner import owners_token
from bench.sse_clients import clients_of, listening, until
from bench.window_live import live_pages
from shared.runtime.bus import Bus
from shared.runtime.settings import Settings

SIZE: Final = Size(
    nodes=100_000,
    edges=200_000,
    iterations=10_000,
    items=10_000,
    calls=50_000,
    agents=100,
    names=100_000,
    conclusions=1_000,
    sources=5_000,
)
MAX_P95_SECONDS: Final = 0.100
MOST_FIRST_BYTES: Final = 600_000
MAX_LATE_SECONDS: Final = 0.300
OPEN_PAGES: Final = 100
OPEN_EVENTS: Final = 200
OPEN_PER_SECOND: Final = 50
"""Which the open pages are told."""
MOST_OPEN_BYTES: Final = 100 * 1024**2
WARMING: Final = 5
_LOADED: Final = re.compile(r'(?:src|href)="(/assets/[^"]+)"')
_IMPORTED: Final = re.compile(r'^import .* from "\./([^"]+)";$', re.MULTILINE)
_DRAWS: Final = re.compile(r"/graph(\?|$)")

PAGES: Final = {
    "agents": "/agents",
    "an agent, now": f"/agents/{AGENT}",
    "its settings": f"/agents/{AGENT}/settings",
    "iterations": f"/agents/{AGENT}/iterations",
    "an iteration": f"/agents/{AGENT}/iterations/9000",
    "graph": f"/agents/{AGENT}/graph",
    "a full graph": f"/agents/{AGENT}/graph?limit=2000",
    "what it draws": f"/agents/{AGENT}/graph/data?limit=2000",
    "by connections": f"/agents/{AGENT}/graph/data?limit=2000&begin=connected",
    "around a hub": f"/agents/{AGENT}/graph/data?node={{hub}}&limit=100",
    "a search in it": f"/agents/{AGENT}/graph?search=word7",
    "a hub": f"/agents/{AGENT}/nodes/{{hub}}",
    "types": f"/agents/{AGENT}/types",
    "doubles": f"/agents/{AGENT}/doubles",
    "merges": f"/agents/{AGENT}/merges",
    "advice": f"/agents/{AGENT}/conclusions",
    "analyses": f"/agents/{AGENT}/conclusions?kind=analyses",
    "sources": f"/agents/{AGENT}/sources",
    "a search in them": f"/agents/{AGENT}/sources?search=page+4",
    "conversation": f"/agents/{AGENT}/conversation",
    "costs of an agent": f"/agents/{AGENT}/costs",
    "inbox": "/inbox",
    "costs": "/costs",
    "events": "/events",
    "dead letters": "/dead-letters",
    "health": "/health-of-all",
    "settings": "/settings",
    "tokens": "/settings/tokens",
    "users": "/settings/users",
    "destinations": "/settings/destinations",
}


def main() -> int:
    requests = int(os.environ.get("VIGIL_BENCH_REQUESTS") or 100)
    with tempfile.TemporaryDirectory() as home, engines(Path(home)) as (postgres, nats):
        settings = Settings(database_url=postgres.url("bench"), nats_url=nats.url, owner=OWNER)
        provision(settings)
        hub = fill(settings.database_url, SIZE)
        return asyncio.run(_measure(settings, Path(home), hub, requests))


async def _measure(settings: Settings, home: Path, hub: UUID, requests: int) -> int:
    api = ApiProcess(settings, home / "api.log")
    token = await owners_token(settings)
    await api.start()
    try:
        shown = {
            "Authorization": f"Bearer {token}",
            "Accept": "text/html",
            "Accept-Encoding": "gzip",
        }
        with httpx.Client(base_url=api.url, headers=shown, timeout=30.0, trust_env=False) as client:
            missed = await _open_pages(api, settings, token)
            missed += _pages(client, hub, requests)
        missed += await _live_pages(api, settings, token)
    finally:
        await api.end(signal.SIGTERM)
    print("\n".join(["", *missed] if missed else ["", "All goals are met."]))
    return int(bool(missed))


def _pages(client: httpx.Client, hub: UUID, requests: int) -> Iterator[str]:
    print(f"{'page':<20}{'p50':>8}{'p95':>8}  ms{'first load':>13}  kB, {requests} times each")
    for name, path in PAGES.items():
        address = path.format(hub=hub)
        seconds = sorted(_asked(client, address, requests))
        p95 = statistics.quantiles(seconds, n=20)[-1]
        first = _first_bytes(client, address)
        p50 = statistics.median(seconds)
        print(f"{name:<20}{p50 * 1000:8.1f}{p95 * 1000:8.1f}{first / 1000:16.0f}", flush=True)
        if p95 >= MAX_P95_SECONDS:
            yield f"{name}: p95 {p95 * 1000:.0f} ms, not below {MAX_P95_SECONDS * 1000:.0f}"
        if first >= MOST_FIRST_BYTES:
            yield f"{name}: a first load of {first / 1000:.0f} kB"


def _asked(client: httpx.Client, path: str, requests: int) -> Iterator[float]:
    for number in range(-WARMING, requests):
        began = time.perf_counter()
        client.get(path).raise_for_status()
        if number >= 0:
            yield time.perf_counter() - began


def _first_bytes(client: httpx.Client, path: str) -> int:
    """As they come over the wire: the page, what it loads, and what that loads in turn."""
    text, sent = _sent(client, path)
    waiting = set(_LOADED.findall(text))
    if _DRAWS.search(path):
        waiting.add(path.replace("/graph", "/graph/data", 1))
    loaded: set[str] = set()
    while waiting:
        asset = waiting.pop()
        loaded.add(asset)
        text, more = _sent(client, asset)
        sent += more
        if asset.endswith(".js"):
            beside = asset.rpartition("/")[0]
            waiting |= {f"{beside}/{name}" for name in _IMPORTED.findall(text)} - loaded
    return sent


def _sent(client: httpx.Client, path: str) -> tuple[str, int]:
    with client.stream("GET", path) as answer:
        answer.raise_for_status().read()
    return answer.text, answer.num_bytes_downloaded


async def _open_pages(api: ApiProcess, settings: Settings, token: str) -> list[str]:
    """Each open page is one listener of its agent's events, of which some come. The api has answered little before."""
    agent_id = await _agent_id(settings)
    clients = clients_of(api.port, token, OPEN_PAGES, [str(agent_id)])
    bus = Bus(settings.nats_url, name="bench")
    await bus.connect()
    before = api.resident_bytes()
    try:
        async with listening(clients):
            await until(lambda: all(client.place is not None for client in clients))
            await Publisher(bus, [agent_id]).steadily(range(OPEN_EVENTS), OPEN_PER_SECOND)
            await until(lambda: all(len(client.heard) == OPEN_EVENTS for client in clients))
            cost = api.peak_bytes() - before
    finally:
        await bus.close()
    lacking = sum(len(client.heard) < OPEN_EVENTS for client in clients)
    print(f"{OPEN_PAGES} open pages cost the api {cost / 1024**2:.1f} MiB\n")
    missed = [f"{lacking} open pages were not told everything"] if lacking else []
    if cost >= MOST_OPEN_BYTES:
        missed.append(f"{OPEN_PAGES} open pages cost {cost / 1024**2:.0f} MiB")
    return missed


async def _agent_id(settings: Settings) -> UUID:
    async with await psycopg.AsyncConnection.connect(settings.database_url) as connection:
        found = await connection.execute("select id from agents where name = %s", (AGENT,))
        row = await found.fetchone()
        assert row is not None
        agent_id: UUID = row[0]
        return agent_id


async def _live_pages(api: ApiProcess, settings: Settings, token: str) -> list[str]:
    events = int(os.environ.get("VIGIL_BENCH_EVENTS") or 60)
    print(f"\n{'event to page':<20}{'p50':>8}{'p95':>8}{'max':>8}  ms, {events} events each")
    missed = []
    async for name, late in live_pages(api.url, settings, token, events):
        p50, p95 = statistics.median(late), statistics.quantiles(late, n=20)[-1]
        told = (p50, p95, max(late))
        print(f"{name:<20}{''.join(f'{each * 1000:8.1f}' for each in told)}", flush=True)
        if p95 >= MAX_LATE_SECONDS:
            missed.append(f"{name}: an event is seen after {p95 * 1000:.0f} ms at p95")
    return missed


if __name__ == "__main__":
    sys.exit(main())
