"""Creates the stream and its consumers again if NATS has lost them, as after its volume was lost."""

import asyncio
import time
from collections.abc import Sequence
from typing import Final

from shared.events.stream_admin import (
    StreamSummary,
    create_missing,
    find_missing,
    summarize_stream,
)
from shared.events.topology import Consumer
from shared.runtime.background import log_and_continue
from shared.runtime.bus import Bus
from shared.runtime.logging import logger
from shared.runtime.settings import Settings

CHECK_SECONDS: Final = 3.0
FULL_CHECK_SECONDS: Final = 60.0
"""Each consumer is looked up after so long, also if the stream has as many as at the last check."""

log = logger(__name__)


class StreamKeeper:
    """Recreates what NATS has lost. The reconciler publishes the lost messages again."""

    def __init__(self, bus: Bus, settings: Settings) -> None:
        self._bus = bus
        self._settings = settings
        self._missing: Sequence[Consumer] = ()
        self._complete: StreamSummary | None = None
        """The stream when it last had all consumers."""
        self._complete_until = 0.0

    async def run(self) -> None:
        """Checks at intervals, until cancelled. Does nothing with permissions of an older version."""
        while True:
            if self._bus.is_connected and not self._bus.forbids("$JS.API."):
                await log_and_continue(self.check, "could not check the stream; will retry")
            await asyncio.sleep(CHECK_SECONDS)

    async def check(self) -> None:
        """Creates what is missing at two checks in a row: `vigil migrate` deletes a consumer and creates it again."""
        summary = await summarize_stream(self._bus.jetstream)
        if summary == self._complete and time.monotonic() < self._complete_until:
            return
        before, self._missing = self._missing, await find_missing(self._bus.jetstream)
        if not self._missing:
            self._complete, self._complete_until = summary, time.monotonic() + FULL_CHECK_SECONDS
        lasting = [consumer for consumer in self._missing if consumer in before]
        if not lasting:
            return
        await create_missing(
            self._bus.jetstream,
            lasting,
            max_age_seconds=self._settings.stream_max_age_seconds,
            max_bytes=self._settings.stream_max_bytes,
            replicas=self._settings.stream_replicas,
        )
        names = [consumer.service for consumer in lasting]
        log.warning("NATS had lost the stream or consumers; created them again", consumers=names)
