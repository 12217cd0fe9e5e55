"""`python -m bench.telemetry`: processor time of an iteration with metrics and traces, beside one without.

Three installations run at the same time: one without telemetry (counters do nothing), one with metrics, which are scraped,
and one with metrics and traces, whose spans go to a collector in a process of its own. Model and search answer at once. The
three take turns every few iterations, so that what else happens on the machine concerns all of them alike. What a service
does while the others have their turn, such as to export, counts too.
"""

import argparse
import asyncio
import statistics
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final
from uuid import UUID

import httpx
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from bench.loop.driver import Driver
from bench.loop.environment import DATABASE
from bench.loop.service import METRICS
from bench.loop.service_pool import ServicePool
from bench.support import provision, running_engines, running_server
from shared.runtime.settings import Settings

WARM_UP: Final = 20
AGENTS: Final = 16
TURN: Final = 5
"""Iterations of a turn, if there is one at a time."""
GOAL_SECONDS: Final = 0.005
"""Of traces."""
SCRAPE_SECONDS: Final = 5.0
EXPORT_SECONDS: Final = 6.0
"""After so long, all spans of a turn have been exported."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.telemetry", description=__doc__)
    parser.add_argument("--rounds", type=int, default=6, help="default: 6")
    parser.add_argument("--turns", type=int, default=8, help="of each installation in a round")
    parser.add_argument("--serve", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.rounds < 2:
        parser.error("--rounds must be at least 2")
    if arguments.serve is not None:
        serve_collector(arguments.serve)
    with running_server("bench.telemetry", "--serve", "0") as url:
        environments = {
            "without": {METRICS: "off"},
            "metrics": {},
            "traces": {"OTEL_EXPORTER_OTLP_ENDPOINT": url},
        }
        results = asyncio.run(measure(environments, arguments.rounds, arguments.turns))
        spans = int(httpx.get(url).text)
    iterations = WARM_UP + arguments.rounds * arguments.turns * (TURN + AGENTS)
    print(f"{spans / iterations:.0f} spans an iteration")
    return report(results)


Results = Mapping[str, list[dict[str, float]]]
"""By kind of run and round, the seconds of processor time an iteration of each installation."""


@dataclass(frozen=True)
class Installation:
    """One of the three, with its agents."""

    pool: ServicePool
    driver: Driver
    agents: Sequence[UUID]

    @classmethod
    @asynccontextmanager
    async def running(cls, environment: Mapping[str, str]) -> "AsyncIterator[Installation]":
        with (
            tempfile.TemporaryDirectory() as home,
            running_engines(Path(home), durable=True) as (postgres, nats),
        ):
            settings = Settings(database_url=postgres.url(DATABASE), nats_url=nats.url)
            provision(settings)
            pool = ServicePool(settings, Path(home), environment=environment)
            async with Driver.open(settings) as driver:
                agents = await driver.create_agents(AGENTS)
                with pool.running():
                    yield cls(pool, driver, agents)

    @property
    def seconds(self) -> float:
        return sum(self.pool.seconds.values())

    async def one_at_a_time(self) -> None:
        for _ in range(TURN):
            await self.driver.run(self.agents[0])

    async def under_load(self) -> None:
        await asyncio.gather(*map(self.driver.run, self.agents))


async def measure(
    environments: Mapping[str, Mapping[str, str]], rounds: int, turns: int
) -> Results:
    results: dict[str, list[dict[str, float]]] = {"one": [], "load": []}
    async with AsyncExitStack() as stack:
        sides = {
            name: await stack.enter_async_context(Installation.running(environment))
            for name, environment in environments.items()
        }
        for side in sides.values():
            for _ in range(WARM_UP):
                await side.driver.run(side.agents[0])
        scraped = [port for name in ("metrics", "traces") for port in sides[name].pool.ports]
        scraper = asyncio.create_task(scrape(scraped))
        for number in range(rounds):
            results["one"].append(await take_turns(sides, turns, Installation.one_at_a_time, TURN))
            results["load"].append(await take_turns(sides, turns, Installation.under_load, AGENTS))
            print(f"round {number + 1} of {rounds}", file=sys.stderr, flush=True)
        scraper.cancel()
        with suppress(asyncio.CancelledError):
            await scraper
    return results


async def take_turns(
    sides: Mapping[str, Installation],
    turns: int,
    turn: Callable[[Installation], Awaitable[None]],
    iterations: int,
) -> dict[str, float]:
    """The seconds of each installation for an iteration; a turn has so many `iterations`."""
    before = {name: side.seconds for name, side in sides.items()}
    for number in range(turns):
        order = list(sides.values())
        # They take turns at being first, too.
        for side in order[number % len(order) :] + order[: number % len(order)]:
            await turn(side)
    await asyncio.sleep(EXPORT_SECONDS)
    return {
        name: (side.seconds - before[name]) / (turns * iterations) for name, side in sides.items()
    }


async def scrape(ports: Sequence[int]) -> None:
    """Reads the metrics of all services again and again, as Prometheus does."""
    async with httpx.AsyncClient() as client:
        while True:
            await asyncio.sleep(SCRAPE_SECONDS)
            for port in ports:
                (await client.get(f"http://127.0.0.1:{port}/metrics")).raise_for_status()


def report(results: Results) -> int:
    """Prints medians of the rounds; returns the exit code."""
    is_met = True
    for kind, label in (("one", "one iteration at a time"), ("load", f"{AGENTS} agents at once")):
        rounds = results[kind]
        without = statistics.median(each["without"] for each in rounds)
        metrics = [each["metrics"] - each["without"] for each in rounds]
        traces = [each["traces"] - each["metrics"] for each in rounds]
        is_met = is_met and statistics.median(traces) <= GOAL_SECONDS
        print(
            f"{label:<24} {without * 1000:.1f} ms; metrics {_spread(metrics)}; traces {_spread(traces)}"
        )
    return 0 if is_met else 1


def _spread(differences: Sequence[float]) -> str:
    low, middle, high = (
        value * 1000 for value in statistics.quantiles(differences, n=4, method="inclusive")
    )
    return f"{middle:+.1f} ms ({low:+.1f} to {high:+.1f} in the middle half of the rounds)"


def serve_collector(port: int) -> None:
    received: list[int] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            request = ExportTraceServiceRequest.FromString(body)
            received.append(sum(len(each.scope_spans[0].spans) for each in request.resource_spans))
            self._answer(b"")

        def do_GET(self) -> None:
            self._answer(str(sum(received)).encode())

        def _answer(self, body: bytes) -> None:
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    sys.exit(main())
