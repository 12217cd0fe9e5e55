"""What Ctrl-C and a polite kill mean to a command that runs until it is stopped."""

import os
import signal
from collections.abc import Callable, Iterable
from types import FrameType, TracebackType
from typing import Final, Self

STOPPING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StopSignals:
    """Within, the first stopping signal raises KeyboardInterrupt in the main thread; further ones hurry its end."""

    def __init__(self) -> None:
        self._before: dict[signal.Signals, object] = {}
        self._stopping = False
        self._hurry: Callable[[], None] | None = None

    def end_with(self, pids: Callable[[], Iterable[int]], say: Callable[[str], None]) -> None:
        """From now on the command ends: a signal kills what is left of `pids`, so that nobody waits for it."""

        def hurry() -> None:
            say("not waiting any longer")
            for pid in pids():
                os.kill(pid, signal.SIGKILL)

        self._hurry = hurry
        self._stopping = True

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
        if not self._stopping:
            self._stopping = True
            raise KeyboardInterrupt
        if self._hurry is not None:
            self._hurry()
