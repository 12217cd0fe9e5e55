"""Stop signals (Ctrl-C, SIGTERM) of a command that runs until it is stopped."""

import os
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType, TracebackType
from typing import Final, Self

STOPPING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StopSignals:
    """In the block, a stop signal raises KeyboardInterrupt in the main thread; while the command ends, it speeds that up.

    The interpreter drops an exception that is raised in a destructor or in a weak reference's callback, and a signal
    can arrive there. So one that came is raised again at the end of every `held_back` block until the command ends,
    and none is ignored because one came before it.
    """

    def __init__(self) -> None:
        self._before: dict[signal.Signals, object] = {}
        self._holding = False
        self._came = False
        self._hurry: Callable[[], None] | None = None

    def end_with(self, pids: Callable[[], Iterable[int]], say: Callable[[str], None]) -> None:
        """Marks that the command is ending: from now on a signal kills `pids` instead of waiting for them."""

        def hurry() -> None:
            say("stopping without waiting")
            for pid in pids():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

        self._hurry = hurry

    @contextmanager
    def held_back(self) -> Iterator[None]:
        """Defers signals: one that arrived in the block, or was dropped earlier, is raised when the block ends."""
        self._holding = True
        try:
            yield
        finally:
            self._holding = False
        if self._came and self._hurry is None:
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
        self._came = True
        if self._hurry is not None:
            self._hurry()
        elif not self._holding:
            raise KeyboardInterrupt
