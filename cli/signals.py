"""What Ctrl-C and a polite kill mean to a command that runs until it is stopped."""

import os
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType, TracebackType
from typing import Final, Self

STOPPING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StopSignals:
    """Within, the first stopping signal raises KeyboardInterrupt in the main thread; further ones hurry its end."""

    def __init__(self) -> None:
        self._before: dict[signal.Signals, object] = {}
        self._stopping = False
        self._holding = False
        self._came = False
        self._hurry: Callable[[], None] | None = None

    def end_with(self, pids: Callable[[], Iterable[int]], say: Callable[[str], None]) -> None:
        """From now on the command ends, and a signal kills `pids`, so that nobody waits for them."""

        def hurry() -> None:
            say("not waiting any longer")
            for pid in pids():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

        self._hurry = hurry
        self._stopping = True

    @contextmanager
    def held_back(self) -> Iterator[None]:
        """Within, nothing is raised; what came meanwhile is raised when the block ends."""
        self._holding = True
        try:
            yield
        finally:
            self._holding = False
        if self._came and not self._stopping:
            self._stopping = True
            raise KeyboardInterrupt

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._handle) for number in STOPPING}
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, earlier in self._before.items():
            signal.signal(number, earlier)  # type: ignore[arg-type]  # as signal.signal gave it

    def _handle(self, _: int, __: FrameType | None) -> None:
        if self._holding:
            self._came = True
        elif not self._stopping:
            self._stopping = True
            raise KeyboardInterrupt
        elif self._hurry is not None:
            self._hurry()
