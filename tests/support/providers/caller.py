"""A process that calls a model server through its gate as the steps of a researcher do: without ledger and messages."""

import argparse
import asyncio
import json
import logging
import sys
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace

from shared.database.engine import Database
from shared.errors import TransientError, WaitForProviderError
from shared.llm.messages import ChatRequest
from shared.llm.model_server import Limits, ModelServer
from shared.llm.provider import ChatProvider
from shared.provider_limits import state
from shared.provider_limits.gate import ProviderGate
from shared.provider_limits.store import StateStore, provider_key
from tests.support.model_server import make_resumable_call

UNANSWERED_PAUSE_SECONDS = 2.0


@dataclass
class Report:
    """What the calls of one process led to."""

    answered: int = 0
    released: int = 0
    """Steps that were released to wait."""
    errors: list[str] = field(default_factory=list)
    """What would have used up an attempt."""
    statements: int = 0
    warnings: list[str] = field(default_factory=list)
    longest_wait_seconds: float = 0.0


class CountingStore(StateStore):
    """Counts round trips."""

    statements = 0

    async def read(self):  # type: ignore[no-untyped-def]
        self.statements += 1
        return await super().read()

    async def write(self, seen_version, state):  # type: ignore[no-untyped-def]
        self.statements += 1
        return await super().write(seen_version, state)


class CollectingLog:
    def __init__(self, lines: list[str]) -> None:
        self._lines = lines

    def warning(self, event: str, **_: object) -> None:
        self._lines.append(event)

    info = warning


async def run(
    database_url: str, url: str, *, seconds: float, slots: int, limits: state.Limits
) -> Report:
    """Calls the server from `slots` steps for some time."""
    report = Report()
    database = Database(database_url, name="caller", pool_size=3)
    name = f"the model server at {url}"
    store = CountingStore(database, "model", provider_key(url, "k"), name)
    gate = ProviderGate(name, limits=limits, store=store, log=CollectingLog(report.warnings))
    server = ModelServer(api_key="k", base_url=url, limits=Limits(), gate=gate)
    await database.ping()
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    deadline = time.monotonic() + seconds
    with suppress(TimeoutError):
        # Calls in progress end by themselves: the server would count a cancelled one, whose place is free, a while longer.
        async with asyncio.timeout(seconds + 5):
            await asyncio.gather(*(_steps(server, deadline, report) for _ in range(slots)))
    await server.close()
    await database.close()
    report.statements = store.statements
    return report


async def _steps(server: ModelServer, deadline: float, report: Report) -> None:
    provider = ChatProvider(server)
    message = {"role": "user", "content": "Is it?"}
    request = ChatRequest("m", (message,), (), None, 100)
    while time.monotonic() < deadline:
        begun_at, released_at = time.monotonic(), None
        while True:
            waited = 0.0 if released_at is None else time.monotonic() - released_at
            try:
                await provider.complete(
                    request, replace(make_resumable_call(), waited_seconds=waited)
                )
            except TransientError as error:
                if error.counts:
                    report.errors.append(str(error))
                report.released += 1
                released_at = released_at or time.monotonic()
                is_exact = isinstance(error, WaitForProviderError)
                pause = max(
                    error.retry_in_seconds or 0.0, 0.0 if is_exact else UNANSWERED_PAUSE_SECONDS
                )
                if time.monotonic() + pause >= deadline:
                    return
                await asyncio.sleep(pause)
                continue
            break
        report.answered += 1
        wait = time.monotonic() - begun_at
        report.longest_wait_seconds = max(report.longest_wait_seconds, wait)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("database_url")
    parser.add_argument("url")
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--slots", type=int, default=5)
    parser.add_argument("--requests-per-minute", type=float)
    parser.add_argument("--concurrency", type=int)
    options = parser.parse_args()
    logging.disable()
    limits = state.Limits(options.requests_per_minute, None, options.concurrency)
    report = asyncio.run(
        run(
            options.database_url,
            options.url,
            seconds=options.seconds,
            slots=options.slots,
            limits=limits,
        )
    )
    print(json.dumps(asdict(report)))


if __name__ == "__main__":
    main()
