"""`python -m bench.model_client`: processor time of the clients of model and search, per answer over HTTP.

The server of `bench.loop` runs in a process of its own. A stream has 66 events, half a millisecond apart.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final
from uuid import uuid4

from bench.loop.floor import Clients
from bench.loop.run import providers
from bench.loop.scripted_model import Reference

WARM_UP: Final = 30
REPEATS: Final = 5


async def measure() -> None:
    """Print the least and the mean time of REPEATS runs."""
    reference = Reference(uuid4(), (uuid4(), uuid4()))
    with providers() as url:
        clients, streaming = Clients(url), Clients(url, stream="always")
        await _print_time("an answer", partial(clients.ask, reference), 200)
        await _print_time("a streamed answer", partial(streaming.ask, reference), 40)
        await _print_time("a search", clients.search, 200)
        await clients.close()
        await streaming.close()


async def _print_time(label: str, ask: Callable[[str], Awaitable[None]], count: int) -> None:
    for _ in range(WARM_UP):
        await ask(uuid4().hex[:16])
    means = []
    for _ in range(REPEATS):
        began = time.process_time()
        for _ in range(count):
            await ask(uuid4().hex[:16])
        means.append((time.process_time() - began) / count * 1000)
    print(f"{label:<20} {min(means):5.2f} ms, mean {sum(means) / REPEATS:5.2f} ms", flush=True)


if __name__ == "__main__":
    asyncio.run(measure())
