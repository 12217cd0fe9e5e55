"""Hears the bus on a thread of its own, so that news are told when they happen and not at the next look."""

import asyncio
import queue
import threading
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from shared.errors import TransientError

if TYPE_CHECKING:
    from shared.events.credentials import Credentials

END_SECONDS: Final = 2.0


class Nudges:
    """Wakes whoever waits whenever an event is told. Without the bus it only waits: events are hints."""

    def __init__(self, nats: "tuple[str, Credentials] | None") -> None:
        """`nats`: where it is, and who is shown there."""
        self._nats = nats
        self._heard: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="nudges", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None

    def wait(self, seconds: float) -> None:
        """Returns at the next event, or after so many seconds."""
        try:
            self._heard.get(timeout=seconds)
            while True:
                self._heard.get_nowait()
        except queue.Empty:
            return

    def __enter__(self) -> Self:
        if self._nats is not None:
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._loop is not None and self._task is not None:
            self._loop.call_soon_threadsafe(self._task.cancel)
        if self._thread.is_alive():
            self._thread.join(END_SECONDS)

    def _run(self) -> None:
        try:
            asyncio.run(self._listen())
        except (asyncio.CancelledError, TransientError):
            return

    async def _listen(self) -> None:
        from shared.events.stream_reader import follow, listening

        assert self._nats is not None
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        async with listening(*self._nats) as client:
            async for _ in follow(client):
                self._heard.put(None)
