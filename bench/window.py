"""`python -m bench.window`: what the web UI costs: page times, the size of a first load, open pages, and event latency.

There are 100 agents. One of them has 100,000 nodes, 200,000 edges, 10,000 iterations, 10,000 inbox items and 2,000
conclusions. The engines are embedded, the API is one real process. Pages are requested one after another over one
connection and read completely. Exit code 1 where the p95 of a page is not below 100 ms, a first load is not below 300 KB
(the compressed size of the page, its styles, scripts, icons and font, and what those request), 100 open pages cost the
API 100 MiB or more, or the p95 from an event to the page that shows it is not below 300 ms.
$VIGIL_BENCH_REQUESTS sets how often each page is requested, $VIGIL_BENCH_EVENTS the events for each live page.
"""

import asyncio
import os
import random
import re
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from uuid import UUID, uuid4

import httpx
import psycopg
from playwright.async_api import Page, async_playwright

from bench.api_process import ApiProcess
from bench.event_stream import Publisher, connected, create_clients, wait_until
from bench.large import AGENT, OWNER, Size, fill
from bench.support import (
    CHROMIUM_ARGUMENTS,
    chromium_path,
    create_owner_token,
    provision,
    running_engines,
)
from shared.enums import ADVICE_TYPE
from shared.events.envelope import Event
from shared.events.models import AdviceProduced, QueryCompleted, QueryFailed
from shared.runtime.bus import Bus
from shared.runtime.settings import Settings

EVENT_INTERVAL_SECONDS: Final = (0.1, 1.0)
"""Random interval between events, as in an iteration."""
RUNNING_QUERIES: Final = 8
TIMEOUT_MS: Final = 10_000
_WATCH: Final = """
new MutationObserver(() => {
  const wanted = sessionStorage.getItem("wanted");
  if (wanted && document.body?.textContent.includes(wanted)) {
    sessionStorage.removeItem("wanted");
    reportSeen(performance.timeOrigin + performance.now());
  }
}).observe(document, {subtree: true, childList: true, characterData: true});
"""


@dataclass(frozen=True)
class Agent:
    id: UUID
    owner_id: UUID
    iteration_id: UUID
    """A running iteration."""
    connection: psycopg.AsyncConnection[Any]

    async def query_completed(self, marker: str) -> Event:
        """A query of the iteration completes, with an error that pages show."""
        await self.connection.execute(
            "update iterations set errors = jsonb_build_array(%s::text) where id = %s",
            (marker, self.iteration_id),
        )
        return QueryCompleted.of(**self._step(), nodes=1, edges=1)

    async def reason_changed(self, marker: str) -> Event:
        """The list of iterations shows why each started."""
        await self.connection.execute(
            "update iterations set why = %s where id = %s", (marker, self.iteration_id)
        )
        return QueryCompleted.of(**self._step(), nodes=1, edges=1)

    async def mission_changed(self, marker: str) -> Event:
        await self.connection.execute(
            "update agents set mission = %s where id = %s", (marker, self.id)
        )
        return QueryCompleted.of(**self._step(), nodes=1, edges=1)

    async def query_failed(self, marker: str) -> Event:
        return QueryFailed.of(**self._step(), error=marker)

    async def advice_produced(self, marker: str) -> Event:
        """Advice is added to the graph and the inbox."""
        advice_id = uuid4()
        await self.connection.execute(
            "with advice as (insert into graph_nodes (id, agent_id, type, name, properties) values"
            " (%(id)s, %(agent)s, %(type)s, %(marker)s, jsonb_build_object('action', 'HOLD', 'summary', 'As it stands.',"
            " 'content', 'As it stands.', 'generated_at', now())))"
            " insert into inbox_items (id, owner_id, agent_id, node_id, title, summary)"
            " values (gen_random_uuid(), %(owner)s, %(agent)s, %(id)s, %(marker)s, 'As it stands.')",
            {
                "id": advice_id,
                "agent": self.id,
                "owner": self.owner_id,
                "type": ADVICE_TYPE,
                "marker": marker,
            },
        )
        return AdviceProduced.of(**self._step(), advice_id=advice_id, action="HOLD")

    def _step(self) -> dict[str, Any]:
        return {
            "agent_id": self.id,
            "iteration_id": self.iteration_id,
            "step_id": uuid4(),
            "occurred_at": datetime.now(UTC),
        }


ApplyChange = Callable[[Agent, str], Awaitable[Event]]

LIVE_PAGES: Final[dict[str, tuple[str, ApplyChange]]] = {
    "agents": ("/agents", Agent.mission_changed),
    "an agent, now": ("/agents/{agent}", Agent.query_completed),
    "iterations": ("/agents/{agent}/iterations", Agent.reason_changed),
    "an iteration": ("/agents/{agent}/iterations/{number}", Agent.query_completed),
    "advice": ("/agents/{agent}/conclusions", Agent.advice_produced),
    "inbox": ("/inbox", Agent.advice_produced),
    "events": ("/events", Agent.query_failed),
}
"""The live pages: path, and the change that each shows."""


class _Watch:
    """Waits until a browser page shows a text. Works too where the page's body is replaced, or the page is loaded again."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._seen_ms: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    async def install(self) -> None:
        await self._page.expose_function("reportSeen", self._report)
        await self._page.add_init_script(_WATCH)

    async def begin(self, text: str) -> None:
        self._seen_ms = asyncio.get_running_loop().create_future()
        await self._page.evaluate("(text) => sessionStorage.setItem('wanted', text)", text)

    async def seen_seconds(self) -> float:
        """Returns when the page showed the text, in seconds since the epoch."""
        async with asyncio.timeout(TIMEOUT_MS / 1000):
            return await self._seen_ms / 1000

    def _report(self, at_ms: float) -> None:
        if not self._seen_ms.done():
            self._seen_ms.set_result(at_ms)


async def live_pages(
    url: str, settings: Settings, token: str, events: int
) -> AsyncIterator[tuple[str, list[float]]]:
    """Yield the name of each page and the latency of each event in seconds."""
    bus = Bus(settings.nats_url, name="bench")
    await bus.connect()
    try:
        async with (
            _agent(settings.database_url) as (agent, number),
            _open_browser_page(url, token) as page,
        ):
            watch = _Watch(page)
            await watch.install()
            for name, (path, happens) in LIVE_PAGES.items():
                await page.goto(path.format(agent=agent.id, number=number))
                await page.locator('#live-state[data-state="live"]').wait_for(state="attached")
                yield (
                    name,
                    [
                        await _event_latency_seconds(watch, bus, agent, happens)
                        for _ in range(events)
                    ],
                )
    finally:
        await bus.close()


async def _event_latency_seconds(
    watch: _Watch, bus: Bus, agent: Agent, happens: ApplyChange
) -> float:
    """Seconds from before the publication of an event until the page shows it."""
    await asyncio.sleep(random.uniform(*EVENT_INTERVAL_SECONDS))
    marker = f"seen {uuid4()}"
    await watch.begin(marker)
    event = await happens(agent, marker)
    began = time.time()
    await bus.publish(event)
    return await watch.seen_seconds() - began


@asynccontextmanager
async def _agent(database_url: str) -> AsyncIterator[tuple[Agent, int]]:
    """The agent with many rows, with a new running iteration, and the iteration's number."""
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:
        cursor = await connection.execute(
            "update agents set iterations_started = iterations_started + 1 where name = %s"
            " returning id, owner_id, iterations_started",
            (AGENT,),
        )
        row = await cursor.fetchone()
        assert row is not None
        agent = Agent(row[0], row[1], uuid4(), connection)
        await _insert_iteration(agent, row[2])
        yield agent, row[2]


async def _insert_iteration(agent: Agent, number: int) -> None:
    await agent.connection.execute(
        "insert into iterations (id, agent_id, number, why, stage, deadline_at)"
        " values (%s, %s, %s, 'due', 'researching', now() + interval '1 hour')",
        (agent.iteration_id, agent.id, number),
    )
    await agent.connection.execute(
        "insert into steps (id, iteration_id, agent_id, kind, index, status) select gen_random_uuid(), %(iteration)s,"
        " %(agent)s, kind, index, status from (values ('observe', 0, 'completed')) observed (kind, index, status)"
        " union all select gen_random_uuid(), %(iteration)s, %(agent)s, 'query', index, 'running'"
        " from generate_series(0, %(queries)s - 1) index",
        {"iteration": agent.iteration_id, "agent": agent.id, "queries": RUNNING_QUERIES},
    )


@asynccontextmanager
async def _open_browser_page(url: str, token: str) -> AsyncIterator[Page]:
    """Open a browser page that sends the token with each request."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=chromium_path(), args=CHROMIUM_ARGUMENTS
        )
        context = await browser.new_context(
            base_url=url, extra_http_headers={"Authorization": f"Bearer {token}"}
        )
        yield await context.new_page()
        await browser.close()


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
MAX_FIRST_LOAD_BYTES: Final = 300_000
MAX_EVENT_LATENCY_SECONDS: Final = 0.300
OPEN_PAGES: Final = 100
OPEN_EVENTS: Final = 200
OPEN_EVENTS_PER_SECOND: Final = 50
"""Rate of the events for open pages."""
MAX_OPEN_PAGES_BYTES: Final = 100 * 1024**2
WARM_UP_REQUESTS: Final = 5
_ASSET: Final = re.compile(r'(?:src|href)="(/assets/[^"#]+)')
_JS_IMPORT: Final = re.compile(r'^import .* from "\./([^"]+)";$', re.MULTILINE)
_FONT: Final = re.compile(r'url\("([\w-]*-latin-wght-[\w.-]+)"\)')
"""The font of most text; browsers load others where a page has letters of them."""
_GRAPH_PAGE: Final = re.compile(r"/graph(\?|$)")

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
    "duplicates": f"/agents/{AGENT}/duplicates",
    "merges": f"/agents/{AGENT}/merges",
    "advice": f"/agents/{AGENT}/conclusions",
    "analyses": f"/agents/{AGENT}/conclusions?kind=analyses",
    "doubted analyses": f"/agents/{AGENT}/conclusions?kind=analyses&doubted=true",
    "sources": f"/agents/{AGENT}/sources",
    "a search in them": f"/agents/{AGENT}/sources?search=page+4",
    "conversation": f"/agents/{AGENT}/conversation",
    "costs of an agent": f"/agents/{AGENT}/costs",
    "by hour": f"/agents/{AGENT}/costs?range=7d&step=hour",
    "of 90 days": f"/agents/{AGENT}/costs?range=90d",
    "inbox": "/inbox",
    "done in the inbox": "/inbox?view=done",
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
    with tempfile.TemporaryDirectory() as home, running_engines(Path(home)) as (postgres, nats):
        settings = Settings(database_url=postgres.url("bench"), nats_url=nats.url, owner=OWNER)
        provision(settings)
        hub = fill(settings.database_url, SIZE)
        return asyncio.run(_measure(settings, Path(home), hub, requests))


async def _measure(settings: Settings, home: Path, hub: UUID, requests: int) -> int:
    api = ApiProcess(settings, home / "api.log")
    token = await create_owner_token(settings)
    await api.start()
    try:
        headers = {
            "Authorization": f"Bearer {token}",
            "Accept": "text/html",
            "Accept-Encoding": "gzip",
        }
        with httpx.Client(
            base_url=api.url, headers=headers, timeout=30.0, trust_env=False
        ) as client:
            missed_goals = await _open_pages(api, settings, token)
            missed_goals += _measure_pages(client, hub, requests)
        missed_goals += await _live_pages(api, settings, token)
    finally:
        await api.end(signal.SIGTERM)
    print("\n".join(["", *missed_goals] if missed_goals else ["", "All goals are met."]))
    return int(bool(missed_goals))


def _measure_pages(client: httpx.Client, hub: UUID, requests: int) -> Iterator[str]:
    print(f"{'page':<20}{'p50':>8}{'p95':>8}  ms{'first load':>13}  kB, {requests} times each")
    for name, path in PAGES.items():
        address = path.format(hub=hub)
        seconds = sorted(_time_requests(client, address, requests))
        p95 = statistics.quantiles(seconds, n=20)[-1]
        first = _first_load_bytes(client, address)
        p50 = statistics.median(seconds)
        print(f"{name:<20}{p50 * 1000:8.1f}{p95 * 1000:8.1f}{first / 1000:16.0f}", flush=True)
        if p95 >= MAX_P95_SECONDS:
            yield f"{name}: p95 {p95 * 1000:.0f} ms, not below {MAX_P95_SECONDS * 1000:.0f}"
        if first >= MAX_FIRST_LOAD_BYTES:
            yield f"{name}: a first load of {first / 1000:.0f} kB"


def _time_requests(client: httpx.Client, path: str, requests: int) -> Iterator[float]:
    for number in range(-WARM_UP_REQUESTS, requests):
        began = time.perf_counter()
        client.get(path).raise_for_status()
        if number >= 0:
            yield time.perf_counter() - began


def _first_load_bytes(client: httpx.Client, path: str) -> int:
    """Bytes on the wire: the page, its assets, and what those import."""
    text, total = _download(client, path)
    queue = set(_ASSET.findall(text))
    if _GRAPH_PAGE.search(path):
        queue.add(path.replace("/graph", "/graph/data", 1))
    done: set[str] = set()
    while queue:
        asset = queue.pop()
        done.add(asset)
        text, more = _download(client, asset)
        total += more
        if asset.endswith(".js"):
            folder = asset.rpartition("/")[0]
            queue |= {f"{folder}/{name}" for name in _JS_IMPORT.findall(text)} - done
        elif asset.endswith(".css"):
            queue |= {f"{asset.rpartition('/')[0]}/{name}" for name in _FONT.findall(text)} - done
    return total


def _download(client: httpx.Client, path: str) -> tuple[str, int]:
    with client.stream("GET", path) as answer:
        answer.raise_for_status().read()
    return answer.text, answer.num_bytes_downloaded


async def _open_pages(api: ApiProcess, settings: Settings, token: str) -> list[str]:
    """The memory that open pages cost. Each is one client of its agent's events, on a fresh API process."""
    agent_id = await _agent_id(settings)
    clients = create_clients(api.port, token, OPEN_PAGES, [str(agent_id)])
    bus = Bus(settings.nats_url, name="bench")
    await bus.connect()
    start = api.resident_bytes()
    try:
        async with connected(clients):
            await wait_until(lambda: all(client.last_event_id is not None for client in clients))
            await Publisher(bus, [agent_id]).publish_steadily(
                range(OPEN_EVENTS), OPEN_EVENTS_PER_SECOND
            )
            await wait_until(lambda: all(len(client.received) == OPEN_EVENTS for client in clients))
            cost = api.peak_bytes() - start
    finally:
        await bus.close()
    incomplete = sum(len(client.received) < OPEN_EVENTS for client in clients)
    print(f"{OPEN_PAGES} open pages cost the api {cost / 1024**2:.1f} MiB\n")
    missed_goals = [f"{incomplete} open pages did not receive everything"] if incomplete else []
    if cost >= MAX_OPEN_PAGES_BYTES:
        missed_goals.append(f"{OPEN_PAGES} open pages cost {cost / 1024**2:.0f} MiB")
    return missed_goals


async def _agent_id(settings: Settings) -> UUID:
    async with await psycopg.AsyncConnection.connect(settings.database_url) as connection:
        result = await connection.execute("select id from agents where name = %s", (AGENT,))
        row = await result.fetchone()
        assert row is not None
        agent_id: UUID = row[0]
        return agent_id


async def _live_pages(api: ApiProcess, settings: Settings, token: str) -> list[str]:
    events = int(os.environ.get("VIGIL_BENCH_EVENTS") or 60)
    print(f"\n{'event to page':<20}{'p50':>8}{'p95':>8}{'max':>8}  ms, {events} events each")
    missed_goals = []
    async for name, late in live_pages(api.url, settings, token, events):
        p50, p95 = statistics.median(late), statistics.quantiles(late, n=20)[-1]
        times = (p50, p95, max(late))
        print(f"{name:<20}{''.join(f'{seconds * 1000:8.1f}' for seconds in times)}", flush=True)
        if p95 >= MAX_EVENT_LATENCY_SECONDS:
            missed_goals.append(f"{name}: an event is seen after {p95 * 1000:.0f} ms at p95")
    return missed_goals


if __name__ == "__main__":
    sys.exit(main())
