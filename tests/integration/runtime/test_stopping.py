"""Actors that are told to stop at the wrong moment."""

import asyncio
from contextlib import suppress

import pytest

from shared.runtime.bus import Bus
from shared.runtime.settings import Settings
from tests.support.actors import BUILDERS


async def test_an_actor_that_misses_the_word_while_it_starts_stops_all_the_same(
    settings: Settings, bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    connecting = asyncio.Event()
    connect = Bus.connect

    async def connect_deafly(self: Bus) -> None:
        connecting.set()
        with suppress(asyncio.CancelledError):  # as asyncio.wait_for does before Python 3.12
            await asyncio.Event().wait()
        await connect(self)

    monkeypatch.setattr(Bus, "connect", connect_deafly)
    running = asyncio.create_task(BUILDERS["scheduler"](settings).run())
    await connecting.wait()
    running.cancel()
    ended, _ = await asyncio.wait({running}, timeout=30)
    assert ended
    assert running.cancelled()
