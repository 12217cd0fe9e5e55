"""Provisioning as a command: waits for the engines and prints which one it is waiting for."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from cli.errors import CommandError
from cli.render.console import err
from shared.errors import TransientError
from shared.events.stream_reader import connect_reader
from shared.runtime.connections import create_database
from shared.runtime.credentials import build_nats_credentials
from shared.runtime.identity import MIGRATE
from shared.runtime.provision import Provisioned, provision
from shared.runtime.settings import Settings

LOOK_AGAIN_SECONDS: Final = 0.5

T = TypeVar("T")


async def provisioned(settings: Settings, wait_seconds: float) -> Provisioned:
    """Raises CommandError if PostgreSQL or NATS is not ready in time."""
    deadline = time.monotonic() + wait_seconds
    await _wait(lambda: _ping_postgres(settings), "check VIGIL_DATABASE_URL", deadline)
    await _wait(lambda: _ping_nats(settings), "check VIGIL_NATS_URL", deadline)
    # NATS accepts clients long before its nodes have elected a leader.
    return await _wait(
        lambda: provision(settings), "see the NATS log, or wait longer with --wait", deadline
    )


async def _wait(ask: Callable[[], Awaitable[T]], advice: str, deadline: float) -> T:
    last_message: str | None = None
    while True:
        try:
            return await ask()
        except TransientError as error:
            if time.monotonic() > deadline:
                raise CommandError(f"{error}; {advice}") from error
            if str(error) != last_message:
                last_message = str(error)
                err().print(f"[quiet]waiting: {last_message}[/]")
            await asyncio.sleep(LOOK_AGAIN_SECONDS)


async def _ping_postgres(settings: Settings) -> None:
    database = create_database(settings, MIGRATE, pool_size=1)
    try:
        await database.ping()
    finally:
        await database.close()


async def _ping_nats(settings: Settings) -> None:
    async with connect_reader(settings.nats_url, build_nats_credentials(settings, MIGRATE)):
        return
