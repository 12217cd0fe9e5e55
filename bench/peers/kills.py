"""Kills a contender's processes in the middle of an iteration, continues the iteration, and counts the calls made again."""

import asyncio
import os
import signal
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from uuid import uuid4

from bench.loop.driver import Driver
from bench.loop.environment import Environment
from bench.loop.run import providers
from bench.loop.service_pool import ServicePool
from bench.peers.contenders import TIMEOUT_SECONDS, Peer

DELAY_SECONDS: Final = 0.4
"""Duration of a call. The kill is half of it after an answer, so that every answer has had time to be saved."""
KILLS: Final = (7,)
"""Answered calls, of 16, after which the contender is killed, in an iteration each. After 7, three queries are at work."""
POLL_SECONDS: Final = 0.01
DEADLINE_SECONDS: Final = 60.0


@dataclass(frozen=True)
class Kill:
    """Calls at the moment of a kill, and how many of them were made again."""

    answered: int
    answered_again: int
    in_flight: int
    in_flight_again: int


@dataclass(frozen=True)
class Moment:
    """How often each call has been received and answered."""

    received: "Counter[str]"
    answered: "Counter[str]"


class Calls:
    """The calls that the providers have logged; see `providers_server.CallLog`."""

    def __init__(self, log: Path) -> None:
        self._log = log

    def moment(self) -> Moment:
        lines = self._log.read_text().splitlines() if self._log.exists() else []
        events = [line.split(" ", 1) for line in lines]
        return Moment(
            Counter(key for event, key in events if event == "received"),
            Counter(key for event, key in events if event == "answered"),
        )

    async def wait_for_answers(self, count: int) -> None:
        """Wait until so many calls are answered, and have had time to be saved. Raises TimeoutError."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while self.moment().answered.total() < count:
            if time.monotonic() > deadline:
                raise TimeoutError(f"fewer than {count} calls were answered")
            await asyncio.sleep(POLL_SECONDS)
        await asyncio.sleep(DELAY_SECONDS / 2)

    def kill(self, at: Moment) -> Kill:
        """Counts the calls from before the kill that were answered, in progress, and sent again since."""
        again = (self.moment().received - at.received).keys()
        in_flight = at.received.keys() - at.answered.keys()
        return Kill(
            len(at.answered),
            len(at.answered.keys() & again),
            len(in_flight),
            len(in_flight & again),
        )


async def kill_peer(peer: Peer, after: int, folder: Path) -> Kill:
    """Kill it, start it again, and let it continue the iteration."""
    log = folder / f"{peer.module}.{after}.calls"
    calls = Calls(log)
    iteration_id = str(uuid4())
    with providers(DELAY_SECONDS, log) as url:
        peer = Peer(peer.name, peer.place, url, peer.python, peer.module, peer.options)
        database_url = peer.create_database()
        with peer.process(database_url) as process:
            running = asyncio.create_task(process.run(iteration=iteration_id))
            await calls.wait_for_answers(after)
            process.kill()
            killed = calls.moment()
            with suppress(RuntimeError):  # it has ended, as it should
                await running
        with peer.process(database_url) as process:
            await process.run(iteration=iteration_id)
        return calls.kill(killed)


async def kill_vigil(place: Environment, after: int, folder: Path) -> Kill:
    """Kill all services and start them again; they continue by themselves."""
    log = folder / f"vigil.{after}.calls"
    calls = Calls(log)
    with providers(DELAY_SECONDS, log) as url:
        pool = ServicePool(place.settings, place.home, providers_url=url)
        async with Driver.open(place.settings) as driver:
            [agent_id] = await driver.create_agents(1)
            with pool.running():
                iteration = asyncio.create_task(
                    driver.run(agent_id, timeout_seconds=TIMEOUT_SECONDS)
                )
                await calls.wait_for_answers(after)
                for _, pid in pool.pids:
                    os.kill(pid, signal.SIGKILL)
                killed = calls.moment()
            with ServicePool(place.settings, place.home, providers_url=url).running():
                await iteration
        return calls.kill(killed)
