"""The cost of a quiet iteration: its pages are checked, nothing is new, and no model is called.

The pages are those that the reference iteration has read. A gateway in a process of its own answers that they have not
changed; its processor time is not counted, nor is that of TLS.
"""

from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final
from uuid import UUID

from bench.loop.counters import Usage
from bench.loop.driver import Driver
from bench.loop.environment import Environment
from bench.loop.scripted_model import QUERIES
from bench.loop.service_pool import ServicePool
from bench.support import running_server

MAX_PAGES: Final = 200
"""The shipped limit of pages that an iteration checks."""
OWN_ITERATIONS: Final = 6
"""After so many iterations for reasons of its own, an agent is quiet for 31 ticks."""
TICKS: Final = 24
_ETAG: Final = '"unchanged"'


@dataclass(frozen=True)
class Quiet:
    """Usage of one iteration of an agent with `pages`, working and quiet."""

    pages: int
    working: Usage
    quiet: Usage


async def measure_quiet(place: Environment) -> list[Quiet]:
    """For an agent with few pages, and for one with as many as are checked."""
    with running_server("bench.scaling.quiet") as url:
        pool = ServicePool(
            place.settings,
            place.home,
            environment={"VIGIL_PROBE_PAGES": str(MAX_PAGES), "VIGIL_FETCH_GATEWAY": url},
        )
        async with Driver.open(place.settings) as driver:
            with pool.running():
                agents = await driver.create_agents(3)
                await driver.run(agents[0])  # warm-up
                return [
                    await _measure(place, pool, driver, agents[1], 0),
                    await _measure(place, pool, driver, agents[2], MAX_PAGES // QUERIES),
                ]


async def _measure(
    place: Environment, pool: ServicePool, driver: Driver, agent_id: UUID, first: int
) -> Quiet:
    for _ in range(first):
        await driver.run(agent_id)
    meter = place.meter(pool)
    before = meter.snapshot(await driver.messages())
    for _ in range(TICKS):
        await driver.run(agent_id)
    working = meter.usage_between(before, meter.snapshot(await driver.messages())).per(TICKS)
    own = 0
    while own < OWN_ITERATIONS:
        own += not await driver.tick(agent_id)
    # It stores what the checks of the newest pages have found.
    was_quiet = [await driver.tick(agent_id)]
    before = meter.snapshot(await driver.messages())
    was_quiet += [await driver.tick(agent_id) for _ in range(TICKS)]
    quiet = meter.usage_between(before, meter.snapshot(await driver.messages())).per(TICKS)
    if not all(was_quiet):
        raise RuntimeError("an iteration that should be quiet was not")
    pages = QUERIES * (first + TICKS + OWN_ITERATIONS)
    return Quiet(min(pages, MAX_PAGES), working, quiet)


class _Unchanged(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        body = b"<title>Page</title><p>Nothing is new.</p>"
        if self.headers["If-None-Match"] == _ETAG:
            body = b""
        self.send_response(200 if body else 304)
        self.send_header("ETag", _ETAG)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


class _Server(ThreadingHTTPServer):
    request_queue_size = 128
    """All connections are opened at once. One that finds no place is tried again after a second."""


def _serve() -> None:
    with _Server(("127.0.0.1", 0), _Unchanged) as server:
        print(server.server_port, flush=True)
        server.serve_forever()


if __name__ == "__main__":
    _serve()
