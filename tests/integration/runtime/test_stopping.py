"""Services that are stopped at an unfavourable moment."""

import asyncio
from contextlib import suppress

import pytest

from shared.runtime.bus import Bus
from shared.runtime.settings import Settings
from tests.support.running_services import BUILDERS


async def test_a_service_stops_though_a_cancellation_during_its_start_was_lost(
    settings: Settings, bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    connecting = asyncio.Event()
    connect = Bus.connect

    async def connect_ignoring_cancellation(self: Bus) -> None:
        connecting.set()
        with suppress(asyncio.CancelledError):  # as asyncio.wait_for does before Python 3.12
            await asyncio.Event().wait()
        await connect(self)

    monkeypatch.setattr(Bus, "connect", connect_ignoring_cancellation)
    running = asyncio.create_task(BUILDERS["scheduler"](settings).run())
    await connecting.wait()
    running.cancel()
    done, _ = await asyncio.wait({running}, timeout=30)
    assert done
    assert running.cancelled()
