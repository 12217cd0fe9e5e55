"""A peer's program: it takes orders as lines of JSON on its standard input, and answers each with a line."""

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from itertools import chain
from uuid import UUID, uuid4

from bench.peers.clients import Clients, HttpxClients, LibraryClients

RunIteration = Callable[[str, UUID], Awaitable[None]]
"""Runs an iteration, or resumes it: its id, and the agent's."""


@dataclass(frozen=True)
class Program:
    """The database and the clients with which the program of a peer works."""

    database_url: str
    clients: Clients


def parse_program() -> Program:
    parser = argparse.ArgumentParser()
    parser.add_argument("database_url")
    parser.add_argument("providers_url")
    parser.add_argument("--libraries", action="store_true")
    arguments = parser.parse_args()
    clients = LibraryClients if arguments.libraries else HttpxClients
    return Program(arguments.database_url, clients(arguments.providers_url))


async def serve(run: RunIteration) -> None:
    """Answer orders until the input ends.

    An order has `agents`, each of which runs `iterations` one after another, or goes on for `seconds`; or it has the
    `iteration` that is to be run, or resumed. The answer has the durations of the iterations.
    """
    print(json.dumps([]), flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        order = json.loads(line)
        if "iteration" in order:
            await run(order["iteration"], UUID(order["iteration"]))
            print(json.dumps([]), flush=True)
            continue
        agents = [
            _run_agent(run, order.get("iterations"), order.get("seconds"))
            for _ in range(order["agents"])
        ]
        print(json.dumps([*chain.from_iterable(await asyncio.gather(*agents))]), flush=True)


async def _run_agent(
    run: RunIteration, iterations: int | None, seconds: float | None
) -> list[float]:
    agent_id, began, durations = uuid4(), time.monotonic(), list[float]()
    while (iterations is None or len(durations) < iterations) and (
        seconds is None or time.monotonic() < began + seconds
    ):
        started = time.monotonic()
        await run(str(uuid4()), agent_id)
        durations.append(time.monotonic() - started)
    return durations
