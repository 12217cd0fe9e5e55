"""How late a page tells what happened: from the moment before an event is published to when it stands in the page.

Each is done as an actor does it: what happened is committed, then its event is published. A real Chromium has the page
open; when the DOM holds what the event is about is told by the page's own observer, on the same clock.
"""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID, uuid4

import psycopg
from playwright.async_api import Page, async_playwright

from bench.chromium import ARGUMENTS, program
from bench.large import AGENT
from shared.enums import ADVICE_TYPE
from shared.events.envelope import Event
from shared.events.models import AdviceProduced, QueryCompleted, QueryFailed
from shared.runtime.bus import Bus
from shared.runtime.settings import Settings

APART_SECONDS: Final = (0.1, 1.0)
"""Events follow each other at random so far apart, as those of an iteration do."""
LANES: Final = 8
PATIENCE_MS: Final = 10_000
_WATCH: Final = """(wanted) => {
  window.told = new Promise((resolve) => {
    const look = () => {
      if (!document.body.textContent.includes(wanted)) return;
      watching.disconnect();
      resolve(performance.timeOrigin + performance.now());
    };
    const watching = new MutationObserver(look);
    watching.observe(document.body, {subtree: true, childList: true, characterData: true});
  });
}"""


@dataclass(frozen=True)
class Agent:
    id: UUID
    owner_id: UUID
    iteration_id: UUID
    """One that runs."""
    connection: psycopg.AsyncConnection[Any]

    async def met(self, marker: str) -> Event:
        """A query of its iteration brings something, and trouble, which pages about that show."""
        await self.connection.execute(
            "update iterations set errors = jsonb_build_array(%s::text) where id = %s",
            (marker, self.iteration_id),
        )
        return QueryCompleted.of(**self._step(), nodes=1, edges=1)

    async def renamed(self, marker: str) -> Event:
        await self.connection.execute(
            "update agents set mission = %s where id = %s", (marker, self.id)
        )
        return QueryCompleted.of(**self._step(), nodes=1, edges=1)

    async def failed(self, marker: str) -> Event:
        return QueryFailed.of(**self._step(), error=marker)

    async def advised(self, marker: str) -> Event:
        """A piece of advice stands in the graph, and in the inbox."""
        advice_id = uuid4()
        await self.connection.execute(
            "with advice as (insert into graph_nodes (id, agent_id, type, name, properties) values"
            " (%(id)s, %(agent)s, %(type)s, %(told)s, jsonb_build_object('action', 'HOLD', 'summary', 'As it stands.',"
            " 'content', 'As it stands.', 'generated_at', now())))"
            " insert into inbox_items (id, owner_id, agent_id, node_id, title, summary)"
            " values (gen_random_uuid(), %(owner)s, %(agent)s, %(id)s, %(told)s, 'As it stands.')",
            {
                "id": advice_id,
                "agent": self.id,
                "owner": self.owner_id,
                "type": ADVICE_TYPE,
                "told": marker,
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


Happening = Callable[[Agent, str], Awaitable[Event]]

LIVE: Final[dict[str, tuple[str, Happening]]] = {
    "agents": ("/agents", Agent.renamed),
    "an agent, now": ("/agents/{agent}", Agent.met),
    "iterations": ("/agents/{agent}/iterations", Agent.met),
    "an iteration": ("/agents/{agent}/iterations/{number}", Agent.met),
    "advice": ("/agents/{agent}/conclusions", Agent.advised),
    "inbox": ("/inbox", Agent.advised),
    "events": ("/events", Agent.failed),
}
"""Pages that follow what happens: where each is, and what it shows."""


async def live_pages(
    url: str, settings: Settings, token: str, events: int
) -> AsyncIterator[tuple[str, list[float]]]:
    """Each page's name, and the seconds that each of so many events took to be seen on it."""
    bus = Bus(settings.nats_url, name="bench")
    await bus.connect()
    try:
        async with _agent(settings.database_url) as (agent, number), _opened(url, token) as page:
            for name, (path, happens) in LIVE.items():
                await page.goto(path.format(agent=agent.id, number=number))
                await page.locator('#live-state[data-state="live"]').wait_for(state="attached")
                yield name, [await _late(page, bus, agent, happens) for _ in range(events)]
    finally:
        await bus.close()


async def _late(page: Page, bus: Bus, agent: Agent, happens: Happening) -> float:
    """In seconds."""
    await asyncio.sleep(random.uniform(*APART_SECONDS))
    marker = f"seen {uuid4()}"
    await page.evaluate(_WATCH, marker)
    event = await happens(agent, marker)
    began = time.time()
    await bus.publish(event)
    async with asyncio.timeout(PATIENCE_MS / 1000):
        seen_ms: float = await page.evaluate("window.told")
    return seen_ms / 1000 - began


@asynccontextmanager
async def _agent(database_url: str) -> AsyncIterator[tuple[Agent, int]]:
    """The large one, with an iteration that runs, and the number of that."""
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:
        cursor = await connection.execute(
            "update agents set iterations_started = iterations_started + 1 where name = %s"
            " returning id, owner_id, iterations_started",
            (AGENT,),
        )
        row = await cursor.fetchone()
        assert row is not None
        agent = Agent(row[0], row[1], uuid4(), connection)
        await _begin(agent, row[2])
        yield agent, row[2]


async def _begin(agent: Agent, number: int) -> None:
    await agent.connection.execute(
        "insert into iterations (id, agent_id, number, why, stage, deadline_at)"
        " values (%s, %s, %s, 'due', 'researching', now() + interval '1 hour')",
        (agent.iteration_id, agent.id, number),
    )
    await agent.connection.execute(
        "insert into steps (id, iteration_id, agent_id, kind, index, status) select gen_random_uuid(), %(iteration)s,"
        " %(agent)s, kind, index, status from (values ('observe', 0, 'completed')) observed (kind, index, status)"
        " union all select gen_random_uuid(), %(iteration)s, %(agent)s, 'query', index, 'running'"
        " from generate_series(0, %(lanes)s - 1) index",
        {"iteration": agent.iteration_id, "agent": agent.id, "lanes": LANES},
    )


@asynccontextmanager
async def _opened(url: str, token: str) -> AsyncIterator[Page]:
    """A page of a browser that shows the token with all it asks for."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=program(), args=ARGUMENTS)
        context = await browser.new_context(
            base_url=url, extra_http_headers={"Authorization": f"Bearer {token}"}
        )
        yield await context.new_page()
        await browser.close()
