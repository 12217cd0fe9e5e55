"""Provisioning as a command: waits for the engines and says which one it waits for."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

from cli.errors import CommandError
from cli.render.console import err
from shared.errors import TransientError
from shared.events.stream_reader import listening
from shared.runtime.connections import database_of
from shared.runtime.credentials import credentials_of
from shared.runtime.identity import MIGRATE
from shared.runtime.provision import provision
from shared.runtime.settings import Settings

LOOK_AGAIN_SECONDS: Final = 0.5


async def provisioned(settings: Settings, wait_seconds: float) -> None:
    """Raises CommandError where PostgreSQL or NATS does not answer, or is not ready, in time."""
    deadline = time.monotonic() + wait_seconds
    await _wait(lambda: _ask_postgres(settings), "check VIGIL_DATABASE_URL", deadline)
    await _wait(lambda: _ask_nats(settings), "check VIGIL_NATS_URL", deadline)
    # NATS lets clients in long before its nodes have agreed on who leads them.
    await _wait(
        lambda: provision(settings), "see NATS's log, or give it longer by --wait", deadline
    )


async def _wait(ask: Callable[[], Awaitable[object]], advice: str, deadline: float) -> None:
    said: str | None = None
    while True:
        try:
            await ask()
        except TransientError as error:
            if time.monotonic() > deadline:
                raise CommandError(f"{error}; {advice}") from error
            if str(error) != said:
                said = str(error)
                err().print(f"[quiet]waiting: {said}[/]", soft_wrap=True)
            await asyncio.sleep(LOOK_AGAIN_SECONDS)
        else:
            return


async def _ask_postgres(settings: Settings) -> None:
    database = database_of(settings, MIGRATE, pool_size=1)
    try:
        await database.ping()
    finally:
        await database.close()


async def _ask_nats(settings: Settings) -> None:
    async with listening(settings.nats_url, credentials_of(settings, MIGRATE)):
        return
